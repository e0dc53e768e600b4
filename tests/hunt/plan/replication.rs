//! Servers with a replica each, for which clients wait before anything counts: it lags, is away, and takes over.

use std::time::Duration;

use fastrand::Rng;

use super::chance::{chance, millis, pick, up_to};
use super::faults::ServerFault;
use super::settings::Settings;
use super::shifts::Shift;
use super::{Event, What};

/// What is so in such a history.
#[derive(Debug, Clone)]
pub struct Replication {
    /// The clients that wait for it.
    pub waits: Vec<bool>,
    /// How long a write is on its way to the replica, and its confirmation on its way back.
    pub lag: Duration,
}

/// One history in so many is about replicas, and this is the first of them.
const REPLICATED: u64 = 5;
const FIRST: u64 = 3;

/// What is drawn about replicas changes nothing else.
fn draws(seed: u64) -> Rng {
    Rng::with_seed(seed.rotate_left(48))
}

/// Some histories happen at servers with replicas.
pub(super) fn with_replicas(seed: u64, settings: &mut Settings) {
    if seed % REPLICATED != FIRST {
        return;
    }
    let rng = &mut draws(seed);
    let all = chance(rng, 75);
    let waits = (0..settings.clients).map(|_| all || rng.bool());
    settings.replication = Some(Replication {
        waits: waits.collect(),
        lag: Duration::from_micros(pick(rng, &[50, 400, 2000, 10_000, 40_000])),
    });
    // Those don't wait for replicas.
    if all && chance(rng, 80) {
        settings.jvms = 0;
    }
}

/// Replicas go away, and take over; mostly nothing else makes servers forget.
pub(super) fn happen(seed: u64, settings: &Settings, events: &mut Vec<Event>) {
    if settings.replication.is_none() {
        return;
    }
    let rng = &mut draws(!seed);
    if chance(rng, 80) {
        events.retain(|event| !event.what.tampers());
    }
    let until = settings.healing.as_millis() as u64;
    for _ in 0..rng.usize(..6) {
        let master = rng.usize(..settings.masters.max(1));
        let (at, away) = (
            millis(rng, 500..until),
            up_to(rng, &[50, 1000, 8000, 30_000]),
        );
        let what = What::Part(master, away);
        events.push(Event { at, what });
        if chance(rng, 50) {
            let within = u64::try_from(away.as_millis()).unwrap_or(until);
            let at = at + millis(rng, 0..within.min(3000) + 1);
            let what = takes_over(rng, settings, master);
            events.push(Event { at, what });
        }
    }
}

fn takes_over(rng: &mut Rng, settings: &Settings, master: usize) -> What {
    let time = up_to(rng, &[10, 300, 3000]);
    if settings.masters > 0 {
        return What::Shift(Shift::FailOver {
            master,
            noticed: time,
            elected: up_to(rng, &[100, 1500]),
            lag: 1,
            gossip: up_to(rng, &[1, 300, 1500]),
            goes_on: (settings.masters > 1 && chance(rng, 20))
                .then(|| up_to(rng, &[300, 3000, 60_000])),
        });
    }
    What::Server(match rng.bool() {
        true => ServerFault::Restart {
            down: time,
            lost: 1,
        },
        false => ServerFault::FailOver {
            read_only: time,
            lag: Some(1),
        },
    })
}
