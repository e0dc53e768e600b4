//! Somebody waits for what it will be told of, and does not hear it.

use std::time::Duration;

use fastrand::Rng;

use super::calls::{Ask, Call};
use super::chance::{chance, millis};
use super::faults::LinkFault;
use super::settings::Settings;
use super::{Event, What};

/// One client keeps the only permit of a semaphore of their own, and another one waits for it, to which nothing that it would hear
/// gets through any more from some time on. Drawn apart.
pub(super) fn nothing_is_heard(seed: u64, settings: &mut Settings, events: &mut Vec<Event>) {
    let rng = &mut Rng::with_seed(seed ^ 0x756e_6865_6172_6400);
    // Of a latch that gets another name some only learn by looking.
    if !chance(rng, 8) || settings.clients < 2 || settings.latch {
        return;
    }
    let object = settings.one_more_semaphore(1);
    let whose = rng.choose_multiple(0..settings.clients, 2);
    let [keeper, waiter] = whose[..] else { return };
    // Nor does it look by itself.
    settings.safety_interval = Duration::from_secs(600);
    let begins = millis(rng, 200..2000);
    let hold = millis(rng, 2000..11_000);
    let call = |hold: Duration| Call {
        ask: Ask::Wait,
        hold,
        ..Call::looking_in(object)
    };
    let mut happens = |after: Duration, what: What| {
        let at = begins + after;
        events.push(Event { at, what });
    };
    happens(Duration::ZERO, What::Call(keeper, call(hold)));
    happens(
        millis(rng, 50..300),
        What::Call(waiter, call(Duration::ZERO)),
    );
    let from = hold.mul_f64(rng.f64()).max(Duration::from_millis(500));
    happens(from, What::Link(waiter, LinkFault::Unheard));
}
