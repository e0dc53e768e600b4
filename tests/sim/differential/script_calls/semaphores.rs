//! Calls on semaphores, with what waits in the queue and what is granted; and what renews that.

use fastrand::Rng;

use super::{Call, Form, RECORDS, channel_of, envelope, number, texts};
use crate::sim::differential::commands::choose;
use crate::sim::differential::step::Mood;
use crate::sim::scripts::{RENEW_GRANTS, SEMAPHORE};

pub(super) const COUNTERS: &[&str] = &["s", "s2"];

/// What two clients have in the queue or the grants: the last two as nobody of ours writes them.
pub const ENTRIES: &[&str] = &[
    "11111111-2222-3333-4444-555555555555:a1:1:100",
    "11111111-2222-3333-4444-555555555555:g2:2:500:me",
    "11111111-2222-3333-4444-555555555555:g3:1:500:me",
    "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee:a1:2:100",
    "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee:g7:1:500",
    "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee:g8:3:500",
    "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee:g9:2147483647:500",
    "x",
];
const LEASES: &[&str] = &["30000", "700", "5"];
/// The length of a client's id.
const ID: usize = 36;

pub(super) fn batch(rng: &mut Rng, mood: &mut Mood) -> Call {
    let counter = choose(rng, &["s", "s", "s", "s2"]);
    let record = choose(rng, RECORDS);
    let client = &record[record.len() - ID..];
    let mut keys = texts(&[record, counter, channel_of(counter)]);
    // Beside the second semaphore anything may stand.
    keys.extend(match counter {
        "s" => texts(&["queue", "grants", "notes"]),
        _ => texts(&["zset", "k", "hash"]),
    });
    let mut arguments = envelope(rng, mood);
    let suffix = if client.starts_with('1') { ":me" } else { "" };
    arguments.extend(texts(&[client, choose(rng, LEASES), suffix, "60000"]));
    arguments.extend([number(rng, 3), number(rng, 3)]);
    if rng.u32(..3) == 0 {
        for _ in 0..rng.u32(1..3) {
            let kind = choose(rng, &["confirm", "confirm", "extend"]);
            arguments.extend(texts(&[kind, own_entry(rng, client), arrival(rng)]));
        }
    }
    // Mostly what a call alone is.
    let count = if rng.bool() { 1 } else { rng.u32(0..4) };
    for _ in 0..count {
        arguments.extend(step(rng, client));
    }
    for flag in ["announce", "check", "unwatch"] {
        if rng.u32(..6) == 0 {
            arguments.extend(texts(&[flag, "0", "0"]));
        }
    }
    Call {
        source: SEMAPHORE,
        keys,
        arguments,
        form: Form::Queued,
    }
}

/// One of the client's entries, without its id.
fn own_entry(rng: &mut Rng, client: &str) -> &'static str {
    let own = ENTRIES.iter().filter_map(|entry| {
        let rest = entry.strip_prefix(client)?;
        rest.strip_prefix(':')
    });
    let own: Vec<_> = own.collect();
    own[rng.usize(..own.len())]
}

fn arrival(rng: &mut Rng) -> &'static str {
    choose(
        rng,
        &["1799999999000000", "1800000000123000", "1800000000000000"],
    )
}

fn step(rng: &mut Rng, client: &str) -> Vec<String> {
    let kind = match rng.u32(..14) {
        0..=2 => "release",
        3 => "release_if_exists",
        4..=6 => "wait",
        7 => "leave",
        8 => choose(rng, &["leave", "forget"]),
        9 => "take",
        10 => choose(rng, &["add", "reclaim"]),
        11 => "drain",
        12 => "try_set",
        _ => "try",
    };
    let amount = match kind {
        "leave" | "forget" => own_entry(rng, client).to_owned(),
        "add" => choose(rng, &["-3", "2", "2147483647", "-2147483648", "0"]).to_owned(),
        "try_set" => number(rng, 9),
        _ => rng.u32(1..4).to_string(),
    };
    let count = match kind {
        "try_set" => choose(rng, &["0", "700"]).to_owned(),
        "leave" | "forget" => rng.u32(1..3).to_string(),
        _ => rng.u32(1..5).to_string(),
    };
    let mut words = vec![kind.to_owned(), amount, count];
    match kind {
        "take" => words.push(number(rng, 12)),
        "wait" => {
            words.push(choose(rng, &["a", "g"]).to_owned());
            words.push(number(rng, 12));
            words.push(choose(rng, &["0", "0", "300000", "5000000"]).to_owned());
            words.push(choose(rng, &["0", "0", "1800000000123001"]).to_owned());
            words.push(choose(rng, &["100", "500"]).to_owned());
            words.push(number(rng, 5));
        }
        _ => {}
    }
    words
}

pub(super) fn renew(rng: &mut Rng) -> Call {
    let mut keys = Vec::new();
    let mut arguments = texts(&[choose(rng, LEASES)]);
    for _ in 0..rng.u32(1..3) {
        keys.push(choose(rng, &["grants", "grants", "zset", "s"]).to_owned());
        let count = rng.usize(1..4);
        arguments.push(count.to_string());
        arguments.extend((0..count).map(|_| choose(rng, ENTRIES).to_owned()));
    }
    Call {
        source: RENEW_GRANTS,
        keys,
        arguments,
        form: Form::Plain,
    }
}
