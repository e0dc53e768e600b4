//! The changes of a cluster: its slots move, and its masters are replaced.

use std::time::Duration;

use fastrand::Rng;

use super::chance::{chance, millis, pick, up_to};
use super::settings::Settings;
use super::{Event, What};
use crate::judge::Object;

#[derive(Debug, Clone)]
pub enum Shift {
    /// The slot of an object moves to the master that is this many places behind its own.
    Slot {
        object: Object,
        by: usize,
        /// The pause between two keys.
        pause: Duration,
        /// How long the slot stays between both masters after all keys have moved.
        lingers: Duration,
        /// How long it takes until the others have heard of it.
        gossip: Duration,
    },
    /// A master can't be reached. A replica that lacks the last `lag` writes takes over.
    FailOver {
        master: usize,
        /// How long it takes until the others notice, and then until the replica has been elected.
        noticed: Duration,
        elected: Duration,
        lag: usize,
        gossip: Duration,
        /// Only the other nodes can't reach the master. It goes on as a master for this long after it has been replaced.
        goes_on: Option<Duration>,
    },
}

impl Shift {
    /// Whether writes may be lost.
    pub fn forgets(&self) -> bool {
        match self {
            Shift::FailOver { lag, goes_on, .. } => *lag > 0 || goes_on.is_some(),
            Shift::Slot { .. } => false,
        }
    }

    fn random(rng: &mut Rng, settings: &Settings) -> Shift {
        let gossip = up_to(rng, &[1, 300, 1500]);
        if chance(rng, 75) {
            return Shift::Slot {
                object: pick(rng, &settings.objects()),
                by: rng.usize(1..settings.masters.max(2)),
                pause: up_to(rng, &[1, 20, 400, 2000]),
                lingers: up_to(rng, &[1, 100, 2000, 6000]),
                gossip,
            };
        }
        Shift::FailOver {
            master: rng.usize(..settings.masters),
            noticed: up_to(rng, &[100, 2000]),
            elected: up_to(rng, &[100, 1500]),
            lag: pick(rng, &[0, 0, 1, 3]),
            gossip,
            // There must be another master that knows of the change.
            goes_on: (settings.masters > 1 && chance(rng, 30))
                .then(|| up_to(rng, &[300, 3000, 60_000])),
        }
    }
}

pub(super) fn happen(rng: &mut Rng, settings: &Settings, events: &mut Vec<Event>) {
    if settings.masters == 0 {
        return;
    }
    let until = settings.healing.as_millis() as u64;
    let most = pick(rng, &[1, 4, 12, 30]);
    for _ in 0..rng.usize(..most) {
        let at = millis(rng, 0..until);
        let what = What::Shift(Shift::random(rng, settings));
        events.push(Event { at, what });
    }
}
