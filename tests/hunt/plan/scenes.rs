//! Scenes: what takes several events to come about.

use std::time::Duration;

use fastrand::Rng;

use super::calls::{Ask, Call, Give, crowding};
use super::chance::{chance, millis};
use super::faults::LinkFault;
use super::recipes::{Layout, Peer, Recipe};
use super::settings::Settings;
use super::{Event, What};
use crate::judge::Object;

/// Callers of all clients want the same, again and again.
pub(super) fn crowd(rng: &mut Rng, settings: &Settings) -> Vec<Event> {
    let object = match settings.locks {
        1.. if rng.bool() => Object::Lock(0),
        _ => Object::Semaphore(0),
    };
    let mut events = Vec::new();
    for place in 0..settings.clients {
        for _ in 0..rng.u32(2..5) {
            let at = millis(rng, 900..1100);
            let what = What::Call(place, crowding(rng, object, settings));
            events.push(Event { at, what });
        }
    }
    events
}

/// Somebody holds one permit for long, so that many can't have all, and behind them somebody wants one.
pub(super) fn blocked(rng: &mut Rng, settings: &mut Settings) -> Vec<Event> {
    settings.permits[0] = settings.permits[0].max(rng.i64(2..7));
    let permits = u32::try_from(settings.permits[0]).expect("a few");
    let from = rng.u64(200..6000);
    let call = |permits: u32, hold: Duration| Call {
        permits,
        hold,
        rounds: 1,
        ..crowding(&mut Rng::with_seed(0), Object::Semaphore(0), settings)
    };
    let mut events = Vec::new();
    let place = rng.usize(..settings.clients);
    let mut at = |millis: u64, place: usize, call: Call| {
        let at = Duration::from_millis(from + millis);
        let what = What::Call(place, call);
        events.push(Event { at, what });
    };
    at(
        0,
        rng.usize(..settings.clients),
        call(1, millis(rng, 500..6000)),
    );
    for number in 0..rng.u64(10..30) {
        at(200 + number, place, call(permits, Duration::ZERO));
    }
    at(400, place, call(1, millis(rng, 0..300)));
    at(
        300,
        rng.usize(..settings.clients),
        call(permits, Duration::ZERO),
    );
    events
}

/// Peers hand their lock round, while guards are kept beside them.
pub(super) fn busy_peers(rng: &mut Rng, settings: &mut Settings) -> Vec<Event> {
    let recipe = Recipe {
        layout: Layout::FairUnderLock,
        limit: rng.u32(1..5),
        timeout: Duration::from_secs(1),
        check: Duration::from_millis(20),
    };
    settings.recipes.truncate(1);
    settings.recipes.insert(0, recipe);
    let mut events = Vec::new();
    for place in 0..settings.clients {
        let mut call = crowding(rng, Object::Semaphore(0), settings);
        (call.object, call.permits) = (Object::Recipe(0), 1);
        (call.rounds, call.hold) = (rng.u32(1..4), millis(rng, 0..6000));
        let at = millis(rng, 200..3000);
        let what = What::Call(place, call);
        events.push(Event { at, what });
    }
    for _ in 0..rng.u32(4..10) {
        let mut peer = Peer::random(rng, 1);
        (peer.tries, peer.rounds) = (3000, 3000);
        peer.pause = millis(rng, 1..5);
        let at = millis(rng, 0..2000);
        let what = What::Peer(peer);
        events.push(Event { at, what });
    }
    events
}

/// What a client sends arrives when its caller has gone.
pub(super) fn late(rng: &mut Rng, settings: &Settings) -> Vec<Event> {
    let place = rng.usize(..settings.clients);
    let begins = millis(rng, 500..14_000);
    let stall = LinkFault::Stall {
        up: true,
        down: rng.bool(),
        for_so_long: millis(rng, 500..5000),
    };
    let mut call = crowding(rng, Object::Semaphore(0), settings);
    (call.rounds, call.guard) = (1, rng.bool());
    call.ask = Ask::For(millis(rng, 5..1500));
    let call = What::Call(place, call);
    let at = |at: Duration, what: What| Event { at, what };
    vec![
        at(begins, What::Link(place, stall)),
        at(begins + millis(rng, 0..100), call),
    ]
}

/// A client can't reach the server for longer than calls are repeated; then it loses answers.
pub(super) fn outage(rng: &mut Rng, settings: &mut Settings) -> Vec<Event> {
    let place = rng.usize(..settings.clients);
    let begins = millis(rng, 500..6000);
    let lasts = Duration::from_secs(rng.u64(250..400));
    let ends = begins + lasts;
    settings.healing = ends + Duration::from_secs(5);
    let mut events = vec![Event {
        at: begins,
        what: What::Link(place, LinkFault::Refuse(lasts)),
    }];
    // What is owed before it.
    for _ in 0..rng.u32(1..6) {
        let mut call = crowding(rng, Object::Semaphore(0), settings);
        (call.rounds, call.give) = (1, Give::Drop);
        call.hold = millis(rng, 0..4000);
        call.ask = if rng.bool() { Ask::Wait } else { Ask::Try };
        let at = begins.saturating_sub(millis(rng, 0..2000));
        let what = What::Call(place, call);
        events.push(Event { at, what });
    }
    for _ in 0..rng.u32(1..3) {
        let at = begins + Duration::from_secs(1) + millis(rng, 0..2000);
        let fault = if chance(rng, 70) {
            LinkFault::LoseAnswer
        } else {
            LinkFault::LateCopy(millis(rng, 1..2000))
        };
        let what = What::Link(place, fault);
        events.push(Event { at, what });
    }
    events
}
