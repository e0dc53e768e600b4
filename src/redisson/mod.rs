//! The family shared with Java's Redisson: same keys, same values, same channels.

pub(crate) mod names;
pub(crate) mod object;
mod semaphore;

pub use object::{ExpireCondition, ExpireTime, RemainingTtl};
pub use semaphore::RSemaphore;
