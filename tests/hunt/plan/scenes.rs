//! Scenes: what takes several events to come about.

use std::time::Duration;

use fastrand::Rng;

use super::calls::{Ask, Call, Give, crowding};
use super::chance::{chance, millis, pick};
use super::faults::{Life, LinkFault, ServerFault};
use super::meddling::{self, Meddling};
use super::recipes::{Layout, Peer, Recipe};
use super::settings::Settings;
use super::{Event, What};
use crate::judge::Object;

/// Callers of all clients want the same, again and again.
pub(super) fn crowd(rng: &mut Rng, settings: &Settings) -> Vec<Event> {
    let object = match settings.locks {
        _ if !settings.recipes.is_empty() && chance(rng, 25) => Object::Recipe(0),
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
        endless: false,
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

/// What a client has sent arrives once more behind its end.
fn behind_the_end(rng: &mut Rng, place: usize, begins: Duration) -> Vec<Event> {
    let copy = LinkFault::LateCopy(millis(rng, 500..2000));
    let ends = Life::ShutDown {
        drop_callers: true,
        limit: None,
    };
    let mut events = vec![
        event(begins, What::Link(place, copy)),
        event(begins + millis(rng, 100..400), What::Life(place, ends)),
    ];
    for _ in 0..6 {
        let call = What::Call(place, Call::looking_in(Object::Semaphore(0)));
        events.push(event(begins + millis(rng, 0..150), call));
    }
    events
}

/// What a client sends arrives when its caller has gone, or the client.
pub(super) fn late(rng: &mut Rng, settings: &Settings) -> Vec<Event> {
    let place = rng.usize(..settings.clients);
    let begins = millis(rng, 500..14_000);
    if rng.bool() {
        return behind_the_end(rng, place, begins);
    }
    let stall = LinkFault::Stall {
        up: true,
        down: rng.bool(),
        for_so_long: millis(rng, 500..5000),
    };
    let mut call = crowding(rng, Object::Semaphore(0), settings);
    (call.rounds, call.guard) = (1, rng.bool());
    call.ask = Ask::For(millis(rng, 5..1500));
    let call = What::Call(place, call);
    vec![
        event(begins, What::Link(place, stall)),
        event(begins + millis(rng, 0..100), call),
    ]
}

/// A client can't reach the server for longer than calls are repeated; then it loses answers.
pub(super) fn outage(rng: &mut Rng, settings: &mut Settings) -> Vec<Event> {
    let place = rng.usize(..settings.clients);
    let begins = millis(rng, 500..6000);
    let lasts = Duration::from_secs(rng.u64(280..400));
    let ends = begins + lasts;
    settings.healing = ends + Duration::from_secs(5);
    let mut events = vec![Event {
        at: begins,
        what: What::Link(place, LinkFault::Refuse(lasts)),
    }];
    let object = match (settings.locks, settings.recipes.len()) {
        (1.., _) if chance(rng, 20) => Object::Lock(0),
        (_, 1..) if chance(rng, 40) => Object::Recipe(0),
        _ => Object::Semaphore(0),
    };
    // What is owed before it.
    for _ in 0..rng.u32(1..6) {
        let mut call = crowding(rng, object, settings);
        (call.rounds, call.give) = (1, Give::Drop);
        call.hold = millis(rng, 0..4000);
        call.ask = if rng.bool() { Ask::Wait } else { Ask::Try };
        let at = begins.saturating_sub(millis(rng, 0..2000));
        let what = What::Call(place, call);
        events.push(Event { at, what });
    }
    for _ in 0..rng.u32(1..3) {
        let at = begins + Duration::from_secs(1) + millis(rng, 0..2000);
        let fault = match rng.u32(..10) {
            0..2 => LinkFault::LoseAnswer(Duration::ZERO),
            2..8 => LinkFault::CutRequest(Duration::ZERO),
            _ => LinkFault::LateCopy(millis(rng, 1..2000)),
        };
        let what = What::Link(place, fault);
        events.push(Event { at, what });
    }
    events
}

/// A client's call is carried out, or lost on the way, and nothing can be sent after that for longer than its caller waits.
pub(super) fn unanswered(rng: &mut Rng, settings: &Settings) -> Vec<Event> {
    let place = rng.usize(..settings.clients);
    let begins = millis(rng, 1500..9000);
    let away = settings.retry_window + millis(rng, 500..8000);
    let fault = if chance(rng, 70) {
        LinkFault::LoseAnswer(away)
    } else {
        LinkFault::CutRequest(away)
    };
    let object = match settings.locks {
        1.. if chance(rng, 30) => Object::Lock(0),
        _ => Object::Semaphore(rng.usize(..settings.permits.len())),
    };
    let mut call = crowding(rng, object, settings);
    (call.rounds, call.guard) = (1, rng.bool());
    if rng.bool() {
        call.ask = Ask::For(millis(rng, 5..1500));
    }
    let mut events = vec![event(begins, What::Link(place, fault))];
    let at = begins + millis(rng, 1..20);
    for _ in 0..rng.u32(1..4) {
        events.push(event(at, What::Call(place, call.clone())));
    }
    events
}

/// A client's shutdown can't give back at once what its callers let go meanwhile.
pub(super) fn ends_behind_a_stall(rng: &mut Rng, settings: &Settings) -> Vec<Event> {
    let place = rng.usize(..settings.clients);
    let begins = millis(rng, 2000..9000);
    let semaphores = (0..settings.permits.len()).map(Object::Semaphore);
    let locks = (0..settings.locks).map(Object::Lock);
    let recipes = (0..settings.recipes.len()).map(Object::Recipe);
    let objects: Vec<_> = semaphores.chain(locks).chain(recipes).collect();
    let mut events = Vec::new();
    for _ in 0..rng.u32(2..9) {
        let object = pick(rng, &objects);
        let mut call = crowding(rng, object, settings);
        let asks = millis(rng, 0..1000);
        (call.rounds, call.give) = (1, Give::Drop);
        call.hold = asks + millis(rng, 0..300);
        events.push(event(begins - asks, What::Call(place, call)));
    }
    let stall = LinkFault::Stall {
        up: true,
        down: rng.bool(),
        for_so_long: millis(rng, 300..900),
    };
    events.push(event(begins, What::Link(place, stall)));
    let life = Life::ShutDown {
        drop_callers: false,
        limit: None,
    };
    let at = begins + millis(rng, 0..200);
    events.push(event(at, What::Life(place, life)));
    events
}

/// What somebody keeps for long is taken away: a lock, or the record of permits.
pub(super) fn robbed(rng: &mut Rng, settings: &mut Settings) -> Vec<Event> {
    settings.locks = settings.locks.max(1);
    settings.watchdog = pick(rng, &[Duration::from_secs(1), Duration::from_secs(3)]);
    let lock = Object::Lock(0);
    let (object, what) = match rng.u32(..6) {
        0 => (lock, What::Meddle(Meddling::Delete(lock))),
        1 => {
            let soon = millis(rng, 1..500);
            (lock, What::Meddle(Meddling::Expire(lock, soon)))
        }
        2 => (lock, What::Meddle(Meddling::Uncount(0))),
        3 => (lock, What::Server(ServerFault::Evict("l?"))),
        _ => {
            settings.watched[0] = true;
            let evicts = ServerFault::Evict("redisson_sc_grants*");
            (Object::Semaphore(0), What::Server(evicts))
        }
    };
    let mut call = crowding(rng, object, settings);
    (call.rounds, call.hold) = (1, millis(rng, 10_000..16_000));
    let begins = millis(rng, 500..3000);
    vec![
        event(begins, What::Call(rng.usize(..settings.clients), call)),
        event(begins + millis(rng, 100..3000), what),
    ]
}

/// A process stops for longer than its lock lasts by its own clock; by the server's, which steps back, it lasts on.
pub(super) fn outlived(rng: &mut Rng, settings: &mut Settings) -> Vec<Event> {
    settings.locks = settings.locks.max(1);
    let place = rng.usize(..settings.clients);
    let begins = millis(rng, 1500..8000);
    let mut call = crowding(rng, Object::Lock(0), settings);
    let lease = millis(rng, 500..1500);
    (call.lease, call.hold) = (Some(lease), lease / 3);
    (call.rounds, call.pause) = (rng.u32(2..4), millis(rng, 0..20));
    call.one_owner = true;
    let stops = begins + lease / 5;
    let time = lease + millis(rng, 10..500);
    settings.stops += time;
    let back = i64::try_from(time.as_millis()).expect("seconds") + rng.i64(0..500);
    vec![
        event(begins, What::Call(place, call)),
        event(stops, What::Stop(place, time)),
        event(stops, What::Server(ServerFault::Clock(-back))),
    ]
}

/// While a client can't ask what has become of its call somebody writes an answer into its records.
pub(super) fn forged(rng: &mut Rng, settings: &mut Settings) -> Vec<Event> {
    settings.permits[0] = settings.permits[0].max(4);
    let place = rng.usize(..settings.clients);
    (settings.latency[place], settings.jitter) = (Duration::from_millis(1), 0.0);
    let begins = millis(rng, 1500..9000);
    let away = millis(rng, 50..2000);
    let object = match settings.locks {
        1.. if chance(rng, 10) => Object::Lock(0),
        _ => Object::Semaphore(0),
    };
    let mut call = crowding(rng, object, settings);
    (call.rounds, call.guard) = (1, rng.bool());
    // Else permits would go from hand to hand.
    call.hold = millis(rng, 0..500);
    let mut events = Vec::new();
    let callers = rng.u32(3..6);
    // There are records, then.
    for _ in 0..callers {
        events.push(event(begins, What::Call(place, call.clone())));
    }
    let later = begins + Duration::from_secs(1);
    for _ in 0..callers {
        if let Object::Semaphore(number) = object {
            let most = settings.permits[number];
            call.permits = u32::try_from(rng.i64(1..=most)).expect("a few");
        }
        events.push(event(later, What::Call(place, call.clone())));
    }
    // The first caller's request, or that of those behind it.
    let lost = What::Link(place, LinkFault::CutRequest(away));
    events.push(event(later + millis(rng, 0..4), lost));
    let writes = What::Meddle(meddling::forged(rng, place));
    events.push(event(later + Duration::from_millis(40), writes));
    events
}

fn event(at: Duration, what: What) -> Event {
    Event { at, what }
}
