//! Scenes: situations that take several events.

use std::time::Duration;

use fastrand::Rng;

use super::calls::{Ask, Call, Give};
use super::chance::{chance, millis, pick};
use super::faults::{ENDS, ENDS_BESIDE_CALLERS, LinkFault};
use super::recipes::{Layout, Peer, Recipe};
use super::settings::Settings;
use super::{Event, What};
use crate::judge::Object;

fn call(at: Duration, place: usize, call: Call) -> Event {
    let what = What::Call(place, call);
    Event { at, what }
}

fn link(at: Duration, place: usize, fault: LinkFault) -> Event {
    let what = What::Link(place, fault);
    Event { at, what }
}

/// Picks a lock, a recipe or a semaphore.
fn something(rng: &mut Rng, settings: &Settings) -> Object {
    match (settings.locks, settings.recipes.len()) {
        (1.., _) if chance(rng, 30) => Object::Lock(0),
        (_, 1..) if chance(rng, 40) => Object::Recipe(0),
        _ => Object::Semaphore(0),
    }
}

/// Callers of all clients want the same object, again and again.
pub(super) fn crowd(rng: &mut Rng, settings: &Settings, events: &mut Vec<Event>) {
    let object = something(rng, settings);
    let most = match object {
        Object::Semaphore(number) if chance(rng, 20) => settings.permits[number],
        _ => 1,
    };
    for place in 0..settings.clients {
        for _ in 0..rng.u32(2..5) {
            let again = Call {
                permits: u32::try_from(rng.i64(1..=most)).expect("a few"),
                rounds: 150,
                ..Call::keeping(object, millis(rng, 0..3))
            };
            events.push(call(millis(rng, 900..1100), place, again));
        }
    }
}

/// Peers pass their lock round while guards are kept beside them, and nothing goes wrong.
pub(super) fn busy_peers(rng: &mut Rng, settings: &mut Settings, events: &mut Vec<Event>) {
    events.retain(|event| event.what.is_calm());
    settings.recipes.truncate(1);
    settings.recipes.push(Recipe {
        layout: Layout::FairUnderLock,
        limit: rng.u32(1..5),
        timeout: Duration::from_secs(1),
        check: Duration::from_millis(20),
        endless: false,
    });
    let number = settings.recipes.len() - 1;
    for place in 0..settings.clients {
        let keeps = Call {
            rounds: rng.u32(1..4),
            ..Call::keeping(Object::Recipe(number), millis(rng, 0..6000))
        };
        events.push(call(millis(rng, 200..3000), place, keeps));
    }
    for _ in 0..rng.u32(4..10) {
        let mut peer = Peer::random(rng, &[number]);
        (peer.tries, peer.rounds) = (3000, 3000);
        peer.pause = millis(rng, 1..5);
        let at = millis(rng, 0..2000);
        let what = What::Peer(peer);
        events.push(Event { at, what });
    }
}

/// A request of a client arrives when its caller, or the client, is gone.
pub(super) fn late(rng: &mut Rng, settings: &Settings, events: &mut Vec<Event>) {
    let place = rng.usize(..settings.clients);
    let begins = millis(rng, 500..14_000);
    let object = Object::Semaphore(0);
    if rng.bool() {
        let copy = LinkFault::LateCopy(millis(rng, 500..2000));
        events.push(link(begins, place, copy));
        for _ in 0..6 {
            let at = begins + millis(rng, 0..150);
            events.push(call(at, place, Call::looking_in(object)));
        }
        let at = begins + millis(rng, 100..400);
        let what = What::Life(place, ENDS);
        events.push(Event { at, what });
        return;
    }
    let stall = LinkFault::Stall {
        up: true,
        down: rng.bool(),
        for_so_long: millis(rng, 500..5000),
    };
    events.push(link(begins, place, stall));
    let timed = Call {
        ask: Ask::For(millis(rng, 5..1500)),
        guard: rng.bool(),
        ..Call::keeping(object, millis(rng, 0..3))
    };
    events.push(call(begins + millis(rng, 0..100), place, timed));
}

/// A client can't reach the server for longer than it repeats calls. Then it loses replies.
pub(super) fn outage(rng: &mut Rng, settings: &mut Settings, events: &mut Vec<Event>) {
    let place = rng.usize(..settings.clients);
    let begins = millis(rng, 500..6000);
    let lasts = Duration::from_secs(rng.u64(280..400));
    settings.healing = begins + lasts + Duration::from_secs(5);
    events.push(link(begins, place, LinkFault::Refuse(lasts)));
    let object = something(rng, settings);
    // Releases that are pending when the outage begins.
    for _ in 0..rng.u32(1..6) {
        let dropped = Call {
            give: Give::Drop,
            ask: pick(rng, &[Ask::Wait, Ask::Try]),
            ..Call::keeping(object, millis(rng, 0..4000))
        };
        let at = begins.saturating_sub(millis(rng, 0..2000));
        events.push(call(at, place, dropped));
    }
    for _ in 0..rng.u32(1..3) {
        let at = begins + Duration::from_secs(1) + millis(rng, 0..2000);
        let lost = pick(
            rng,
            &[
                LinkFault::LoseAnswer(Duration::ZERO),
                LinkFault::CutRequest(Duration::ZERO),
            ],
        );
        events.push(link(at, place, lost));
    }
}

/// A client's call is carried out, or lost on the way. Nothing can be sent after that for longer than its caller waits.
pub(super) fn unanswered(rng: &mut Rng, settings: &Settings, events: &mut Vec<Event>) {
    let place = rng.usize(..settings.clients);
    let begins = millis(rng, 1500..9000);
    let away = settings.retry_window + millis(rng, 500..8000);
    let fault = match chance(rng, 70) {
        true => LinkFault::LoseAnswer(away),
        false => LinkFault::CutRequest(away),
    };
    events.push(link(begins, place, fault));
    let lost = Call {
        guard: rng.bool(),
        ask: match rng.bool() {
            true => Ask::Wait,
            false => Ask::For(millis(rng, 5..1500)),
        },
        ..Call::keeping(something(rng, settings), millis(rng, 0..3))
    };
    let at = begins + millis(rng, 1..20);
    for _ in 0..rng.u32(1..4) {
        events.push(call(at, place, lost.clone()));
    }
}

/// A client shuts down, and can't release at once what its callers let go meanwhile.
pub(super) fn ends_behind_a_stall(rng: &mut Rng, settings: &Settings, events: &mut Vec<Event>) {
    let place = rng.usize(..settings.clients);
    let begins = millis(rng, 2000..9000);
    let mut objects = settings.objects();
    objects.retain(|object| *object != Object::Latch);
    for _ in 0..rng.u32(2..9) {
        let asks = millis(rng, 0..1000);
        let dropped = Call {
            give: Give::Drop,
            ..Call::keeping(pick(rng, &objects), asks + millis(rng, 0..300))
        };
        events.push(call(begins - asks, place, dropped));
    }
    let stall = LinkFault::Stall {
        up: true,
        down: rng.bool(),
        for_so_long: millis(rng, 300..900),
    };
    events.push(link(begins, place, stall));
    let at = begins + millis(rng, 0..200);
    let what = What::Life(place, ENDS_BESIDE_CALLERS);
    events.push(Event { at, what });
}

/// A holder takes a lock of its own twice, and a reply is lost when it lets go for the first time; another caller waits for that lock. Or the holder
/// takes the lock again and again, and its first unlock arrives a second time.
pub(super) fn is_let_go(rng: &mut Rng, settings: &mut Settings, events: &mut Vec<Event>) {
    let object = Object::Lock(settings.locks);
    settings.locks += 1;
    let place = rng.usize(..settings.clients);
    let hold = millis(rng, 100..2000);
    let call = Call::keeping(object, hold);
    let begins = millis(rng, 200..9000);
    let mut happens = |after: Duration, what: What| {
        let at = begins + after;
        events.push(Event { at, what });
    };
    let there_and_back = settings.latency[place] * 2;
    if rng.bool() {
        let again = Call {
            rounds: 3,
            one_owner: true,
            ..call
        };
        happens(Duration::ZERO, What::Call(place, again));
        let unlocks = hold + there_and_back.mul_f64(rng.f64());
        let copy = LinkFault::LateCopy(millis(rng, 20..200));
        happens(unlocks, What::Link(place, copy));
        return;
    }
    // The hold that ends first must not end the other one.
    settings.watchdog = settings.watchdog.max(Duration::from_secs(3));
    let lease = rng.bool().then(|| millis(rng, 100..900));
    let twice = Call {
        nested: Some((lease, rng.bool())),
        give: pick(rng, &[Give::Call, Give::Drop]),
        ..call.clone()
    };
    happens(Duration::ZERO, What::Call(place, twice));
    let waits = What::Call(rng.usize(..settings.clients), call);
    happens(millis(rng, 20..100), waits);
    // The caller takes the lock in two round trips, and then holds it.
    let lets_go = hold + there_and_back.mul_f64(2.0 * rng.f64());
    let lost = LinkFault::LoseAnswer(millis(rng, 0..300));
    happens(lets_go, What::Link(place, lost));
}

/// How many semaphores there are.
const SEMAPHORES: usize = 12;

/// For this long, a waiter of the holder's client waits for a local hand-off, and the server gets no request for it.
const HAND_OVER: Duration = Duration::from_millis(100);

/// Two callers of one client come to a semaphore of their own. The second one gives up at about the time of the local hand-off from the first one, of
/// which the server learns nothing.
pub(super) fn quiet(rng: &mut Rng, settings: &mut Settings, events: &mut Vec<Event>) {
    // A client with a high latency hands off locally, too.
    settings.local_hand_off = HAND_OVER;
    let until = settings.healing.as_millis() as u64;
    for _ in 0..SEMAPHORES {
        let object = settings.one_more_semaphore(1);
        let place = rng.usize(..settings.clients);
        let there_and_back = settings.latency[place] * 2;
        let hold = there_and_back + millis(rng, 0..30);
        let first = Call {
            guard: rng.bool(),
            give: pick(rng, &[Give::Call, Give::Drop]),
            ..Call::keeping(object, hold)
        };
        let second = Call {
            // The second caller may give up from half of this time on, which is about when the first one lets go.
            patience: Some((there_and_back + hold) * 2),
            hold: Duration::ZERO,
            ..first.clone()
        };
        let at = millis(rng, 0..until);
        for call in [first, second] {
            let what = What::Call(place, call);
            events.push(Event { at, what });
        }
    }
}
