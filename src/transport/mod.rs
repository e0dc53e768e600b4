//! The only code that knows the `redis` crate: one command connection and one subscription connection
//! to a standalone server, and what their failures mean for a call.

mod address;
mod backoff;
mod connection;
mod endpoint;
mod failure;
mod handshake;
mod live;
mod socket;
mod subscriber;

pub(crate) use backoff::{Backoff, jittered};
pub(crate) use connection::Connection;
pub(crate) use endpoint::Endpoint;
pub(crate) use failure::{Failure, Reason, Refusal};
pub(crate) use live::Live;
pub(crate) use subscriber::{News, Subscriber, Subscriptions};

/// A command, and the server's answer to one.
pub(crate) use redis::{Cmd, Value, cmd};
