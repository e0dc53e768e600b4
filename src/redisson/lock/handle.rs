//! The trait for the locks, by the methods of `RLock`, which all of them have.

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
                unlock_detached();
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
lock_as!(RFencedLock, |lock| lock.as_lock());
lock_as!(RFairLock, |lock| lock.as_lock());
