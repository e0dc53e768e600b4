//! The only code that knows the `redis` crate: one command connection and one subscription connection
//! to a standalone server, to the master that sentinels tell, or to each master of a cluster, and what their failures mean
//! for a call.

mod address;
mod backoff;
mod cluster;
mod command;
mod confirm;
mod connection;
mod endpoint;
mod failure;
mod handshake;
mod layout;
mod link;
mod live;
mod map;
mod messages;
mod pubsub;
mod role;
mod sentinel;
mod slot;
mod socket;
mod tls;
mod value;
mod wire;

pub(crate) use backoff::{Backoff, jittered};
pub(crate) use command::{Command, digest};
pub(crate) use connection::{Connection, Route};
pub(crate) use endpoint::Endpoint;
pub(crate) use failure::{Failure, Reason, Refusal};
pub(crate) use layout::{Layout, Node};
pub(crate) use messages::{Heard, Messages};
pub(crate) use pubsub::Subscriber;
pub(crate) use slot::hash_tag;
pub use value::Value;

/// If for this long no node or sentinel has confirmed the configuration we know, an older one may replace it.
const TRUST_UNCONFIRMED: std::time::Duration = std::time::Duration::from_secs(10);
