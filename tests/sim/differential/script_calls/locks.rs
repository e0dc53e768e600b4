//! Calls on a lock.

use fastrand::Rng;

use super::{Call, Form, publish, sequence, stand_in_line, texts};
use crate::sim::differential::commands::{CHANNELS, choose};
use crate::sim::differential::step::Mood;
use crate::sim::scripts::{GIVE, LOCK, RENEW_LOCKS, TAKE};

const OWNERS: &[&str] = &["owner-a", "owner-a", "owner-b", "owner-c"];
const LEASES: &[&str] = &["5", "1000", "30000", "600000"];
/// Of two clients.
const FENCES: &[&str] = &["fence", "fence", "fence2"];

pub(super) fn batch(rng: &mut Rng, mood: &mut Mood) -> Call {
    let mut keys = texts(&["lock", CHANNELS[1], choose(rng, FENCES)]);
    let fenced = rng.u32(..3) == 0;
    let doubt = if rng.u32(..6) == 0 {
        sequence(rng, mood)
    } else {
        "0".to_owned()
    };
    let mut arguments = vec![
        "PUBLISH".to_owned(),
        sequence(rng, mood),
        "60000".to_owned(),
        doubt,
    ];
    // A fence that is ahead of this client.
    arguments.extend(texts(&[choose(
        rng,
        &["", "", "", "0000000000009999 done -1 0"],
    )]));
    for _ in 0..rng.u32(1..5) {
        let kind = match rng.u32(..8) {
            0..=1 => "acquire",
            2..=3 => "wait",
            4 if fenced => choose(rng, &["acquire_fenced", "wait_fenced"]),
            5 => "force",
            6 => choose(rng, &["tend", "release"]),
            _ => "release",
        };
        let owner = if ["force", "tend"].contains(&kind) {
            ""
        } else {
            choose(rng, OWNERS)
        };
        let holds = choose(rng, &["0", "0", "1", "1", "2", "-1"]);
        arguments.extend(texts(&[kind, owner, holds, choose(rng, LEASES)]));
    }
    if rng.bool() {
        stand_in_line(rng, &mut keys, &mut arguments);
    }
    if fenced {
        keys.push("token".to_owned());
    }
    Call {
        source: LOCK,
        keys,
        arguments,
        form: Form::Fenced,
    }
}

pub(super) fn take(rng: &mut Rng) -> Call {
    let mut keys = texts(&["lock", choose(rng, FENCES)]);
    let mut arguments = texts(&[choose(rng, OWNERS), choose(rng, LEASES)]);
    if rng.bool() {
        keys.push(CHANNELS[1].to_owned());
        arguments.push(publish(rng));
        if rng.bool() {
            keys.push("turns".to_owned());
            arguments.push(choose(rng, &["0", "1"]).to_owned());
        }
    }
    Call {
        source: TAKE,
        keys,
        arguments,
        form: Form::Plain,
    }
}

pub(super) fn give(rng: &mut Rng) -> Call {
    Call {
        source: GIVE,
        keys: texts(&["lock", CHANNELS[1], choose(rng, FENCES)]),
        arguments: texts(&["PUBLISH", choose(rng, OWNERS)]),
        form: Form::Plain,
    }
}

pub(super) fn renew(rng: &mut Rng) -> Call {
    Call {
        source: RENEW_LOCKS,
        keys: texts(&["lock", "hash"]),
        arguments: texts(&[
            choose(rng, LEASES),
            choose(rng, OWNERS),
            choose(rng, OWNERS),
        ]),
        form: Form::Plain,
    }
}
