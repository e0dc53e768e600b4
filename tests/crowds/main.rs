//! Crowds of JVMs and of this crate on one object. They compare shares of work, so this program runs alone.

#[path = "../interop/common/mod.rs"]
mod common;
mod crowd;
mod lock_crowd;
#[path = "../interop/locks/mod.rs"]
mod locks;
mod saturated;
#[path = "../support/mod.rs"]
mod support;
mod turns;
mod versions;
