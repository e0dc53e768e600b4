//! Clusters, sentinels, replicas, TLS, restarts, and settings from the files of others.

#[path = "../certificates/mod.rs"]
mod certificates;
mod cluster;
mod cluster_waiting;
mod failover;
mod pair;
mod redis_rs;
mod redisson_yaml;
mod replicas;
mod resp3;
mod sentinel;
#[path = "../sentinels/mod.rs"]
mod sentinels;
#[path = "../support/mod.rs"]
mod support;
mod tls;
