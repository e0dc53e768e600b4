//! Calls of the scripts that are about records: a command that is carried out once, and what deletes records.

use fastrand::Rng;

use super::{Call, Form, RECORDS, digits, envelope, texts};
use crate::sim::differential::commands::{CHANNELS, KEYS, choose};
use crate::sim::differential::step::Mood;
use crate::sim::scripts::{FORGET, ONCE};

pub(super) fn once(rng: &mut Rng, mood: &mut Mood) -> Call {
    const COMMANDS: [(&str, &str, &[&str]); 9] = [
        ("DEL", "0", &[]),
        ("UNLINK", "0", &[]),
        ("RENAME", "1", &[]),
        ("RENAMENX", "1", &[]),
        ("COPY", "1", &["REPLACE"]),
        ("PEXPIRE", "0", &["5000"]),
        ("PEXPIRE", "0", &["5000", "GT"]),
        ("PEXPIREAT", "0", &["1800000005000", "NX"]),
        ("PERSIST", "0", &[]),
    ];
    let (command, second, rest) = COMMANDS[rng.usize(..COMMANDS.len())];
    let mut arguments = envelope(rng, mood);
    arguments.extend(texts(&[command, second]));
    arguments.extend(texts(rest));
    let mut keys = texts(&[choose(rng, RECORDS), choose(rng, KEYS), choose(rng, KEYS)]);
    if rng.bool() {
        // Where permits may be under the second key now.
        let semaphores = ["s", "s2", "jobs"];
        keys[1] = choose(rng, &semaphores).to_owned();
        keys[2] = choose(rng, &semaphores).to_owned();
        keys.push(CHANNELS[0].to_owned());
    }
    Call {
        source: ONCE,
        keys,
        arguments,
        form: Form::Recorded,
    }
}

pub(super) fn forget(rng: &mut Rng, mood: &Mood) -> Call {
    let count = rng.usize(1..4);
    Call {
        source: FORGET,
        keys: (0..count)
            .map(|_| choose(rng, RECORDS).to_owned())
            .collect(),
        arguments: (0..count).map(|_| digits(mood.recent(rng))).collect(),
        form: Form::Plain,
    }
}
