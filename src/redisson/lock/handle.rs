//! The trait for the locks, by the methods of `RLock`, which all of them have.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::{RFairLock, RFencedLock, RLock};
use crate::api::{Hold, Lock, RemainingTtl, by_methods};
use crate::error::Result;
use crate::lease::Lease;
use crate::stats::Holding;

macro_rules! lock_as {
    ($type:ty, |$this:ident| $lock:expr) => {
        by_methods! {
            Lock for $type, |$this| $lock;
            now {
                name() -> &str;
                owner() -> &str;
                lease() -> Lease;
                holding() -> Holding;
                unlock_hold_detached(hold: &Hold);
            }
            waits {
                hold(wait: Option<Duration>) -> Result<Option<Hold>>;
                unlock() -> Result<()>;
                unlock_hold(hold: &Hold) -> Result<()>;
                force_unlock() -> Result<bool>;
                is_locked() -> Result<bool>;
                hold_count() -> Result<u32>;
                remaining_ttl() -> Result<RemainingTtl>;
            }

            fn fresh_handle(&self) -> Arc<dyn Lock> {
                let $this = self;
                Arc::new($lock.fresh())
            }

            fn with_lease(&self, lease: Duration) -> Arc<dyn Lock> {
                let $this = self;
                Arc::new($lock.with_lease(lease))
            }
        }
    };
}

lock_as!(RLock, |lock| lock);

/// Makes an `RLock` of another kind of lock.
macro_rules! kind_of_lock {
    ($type:ident) => {
        impl $type {
            /// This lock for the owner number `id`; see [`RLock::with_owner`].
            #[must_use]
            pub fn with_owner(&self, id: u64) -> Self {
                $type(self.0.with_owner(id))
            }

            /// This lock with a lease; see [`RLock::with_lease`].
            #[must_use]
            pub fn with_lease(&self, lease: Duration) -> Self {
                $type(self.0.with_lease(lease))
            }

            /// The same lock as an [`RLock`], with the same owner and lease, as Redisson's is one.
            #[must_use]
            pub fn as_lock(&self) -> &RLock {
                &self.0
            }
        }

        impl Deref for $type {
            type Target = RLock;

            fn deref(&self) -> &RLock {
                &self.0
            }
        }

        lock_as!($type, |lock| lock.as_lock());
    };
}

kind_of_lock!(RFencedLock);
kind_of_lock!(RFairLock);
