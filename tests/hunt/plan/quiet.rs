//! Semaphores of which a client makes use once: what it has left undone there nobody sees to by chance.

use std::time::Duration;

use fastrand::Rng;

use super::calls::{Call, Give};
use super::chance::{millis, pick};
use super::settings::Settings;
use super::{Event, What};

/// So many semaphores.
const SEMAPHORES: usize = 12;

/// So long after the second caller has been told to wait nobody else is asked.
const HAND_OVER: Duration = Duration::from_millis(100);

/// Two callers of one client come to a semaphore of their own, and the second one gives up at about the time when the first one
/// hands over to it, of which the server is told nothing.
pub(super) fn falls(rng: &mut Rng, settings: &mut Settings, events: &mut Vec<Event>) {
    // A client far away hands over, too.
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
            // It may lose it from about the moment on when the first one lets go.
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
