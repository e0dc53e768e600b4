//! Calls on a count-down latch.

use fastrand::Rng;

use super::{Call, Form, RECORDS, envelope, texts};
use crate::sim::differential::commands::{CHANNELS, choose};
use crate::sim::differential::step::Mood;
use crate::sim::scripts::LATCH;

pub(super) fn batch(rng: &mut Rng, mood: &mut Mood) -> Call {
    let mut arguments = envelope(rng, mood);
    for _ in 0..rng.u32(1..5) {
        let (kind, numbers): (_, &[&str]) = match rng.u32(..8) {
            0..=1 => ("set", &["1", "2", "3", "4294967295"]),
            2..=4 => ("down", &["1", "1", "2", "9223372036854775807"]),
            5 => ("delete", &["0"]),
            _ => ("await", &["0"]),
        };
        arguments.extend(texts(&[kind, choose(rng, numbers)]));
    }
    Call {
        source: LATCH,
        keys: texts(&[choose(rng, RECORDS), "latch", CHANNELS[3]]),
        arguments,
        form: Form::Recorded,
    }
}
