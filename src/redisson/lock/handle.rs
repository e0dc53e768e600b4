//! The trait for both locks, by the methods of the same names.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{RFencedLock, RLock};
use crate::api::{Hold, Lock, RemainingTtl};
use crate::error::Result;
use crate::lease::Lease;
use crate::stats::Holding;

/// What a lock with fencing tokens can do, it does as the lock it is.
macro_rules! lock_by_its_inherent_methods {
    ($type:ty) => {
        impl crate::api::Sealed for $type {}

        #[async_trait]
        impl Lock for $type {
            fn name(&self) -> &str {
                RLock::name(self)
            }

            fn owner(&self) -> &str {
                RLock::owner(self)
            }

            fn fresh_handle(&self) -> Arc<dyn Lock> {
                Arc::new(<$type>::fresh(self))
            }

            async fn hold(
                &self,
                wait: Option<Duration>,
                lease: Option<Duration>,
            ) -> Result<Option<Hold>> {
                RLock::hold(self, wait, lease).await
            }

            async fn unlock(&self) -> Result<()> {
                RLock::unlock(self).await
            }

            async fn force_unlock(&self) -> Result<bool> {
                RLock::force_unlock(self).await
            }

            async fn is_locked(&self) -> Result<bool> {
                RLock::is_locked(self).await
            }

            async fn hold_count(&self) -> Result<u32> {
                RLock::hold_count(self).await
            }

            async fn remaining_ttl(&self) -> Result<RemainingTtl> {
                RLock::remaining_ttl(self).await
            }

            fn lease(&self) -> Lease {
                RLock::lease(self)
            }

            fn holding(&self) -> Holding {
                RLock::holding(self)
            }

            fn unlock_detached(&self) {
                RLock::unlock_detached(self);
            }

            async fn unlock_hold(&self, hold: &Hold) -> Result<()> {
                RLock::unlock_hold(self, hold).await
            }

            fn unlock_hold_detached(&self, hold: &Hold) {
                RLock::unlock_hold_detached(self, hold);
            }
        }
    };
}

lock_by_its_inherent_methods!(RLock);
lock_by_its_inherent_methods!(RFencedLock);
