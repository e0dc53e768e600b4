//! The classic recipes: their queue, their faults, and programs in Java and Python beside them.

mod bad_input;
mod beside_peers;
mod contention;
mod line;
mod peers;
mod refused;
mod releases;
mod waits;
