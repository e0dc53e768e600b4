//! Calls on a lock, with what waits in its queue; and what renews it.

use fastrand::Rng;

use super::{Call, Form, RECORDS, envelope, number, texts};
use crate::sim::differential::commands::{CHANNELS, choose};
use crate::sim::differential::step::Mood;
use crate::sim::scripts::{LOCK, RENEW_LOCKS};

/// Two owners of each client, without the client's id.
const OWNERS: &[&str] = &["4", "4", "5", "18446744073709551615"];
/// What two clients have in the queue: the last as nobody of ours writes it.
pub const WAITERS: &[&str] = &[
    "11111111-2222-3333-4444-555555555555:g1:4:1000:30000",
    "11111111-2222-3333-4444-555555555555:f2:5:1000:700",
    "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee:g1:4:1000:30000",
    "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee:f7:18446744073709551615:1000:5000",
    "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee:g8:5:x",
];
const LEASES: &[&str] = &["5", "1000", "30000", "600000"];
/// The length of a client's id.
const ID: usize = 36;

pub(super) fn batch(rng: &mut Rng, mood: &mut Mood) -> Call {
    let record = choose(rng, RECORDS);
    let client = &record[record.len() - ID..];
    let keys = texts(&[record, "lock", CHANNELS[1], "waiters", "token", "notes"]);
    let mut arguments = envelope(rng, mood);
    let known = choose(rng, &["", "", "4:1:0", "4:2:30000", "5:1:30000"]);
    arguments.extend(texts(&[client, "30000", known, "60000"]));
    arguments.extend([number(rng, 3), "0".to_owned()]);
    if rng.u32(..3) == 0 {
        for _ in 0..rng.u32(1..3) {
            let kind = choose(rng, &["confirm", "confirm", "extend", "leave"]);
            arguments.extend(texts(&[kind, own_entry(rng, client), arrival(rng)]));
        }
    }
    // Mostly what a call alone is.
    let count = if rng.bool() { 1 } else { rng.u32(0..4) };
    for _ in 0..count {
        arguments.extend(step(rng));
    }
    for flag in ["check", "unwatch"] {
        if rng.u32(..6) == 0 {
            arguments.extend(texts(&[flag, "0", "0"]));
        }
    }
    Call {
        source: LOCK,
        keys,
        arguments,
        form: Form::Queued,
    }
}

/// One of the client's entries, without its id.
fn own_entry(rng: &mut Rng, client: &str) -> &'static str {
    let own = WAITERS.iter().filter_map(|entry| {
        let rest = entry.strip_prefix(client)?;
        rest.strip_prefix(':')
    });
    let own: Vec<_> = own.filter(|entry| !entry.ends_with('x')).collect();
    own[rng.usize(..own.len())]
}

fn arrival(rng: &mut Rng) -> &'static str {
    choose(
        rng,
        &["1799999999000000", "1800000000123000", "1900000000000000"],
    )
}

fn step(rng: &mut Rng) -> Vec<String> {
    let kind = match rng.u32(..10) {
        0..=2 => "take",
        3..=5 => "wait",
        6 => "force",
        _ => "release",
    };
    let fenced = if rng.u32(..3) == 0 { "f" } else { "g" };
    match kind {
        "take" => texts(&[kind, choose(rng, OWNERS), choose(rng, LEASES), fenced]),
        "release" => texts(&[kind, choose(rng, OWNERS), choose(rng, LEASES)]),
        "wait" => {
            let owner = choose(rng, OWNERS);
            let mut words = texts(&[kind, owner, choose(rng, &["1", "1", "2"]), fenced]);
            words.push(number(rng, 12));
            words.push(choose(rng, &["0", "0", "300000"]).to_owned());
            words.push(choose(rng, &["0", "0", "1800000000123001"]).to_owned());
            words.push(format!("1000:{}", choose(rng, LEASES)));
            words.push(number(rng, 3));
            words
        }
        _ => texts(&[kind, "0", "0"]),
    }
}

pub(super) fn renew(rng: &mut Rng) -> Call {
    let owner = |rng: &mut Rng| {
        let record = choose(rng, RECORDS);
        format!("{}:{}", &record[record.len() - ID..], choose(rng, OWNERS))
    };
    let arguments = vec![choose(rng, LEASES).to_owned(), owner(rng), owner(rng)];
    Call {
        source: RENEW_LOCKS,
        keys: texts(&["lock", "hash"]),
        arguments,
        form: Form::Plain,
    }
}
