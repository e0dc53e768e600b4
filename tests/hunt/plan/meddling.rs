//! What somebody does at the server, past all rules.

use std::time::Duration;

use fastrand::Rng;

use super::chance::{millis, pick};
use super::recipes::Layout;
use super::settings::Settings;
use crate::judge::Object;

/// What somebody does at the server, past all rules.
#[derive(Debug, Clone)]
pub enum Meddling {
    /// Deletes a semaphore's or lock's key.
    Delete(Object),
    /// Gives it another name; or what has that name its own again.
    Rename(Object),
    /// Lets it expire.
    Expire(Object, Duration),
    /// Takes all permits of a semaphore.
    Empty(usize),
    /// Counts one hold of a lock less.
    Uncount(usize),
    /// Writes this into one of the records.
    Scribble(u64, &'static str),
    /// Writes this into all records of the client in this place, behind the number of its next call.
    Forge(usize, &'static str),
    /// Hears everything.
    Eavesdrop,
    /// Deletes all queues and lines in which clients take turns, and their notes; or writes this in the place of one or the other.
    Disorder(Option<(Turns, &'static str)>),
}

/// What is stored of turns.
#[derive(Debug, Clone, Copy)]
pub enum Turns {
    Line,
    Notes,
}

/// Texts that stand in nobody's records.
pub(super) const SCRIBBLES: [&str; 8] = [
    "",
    "0",
    "0000000000000001 -1 0 999",
    "ffffffffffffffff 1 1 1",
    "x",
    "-1",
    "9999999999999999 9999999999999999999 a:b:c",
    "0000000000000002 done 1 -1 -1 0 0 0 1 | a1",
];

/// Answers to nobody's calls: with too few results, too many, and such as no call has.
const FORGED: [&str; 8] = [
    "done 1 -1 -1 0 0 0 1 | ",
    "done 0 -1 -1 -1 1 0 0 | ",
    "done 1 -1 -1 0 0 0 1 1 | a1 g2",
    "done -1 9 9 9 1 1800000000000000 999 | ",
    "done 1 -1 -1 0 0 0 | ",
    "done -1 0 1",
    "done 7",
    "done",
];

pub(super) fn disorder(rng: &mut Rng) -> Meddling {
    Meddling::Disorder(match rng.u32(..4) {
        0 => Some((Turns::Line, pick(rng, &SCRIBBLES))),
        1 => Some((Turns::Notes, pick(rng, &SCRIBBLES))),
        _ => None,
    })
}

pub(super) fn forged(rng: &mut Rng, place: usize) -> Meddling {
    Meddling::Forge(place, pick(rng, &FORGED))
}

pub(super) fn meddling(rng: &mut Rng, settings: &Settings) -> Meddling {
    let semaphore = rng.usize(..settings.permits.len());
    let lock = (settings.locks > 0).then(|| rng.usize(..settings.locks));
    let object = match lock {
        Some(lock) if rng.bool() => Object::Lock(lock),
        _ if !settings.recipes.is_empty() && rng.bool() => {
            let number = rng.usize(..settings.recipes.len());
            // Its counter would have to be set again by hand.
            match settings.recipes[number].layout {
                Layout::Expirable => Object::Semaphore(semaphore),
                _ => Object::Recipe(number),
            }
        }
        _ => Object::Semaphore(semaphore),
    };
    match (rng.u32(..8), lock) {
        (0, _) => Meddling::Delete(object),
        (1, _) => Meddling::Expire(object, millis(rng, 1..3000)),
        (2, _) => Meddling::Empty(semaphore),
        (7, _) => Meddling::Rename(object),
        (3 | 4, Some(lock)) => Meddling::Uncount(lock),
        (5, _) if rng.bool() => Meddling::Eavesdrop,
        (5, _) => {
            let place = rng.usize(..settings.clients);
            forged(rng, place)
        }
        _ => Meddling::Scribble(rng.u64(..), pick(rng, &SCRIBBLES)),
    }
}
