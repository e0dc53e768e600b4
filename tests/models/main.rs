//! Models: the scheduling of rounds, and the server of the simulator.

mod rounds;
#[path = "../sim/mod.rs"]
mod sim;
mod sim_server;
#[path = "../support/mod.rs"]
mod support;

// The file that `rounds` tests imports it from here.
use rounds::engine;
