//! Crowds of clients, and of JVMs, on one object. They compare shares of work and count its cost, so this program runs alone.

#[path = "../interop/common/mod.rs"]
mod common;
mod crowd;
#[path = "../layouts/mod.rs"]
mod layouts;
mod lock_crowd;
mod lock_shares;
#[path = "../interop/locks/mod.rs"]
mod locks;
mod permit_shares;
mod recipe_cost;
mod renewal;
mod saturated;
mod shares;
mod starving;
#[path = "../support/mod.rs"]
mod support;
mod turns;
mod versions;
