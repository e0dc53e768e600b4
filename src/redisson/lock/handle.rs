//! The trait for the locks, by the methods of the same names.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{RFairLock, RFencedLock, RLock};
use crate::api::{Hold, Lock, RemainingTtl};
use crate::error::Result;
use crate::lease::Lease;
use crate::stats::Holding;

/// The trait by the methods of `RLock`, which all locks have.
macro_rules! lock_as {
    ($lock:path => $type:ty) => {
        impl crate::api::Sealed for $type {}

        #[async_trait]
        impl Lock for $type {
            fn name(&self) -> &str {
                $lock(self).name()
            }

            fn owner(&self) -> &str {
                $lock(self).owner()
            }

            fn fresh_handle(&self) -> Arc<dyn Lock> {
                Arc::new($lock(self).fresh())
            }

            fn with_lease(&self, lease: Duration) -> Arc<dyn Lock> {
                Arc::new($lock(self).with_lease(lease))
            }

            async fn hold(&self, wait: Option<Duration>) -> Result<Option<Hold>> {
                $lock(self).hold(wait).await
            }

            async fn unlock(&self) -> Result<()> {
                $lock(self).unlock().await
            }

            async fn force_unlock(&self) -> Result<bool> {
                $lock(self).force_unlock().await
            }

            async fn is_locked(&self) -> Result<bool> {
                $lock(self).is_locked().await
            }

            async fn hold_count(&self) -> Result<u32> {
                $lock(self).hold_count().await
            }

            async fn remaining_ttl(&self) -> Result<RemainingTtl> {
                $lock(self).remaining_ttl().await
            }

            fn lease(&self) -> Lease {
                $lock(self).lease()
            }

            fn holding(&self) -> Holding {
                $lock(self).holding()
            }

            fn unlock_detached(&self) {
                $lock(self).unlock_detached();
            }

            async fn unlock_hold(&self, hold: &Hold) -> Result<()> {
                $lock(self).unlock_hold(hold).await
            }

            fn unlock_hold_detached(&self, hold: &Hold) {
                $lock(self).unlock_hold_detached(hold);
            }
        }
    };
}

fn itself(lock: &RLock) -> &RLock {
    lock
}

lock_as!(itself => RLock);
lock_as!(RFencedLock::as_lock => RFencedLock);
lock_as!(RFairLock::as_lock => RFairLock);
