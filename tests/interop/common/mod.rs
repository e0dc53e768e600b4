//! Shared by the tests with the real Redisson: one server with both sides, one vocabulary for both, and ways to know
//! that a caller is parked. Each test binary uses a part of it.
#![allow(dead_code, unreachable_pub)]

pub mod course;
pub mod locks;
pub mod operation;
pub mod parked;
pub mod waiting;
pub mod world;
