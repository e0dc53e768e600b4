//! The real Redisson beside this crate. `REDISSONS=all` takes the older versions, too.

mod bytes;
mod common;
mod fair_lock;
mod latch;
mod leaving;
mod lock_crowd;
mod lock_renewal;
mod lock_state;
mod lock_waiting;
mod operations;
mod permits;
mod semaphore_crowd;
#[path = "../support/mod.rs"]
mod support;
mod turns;
mod waiting;
mod watchdog_processes;
