//! Primitives other than locks, one file each, and the layers over them.

mod blocking;
mod combining;
mod latch;
mod name_mapper;
mod nudges;
mod permit_expirable;
mod permit_hazards;
mod renewal_refused;
mod stats;
mod string_lock;
#[path = "../support/mod.rs"]
mod support;
mod tower;
mod watchdog;
