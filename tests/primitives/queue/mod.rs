//! The queue of waiters: order, grants, shares, and processes that freeze or die.

mod grants;
mod jvms;
mod order;
mod processes;
