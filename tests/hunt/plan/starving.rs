//! A large request beside many small ones.

use std::time::Duration;

use fastrand::Rng;

use super::calls::{Ask, Call};
use super::chance::{chance, millis, pick};
use super::settings::Settings;
use super::{Event, What};

/// So many callers want one permit each.
const SMALL_ONES: u32 = 12;

/// Nothing goes wrong: one client wants all permits of a semaphore, of which other callers, of others or its own, take one each, again and
/// again, so that it never finds them all where nobody leaves them to it. Drawn apart.
pub(super) fn beside_small_ones(seed: u64, settings: &mut Settings, events: &mut Vec<Event>) {
    let rng = &mut Rng::with_seed(seed ^ 0x7374_6172_7665_7321);
    let Some(places) = settings.clients_alone(rng, 10) else {
        return;
    };
    let permits = rng.u32(2..9);
    let object = settings.one_more_semaphore(permits.into());
    let large = pick(rng, &places);
    settings.is_calm(Duration::from_micros(200), events);
    // Whoever wants more is given the time for shorter ones by and by.
    let hold = pick(rng, &[350, 500, 800]);
    let mut comes = |place: usize, at: Duration, permits: u32, rounds: u32, hold: Duration| {
        let call = Call {
            permits,
            ask: Ask::Wait,
            hold,
            rounds,
            ..Call::looking_in(object)
        };
        let what = What::Call(place, call);
        events.push(Event { at, what });
    };
    let all_of_one = chance(rng, 30);
    for number in 0..SMALL_ONES {
        let place = match all_of_one {
            true => large,
            false => places[number as usize % places.len()],
        };
        if all_of_one || place != large {
            let hold = Duration::from_millis(hold) + millis(rng, 0..hold);
            let at = millis(rng, 200..300);
            comes(place, at, 1, 2000, hold);
        }
    }
    comes(large, millis(rng, 300..500), permits, 3, Duration::ZERO);
}
