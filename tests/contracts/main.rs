//! The contract of each trait, once for every implementation: inside one process, over Redis, over a cluster.

#[macro_use]
mod contract;
#[macro_use]
mod holdable;
#[macro_use]
mod leased;
#[macro_use]
mod lock_contract;

mod clients;
mod cluster;
mod in_memory;
#[path = "../layouts/mod.rs"]
mod layouts;
mod one_server;
mod read_write;
#[path = "../support/mod.rs"]
mod support;
mod twins;
