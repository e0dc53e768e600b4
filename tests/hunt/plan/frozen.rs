//! Somebody is told of a permit, and does not come any more.

use std::time::Duration;

use fastrand::Rng;

use super::calls::{Ask, Call};
use super::chance::{chance, millis};
use super::faults::Life;
use super::settings::Settings;
use super::{Event, What};

/// One client keeps the only permit of a semaphore of theirs, two wait for it, and the first of them freezes. Whoever gives it back
/// may take it again at once, before the frozen one is passed. Drawn apart.
pub(super) fn first_in_line(seed: u64, settings: &mut Settings, events: &mut Vec<Event>) {
    let rng = &mut Rng::with_seed(seed ^ 0x0066_726f_7a65_6e00);
    if !chance(rng, 10) || settings.clients < 3 {
        return;
    }
    let object = settings.one_more_semaphore(1);
    let whose = rng.choose_multiple(0..settings.clients, 3);
    let [keeper, frozen, waiter] = whose[..] else {
        return;
    };
    // Nobody looks by chance.
    settings.safety_interval = Duration::from_secs(600);
    settings.jitter = 0.0;
    settings.latency[keeper] = Duration::from_micros(200);
    if rng.bool() && settings.masters == 0 {
        // It is given the time that it has needed before. (To connect to a cluster takes several questions.)
        let far = millis(rng, 40..100);
        settings.latency[frozen] = settings.near_enough(far);
    }
    let begins = millis(rng, 300..2000);
    let mut happens = |after: Duration, what: What| {
        let at = begins + after;
        events.push(Event { at, what });
    };
    let waits = |hold: Duration, rounds: u32| Call {
        ask: Ask::Wait,
        hold,
        rounds,
        ..Call::looking_in(object)
    };
    for place in [keeper, frozen, waiter] {
        let before = waits(millis(rng, 1..5), 12);
        happens(millis(rng, 0..50), What::Call(place, before));
    }
    let keeps = Duration::from_millis(4000);
    let hold = millis(rng, 1000..1500);
    happens(keeps, What::Call(keeper, waits(hold, 1)));
    let waits = waits(Duration::ZERO, 1);
    happens(
        keeps + millis(rng, 300..350),
        What::Call(frozen, waits.clone()),
    );
    happens(keeps + millis(rng, 600..650), What::Call(waiter, waits));
    happens(
        keeps + millis(rng, 850..950),
        What::Life(frozen, Life::Freeze),
    );
    for _ in 0..rng.u32(0..4) {
        let takes_again = Call {
            hold: millis(rng, 0..3),
            ..Call::looking_in(object)
        };
        let at = keeps + hold + millis(rng, 0..6);
        happens(at, What::Call(keeper, takes_again));
    }
}
