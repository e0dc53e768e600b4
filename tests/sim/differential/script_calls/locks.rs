//! Calls on a lock.

use fastrand::Rng;

use super::{Call, Form, publish, sequence, texts};
use crate::sim::differential::commands::{CHANNELS, choose};
use crate::sim::differential::step::Mood;
use crate::sim::scripts::{GIVE, LOCK, RENEW_LOCKS, TAKE};

const OWNERS: &[&str] = &["owner-a", "owner-a", "owner-b", "owner-c"];
const LEASES: &[&str] = &["5", "1000", "30000", "600000"];
/// Of two clients.
const FENCES: &[&str] = &["fence", "fence", "fence2"];

pub(super) fn batch(rng: &mut Rng, mood: &mut Mood) -> Call {
    let mut keys = texts(&["lock", CHANNELS[1], choose(rng, FENCES), "next"]);
    let fenced = rng.u32(..3) == 0;
    if fenced {
        keys.push("token".to_owned());
    }
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
    // A fence that is ahead of this client; for how long it is patient, and has been passed.
    arguments.extend(texts(&[
        choose(rng, &["", "", "", "0000000000009999 done -1 0"]),
        choose(rng, &["0", "0", "5000 100", "300 20000"]),
    ]));
    for _ in 0..rng.u32(1..5) {
        let kind = match rng.u32(..8) {
            0..=1 => "acquire",
            2..=3 => "wait",
            4 if fenced => choose(rng, &["acquire_fenced", "wait_fenced"]),
            5 => "force",
            _ => "release",
        };
        let owner = if kind == "force" {
            ""
        } else {
            choose(rng, OWNERS)
        };
        let holds = choose(rng, &["0", "0", "1", "1", "2", "-1"]);
        arguments.extend(texts(&[kind, owner, holds, choose(rng, LEASES)]));
    }
    Call {
        source: LOCK,
        keys,
        arguments,
        form: Form::Fenced,
    }
}

pub(super) fn take(rng: &mut Rng) -> Call {
    let mut keys = texts(&["lock", choose(rng, FENCES), "next"]);
    let mut arguments = texts(&[choose(rng, OWNERS), choose(rng, LEASES)]);
    if rng.bool() {
        keys.push(CHANNELS[1].to_owned());
        arguments.push(publish(rng));
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
