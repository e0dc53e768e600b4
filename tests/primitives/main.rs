//! The behaviour of one primitive alone, its waiters, and the layers over the primitives. The common behaviour is in `tests/contracts` and
//! `tests/hazards`.

mod blocking;
mod combining;
mod cut_off;
mod latch;
mod late_answers;
#[path = "../layouts/mod.rs"]
mod layouts;
mod locks;
mod name_mapper;
mod nudges;
mod permit_ends;
mod permit_expirable;
mod queue;
mod recipes;
mod renewal_cost;
mod renewal_refused;
mod stats;
mod string_lock;
#[path = "../support/mod.rs"]
mod support;
mod tower;
mod watchdog;
