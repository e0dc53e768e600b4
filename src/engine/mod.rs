//! How every primitive talks to Redis: combining, once-only execution, waiting and wake-ups.
//!
//! ```text
//!  caller -> Line (queue of calls, those who wait) -> batch -> Core::carry_out -> transport
//!              ^ wake                                                (repeats until answered)
//!              '-- Wakeups (one subscription connection) <- messages
//! ```
//!
//! One [`primitive::Line`] stands for one object in Redis; it has at most one script in flight, so the calls
//! of one client on one object keep their order. Who carries the scripts out is told in [`drive`].

pub(crate) mod answer;
mod ask;
pub(crate) mod call;
pub(crate) mod command;
pub(crate) mod core;
pub(crate) mod drive;
mod entries;
pub(crate) mod few;
mod forget;
pub(crate) mod holds;
pub(crate) mod in_hand;
pub(crate) mod keys;
mod latest;
pub(crate) mod listening;
pub(crate) mod log;
pub(crate) mod once;
pub(crate) mod primitive;
mod records;
pub(crate) mod refusing;
pub(crate) mod registry;
pub(crate) mod renewal;
pub(crate) mod request;
pub(crate) mod sent;
pub(crate) mod sync;
pub(crate) mod timer;
pub(crate) mod wakeups;
mod window;
pub(crate) mod wrong_type;

#[cfg(test)]
mod drive_panics;

pub(crate) use self::core::Core;
