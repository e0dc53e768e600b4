//! The contract of each trait, once for every implementation: inside one process, over Redis, over a cluster.

#[macro_use]
mod contract;
#[macro_use]
mod leased;
#[macro_use]
mod lock_contract;

mod cluster;
#[path = "../layouts/mod.rs"]
mod layouts;
mod leased_memory;
mod leased_recipes;
mod leased_redisson;
mod lock_memory;
mod lock_redis;
mod read_write;
mod semaphore_memory;
mod semaphore_redis;
#[path = "../support/mod.rs"]
mod support;
mod twins;
