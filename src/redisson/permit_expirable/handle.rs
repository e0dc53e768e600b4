//! The trait, by the methods of the same names: an inherent method goes before the trait's.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::RPermitExpirableSemaphore;
use crate::api::{Held, Holder, LeasedPermit, LeasedSemaphore, Sealed};
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::stats::{Holding, What};

impl RPermitExpirableSemaphore {
    /// The trait does not know what an id looks like: what is none is not held.
    fn is_no_id(&self, id: &str) -> Result<bool> {
        match self.id(id) {
            Ok(_) => Ok(false),
            Err(Error::InvalidPermitId { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }
}

impl Sealed for RPermitExpirableSemaphore {}

#[async_trait]
impl LeasedSemaphore for RPermitExpirableSemaphore {
    fn name(&self) -> &str {
        self.name()
    }

    fn limit(&self) -> Option<u32> {
        None
    }

    fn lease(&self) -> Option<Duration> {
        self.lease()
    }

    fn clone_handle(&self) -> Arc<dyn LeasedSemaphore> {
        Arc::new(self.clone())
    }

    async fn take(&self, wait: Option<Duration>) -> Result<Option<Held>> {
        match wait {
            None => self.acquire().await.map(Some),
            Some(wait) => self.try_acquire_for(wait).await,
        }
    }

    async fn release(&self, id: &str) -> Result<bool> {
        if self.is_no_id(id)? {
            return Ok(false);
        }
        self.try_release(id).await
    }

    async fn refresh(&self, id: &str) -> Result<bool> {
        if self.is_no_id(id)? {
            return Ok(false);
        }
        self.update_lease_time(id, self.lease_anew(id)).await
    }

    async fn holders(&self) -> Result<Vec<Holder>> {
        self.holders().await
    }

    async fn release_all(&self) -> Result<u64> {
        self.release_all().await
    }

    fn release_detached(&self, id: &str) {
        self.release_detached(id);
    }

    fn holding(&self) -> Holding {
        Holding::new(&self.core.stats, What::Permits, self.name(), 1)
    }

    fn keep(&self, held: &Held) -> Lease {
        self.keep(held)
    }

    fn unkeep(&self, id: &str) {
        self.unkeep(id);
    }

    async fn permit(&self) -> Result<LeasedPermit> {
        self.permit().await
    }

    async fn permit_for(&self, wait: Duration) -> Result<Option<LeasedPermit>> {
        self.permit_for(wait).await
    }

    async fn try_permit(&self) -> Result<Option<LeasedPermit>> {
        self.try_permit().await
    }
}
