//! Calls on semaphores, whose permits nobody has on record.

use fastrand::Rng;

use super::{
    Call, Form, LIVES, RECORDS, SEQUENCE, channel_of, envelope, number, sequence, stand_in_line,
    texts,
};
use crate::sim::differential::commands::choose;
use crate::sim::differential::step::Mood;
use crate::sim::scripts::{LONE, NUDGE, SEMAPHORE, SETTLE};

pub(super) const COUNTERS: &[&str] = &["s", "s2"];

pub(super) fn batch(rng: &mut Rng, mood: &mut Mood, in_turn: bool) -> Call {
    let counter = choose(rng, COUNTERS);
    let mut keys = texts(&[choose(rng, RECORDS), counter, channel_of(counter)]);
    let mut arguments = envelope(rng, mood);
    for _ in 0..rng.u32(1..4) {
        arguments.extend(step(rng, in_turn));
    }
    if in_turn {
        stand_in_line(rng, &mut keys, &mut arguments);
    }
    Call {
        source: SEMAPHORE,
        keys,
        arguments,
        form: Form::Recorded,
    }
}

/// Kind, amount and count.
pub(super) fn step(rng: &mut Rng, in_turn: bool) -> [String; 3] {
    let kind = match rng.u32(..11) {
        0..=2 => "release",
        3 => "release_if_exists",
        4..=5 if in_turn => "acquire_in_turn",
        4 => "acquire",
        5 => "acquire_in_line",
        6 => "add",
        7 => "drain",
        8 => "try_set",
        9 => "available",
        _ => "acquire",
    };
    let amount = match kind {
        "add" => choose(rng, &["-3", "2", "2147483647", "-2147483648", "0"]).to_owned(),
        "try_set" => number(rng, 9),
        _ => rng.u32(1..4).to_string(),
    };
    let count = if kind == "try_set" {
        choose(rng, &["0", "700"]).to_owned()
    } else {
        rng.u32(1..5).to_string()
    };
    [kind.to_owned(), amount, count]
}

pub(super) fn lone(rng: &mut Rng, mood: &mut Mood) -> Call {
    let mut keys = texts(&[choose(rng, RECORDS)]);
    let mut arguments = texts(&["PUBLISH"]);
    arguments.extend([sequence(rng, mood), choose(rng, LIVES).to_owned()]);
    for _ in 0..rng.u32(1..4) {
        let counter = choose(rng, COUNTERS);
        keys.extend(texts(&[counter, channel_of(counter)]));
        arguments.push(choose(rng, &["1", "-1", "2", "-3", "2147483647"]).to_owned());
    }
    Call {
        source: LONE,
        keys,
        arguments,
        form: Form::Lone,
    }
}

/// Mostly about a lone call that was sent, where there is one.
pub(super) fn settle(rng: &mut Rng, mood: &mut Mood) -> Call {
    let lone = mood.earlier(rng).filter(|call| call.form == Form::Lone);
    if let Some(lone) = lone {
        return question(&lone);
    }
    Call {
        source: SETTLE,
        keys: texts(&[choose(rng, RECORDS)]),
        arguments: vec![sequence(rng, mood), "60000".to_owned()],
        form: Form::Plain,
    }
}

/// What has become of this lone call?
pub(super) fn question(lone: &Call) -> Call {
    Call {
        source: SETTLE,
        keys: vec![lone.keys[0].clone()],
        arguments: vec![lone.arguments[SEQUENCE].clone(), "60000".to_owned()],
        form: Form::Plain,
    }
}

pub(super) fn nudge(rng: &mut Rng) -> Call {
    let counter = choose(rng, COUNTERS);
    let before = choose(rng, &["-1", "0", "3", "9"]);
    let mut arguments = texts(&["PUBLISH", before]);
    arguments.extend([
        number(rng, 4),
        number(rng, 9),
        number(rng, 2),
        number(rng, 2),
    ]);
    Call {
        source: NUDGE,
        keys: texts(&[counter, channel_of(counter)]),
        arguments,
        form: Form::Plain,
    }
}
