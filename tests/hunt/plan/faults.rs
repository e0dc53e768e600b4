//! What goes wrong with connections, server and clients.

use std::time::Duration;

use fastrand::Rng;

use super::chance::{millis, pick};
use super::settings::Settings;

#[derive(Debug, Clone)]
pub enum LinkFault {
    /// All connections are reset; whether what is on its way to the server still arrives, after how long.
    Reset(Option<Duration>),
    /// The next request is carried out, and then the connection is reset instead of an answer.
    LoseAnswer,
    /// The next request arrives so much later, and the connection is reset at once: it is made anew, and asked again.
    LateCopy(Duration),
    /// The connection is reset in the middle of the next request.
    CutRequest,
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
    /// It is farther away from now on.
    Far(Duration),
}

#[derive(Debug, Clone)]
pub enum ServerFault {
    Restart {
        down: Duration,
    },
    FailOver {
        read_only: Duration,
    },
    ReadOnly(Duration),
    OutOfMemory(Duration),
    NoReplicas(Duration),
    Loading(Duration),
    Busy(Duration),
    FlushScripts,
    /// Its clock steps.
    Clock(i64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// Its process is gone.
    Die,
    /// It shuts down; whether its callers are dropped before.
    ShutDown { drop_callers: bool },
}

pub(super) fn server_fault(rng: &mut Rng, settings: &Settings) -> ServerFault {
    let most = pick(rng, &[50, 1000, 5000]);
    let time = millis(rng, 1..most);
    match rng.u32(..9) {
        0 => ServerFault::Restart { down: time },
        1 => ServerFault::FailOver { read_only: time },
        2 => ServerFault::ReadOnly(time),
        3 => ServerFault::OutOfMemory(time),
        4 => ServerFault::NoReplicas(time),
        5 => ServerFault::Loading(time),
        6 => ServerFault::Busy(time),
        // A lease lasts as long as the server's clock says.
        8 if settings.locks == 0 => ServerFault::Clock(rng.i64(-2000..2000)),
        _ => ServerFault::FlushScripts,
    }
}
