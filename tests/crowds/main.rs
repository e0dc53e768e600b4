//! Crowds of clients, and of JVMs, on one object. They compare shares of work and count its cost, so this program runs alone.

#[path = "../interop/common/mod.rs"]
mod common;
mod crowd;
#[path = "../layouts/mod.rs"]
mod layouts;
mod lock_crowd;
mod lock_shares;
// The tests of one recipe each use more of it.
#[allow(dead_code)]
#[path = "../primitives/recipes/peers/support.rs"]
mod peers;
mod permit_shares;
mod recipe_crowd;
mod renewal;
mod shares;
#[path = "../support/mod.rs"]
mod support;
mod turns;
