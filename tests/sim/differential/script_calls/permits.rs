//! Calls on a semaphore whose permits have ids.

use fastrand::Rng;

use super::{Call, FLAG, Form, RECORDS, envelope, stand_in_line, texts};
use crate::sim::differential::commands::{CHANNELS, choose};
use crate::sim::differential::contents::ENDS;
use crate::sim::differential::step::Mood;
use crate::sim::scripts::{PERMITS, PERMITS_KEYS, RENEW_PERMITS};

/// The ids of permits: 16 bytes each, whatever these are.
pub const IDS: &[&str] = &[
    "permit-000000001",
    "permit-000000002",
    "permit-000000003",
    "permit-\0\r\n\u{ff}1234",
    "\u{ff}\u{ff}\u{ff}\u{ff}\u{ff}\u{ff}\u{ff}\u{ff}",
];

/// Who may stand among those that are held: the last but one as Redisson 3.16.8 wrote the first id, the last by hand.
pub const MEMBERS: &[&str] = &[
    IDS[0],
    IDS[1],
    IDS[2],
    IDS[3],
    IDS[4],
    "7065726d69742d303030303030303031",
    "short",
];

const LEASES: &[&str] = &["5", "1000", "30000", "100000000", "-1"];

pub(super) fn batch(rng: &mut Rng, mood: &mut Mood) -> Call {
    let in_turn = rng.u32(..4) == 0;
    let mut arguments = envelope(rng, mood);
    // Mostly what a call alone is.
    let alone = !in_turn && rng.bool();
    let steps: Vec<String> = match rng.u32(..12) {
        0 => crowd(rng),
        _ if alone => alone_step(rng),
        _ => (0..rng.u32(1..5)).flat_map(|_| step(rng)).collect(),
    };
    if alone {
        "0".clone_into(&mut arguments[FLAG]);
    }
    arguments.push(if alone {
        if steps[0] == "release" { "-1" } else { "1" }.to_owned()
    } else {
        choose(rng, &["-1", "0", "1", "2", "5"]).to_owned()
    });
    arguments.extend(steps);
    let mut keys = texts(&[choose(rng, RECORDS), "jobs", CHANNELS[3], "permits"]);
    if in_turn {
        stand_in_line(rng, &mut keys, &mut arguments);
    }
    Call {
        source: PERMITS,
        keys,
        arguments,
        form: Form::Recorded,
    }
}

/// What one caller asks for.
fn alone_step(rng: &mut Rng) -> Vec<String> {
    let id = choose(rng, IDS);
    match choose(rng, &["acquire", "try", "release"]) {
        "release" => texts(&["release", "1", id]),
        kind => texts(&[kind, choose(rng, LEASES), "0", "1", id]),
    }
}

fn step(rng: &mut Rng) -> Vec<String> {
    match rng.u32(..20) {
        0..=4 => ask(rng),
        kind @ 5..=9 => {
            let kind = if kind < 8 { "release" } else { "together" };
            let count = rng.usize(1..4);
            let mut words = texts(&[kind, &count.to_string()]);
            words.extend((0..count).map(|_| id(rng)));
            words
        }
        10..=11 => vec![
            "prolong".to_owned(),
            id(rng),
            choose(rng, LEASES).to_owned(),
        ],
        12 => vec!["remaining".to_owned(), id(rng)],
        13..=14 => texts(&[choose(rng, &["available", "acquired", "total"]), "0"]),
        15..=16 => vec![
            choose(rng, &["try_set", "set"]).to_owned(),
            choose(rng, &["0", "1", "3", "5", "5", "2147483647"]).to_owned(),
        ],
        17 => {
            const BY: &[&str] = &["1", "2", "-2", "2147483647", "-2147483648", "0"];
            texts(&["add", choose(rng, BY)])
        }
        18 => texts(&["clear", choose(rng, &["0", "1", "1000000"])]),
        _ => vec!["list".to_owned(), behind(rng)],
    }
}

/// Callers who ask, each with the ids of as many as it wants.
fn ask(rng: &mut Rng) -> Vec<String> {
    let callers = rng.usize(1..4);
    let mut words = texts(&[
        choose(rng, &["acquire", "try"]),
        choose(rng, LEASES),
        choose(rng, &["0", "1", "2"]),
        &callers.to_string(),
    ]);
    words.extend((0..callers).map(|_| {
        let ids: String = (0..rng.usize(1..4)).map(|_| choose(rng, IDS)).collect();
        if rng.bool() { ids } else { id(rng) }
    }));
    words
}

/// Mostly one of those that are given out.
fn id(rng: &mut Rng) -> String {
    let from = if rng.u32(..8) == 0 { MEMBERS } else { IDS };
    choose(rng, from).to_owned()
}

/// Where a page of the holders may have ended.
fn behind(rng: &mut Rng) -> String {
    if rng.bool() {
        return String::new();
    }
    let digits = choose(rng, MEMBERS)
        .bytes()
        .map(|byte| format!("{byte:02x}"));
    let digits: String = digits.collect();
    let end = if rng.bool() {
        "1800060000000"
    } else {
        choose(rng, ENDS)
    };
    format!("{end} {digits}")
}

/// More than one command has room for, than are listed together, than end together.
fn crowd(rng: &mut Rng) -> Vec<String> {
    let count = [130, 2048][rng.usize(..2)];
    let ids = (0..count).map(|number| format!("crowd-{number:010}"));
    let mut words = match rng.u32(..4) {
        0 => return texts(&["list", "", "clear", &count.to_string()]),
        1 => texts(&["release", &count.to_string()]),
        _ => texts(&[
            "set",
            "3000",
            "try",
            choose(rng, LEASES),
            "0",
            &count.to_string(),
        ]),
    };
    words.extend(ids);
    words
}

/// An operation on both keys.
pub(super) fn both_keys(rng: &mut Rng, mood: &mut Mood) -> Call {
    let mut names = [["jobs", "permits"], ["jobs2", "permits2"]];
    if rng.u32(..3) == 0 {
        names.swap(0, 1);
    }
    let [[counter, permits], mut to] = names;
    let mut keys = texts(&[choose(rng, RECORDS), counter, CHANNELS[3], permits]);
    let mut arguments = envelope(rng, mood);
    let kinds = ["expire", "expire_at", "persist", "rename", "renamenx"];
    let kind = choose(rng, &kinds);
    arguments.push(kind.to_owned());
    let time = match kind {
        "expire" => choose(rng, &["700", "60000", "0", "9007199254740992"]),
        "expire_at" => choose(rng, &["1800000005000", "1900000000000", "1"]),
        _ => "",
    };
    let condition = match kind {
        "expire" | "expire_at" => choose(rng, &["", "", "NX", "XX", "GT", "LT"]),
        _ => "",
    };
    arguments.extend(texts(&[time, condition]));
    if kind.starts_with("rename") {
        if rng.u32(..10) == 0 {
            to = [counter, permits];
        }
        keys.extend(texts(&to));
    }
    Call {
        source: PERMITS_KEYS,
        keys,
        arguments,
        form: Form::Recorded,
    }
}

pub(super) fn renew(rng: &mut Rng) -> Call {
    let mut keys = texts(&["permits"]);
    if rng.u32(..3) == 0 {
        keys.push("zset".to_owned());
    }
    let mut arguments = texts(&[choose(rng, &["5", "30000", "600000"])]);
    for _ in 0..keys.len() {
        let count = rng.u32(1..4);
        arguments.push(count.to_string());
        arguments.extend((0..count).map(|_| id(rng)));
    }
    Call {
        source: RENEW_PERMITS,
        keys,
        arguments,
        form: Form::Plain,
    }
}
