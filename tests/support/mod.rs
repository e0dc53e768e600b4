//! What the integration tests share: private servers, recorders, the Java peer, waiting for conditions.
//! Each test binary uses a part of it.
#![allow(dead_code, unreachable_pub)]

pub mod channel;
pub mod crowd;
pub mod keeper;
pub mod monitor;
pub mod peer;
pub mod server;
pub mod snapshot;
pub mod waiters;
