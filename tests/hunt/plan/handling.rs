//! What callers do with the objects themselves: they let them expire, rename and copy them, and take what others have.

use std::time::Duration;

use fastrand::Rng;

use super::calls::{Ask, Call, Subject, handling, naming};
use super::chance::{chance, millis, pick};
use super::settings::Settings;
use super::{Event, What};
use crate::judge::Object;

/// What is drawn about it changes nothing else.
fn draws(seed: u64) -> Rng {
    Rng::with_seed(seed.rotate_left(16))
}

/// Clients look by themselves while somebody could wait for it.
fn looks_soon(settings: &Settings) -> bool {
    settings.safety_interval <= Duration::from_secs(5)
}

/// A latch gets another name under those who wait for it. They are not told, and go on once they look by themselves.
pub(super) fn happens_to_a_latch(seed: u64, settings: &Settings, events: &mut Vec<Event>) {
    let rng = &mut draws(!seed);
    if !settings.latch || !looks_soon(settings) || chance(rng, 30) {
        return;
    }
    let until = settings.healing.as_millis() as u64;
    let drops = pick(rng, &[0, 20, 60]);
    for _ in 0..rng.usize(..12) {
        let what = What::Admin(rng.usize(..settings.clients), naming(rng, drops));
        let at = millis(rng, 0..until);
        events.push(Event { at, what });
    }
}

pub(super) fn happens(seed: u64, settings: &Settings, events: &mut Vec<Event>) {
    let rng = &mut draws(seed);
    let until = settings.healing.as_millis() as u64;
    let drops = pick(rng, &[0, 20, 60]);
    let calls =
        |event: &Event| matches!(event.what, What::Call(..) | What::Jvm(..) | What::Peer(_));
    let calm = settings.masters == 0 && events.iter().all(calls);
    for subject in [Subject::Semaphore, Subject::Expirable] {
        for _ in 0..pick(rng, &[0, 0, 0, 15, 30]) {
            let admin = handling(rng, drops, subject, calm);
            let what = What::Admin(rng.usize(..settings.clients), admin);
            events.push(Event {
                at: millis(rng, 0..until),
                what,
            });
        }
    }
    if !chance(rng, 15) {
        return;
    }
    let mut all: Vec<Object> = (0..settings.locks).map(Object::Lock).collect();
    all.extend((0..settings.recipes.len()).map(Object::Recipe));
    let watched = (0..settings.watched.len()).filter(|number| settings.watched[*number]);
    all.extend(watched.map(Object::Semaphore));
    let count = if all.is_empty() { 0 } else { rng.usize(1..4) };
    for _ in 0..count {
        let object = pick(rng, &all);
        let at = millis(rng, 0..until);
        let what = What::Clear(rng.usize(..settings.clients), object);
        events.push(Event { at, what });
        // Somebody has it, and somebody else waits.
        for before in [900, 600] {
            let mut call = Call::looking_in(object);
            (call.ask, call.hold) = (Ask::Wait, millis(rng, 0..12_000));
            let what = What::Call(rng.usize(..settings.clients), call);
            let at = at.saturating_sub(Duration::from_millis(before));
            events.push(Event { at, what });
        }
    }
}
