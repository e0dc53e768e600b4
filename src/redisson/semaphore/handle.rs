//! The trait, by the methods of the same names; and what its guards are made of.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::time::Instant;

use super::RSemaphore;
use super::call::Call;
use crate::api::{OnRecord, Semaphore, by_methods};
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::stats::{Holding, What};

by_methods! {
    Semaphore for RSemaphore, |semaphore| semaphore;
    now {
        name() -> &str;
    }
    waits {
        try_set_permits(permits: u32) -> Result<bool>;
        try_set_permits_for(permits: u32, ttl: Duration) -> Result<bool>;
        acquire(permits: u32) -> Result<()>;
        try_acquire(permits: u32) -> Result<bool>;
        try_acquire_for(permits: u32, wait: Duration) -> Result<bool>;
        release(permits: u32) -> Result<()>;
        release_if_exists(permits: u32) -> Result<bool>;
        add_permits(delta: i32) -> Result<()>;
        drain_permits() -> Result<i64>;
        available_permits() -> Result<i64>;
        exists() -> Result<bool>;
    }

    fn clone_handle(&self) -> Arc<dyn Semaphore> {
        Arc::new(self.clone())
    }

    fn identity(&self) -> usize {
        Arc::as_ptr(&self.queue) as usize + usize::from(self.watched)
    }

    fn holding(&self, permits: u32) -> Holding {
        Holding::new(&self.core().stats, What::Permits, self.name(), permits)
    }

    fn release_detached(&self, permits: u32) {
        match self.queue.check_permits(permits) {
            Ok(()) if permits > 0 => self.queue.defer(Call::ReleaseIfExists(permits)),
            Ok(()) => {}
            Err(error) => tracing::error!(%error, permits, "not released"),
        }
    }

    async fn take(&self, permits: u32, wait: Option<Duration>) -> Result<Option<Option<OnRecord>>> {
        self.queue.check_permits(permits)?;
        if permits == 0 {
            return Ok(Some(None));
        }
        let granted = self.granted(permits, self.watched, wait).await?;
        Ok(granted.map(|grant| {
            let parts = vec![(grant.ticket, permits)];
            grant.want.leased.then_some(OnRecord { parts })
        }))
    }

    fn leases_of(&self, record: &OnRecord) -> Vec<Lease> {
        let lease = |(ticket, _): &(u64, u32)| {
            // A ticket that is not in the table any more has been lost.
            let lost = || Lease::until(Some(Instant::now()));
            self.queue.lease(*ticket).unwrap_or_else(lost)
        };
        record.parts.iter().map(lease).collect()
    }

    async fn release_recorded(&self, record: &OnRecord) -> Result<()> {
        let parts = record.parts.iter();
        let releases = parts.map(|(ticket, permits)| self.run(Call::GiveBack(*permits, *ticket)));
        let mut released = Ok(());
        for done in join_all(releases).await {
            match done {
                Ok(1) => {}
                Ok(_) if released.is_err() => {}
                Ok(_) => {
                    released = Err(self.core().stats.failed(Error::NotHeld {
                        name: self.name().to_owned(),
                        owner: self.core().id().to_owned(),
                    }));
                }
                Err(error) => released = Err(error),
            }
        }
        released
    }

    fn release_recorded_detached(&self, record: &OnRecord) {
        for (ticket, permits) in &record.parts {
            self.queue.defer(Call::GiveBack(*permits, *ticket));
        }
    }

    fn forget_recorded(&self, record: &OnRecord) {
        for (ticket, permits) in &record.parts {
            self.queue.defer(Call::Forget(*permits, *ticket));
        }
    }
}
