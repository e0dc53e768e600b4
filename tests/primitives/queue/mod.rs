//! The queue of waiters: order and grants.

mod grants;
mod order;
mod stalled;
