//! The object-safe traits that the implementations share, and what they all promise.

mod latch;
mod leased;
mod lock;
mod semaphore;
mod ttl;

pub use latch::CountDownLatch;
pub use leased::{Held, Holder, LeasedSemaphore};
pub(crate) use lock::HoldId;
pub use lock::{Hold, Lock};
pub(crate) use semaphore::PASSING_LIMIT;
pub use semaphore::{MAX_PERMITS, Semaphore};
pub use ttl::RemainingTtl;
pub(crate) use ttl::{LONGEST_MILLIS, check_millis, whole_millis};
