//! A crowd: hundreds of clients with a caller each, all of whom want the same, and nothing goes wrong.

use std::time::Duration;

use fastrand::Rng;

use super::calls::crowding;
use super::chance::{chance, millis, pick};
use super::recipes::{Layout, Recipe};
use super::settings::{MOST_UNDER_WAY, Settings};
use super::{Event, Plan, What};
use crate::judge::Object;

impl Plan {
    pub(super) fn of_a_crowd(seed: u64, rng: &mut Rng) -> Plan {
        let mut settings = Settings::random(rng);
        let clients = rng.usize(100..=300);
        settings.clients = clients;
        settings.permits = vec![rng.i64(1..8)];
        settings.watched = vec![chance(rng, 20)];
        (settings.locks, settings.jvms, settings.latch) = (0, 0, false);
        settings.recipes.clear();
        let mut object = Object::Semaphore(0);
        if chance(rng, 25) {
            object = Object::Recipe(0);
            settings.recipes.push(Recipe {
                layout: Layout::Expirable,
                limit: rng.u32(1..8),
                timeout: Duration::from_secs(10),
                check: Duration::from_millis(100),
                endless: false,
            });
        }
        settings.latency = (0..clients)
            .map(|_| Duration::from_micros(rng.u64(100..1500)))
            .collect();
        settings.jitter = pick(rng, &[0.0, 0.5]);
        settings.window = MOST_UNDER_WAY;
        settings.response_timeout = Duration::from_secs(3);
        settings.safety_interval = Duration::from_secs(5);
        settings.healing = Duration::from_secs(10);
        settings.crowd = true;
        let hold = millis(rng, 1..10);
        let mut events = Vec::new();
        for place in 0..clients {
            let mut call = crowding(rng, object, &settings);
            (call.permits, call.rounds, call.hold) = (1, 4, hold);
            events.push(Event {
                at: millis(rng, 1000..1500),
                what: What::Call(place, call),
            });
        }
        events.sort_by_key(|event| event.at);
        Plan {
            seed,
            settings,
            events,
        }
    }
}
