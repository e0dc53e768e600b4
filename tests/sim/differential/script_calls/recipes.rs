//! Calls of the recipes' scripts: one for each way to keep the holders, and what refreshes these.

use fastrand::Rng;

use super::{Call, Form, LIVES, RECORDS, sequence, texts};
use crate::sim::differential::commands::{MEMBERS, choose};
use crate::sim::differential::step::Mood;
use crate::sim::scripts::{
    FAIR, REFRESH_FAIR, REFRESH_SET, REFRESH_SLOTS, REFRESH_TIMESTAMP, SET, SLOTS, TIMESTAMP,
};

/// Mostly the same one, as whoever waits asks again.
const LIMITS: [u32; 6] = [2, 2, 2, 1, 3, 4];
/// How long holders last.
const TIMES: &[&str] = &["700", "10000", "600000"];

pub(super) fn batch(rng: &mut Rng, mood: &mut Mood) -> Call {
    let (source, own, limit, flags): (_, _, u32, &[&str]) = match rng.u32(..9) {
        0..=1 => (
            TIMESTAMP,
            texts(&["times"]),
            LIMITS[rng.usize(..LIMITS.len())],
            &["-", "-", "-", "s"],
        ),
        2..=3 => (
            FAIR,
            texts(&["times", "owners", "counter"]),
            LIMITS[rng.usize(..LIMITS.len())],
            &["-", "-", "-", "s"],
        ),
        4 => (
            FAIR,
            texts(&["times", "owners", "counter", "tokens"]),
            LIMITS[rng.usize(..LIMITS.len())],
            &["t", "t", "t", "st"],
        ),
        5..=6 => (
            SET,
            texts(&["set"]),
            LIMITS[rng.usize(..LIMITS.len())],
            &["-"],
        ),
        _ => (SLOTS, texts(&["slot1", "slot2", "slot3"]), 3, &["p", "rp"]),
    };
    let locked = rng.u32(..5) == 0;
    let line = "line";
    let client = choose(rng, &["line:client-a", "line:client-b"]);
    let mut keys = texts(&[choose(rng, RECORDS), line, client]);
    keys.extend(own);
    if locked {
        keys.push("peers".to_owned());
    }
    keys.push("notes".to_owned());
    if rng.u32(..3) == 0 {
        let flags = choose(rng, flags);
        return refresh(rng, source, keys, limit, flags);
    }
    let what = choose(
        rng,
        &[
            "batch", "batch", "batch", "batch", "batch", "batch", "batch", "tend", "tend", "list",
            "clear",
        ],
    );
    // The model does not know `SSCAN`.
    let what = if source == SET && what == "list" {
        "batch"
    } else {
        what
    };
    let alone = what == "list" || what == "clear";
    // One of those who wait looks, and does nothing else.
    let looks = what == "batch" && rng.u32(..3) == 0;
    let mut some = |most: u32| if alone || looks { 0 } else { rng.u32(..most) };
    let (releases, tries, runs) = (some(3), some(3), some(3) + u32::from(looks));
    let flags = choose(rng, flags);
    let mut arguments = texts(&["PUBLISH"]);
    arguments.extend([sequence(rng, mood), choose(rng, LIVES).to_owned()]);
    // Mostly a call without an earlier copy.
    arguments.extend(texts(&[
        if looks {
            "0"
        } else {
            choose(rng, &["0", "0", "1"])
        },
        what,
    ]));
    arguments.extend([limit.to_string(), choose(rng, TIMES).to_owned()]);
    arguments.extend(texts(&[flags, if locked { "3000" } else { "0" }, "15000"]));
    let mut counts = Vec::new();
    for _ in 0..runs {
        let arrivals = ["1800000000123000", "0"];
        let arrival = if looks {
            arrivals[0]
        } else {
            choose(rng, &arrivals)
        };
        counts.push((arrival, rng.u32(1..3)));
    }
    let waiting: u32 = counts.iter().map(|(_, count)| count).sum();
    arguments.push((waiting + if rng.u32(..4) == 0 { 1 } else { 0 }).to_string());
    arguments.push(choose(rng, &["0000000a-", "0000000b-", "id-"]).to_owned());
    arguments.extend([releases, tries].map(|count| count.to_string()));
    arguments.push(if what == "list" {
        behind(rng)
    } else {
        "1".to_owned()
    });
    arguments.push("20000".to_owned());
    for _ in 0..releases {
        arguments.push(choose(rng, MEMBERS).to_owned());
    }
    if flags.contains('p') {
        for _ in 0..tries {
            arguments.push(choose(rng, &["700", "10000"]).to_owned());
        }
    }
    for (arrival, count) in counts {
        arguments.extend([arrival.to_owned(), count.to_string(), "700".to_owned()]);
    }
    Call {
        source,
        keys,
        arguments,
        form: Form::Recorded,
    }
}

/// Where a page of the holders may have ended, in any layout.
fn behind(rng: &mut Rng) -> String {
    match rng.u32(..4) {
        0 => choose(rng, &["1", "2", "300"]).to_owned(),
        1 => {
            let digits = choose(rng, MEMBERS)
                .bytes()
                .map(|byte| format!("{byte:02x}"));
            format!("1800000000123 {}", digits.collect::<String>())
        }
        _ => String::new(),
    }
}

/// A refresh of what the batch with this `source` grants.
fn refresh(
    rng: &mut Rng,
    source: &'static str,
    keys: Vec<String>,
    limit: u32,
    flags: &str,
) -> Call {
    let source = match source {
        TIMESTAMP => REFRESH_TIMESTAMP,
        FAIR => REFRESH_FAIR,
        SET => REFRESH_SET,
        _ => REFRESH_SLOTS,
    };
    let time = choose(rng, TIMES);
    let mut arguments = texts(&[&limit.to_string(), time, flags, time]);
    for _ in 0..rng.u32(1..4) {
        arguments.push(choose(rng, MEMBERS).to_owned());
    }
    Call {
        source,
        keys,
        arguments,
        form: Form::Plain,
    }
}
