//! Faults of servers, networks and runtimes, wrong input, and calls that are dropped or time out.

mod bad_input;
mod blackhole;
mod blocked_runtime;
mod call_timeout;
mod cancellation;
mod connecting;
mod flush;
mod late_request;
mod outage;
mod pause;
mod permission;
mod reconnect;
mod records;
mod runtime_ended;
mod shutdown;
mod slow_server;
mod slow_subscriber;
#[path = "../support/mod.rs"]
mod support;
mod surplus;
mod unknown_outcome;
mod wakeups;
