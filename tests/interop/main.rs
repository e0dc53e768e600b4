//! The real Redisson beside this crate. `REDISSONS=all` takes the older versions, too.

mod bytes;
mod common;
mod fair_lock;
mod latch;
mod leaving;
mod lock_renewal;
mod lock_state;
mod lock_waiting;
mod operations;
mod permits;
#[path = "../support/mod.rs"]
mod support;
mod waiting;
mod watchdog_processes;
