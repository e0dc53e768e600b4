//! Models: the scheduling of rounds, the simulator's server, and random histories of semaphores and locks.

mod lock_holds;
mod rounds;
mod semaphore;
#[path = "../sim/mod.rs"]
mod sim;
mod sim_server;
#[path = "../support/mod.rs"]
mod support;

// The file that `rounds` tests imports it from here.
use rounds::engine;
