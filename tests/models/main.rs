//! Models: the scheduling of rounds, the server of the simulator, and random histories of locks.

mod lock_holds;
mod rounds;
#[path = "../sim/mod.rs"]
mod sim;
mod sim_server;
#[path = "../support/mod.rs"]
mod support;

// The file that `rounds` tests imports it from here.
use rounds::engine;
