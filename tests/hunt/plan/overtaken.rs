//! Callers who only try take what others were told of.

use std::time::Duration;

use fastrand::Rng;

use super::calls::{Ask, Call};
use super::chance::{chance, millis};
use super::settings::Settings;
use super::{Event, What};

/// All want the only permit of a semaphore of theirs, again and again, for moments, and some of them do not wait in line. Drawn apart.
pub(super) fn by_those_who_try(seed: u64, settings: &mut Settings, events: &mut Vec<Event>) {
    let rng = &mut Rng::with_seed(seed ^ 0x6f76_6572_7461_6b65);
    if !chance(rng, 6) || settings.clients < 2 {
        return;
    }
    let object = settings.one_more_semaphore(1);
    // Nobody looks by chance.
    settings.safety_interval = Duration::from_secs(600);
    let until = settings.healing.as_millis() as u64;
    for place in 0..settings.clients {
        let begins = millis(rng, 300..until / 2);
        for number in 0..rng.u32(1..4) {
            let waits = number == 0 || rng.bool();
            let call = Call {
                ask: if waits { Ask::Wait } else { Ask::Try },
                hold: millis(rng, 0..5),
                rounds: if waits { 250 } else { 1000 },
                pause: if waits {
                    Duration::ZERO
                } else {
                    millis(rng, 0..5)
                },
                ..Call::looking_in(object)
            };
            let at = begins + millis(rng, 0..20);
            events.push(Event {
                at,
                what: What::Call(place, call),
            });
        }
    }
}
