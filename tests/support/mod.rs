//! Helpers of the integration tests: private servers, recorders, the Java peer, waiting for conditions.
//! Each test binary uses a part of them.
#![allow(dead_code, unreachable_pub)]

pub mod acl;
pub mod channel;
pub mod clients;
pub mod cluster;
pub mod crowd;
pub mod gauge;
pub mod keeper;
pub mod log;
pub mod monitor;
pub mod peer;
pub mod polls;
pub mod proxy;
pub mod refusals;
pub mod server;
pub mod snapshot;
pub mod waiters;
