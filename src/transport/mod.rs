//! The only code that knows the `redis` crate: one command connection and one subscription connection
//! to a standalone server or the master that sentinels tell, and what their failures mean for a call.

mod address;
mod backoff;
mod command;
mod connection;
mod endpoint;
mod failure;
mod handshake;
mod live;
mod messages;
mod sentinel;
mod socket;
mod subscriber;
mod tls;
mod value;

pub(crate) use backoff::{Backoff, jittered};
pub(crate) use command::{Command, digest};
pub(crate) use connection::Connection;
pub(crate) use endpoint::Endpoint;
pub(crate) use failure::{Failure, Reason, Refusal};
pub(crate) use live::Live;
pub(crate) use messages::{Message, PUBLISH, count_listeners};
pub(crate) use subscriber::{Subscriber, Subscriptions};
pub(crate) use value::Value;
