//! Nothing goes wrong, and callers of several clients want the same: whoever comes first is served first. At the most somebody does
//! away with what is known of that, once in a while.

use std::time::Duration;

use fastrand::Rng;

use super::calls::{Ask, Call};
use super::chance::{millis, pick};
use super::meddling::disorder;
use super::recipes::{Layout, Recipe};
use super::settings::Settings;
use super::{Event, What};
use crate::judge::Object;

/// A few callers of each client come by and by, for moments or for long, so that there is a line at times, and then nobody again.
/// Nobody looks by chance. Drawn apart.
pub(super) fn come_by_and_by(seed: u64, settings: &mut Settings, events: &mut Vec<Event>) {
    let rng = &mut Rng::with_seed(seed ^ 0x6f72_6465_726c_7921);
    let Some(places) = settings.clients_alone(rng, 12) else {
        return;
    };
    let object = match rng.u32(..10) {
        0..5 => settings.one_more_semaphore(rng.i64(1..4)),
        5 => {
            settings.locks = settings.locks.max(1);
            Object::Lock(0)
        }
        number => {
            let layout = match number {
                6..9 => Layout::Expirable,
                _ => pick(rng, &[Layout::Fair, Layout::Timestamp, Layout::Set]),
            };
            settings.recipes.push(Recipe {
                layout,
                limit: rng.u32(1..4),
                timeout: Duration::from_secs(10),
                check: Duration::from_millis(100),
                endless: false,
            });
            Object::Recipe(settings.recipes.len() - 1)
        }
    };
    settings.orderly = Some(object);
    settings.safety_interval = Duration::from_secs(600);
    settings.is_calm(Duration::from_micros(rng.u64(100..1500)), events);
    let longest = pick(rng, &[30, 300, 2000]);
    for place in places {
        for _ in 0..rng.u32(1..5) {
            let call = Call {
                ask: Ask::Wait,
                hold: millis(rng, 1..longest),
                rounds: rng.u32(1..9),
                pause: millis(rng, 1..longest),
                ..Call::looking_in(object)
            };
            let what = What::Call(place, call);
            let at = millis(rng, 300..6000);
            events.push(Event { at, what });
        }
    }
    if rng.bool() {
        // Some are always at work then, several of each client.
        for place in 0..settings.clients {
            for _ in 0..rng.u32(1..6) {
                let call = Call {
                    ask: Ask::Wait,
                    hold: millis(rng, 1..12),
                    rounds: rng.u32(50..200),
                    pause: millis(rng, 0..3),
                    ..Call::looking_in(object)
                };
                let what = What::Call(place, call);
                let at = millis(rng, 300..600);
                events.push(Event { at, what });
            }
        }
        for _ in 0..rng.u32(1..40) {
            let at = millis(rng, 400..3000);
            let what = What::Meddle(disorder(rng));
            events.push(Event { at, what });
        }
    }
}
