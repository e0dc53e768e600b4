//! A lock that is held twice or again, and an unlock whose answer is lost, or that arrives once more.

use std::time::Duration;

use fastrand::Rng;

use super::calls::{Call, Give};
use super::chance::{millis, pick};
use super::faults::LinkFault;
use super::settings::Settings;
use super::{Event, What};
use crate::judge::Object;

/// A holder takes a lock of its own twice, and the answer to what it asks about when it lets go for the first time is lost; others wait
/// for that lock. Or it takes it again and again, and the first unlock arrives once more.
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
    // The hold that ends first is not to end the other.
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
    // It takes the lock in two round trips, and holds it then.
    let lets_go = hold + there_and_back.mul_f64(2.0 * rng.f64());
    let lost = LinkFault::LoseAnswer(millis(rng, 0..300));
    happens(lets_go, What::Link(place, lost));
}
