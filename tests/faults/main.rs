//! Faults of servers, networks and runtimes, wrong input, and calls that are dropped or time out.

mod abandoned;
mod bad_input;
mod blocked_runtime;
mod connecting;
mod late_request;
mod outage;
mod permission;
mod reconnect;
mod records;
mod runtime_ended;
mod shutdown;
#[path = "../support/mod.rs"]
mod support;
mod wakeups;
