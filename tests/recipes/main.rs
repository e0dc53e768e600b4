//! The classic recipes: their queue, their faults, and programs in Java and Python beside them.

mod bad_input;
mod beside_peers;
mod contention;
#[path = "../layouts/mod.rs"]
mod layouts;
mod line;
mod peers;
mod refused;
mod releases;
#[path = "../support/mod.rs"]
mod support;
mod waiting;
