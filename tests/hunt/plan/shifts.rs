//! What happens to a cluster: its slots move, its masters fail, clients can't reach some of them.

use std::time::Duration;

use fastrand::Rng;

use super::calls::Call;
use super::chance::{chance, millis, pick, up_to};
use super::faults::{ServerFault, server_fault};
use super::settings::Settings;
use super::{Event, What};
use crate::judge::Object;

#[derive(Debug, Clone)]
pub enum Shift {
    /// The slot of an object moves to the master that comes so many behind its own.
    Slot {
        object: Object,
        by: usize,
        /// Between two keys.
        pause: Duration,
        /// It stays between the two for so long, when all keys have moved.
        lingers: Duration,
        /// Until others have heard of it.
        gossip: Duration,
    },
    /// A master can't be reached; a replica takes over that has not had the last `lag` writes.
    FailOver {
        master: usize,
        /// Until the others notice, and then until the replica has been elected.
        noticed: Duration,
        elected: Duration,
        lag: usize,
        gossip: Duration,
        /// Only the others can't reach it: it goes on as a master for so long after it has been replaced.
        goes_on: Option<Duration>,
    },
    /// Something is wrong with one master.
    Fault(usize, ServerFault),
    /// A client can't reach one master.
    Apart(usize, usize, Duration),
}

impl Shift {
    /// What was done may not have been.
    pub fn forgets(&self) -> bool {
        match self {
            Shift::FailOver { lag, goes_on, .. } => *lag > 0 || goes_on.is_some(),
            Shift::Fault(_, fault) => fault.forgets(),
            Shift::Slot { .. } | Shift::Apart(..) => false,
        }
    }

    pub(super) fn random(rng: &mut Rng, settings: &Settings) -> Shift {
        let master = rng.usize(..settings.masters);
        match rng.u32(..12) {
            0..7 => Shift::Slot {
                object: object(rng, settings),
                by: rng.usize(1..settings.masters.max(2)),
                pause: up_to(rng, &[1, 20, 400, 2000]),
                lingers: up_to(rng, &[1, 100, 2000, 6000]),
                gossip: up_to(rng, &[1, 300, 1500]),
            },
            7..9 => Shift::FailOver {
                master,
                noticed: up_to(rng, &[100, 2000]),
                elected: up_to(rng, &[100, 1500]),
                lag: match rng.bool() {
                    true => 0,
                    false => rng.usize(..4),
                },
                gossip: up_to(rng, &[1, 300, 1500]),
                // There must be somebody else who knows better.
                goes_on: (settings.masters > 1 && chance(rng, 30))
                    .then(|| up_to(rng, &[300, 3000, 60_000])),
            },
            9..11 => Shift::Fault(master, at_one(&server_fault(rng))),
            _ => {
                let place = rng.usize(..settings.clients);
                Shift::Apart(place, master, up_to(rng, &[100, 3000, 8000]))
            }
        }
    }
}

fn object(rng: &mut Rng, settings: &Settings) -> Object {
    let mut all: Vec<Object> = (0..settings.permits.len()).map(Object::Semaphore).collect();
    all.extend((0..settings.locks).map(Object::Lock));
    all.extend((0..settings.recipes.len()).map(Object::Recipe));
    all.extend(settings.latch.then_some(Object::Latch));
    pick(rng, &all)
}

/// One history in so many is about a cluster.
const CLUSTERS: u64 = 4;

/// What is drawn about clusters changes nothing else.
fn draws(seed: u64) -> Rng {
    Rng::with_seed(seed.rotate_left(32))
}

/// Some histories happen at a cluster.
pub(super) fn at_a_cluster(seed: u64, settings: &mut Settings) {
    if !seed.is_multiple_of(CLUSTERS) {
        return;
    }
    let rng = &mut draws(seed);
    settings.masters = pick(rng, &[1, 2, 3, 3]);
    settings.sharded = rng.bool();
}

/// What goes wrong with a server does so with one of the nodes; and slots move, and masters are replaced.
pub(super) fn happen(seed: u64, settings: &Settings, events: &mut Vec<Event>) {
    if settings.masters == 0 {
        return;
    }
    let rng = &mut draws(!seed);
    for event in events.iter_mut() {
        if let What::Server(fault) = &event.what {
            event.what = What::Shift(Shift::Fault(rng.usize(..settings.masters), at_one(fault)));
        }
    }
    let until = settings.healing.as_millis() as u64;
    let most = pick(rng, &[1, 4, 12, 30]);
    for _ in 0..rng.usize(..most) {
        let at = millis(rng, 0..until);
        let what = What::Shift(Shift::random(rng, settings));
        events.push(Event { at, what });
    }
}

/// In one history at a cluster of so many.
const FORMER: u32 = 8;

/// A master that was replaced goes on for long, as others can't reach it and tell it so, and nothing else is wrong: nobody may believe it.
pub(super) fn former_master_goes_on(seed: u64, settings: &Settings, events: &mut Vec<Event>) {
    // Drawn apart.
    let rng = &mut Rng::with_seed(seed ^ 0x0066_6f72_6d65_7200);
    if settings.masters < 2 || rng.u32(..FORMER) > 0 {
        return;
    }
    events.retain(|event| matches!(event.what, What::Call(..)));
    let falls = What::Shift(Shift::FailOver {
        master: rng.usize(..settings.masters),
        noticed: millis(rng, 1..300),
        elected: millis(rng, 1..300),
        lag: 0,
        gossip: millis(rng, 1..200),
        goes_on: Some(Duration::from_secs(60)),
    });
    let at = millis(rng, 500..3000);
    events.push(Event { at, what: falls });
    let until = settings.healing.as_millis() as u64;
    for _ in 0..60 {
        let number = rng.usize(..settings.permits.len());
        let mut call = Call::looking_in(Object::Semaphore(number));
        call.hold = millis(rng, 0..50);
        let what = What::Call(rng.usize(..settings.clients), call);
        let at = millis(rng, 4000..until);
        events.push(Event { at, what });
    }
}

/// What is wrong with one node.
fn at_one(fault: &ServerFault) -> ServerFault {
    match fault {
        ServerFault::FailOver { read_only, .. } => ServerFault::ReadOnly(*read_only),
        fault => fault.clone(),
    }
}
