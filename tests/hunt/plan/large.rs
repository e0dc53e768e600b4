//! A large request that is passed for as long as it may be, and stops the line.

use std::time::Duration;

use fastrand::Rng;

use super::calls::{Ask, Call};
use super::chance::{chance, millis};
use super::settings::Settings;
use super::{Event, What};

/// One client wants all permits of a semaphore of their own, of which somebody keeps one for long, while callers of another
/// pass it with the rest, until they may not any more: what is free then is not for them. Drawn apart.
pub(super) fn stops_the_line(seed: u64, settings: &mut Settings, events: &mut Vec<Event>) {
    let rng = &mut Rng::with_seed(seed ^ 0x006c_6172_6765_0000);
    if !chance(rng, 8) || settings.clients < 2 {
        return;
    }
    let permits = rng.u32(2..5);
    let object = settings.one_more_semaphore(permits.into());
    let whose = rng.choose_multiple(0..settings.clients, 2);
    let [large, small] = whose[..] else { return };
    // So near, and nobody's way varies, that who asks again and again is seen to.
    (settings.latency[small], settings.jitter) = (Duration::from_micros(200), 0.0);
    let begins = millis(rng, 200..3000);
    let waits = |permits: u32| Call {
        permits,
        ask: Ask::Wait,
        ..Call::looking_in(object)
    };
    let mut comes = |after: Duration, place: usize, call: Call| {
        let what = What::Call(place, call);
        let at = begins + after;
        events.push(Event { at, what });
    };
    let keeper = Call {
        hold: millis(rng, 7000..10_000),
        ..waits(1)
    };
    comes(Duration::ZERO, rng.usize(..settings.clients), keeper);
    comes(millis(rng, 50..200), large, waits(permits));
    for _ in 0..rng.u32(1..4) {
        let passes = Call {
            hold: millis(rng, 5..50),
            rounds: 1000,
            ..waits(1)
        };
        comes(millis(rng, 50..400), small, passes);
    }
}
