//! Calls on semaphores whose permits guards have on record, and what gives back for the dead.

use fastrand::Rng;

use super::semaphores::{COUNTERS, step};
use super::{Call, FLAG, Form, RECORDS, channel_of, envelope, publish, stand_in_line, texts};
use crate::sim::differential::commands::choose;
use crate::sim::differential::step::Mood;
use crate::sim::scripts::{RECLAIM, WATCHED};

/// Under what two clients have permits on record.
pub const HOLDERS: &[&str] = &[
    "11111111-2222-3333-4444-555555555555:1",
    "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee:7",
];
const TIME_OUTS: &[&str] = &["30000", "700", "5"];

/// Where that is, and until when they are believed alive. Beside the second semaphore anything may stand.
fn beside(counter: &str) -> [&'static str; 2] {
    if counter == "s" {
        ["held", "alive"]
    } else {
        ["hash", "zset"]
    }
}

pub(super) fn batch(rng: &mut Rng, mood: &mut Mood) -> Call {
    let counter = choose(rng, &["s", "s", "s", "s2"]);
    let mut keys = texts(&[choose(rng, RECORDS), counter, channel_of(counter)]);
    let mut arguments = envelope(rng, mood);
    let (opens, in_turn) = (rng.bool(), rng.u32(..3) == 0);
    // Mostly what a call alone is.
    let alone = rng.u32(..3) < 2;
    for step in 0..if alone { 1 } else { rng.u32(1..4) } {
        let [kind, amount, count] = on_record(rng, in_turn);
        // Who is to be put on record takes something.
        let takes = opens && step == 0 && rng.u32(..4) > 0;
        arguments.extend([
            if takes { "*acquire".to_owned() } else { kind },
            amount,
            if alone { "1".to_owned() } else { count },
        ]);
    }
    if alone {
        "0".clone_into(&mut arguments[FLAG]);
    }
    if in_turn {
        stand_in_line(rng, &mut keys, &mut arguments);
    }
    let [held, alive] = beside(counter);
    keys.push(held.to_owned());
    if opens {
        keys.push(alive.to_owned());
        arguments.extend(texts(&[choose(rng, TIME_OUTS), "a client"]));
    }
    arguments.extend(texts(&[
        choose(rng, HOLDERS),
        if opens { "1" } else { "0" },
    ]));
    Call {
        source: WATCHED,
        keys,
        arguments,
        form: if opens || in_turn {
            Form::Recorded
        } else {
            Form::RecordedWithHolder
        },
    }
}

/// A step, mostly about permits on record.
fn on_record(rng: &mut Rng, in_turn: bool) -> [String; 3] {
    let kind = match rng.u32(..10) {
        0..=2 => "*release",
        3 => "*forget",
        4 => "*acquire_in_line",
        5 if in_turn => "*acquire_in_turn",
        5..=7 => "*acquire",
        _ => return step(rng, in_turn),
    };
    [
        kind.to_owned(),
        rng.u32(1..4).to_string(),
        rng.u32(1..4).to_string(),
    ]
}

pub(super) fn reclaim(rng: &mut Rng) -> Call {
    let mut keys = Vec::new();
    let mut arguments = vec![publish(rng), choose(rng, TIME_OUTS).to_owned()];
    let counters = match rng.u32(..3) {
        0 => COUNTERS,
        1 => &COUNTERS[1..],
        _ => &COUNTERS[..1],
    };
    for counter in counters {
        keys.extend(texts(&[counter, channel_of(counter)]));
        keys.extend(texts(&beside(counter)));
        let own = choose(rng, &["", HOLDERS[0], HOLDERS[1]]);
        let may_go = choose(rng, &["0", "0", "0", "1"]);
        arguments.extend(texts(&[own, may_go]));
    }
    Call {
        source: RECLAIM,
        keys,
        arguments,
        form: Form::Plain,
    }
}
