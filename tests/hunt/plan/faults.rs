//! What goes wrong with connections, server and clients.

use std::time::Duration;

use fastrand::Rng;

use super::chance::{millis, pick};

#[derive(Debug, Clone)]
pub enum LinkFault {
    /// All connections are reset; whether what is on its way to the server still arrives, after how long.
    Reset(Option<Duration>),
    /// The next request is carried out, and then the connection is reset instead of an answer; for so long no other can be
    /// made.
    LoseAnswer(Duration),
    /// The next request arrives so much later, and the connection is reset at once: it is made anew, and asked again.
    LateCopy(Duration),
    /// The connection is reset in the middle of the next request; for so long no other can be made.
    CutRequest(Duration),
    /// Nothing more gets through on the connections there are, in either direction, for good.
    Silence { up: bool, down: bool },
    /// What is sent arrives later; connections are not made before that.
    Stall {
        up: bool,
        down: bool,
        for_so_long: Duration,
    },
    /// Connections are refused.
    Refuse(Duration),
    /// The server closes the connections, as it does with idle ones.
    Close,
    /// The connection that hears messages is reset.
    Deaf,
    /// Nothing more gets through to the client on those that hear messages, for good.
    Unheard,
    /// It is farther away from now on.
    Far(Duration),
}

#[derive(Debug, Clone)]
pub enum ServerFault {
    /// The last `lost` writes are gone.
    Restart {
        down: Duration,
        lost: usize,
    },
    /// It can't be written to for a while; then a replica takes over that has not had the last `lag` writes, or, without,
    /// it can be again.
    FailOver {
        read_only: Duration,
        lag: Option<usize>,
    },
    ReadOnly(Duration),
    OutOfMemory(Duration),
    NoReplicas(Duration),
    /// It can't write to its disk.
    CannotSave(Duration),
    Loading(Duration),
    Busy(Duration),
    FlushScripts,
    /// It is short of memory, and gives up what it holds under these names.
    Evict(&'static str),
    /// Its clock steps.
    Clock(i64),
    /// Clients may not use a command.
    Forbid(&'static str, Duration),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// Its process is gone.
    Die,
    /// Its process stops for good, with its connections open.
    Freeze,
    /// It shuts down, at the latest after this; whether its callers are dropped before.
    ShutDown {
        drop_callers: bool,
        limit: Option<Duration>,
    },
}

const EVICTED: [&str; 8] = [
    "redisson_sc_grants*",
    "redisson_sc_queue*",
    "redisson*",
    "redisson_sc_once*",
    "redisson_sc_notes*",
    "redisson_sc_leased_queue*",
    "redisson_lock*",
    "l?",
];

/// How many writes are lost.
fn some(rng: &mut Rng) -> usize {
    let most = pick(rng, &[1, 1, 3, 30]);
    rng.usize(0..most)
}

impl ServerFault {
    /// For how long it lasts, if it is a state of the server's.
    pub fn passes_after(&self) -> Option<Duration> {
        match *self {
            ServerFault::FailOver {
                read_only: time, ..
            }
            | ServerFault::ReadOnly(time)
            | ServerFault::OutOfMemory(time)
            | ServerFault::NoReplicas(time)
            | ServerFault::CannotSave(time)
            | ServerFault::Loading(time)
            | ServerFault::Busy(time)
            | ServerFault::Forbid(_, time) => Some(time),
            ServerFault::Restart { .. }
            | ServerFault::FlushScripts
            | ServerFault::Evict(_)
            | ServerFault::Clock(_) => None,
        }
    }

    /// What was done may not have been: the server forgets.
    pub fn forgets(&self) -> bool {
        match self {
            ServerFault::Restart { lost, .. } => *lost > 0,
            ServerFault::FailOver { lag, .. } => lag.is_some_and(|lag| lag > 0),
            ServerFault::Evict(_) => true,
            _ => false,
        }
    }
}

pub(super) fn server_fault(rng: &mut Rng) -> ServerFault {
    let most = pick(rng, &[50, 1000, 5000]);
    let time = millis(rng, 1..most);
    match rng.u32(..11) {
        0 => ServerFault::Restart {
            down: time,
            lost: some(rng),
        },
        1 => ServerFault::FailOver {
            read_only: time,
            lag: rng.bool().then(|| some(rng)),
        },
        2 => ServerFault::ReadOnly(time),
        3 => ServerFault::OutOfMemory(time),
        4 => ServerFault::NoReplicas(time),
        5 => ServerFault::Loading(time),
        6 => ServerFault::Busy(time),
        8 => ServerFault::Clock(rng.i64(-2000..2000)),
        10 => ServerFault::CannotSave(time),
        9 if rng.bool() => ServerFault::Evict(pick(rng, &EVICTED)),
        _ => ServerFault::FlushScripts,
    }
}
