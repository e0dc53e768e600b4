//! Faults of connections, server and clients.

use std::time::Duration;

use fastrand::Rng;

use super::chance::{chance, millis, pick, up_to};

#[derive(Debug, Clone)]
pub enum LinkFault {
    /// All connections are reset. Requests on their way to the server arrive after this time, or not at all.
    Reset(Option<Duration>),
    /// The next request is carried out, and then the connection is reset instead of a reply. No other one can be made for this time.
    LoseAnswer(Duration),
    /// The next request arrives this much later, and the connection is reset at once. The client connects again, and repeats the request.
    LateCopy(Duration),
    /// The connection is reset in the middle of the next request. No other one can be made for this time.
    CutRequest(Duration),
    /// Nothing more gets through on the existing connections in these directions, for good.
    Silence { up: bool, down: bool },
    /// Everything that is sent arrives later. Connections are not made before that.
    Stall {
        up: bool,
        down: bool,
        for_so_long: Duration,
    },
    /// All connections are reset, and no other ones can be made for this time.
    Refuse(Duration),
    /// The connections that hear messages are reset.
    Deaf,
    /// Nothing more reaches the client on the connections that hear messages, for good.
    Unheard,
}

/// A fault of a server, or of a node of a cluster.
#[derive(Debug, Clone)]
pub enum ServerFault {
    /// The server restarts, and the last `lost` writes are gone.
    Restart {
        down: Duration,
        lost: usize,
    },
    ReadOnly(Duration),
    NoReplicas(Duration),
    FlushScripts,
    /// The server is short of memory, and evicts the keys that match this pattern.
    Evict(&'static str),
    /// The server's clock steps by this many milliseconds.
    Clock(i64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// The client's process is gone.
    Die,
    /// The client's process stops for good, with its connections open.
    Freeze,
    /// The client shuts down, within the limit if there is one. Its callers may be dropped before.
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

impl ServerFault {
    pub(super) fn random(rng: &mut Rng) -> ServerFault {
        let time = up_to(rng, &[50, 1000, 5000]);
        match rng.u32(..8) {
            0 => {
                let most = pick(rng, &[1, 1, 3, 30]);
                let lost = rng.usize(0..most);
                ServerFault::Restart { down: time, lost }
            }
            1 | 2 => ServerFault::ReadOnly(time),
            3 => ServerFault::NoReplicas(time),
            4 => ServerFault::Clock(rng.i64(-2000..2000)),
            5 if rng.bool() => ServerFault::Evict(pick(rng, &EVICTED)),
            _ => ServerFault::FlushScripts,
        }
    }

    /// How long the fault lasts, if it is a state of the server.
    pub fn passes_after(&self) -> Option<Duration> {
        match *self {
            ServerFault::ReadOnly(time) | ServerFault::NoReplicas(time) => Some(time),
            _ => None,
        }
    }

    /// Whether the server may forget writes.
    pub fn forgets(&self) -> bool {
        match self {
            ServerFault::Restart { lost, .. } => *lost > 0,
            ServerFault::Evict(_) => true,
            _ => false,
        }
    }
}

impl LinkFault {
    /// Draws a fault of one of ten kinds.
    pub(super) fn random(rng: &mut Rng, kind: u32) -> LinkFault {
        let (up, down) = pick(rng, &[(true, false), (false, true), (true, true)]);
        match kind {
            0 => LinkFault::Reset(chance(rng, 60).then(|| up_to(rng, &[10, 500, 6000]))),
            1 | 2 => LinkFault::LoseAnswer(away(rng)),
            3 => LinkFault::LateCopy(up_to(rng, &[20, 200, 2000])),
            4 => LinkFault::CutRequest(away(rng)),
            5 => LinkFault::Silence { up, down },
            6 => LinkFault::Stall {
                up,
                down,
                for_so_long: up_to(rng, &[50, 1000, 6000]),
            },
            7 => LinkFault::Refuse(up_to(rng, &[100, 6000, 6000, 400_000])),
            8 => LinkFault::Deaf,
            _ => LinkFault::Unheard,
        }
    }
}

/// How long nothing can be sent after a request that got lost: mostly zero.
fn away(rng: &mut Rng) -> Duration {
    match chance(rng, 40) {
        true => up_to(rng, &[500, 5000, 40_000]),
        false => Duration::ZERO,
    }
}

impl Life {
    /// Draws the end of a client. `stalls`: callers may keep a grant that they have not received, so they are dropped before.
    pub(super) fn random(rng: &mut Rng, stalls: bool) -> Life {
        match rng.u32(..100) {
            0..30 => Life::Die,
            30..40 => Life::Freeze,
            _ => Life::ShutDown {
                drop_callers: chance(rng, 60) || stalls,
                limit: chance(rng, 25).then(|| up_to(rng, &[3, 100, 2000])),
            },
        }
    }
}

/// The client is shut down without a limit, after its callers are gone.
pub const ENDS: Life = Life::ShutDown {
    drop_callers: true,
    limit: None,
};

/// The same while its callers go on.
pub const ENDS_BESIDE_CALLERS: Life = Life::ShutDown {
    drop_callers: false,
    limit: None,
};

/// Draws for how long a process stops.
pub(super) fn stop(rng: &mut Rng) -> Duration {
    let most = pick(rng, &[30, 1000, 8000]);
    millis(rng, 1..most)
}
