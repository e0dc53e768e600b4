//! The object-safe traits that the implementations share, what they all promise, and the guards.

mod answer;
mod holders;
mod latch;
mod leased;
mod lock;
mod name;
mod semaphore;
mod ttl;

pub use answer::Answer;
pub use holders::PermitHolder;
pub(crate) use holders::encoded;
pub use latch::CountDownLatch;
pub use leased::{Held, Holder, LeasedPermit, LeasedSemaphore};
pub(crate) use lock::HoldId;
pub use lock::{Hold, Lock, LockGuard};
pub(crate) use name::{check_id, check_name, flaw_of_name, refuse, shortened};
pub use semaphore::{MAX_PERMITS, Permit, Semaphore};
pub(crate) use semaphore::{OnRecord, semaphore_by_inherent_methods};
pub use ttl::RemainingTtl;
pub(crate) use ttl::{LONGEST_MILLIS, check_millis, whole_millis};

/// The traits are implemented in this crate alone: their hidden methods, of which the guards are made, may change.
pub trait Sealed {}
