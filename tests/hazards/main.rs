//! Everything that can go wrong, with every primitive: each hazard is written once, over what a primitive tells of itself
//! ([`subject`]). Whoever adds a primitive adds it to the list in [`subjects`].
//!
//! `SUBJECT=fair cargo test --test hazards` tries one alone.

#![allow(unreachable_pub)]

mod alone;
mod away;
mod dropped;
mod hostile;
mod hostile_values;
#[path = "../layouts/mod.rs"]
mod layouts;
mod lost;
mod reconnect;
mod refused;
mod refusing;
mod restart;
mod shutdown;
mod stalled;
mod subject;
mod subjects;
#[path = "../support/mod.rs"]
mod support;
