//! The trait, by the methods of the same names; and which permits this client keeps, in the table of `engine::holds`.

use std::sync::Arc;
use std::time::Duration;

use super::RPermitExpirableSemaphore;
use super::call::Call;
use super::held::{AGES, renewing};
use super::ids;
use crate::api::{Held, Holder, LeasedPermit, LeasedSemaphore, by_methods};
use crate::clock::Moment;
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

    /// The handle of a guard: its permits last for a time.
    pub(super) fn renewing(&self) -> Self {
        let watchdog = self.core.config.lock_watchdog_timeout;
        self.clone().with_lease(self.lease.unwrap_or(watchdog))
    }

    /// The key in which the permits stand that are held.
    pub(super) fn permits_key(&self) -> &Arc<str> {
        self.queue.beside()
    }

    /// How long a refresh makes it last: what a guard keeps is to come back by itself, whatever this handle's permits do.
    fn lease_anew(&self, id: &str) -> Option<Duration> {
        let kept = || self.core.holds.is_renewed(self.permits_key(), id);
        let renewed = self.core.config.lock_watchdog_timeout;
        self.lease.or_else(|| kept().then_some(renewed))
    }
}

by_methods! {
    LeasedSemaphore for RPermitExpirableSemaphore, |semaphore| semaphore;
    now {
        name() -> &str;
        lease() -> Option<Duration>;
    }
    waits {
        holders() -> Result<Vec<Holder>>;
        release_all() -> Result<u64>;
        permit() -> Result<LeasedPermit>;
        permit_for(wait: Duration) -> Result<Option<LeasedPermit>>;
        try_permit() -> Result<Option<LeasedPermit>>;
    }

    fn limit(&self) -> Option<u32> {
        None
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
        Ok(!self.is_no_id(id)? && self.try_release(id).await?)
    }

    async fn refresh(&self, id: &str) -> Result<bool> {
        Ok(!self.is_no_id(id)? && self.update_lease_time(id, self.lease_anew(id)).await?)
    }

    /// Without waiting for it.
    fn release_detached(&self, id: &str) {
        let Some(release) = ids::read(id).map(Call::Release) else {
            tracing::error!(name = self.name(), id, "not released: it is no id");
            return;
        };
        self.core.holds.end(self.permits_key(), id);
        self.queue.defer(release);
    }

    fn holding(&self) -> Holding {
        Holding::new(&self.core.stats, What::Permits, self.name(), 1)
    }

    /// Renews it from now on.
    fn keep(&self, held: &Held) -> Lease {
        let Some(lasts) = self.lease else {
            return Lease::until(held.until);
        };
        let until = held.until.unwrap_or_else(|| Moment::now() + AGES);
        let key = self.permits_key();
        self.core.holds.keep(key, &held.id, until, renewing(lasts))
    }

    /// Renews it no more.
    fn unkeep(&self, id: &str) {
        self.core.holds.keep_no_more(self.permits_key(), id);
    }
}
