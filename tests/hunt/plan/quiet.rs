//! Objects of which a client makes no more use: what it has left undone there by then, nobody sees to by chance.

use std::time::Duration;

use fastrand::Rng;

use super::calls::{Ask, Call};
use super::chance::{chance, millis, pick};
use super::settings::Settings;
use super::{Event, What};
use crate::judge::Object;

/// So many objects of clients, at the most.
const MOST: usize = 6;

/// Where clients have threads: the last at an object are two callers of one client, the second of which gives up at about the
/// time when the first one hands over to it. Drawn apart.
pub(super) fn falls(seed: u64, settings: &Settings, events: &mut Vec<Event>) {
    let rng = &mut Rng::with_seed(seed ^ 0x0000_7175_6965_7473);
    if settings.threads.is_none() || settings.crowd || chance(rng, 30) {
        return;
    }
    let until = settings.healing.as_millis() as u64;
    for _ in 0..rng.usize(1..=MOST) {
        let place = rng.usize(..settings.clients);
        let (object, all) = match rng.usize(..settings.permits.len() + settings.locks) {
            number if number < settings.permits.len() => {
                (Object::Semaphore(number), settings.permits[number])
            }
            number => (Object::Lock(number - settings.permits.len()), 1),
        };
        let at = millis(rng, until / 3..until);
        // Nobody else of this client comes from shortly before that on.
        let from = at.saturating_sub(Duration::from_millis(500));
        events.retain(|event| match &event.what {
            What::Call(host, call) => {
                *host != place || call.object != object || event.at < from && call.rounds == 1
            }
            _ => true,
        });
        let hold = millis(rng, 10..300);
        let first = Call {
            ask: Ask::Wait,
            permits: u32::try_from(all).expect("a few"),
            guard: rng.bool(),
            hold,
            ..Call::looking_in(object)
        };
        let second = Call {
            permits: 1,
            patience: Some(hold + pick(rng, &[Duration::ZERO, Duration::from_secs(1)])),
            hold: Duration::ZERO,
            ..first.clone()
        };
        for (after, call) in [(0, first), (5, second)] {
            let at = at + Duration::from_millis(after);
            let what = What::Call(place, call);
            events.push(Event { at, what });
        }
    }
}
