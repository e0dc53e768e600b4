//! Many clients and JVMs on one object. The tests compare shares of work and count its cost, so this program runs alone.

#[path = "../interop/common/mod.rs"]
mod common;
mod crowd;
#[path = "../layouts/mod.rs"]
mod layouts;
mod lock_crowd;
mod lock_shares;
// The tests of the single recipes use more of this module.
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
