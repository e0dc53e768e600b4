//! [`LeasedSemaphore`]: permits with ids inside this process.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::faults::fault_switch;
use super::leases::{Leases, Shared};
use crate::api::{self, Held, Holder, MAX_PERMITS, check_name};
use crate::error::{Error, Result};
use crate::lease::Lease;

/// A semaphore with ids and leases inside this process: for tests, and for services that run alone.
///
/// Its operations are those of [`LeasedSemaphore`](crate::LeasedSemaphore). Cloning it is cheap and gives another
/// handle to the same permits. There is no registry: two semaphores of the same name that were made apart have
/// nothing to do with each other. A permit with a guard does not expire; without one it does, and those who wait for
/// that need a tokio runtime with its timer.
///
/// Its permits are told apart: [`slot`](crate::LeasedPermit::slot) is the lowest number that was free, as in
/// [`SlotSemaphore`](crate::recipes::SlotSemaphore).
///
/// Every operation returns [`Error::InvalidName`] if the name is empty, [`Error::InvalidLimit`] for a limit of 0 or above
/// [`MAX_PERMITS`], and [`Error::InvalidDuration`] for a lease below a millisecond or above 2^53 of them. All but `acquire` and `try_acquire_for` take
/// effect on the first poll.
///
/// ```
/// use redisson_semaphore::memory;
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> redisson_semaphore::Result<()> {
/// let jobs = memory::LeasedSemaphore::new("jobs", 2, Some(Duration::from_secs(10)));
/// let job = jobs.permit().await?;
/// assert_eq!(jobs.holders().await?.len(), 1);
/// assert!(job.release().await?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LeasedSemaphore {
    shared: Arc<Shared>,
}

impl LeasedSemaphore {
    /// A semaphore of `limit` permits, which last for `lease` without a refresh; for ever with `None`.
    pub fn new(name: impl Into<String>, limit: u32, lease: Option<Duration>) -> Self {
        LeasedSemaphore {
            shared: Arc::new(Shared::new(name.into(), limit, lease)),
        }
    }

    fn check(&self) -> Result<()> {
        let Shared {
            name, limit, lease, ..
        } = &*self.shared;
        check_name(name)?;
        if *limit == 0 || *limit > MAX_PERMITS {
            return Err(Error::InvalidLimit {
                name: name.clone(),
                limit: *limit,
                most: MAX_PERMITS,
            });
        }
        match *lease {
            Some(lease) => api::check_millis(name, "lease", lease).map(drop),
            None => Ok(()),
        }
    }

    /// Takes all permits away from those who hold them, and tells those with guards, as where a server has lost its data or
    /// a lease could not be refreshed in time.
    pub fn lose(&self) {
        self.shared.change(Leases::release_all);
    }

    /// Unless something is wrong with it, or on purpose.
    async fn pass(&self, wait: Option<Duration>) -> Result<()> {
        self.check()?;
        self.shared.faults.pass(&self.shared.name, wait).await
    }

    fn change<T>(&self, change: impl FnOnce(&mut Leases) -> T) -> Result<T> {
        self.check()?;
        Ok(self.shared.change(change))
    }

    /// Joins the line, and is served at once where there is a permit.
    fn join(&self, deadline: Option<Instant>) -> Result<Waiting<'_>> {
        let (ticket, granted) = self.change(|leases| leases.join(deadline))?;
        Ok(Waiting {
            shared: &self.shared,
            ticket,
            granted,
        })
    }
}

/// One waiting caller; dropped, it leaves the line, or gives back what it was granted in the meantime.
struct Waiting<'a> {
    shared: &'a Shared,
    ticket: u64,
    granted: oneshot::Receiver<Held>,
}

impl Waiting<'_> {
    async fn served(&mut self) -> Held {
        loop {
            // A change from here on is not missed.
            let sooner = self.shared.sooner.notified();
            // Nobody else tells that a permit has expired.
            let first_end = self.shared.change(|leases| leases.first_end());
            let expiry = async {
                match first_end {
                    Some(end) => sleep_until(end).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                held = &mut self.granted => return held.expect("kept in the line until it is used"),
                () = sooner => {}
                () = expiry => self.shared.change(Leases::serve),
            }
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        drop(self.shared.change(|leases| leases.leave(self.ticket)));
        self.granted.close();
        if let Ok(held) = self.granted.try_recv() {
            self.shared.change(|leases| leases.release(&held.id));
        }
    }
}

api::inherent_leased_semaphore!(LeasedSemaphore);
fault_switch!(LeasedSemaphore: shared.faults);

impl api::Sealed for LeasedSemaphore {}

#[async_trait]
impl api::LeasedSemaphore for LeasedSemaphore {
    fn name(&self) -> &str {
        &self.shared.name
    }

    fn limit(&self) -> Option<u32> {
        Some(self.shared.limit)
    }

    fn lease(&self) -> Option<Duration> {
        self.shared.lease
    }

    fn clone_handle(&self) -> Arc<dyn api::LeasedSemaphore> {
        Arc::new(self.clone())
    }

    async fn acquire(&self) -> Result<Held> {
        self.pass(None).await?;
        Ok(self.join(None)?.served().await)
    }

    async fn try_acquire(&self) -> Result<Option<Held>> {
        self.pass(None).await?;
        self.change(Leases::try_take)
    }

    async fn try_acquire_for(&self, wait: Duration) -> Result<Option<Held>> {
        if wait.is_zero() {
            return self.try_acquire().await;
        }
        self.pass(Some(wait)).await?;
        let deadline = Instant::now().checked_add(wait);
        let mut waiting = self.join(deadline)?;
        let Some(deadline) = deadline else {
            return Ok(Some(waiting.served().await));
        };
        if let Ok(held) = timeout_at(deadline, waiting.served()).await {
            return Ok(Some(held));
        }
        // Granted at that very moment, or to be had now.
        self.shared.change(Leases::serve);
        Ok(waiting.granted.try_recv().ok())
    }

    async fn release(&self, id: &str) -> Result<bool> {
        self.check()?;
        api::check_id(id)?;
        let (semaphore, id) = (self.clone(), id.to_owned());
        let release = move || semaphore.shared.change(|leases| leases.release(&id));
        let Shared { name, faults, .. } = &*self.shared;
        faults.carry_out(name, "release", release).await
    }

    async fn refresh(&self, id: &str) -> Result<bool> {
        api::check_id(id)?;
        self.pass(None).await?;
        self.change(|leases| leases.refresh(id))
    }

    async fn holders(&self) -> Result<Vec<Holder>> {
        self.pass(None).await?;
        self.change(Leases::holders)
    }

    async fn release_all(&self) -> Result<u64> {
        self.pass(None).await?;
        self.change(Leases::release_all)
    }

    fn release_detached(&self, id: &str) {
        let (semaphore, id) = (self.clone(), id.to_owned());
        self.shared.faults.owe(move || {
            semaphore.shared.change(|leases| {
                leases.unkeep(&id);
                leases.release(&id);
            });
        });
    }

    fn keep(&self, held: &Held) -> Lease {
        self.shared.change(|leases| leases.keep(&held.id))
    }

    fn unkeep(&self, id: &str) {
        self.shared.change(|leases| leases.unkeep(id));
    }
}

impl fmt::Debug for LeasedSemaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeasedSemaphore")
            .field("name", &self.shared.name)
            .field("limit", &self.shared.limit)
            .finish_non_exhaustive()
    }
}
