//! Calls of the recipes' scripts: one for each way to keep the holders, and what refreshes these.

use fastrand::Rng;

use super::{Call, Form, RECORDS, envelope, number, texts};
use crate::sim::differential::commands::{CHANNELS, MEMBERS, choose};
use crate::sim::differential::step::Mood;
use crate::sim::scripts::{
    REFRESH_SET, REFRESH_SLOTS, REFRESH_TIMES, RENEW_SLOTS, RENEW_TIMES, SET, SLOTS, TIMES,
};

/// How long holders last.
const LASTS: &[&str] = &["700", "10000", "600000"];
/// What the clients have in the queue or the grants, without the client's id: the last as nobody of ours writes it.
const ENTRIES: &[&str] = &[
    "p1:2:100:10000",
    "p2:1:100:700",
    "n3:3:100:10000",
    "e4:2:100:0",
    "p5:2:x",
];
/// The length of a client's id.
const ID: usize = 36;
/// What may be held: mostly what was taken under one of the tickets.
fn id(rng: &mut Rng) -> String {
    match rng.u32(..4) {
        0 => choose(rng, MEMBERS).to_owned(),
        _ => {
            let client = choose(rng, &["11111111-2222-3333-", "aaaaaaaa-bbbb-cccc-"]);
            format!("{client}0000-{:012}", rng.u32(..4))
        }
    }
}

pub(super) fn batch(rng: &mut Rng, mood: &mut Mood) -> Call {
    let (source, own, flags): (_, &[&str], &[&str]) = match rng.u32(..8) {
        0..=1 => (TIMES, &["times"], &["-", "-", "-s"]),
        2..=3 => (TIMES, &["times", "owners", "counter"], &["-f", "-f", "-fs"]),
        4 => (
            TIMES,
            &["times", "owners", "counter", "tokens"],
            &["-ft", "-fts"],
        ),
        5 => (SET, &["set"], &["-"]),
        6 => (SLOTS, &["slot1", "slot2", "slot3"], &["-"]),
        _ => (SLOTS, &["slot1"], &["-r"]),
    };
    let record = choose(rng, RECORDS);
    let client = &record[record.len() - ID..];
    let mut keys = texts(&[record, own[0], CHANNELS[0], "queue", "grants", "notes"]);
    keys.extend(texts(&own[1..]));
    let mut flags = choose(rng, flags).to_owned();
    if rng.u32(..5) == 0 {
        keys.push("peers".to_owned());
        flags.push('l');
    }
    let limit = match source {
        SLOTS => own.len().to_string(),
        _ => choose(rng, &["2", "2", "1", "3"]).to_owned(),
    };
    let header = format!("{limit} {} {flags} 3000", choose(rng, LASTS));
    // The others hold little.
    if rng.u32(..if source == TIMES { 4 } else { 2 }) == 0 {
        let mut arguments = texts(&["0", "0", "0", "0", client, "30000", &header, "60000"]);
        arguments.extend([id(rng), choose(rng, LASTS).to_owned()]);
        return Call {
            source: match source {
                TIMES => REFRESH_TIMES,
                SET => REFRESH_SET,
                _ => REFRESH_SLOTS,
            },
            keys,
            arguments,
            form: Form::Plain,
        };
    }
    let mut arguments = envelope(rng, mood);
    arguments.extend(texts(&[client, "30000", &header, "60000", "0", "0"]));
    if rng.u32(..3) == 0 {
        for _ in 0..rng.u32(1..3) {
            let kind = choose(rng, &["confirm", "confirm", "leave"]);
            arguments.extend(texts(&[kind, choose(rng, ENTRIES), "1800000000123000"]));
        }
    }
    // Mostly what a call alone is.
    let count = if rng.bool() { 1 } else { rng.u32(0..4) };
    for _ in 0..count {
        arguments.extend(step(rng, &limit));
    }
    if rng.u32(..6) == 0 {
        arguments.extend(texts(&["check", "0", "0"]));
    }
    Call {
        source,
        keys,
        arguments,
        form: Form::Queued,
    }
}

fn step(rng: &mut Rng, limit: &str) -> Vec<String> {
    let kind = choose(rng, &["p", "n", "e"]);
    let lasts = choose(rng, LASTS);
    match rng.u32(..9) {
        0..=2 => texts(&["take", &number(rng, 4), kind, limit, lasts]),
        3..=5 => {
            let life = format!("100:{lasts}");
            let waited = choose(rng, &["0", "0", "300000"]);
            let behind = choose(rng, &["0", "0", "1800000000123001"]);
            let count = rng.u32(1..4).to_string();
            let [ticket, room] = [number(rng, 4), number(rng, 5)];
            texts(&[
                "wait", limit, &count, kind, &ticket, waited, behind, &life, &room,
            ])
        }
        6 => texts(&["release", &id(rng), "0"]),
        7 => texts(&["back", &number(rng, 4), "0"]),
        _ => texts(&[choose(rng, &["clear", "release"]), "0", "0"]),
    }
}

pub(super) fn renew(rng: &mut Rng) -> Call {
    let mut keys = Vec::new();
    let mut arguments = texts(&[choose(rng, LASTS)]);
    let slots = rng.bool();
    for _ in 0..rng.u32(1..if slots { 9 } else { 3 }) {
        if slots {
            keys.push(choose(rng, &["slot1", "slot1", "slot2", "times"]).to_owned());
            arguments.push(id(rng));
        } else {
            keys.push(choose(rng, &["times", "times", "zset", "slot1"]).to_owned());
            let count = rng.usize(1..4);
            arguments.push(count.to_string());
            arguments.extend((0..count).map(|_| id(rng)));
        }
    }
    Call {
        source: if slots { RENEW_SLOTS } else { RENEW_TIMES },
        keys,
        arguments,
        form: Form::Plain,
    }
}
