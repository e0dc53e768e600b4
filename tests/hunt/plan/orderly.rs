//! Histories where nothing goes wrong, and callers of several clients want the same: the first to come is the first to be served.

use std::time::Duration;

use fastrand::Rng;

use super::calls::Call;
use super::chance::{millis, pick};
use super::recipes::{Layout, Recipe};
use super::settings::Settings;
use super::{Event, What};
use crate::judge::Object;

/// A few callers of each client come by and by, for moments or for long. A queue forms at times, and then it is empty again. No client checks by
/// itself.
pub(super) fn come_by_and_by(rng: &mut Rng, settings: &mut Settings, events: &mut Vec<Event>) {
    events.clear();
    let object = match rng.u32(..10) {
        0..5 => settings.one_more_semaphore(rng.i64(1..4)),
        5 => {
            settings.locks = settings.locks.max(1);
            Object::Lock(0)
        }
        number => {
            settings.recipes = vec![Recipe {
                layout: match number {
                    6..9 => Layout::Expirable,
                    _ => pick(rng, &[Layout::FairUnderLock, Layout::Set]),
                },
                limit: rng.u32(1..4),
                timeout: Duration::from_secs(10),
                check: Duration::from_millis(100),
                endless: false,
            }];
            Object::Recipe(0)
        }
    };
    settings.orderly = Some(object);
    (settings.masters, settings.jvms, settings.replication) = (0, 0, None);
    (settings.jitter, settings.stops) = (0.0, Duration::ZERO);
    settings
        .latency
        .fill(Duration::from_micros(rng.u64(100..1500)));
    settings.safety_interval = Duration::from_secs(600);
    let longest = pick(rng, &[12, 30, 300, 2000]);
    let rounds = if longest == 12 { 200 } else { 8 };
    for place in 0..settings.clients {
        for _ in 0..rng.u32(1..6) {
            let call = Call {
                rounds: rng.u32(1..=rounds),
                pause: millis(rng, 1..longest),
                ..Call::keeping(object, millis(rng, 1..longest))
            };
            let what = What::Call(place, call);
            let at = millis(rng, 300..6000);
            events.push(Event { at, what });
        }
    }
}
