//! Interference of an operator at the server, past all rules.

use fastrand::Rng;

use super::chance::pick;
use super::recipes::Layout;
use super::settings::Settings;
use crate::judge::Object;

#[derive(Debug, Clone)]
pub enum Meddling {
    /// Deletes the key of a semaphore, a lock or a recipe.
    Delete(Object),
    /// Writes this into one of the crate's keys.
    Scribble(u64, &'static str),
    /// Writes this into all records of the client in this place, after the number of its next call.
    Forge(usize, &'static str),
    /// Subscribes to all channels.
    Eavesdrop,
}

/// Texts that no record contains.
const SCRIBBLES: [&str; 8] = [
    "",
    "0",
    "0000000000000001 -1 0 999",
    "ffffffffffffffff 1 1 1",
    "x",
    "-1",
    "9999999999999999 9999999999999999999 a:b:c",
    "0000000000000002 done 1 -1 -1 0 0 0 1 | a1",
];

/// Replies to no call: with too few results, too many, and such as no call has.
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

impl Meddling {
    pub(super) fn random(rng: &mut Rng, settings: &Settings) -> Meddling {
        match rng.u32(..6) {
            0 | 1 => Meddling::Delete(something(rng, settings)),
            2 => Meddling::Eavesdrop,
            3 => Meddling::Forge(rng.usize(..settings.clients), pick(rng, &FORGED)),
            _ => Meddling::Scribble(rng.u64(..), pick(rng, &SCRIBBLES)),
        }
    }
}

fn something(rng: &mut Rng, settings: &Settings) -> Object {
    let mut all: Vec<Object> = (0..settings.permits.len()).map(Object::Semaphore).collect();
    all.extend((0..settings.locks).map(Object::Lock));
    let recipes = settings.recipes.iter().enumerate();
    // The counter of permits with ids would have to be set again by hand.
    let others = recipes.filter(|(_, recipe)| recipe.layout != Layout::Expirable);
    all.extend(others.map(|(number, _)| Object::Recipe(number)));
    pick(rng, &all)
}
