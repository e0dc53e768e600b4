//! Calls on a count-down latch.

use fastrand::Rng;

use super::{Call, Form, RECORDS, envelope, texts};
use crate::sim::differential::commands::{CHANNELS, choose};
use crate::sim::differential::step::Mood;
use crate::sim::scripts::LATCH;

pub(super) fn batch(rng: &mut Rng, mood: &mut Mood) -> Call {
    let record = choose(rng, RECORDS);
    let keys = [record, "latch", CHANNELS[3], record, record, record];
    let mut arguments = envelope(rng, mood);
    arguments.extend(texts(&["client", "30000", "", "60000", "0", "0"]));
    for _ in 0..rng.u32(1..5) {
        let (kind, numbers): (_, &[&str]) = match rng.u32(..8) {
            0..=1 => ("set", &["1", "2", "3", "4294967295"]),
            2..=4 => ("down", &["1", "1", "2", "9223372036854775807"]),
            5 => ("delete", &["0"]),
            6 => ("look", &["0"]),
            _ => ("wait", &["0"]),
        };
        arguments.extend(texts(&[
            kind,
            choose(rng, numbers),
            choose(rng, &["1", "1", "2"]),
        ]));
        if kind == "wait" {
            arguments.extend(texts(&["a", "7", "0", "0", "100", "0"]));
        }
    }
    Call {
        source: LATCH,
        keys: texts(&keys),
        arguments,
        form: Form::Queued,
    }
}
