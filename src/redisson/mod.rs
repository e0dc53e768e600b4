//! The family shared with Java's Redisson: same keys, same values, same channels.

mod latch;
mod lock;
pub(crate) mod names;
pub(crate) mod object;
mod permit_expirable;
mod semaphore;

pub use latch::RCountDownLatch;
pub use lock::{FencedGuard, RFairLock, RFencedLock, RLock, RReadWriteLock};
pub use object::{ExpireCondition, ExpireTime, RObject};
pub use permit_expirable::RPermitExpirableSemaphore;
pub use semaphore::RSemaphore;
