//! The queue of waiters: order, grants, shares, and processes that freeze or die.

mod grants;
mod jvms;
mod leased_turns;
mod order;
mod processes;
mod shares;
mod starving;
