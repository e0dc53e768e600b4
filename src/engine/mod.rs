//! How the objects of a client talk to Redis: requests that take effect once, wake-ups, leases that are renewed.
//!
//! ```text
//!  caller -> queue::Object -> batch -> Core::carry_out -> transport
//!              ^ wake                    (repeats until answered)
//!              '-- Wakeups (one subscription connection) <- messages
//! ```
//!
//! Batches are carried out by [`drive`], [`once`] repeats them, [`holds`] has the leases, [`records`] deletes records.

mod ask;
pub(crate) mod call;
pub(crate) mod core;
pub(crate) mod drive;
pub(crate) mod holds;
pub(crate) mod keys;
pub(crate) mod log;
pub(crate) mod once;
mod records;
pub(crate) mod registry;
pub(crate) mod renewal;
pub(crate) mod request;
pub(crate) mod sync;
pub(crate) mod timer;
pub(crate) mod wakeups;
pub(crate) mod wrong_type;

#[cfg(test)]
mod drive_panics;

pub(crate) use self::core::Core;
