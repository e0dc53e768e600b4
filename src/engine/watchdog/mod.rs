//! Permits that come back when their process dies: the permits of a client's guards are on record beside the semaphore.
//!
//! In `held` stands who holds how many, written by the script that changes the counter; in `alive` until when each holder is
//! believed alive, by the server's clock. [`rounds`] puts that off for all semaphores of a client together, and turns what is on
//! record of the dead into permits: exactly the release that they would have made.
//!
//! # Lives
//!
//! A client is on record under a [`Life`], and each guard belongs to the one in which its permits were taken. A life ends
//! when it has not been put off in time, by this process's own clock, which began before the server's did, or when the server says that it is not on record: its guards are lost
//! then, and nothing of it is sent any more. What is taken after that is on record under another name. So a release that comes late,
//! from a process that was stopped, can't add anything, and can't take from what is held by now.
//!
//! # Books
//!
//! All batches of a line are answered one behind the other, so it is known here how much must be on record, and each answer
//! tells what is. More is given back: a release was given up, or its write was lost in a failover. If it is less, permits of some guard are
//! not on record, and nobody knows whose: the life has ended.

mod life;
mod rounds;

pub(crate) use life::{Balance, Entry, Life, Renewal};
pub(crate) use rounds::{OnRecord, Owner, Watchdog};
