//! Calls on a semaphore whose permits have ids.

use fastrand::Rng;

use super::{Call, Form, RECORDS, envelope, number, texts};
use crate::sim::differential::commands::{CHANNELS, choose};
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

/// In milliseconds; 0: without end.
const LEASES: &[&str] = &["5", "1000", "30000", "100000000", "0"];

/// The secrets of two clients.
const SECRETS: &[&str] = &["0123456789abcdef", "fedcba9876543210"];
/// The length of a client's id.
const ID: usize = 36;

pub(super) fn batch(rng: &mut Rng, mood: &mut Mood) -> Call {
    let which = rng.usize(..RECORDS.len());
    let (record, secret) = (RECORDS[which], SECRETS[which]);
    let client = &record[record.len() - ID..];
    let keys = texts(&[record, "jobs", CHANNELS[3], "queue", "permits", "notes"]);
    let mut arguments = envelope(rng, mood);
    arguments.extend(texts(&[client, "30000", secret, "60000"]));
    arguments.extend([number(rng, 3), "0".to_owned()]);
    if rng.u32(..3) == 0 {
        for _ in 0..rng.u32(1..3) {
            let kind = choose(rng, &["confirm", "confirm", "extend", "leave"]);
            let (ticket, amount) = (rng.u32(..6), rng.u32(1..4));
            let lease = choose(rng, LEASES);
            let entry = format!("a{ticket}:{amount}:100:{lease}:{secret}");
            let arrival = choose(rng, &["1799999999000000", "1800000000123000"]);
            arguments.extend(texts(&[kind, &entry, arrival]));
        }
    }
    // Mostly what a call alone is.
    let count = if rng.bool() { 1 } else { rng.u32(0..4) };
    for _ in 0..count {
        arguments.extend(step(rng));
    }
    for flag in ["check", "announce", "unwatch"] {
        if rng.u32(..6) == 0 {
            arguments.extend(texts(&[flag, "0", "0"]));
        }
    }
    Call {
        source: PERMITS,
        keys,
        arguments,
        form: Form::Queued,
    }
}

fn step(rng: &mut Rng) -> Vec<String> {
    let amount = choose(rng, &["1", "1", "1", "2", "3", "1024"]);
    let lease = choose(rng, LEASES);
    match rng.u32(..20) {
        0..=3 => {
            let mut words = texts(&["wait", amount, choose(rng, &["1", "1", "2"])]);
            words.push(choose(rng, &["a", "g"]).to_owned());
            words.push(number(rng, 6));
            words.push(choose(rng, &["0", "0", "300000"]).to_owned());
            words.push(choose(rng, &["0", "0", "1800000000123001"]).to_owned());
            words.push(format!("100:{lease}"));
            words.push(number(rng, 3));
            words
        }
        4..=5 => texts(&["take", amount, lease, &number(rng, 6)]),
        6..=8 => vec!["release".to_owned(), id(rng), "0".to_owned()],
        9 => {
            let count = rng.usize(1..4);
            let mut words = texts(&["together", &count.to_string()]);
            words.extend((0..count).map(|_| id(rng)));
            words
        }
        10 => texts(&["back", &number(rng, 6), amount]),
        11 => vec!["prolong".to_owned(), id(rng), lease.to_owned()],
        12 => vec!["remaining".to_owned(), id(rng), "0".to_owned()],
        13..=14 => texts(&[choose(rng, &["available", "acquired", "total"]), "0", "0"]),
        15..=16 => {
            let permits = choose(rng, &["0", "1", "3", "5", "5", "2147483647"]);
            texts(&[choose(rng, &["try_set", "set"]), permits, "0"])
        }
        17 => {
            const BY: &[&str] = &["1", "2", "-2", "2147483647", "-2147483648", "0"];
            texts(&["add", choose(rng, BY), "0"])
        }
        _ => texts(&["clear", choose(rng, &["0", "1", "1000000"]), "0"]),
    }
}

/// Mostly one of those that are given out.
fn id(rng: &mut Rng) -> String {
    let from = if rng.u32(..8) == 0 { MEMBERS } else { IDS };
    choose(rng, from).to_owned()
}

/// An operation on both keys.
pub(super) fn both_keys(rng: &mut Rng, mood: &mut Mood) -> Call {
    let mut names = [["jobs", "permits"], ["jobs2", "permits2"]];
    if rng.u32(..3) == 0 {
        names.swap(0, 1);
    }
    let [[counter, permits], mut to] = names;
    let mut keys = texts(&[choose(rng, RECORDS), counter, permits]);
    let mut arguments = envelope(rng, mood);
    let kinds = ["PEXPIRE", "PEXPIREAT", "PERSIST", "RENAME", "RENAMENX"];
    let kind = choose(rng, &kinds);
    arguments.push(kind.to_owned());
    let time = match kind {
        "PEXPIRE" => choose(rng, &["700", "60000", "0", "9007199254740992"]),
        "PEXPIREAT" => choose(rng, &["1800000005000", "1900000000000", "1"]),
        _ => "",
    };
    let condition = match kind {
        "PEXPIRE" | "PEXPIREAT" => choose(rng, &["", "", "NX", "XX", "GT", "LT"]),
        _ => "",
    };
    arguments.extend(texts(&[time, condition]));
    if kind.starts_with("RENAME") {
        if rng.u32(..10) == 0 {
            to = [counter, permits];
        }
        keys.extend(texts(&to));
        keys.push(CHANNELS[3].to_owned());
    }
    Call {
        source: PERMITS_KEYS,
        keys,
        arguments,
        form: Form::Queued,
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
