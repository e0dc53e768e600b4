//! Everything that can go wrong, with every primitive. Each hazard is written once, over the description that a primitive
//! gives of itself ([`subject`]). The list in [`subjects`] names all primitives; a new one is added there.
//!
//! `SUBJECT=fair cargo test --test hazards` runs the tests for one primitive alone.

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
