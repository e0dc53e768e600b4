//! What somebody does at the server, past all rules.

use std::time::Duration;

use fastrand::Rng;

use super::chance::{millis, pick};
use super::settings::Settings;
use crate::judge::Object;

/// What somebody does at the server, past all rules.
#[derive(Debug, Clone)]
pub enum Meddling {
    /// Deletes a semaphore's or lock's key.
    Delete(Object),
    /// Lets it expire.
    Expire(Object, Duration),
    /// Takes all permits of a semaphore.
    Empty(usize),
    /// Counts one hold of a lock less.
    Uncount(usize),
    /// Writes this into one of the records.
    Scribble(u64, &'static str),
    /// Hears everything.
    Eavesdrop,
}

/// Texts that stand in nobody's records.
pub(super) const SCRIBBLES: [&str; 11] = [
    "",
    "0",
    "0000000000000001 -1 0 999",
    "ffffffffffffffff 1 1 1",
    "x",
    "-1",
    "9999999999999999 9999999999999999999 a:b:c",
    // What the next call will be called.
    "+ -1 0 999",
    "+ 1 0 1 1",
    "+ 7",
    "0000000000000002 1 1 turn:0:-:-:1:26:60",
];

pub(super) fn meddling(rng: &mut Rng, settings: &Settings) -> Meddling {
    let semaphore = rng.usize(..settings.permits.len());
    let lock = (settings.locks > 0).then(|| rng.usize(..settings.locks));
    let object = match lock {
        Some(lock) if rng.bool() => Object::Lock(lock),
        _ if !settings.recipes.is_empty() && rng.bool() => {
            Object::Recipe(rng.usize(..settings.recipes.len()))
        }
        _ => Object::Semaphore(semaphore),
    };
    match (rng.u32(..7), lock) {
        (0, _) => Meddling::Delete(object),
        (1, _) => Meddling::Expire(object, millis(rng, 1..3000)),
        (2, _) => Meddling::Empty(semaphore),
        (3 | 4, Some(lock)) => Meddling::Uncount(lock),
        (5, _) => Meddling::Eavesdrop,
        _ => Meddling::Scribble(rng.u64(..), pick(rng, &SCRIBBLES)),
    }
}
