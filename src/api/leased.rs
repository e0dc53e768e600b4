//! [`LeasedSemaphore`]: permits that have ids and last for a time; [`LeasedPermit`]: a guard that refreshes
//! and releases one.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::Sealed;
use crate::clock::Moment;
use crate::error::Result;
use crate::lease::Lease;
use crate::stats::Holding;

/// A semaphore whose permits have ids, wherever it is kept. Implemented by this crate alone.
///
/// There are as many permits as its limit says, or as were set where it is kept. A caller that acquires one gets an id that is its own, and
/// releases by it. A permit that is not refreshed is free again after its [`lease`](LeasedSemaphore::lease).
/// [`ClientBuilder`](crate::ClientBuilder#names-and-times-of-calls) explains the names of the calls, and their times.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> redisson_semaphore::Result<()> {
/// use redisson_semaphore::{LeasedSemaphore, memory};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// async fn work(jobs: Arc<dyn LeasedSemaphore>) -> redisson_semaphore::Result<()> {
///     let job = jobs.permit().await?; // refreshed in the background
///     println!("{} is at work", job.id());
///     job.release().await.map(drop)
/// }
///
/// let lease = Duration::from_secs(10);
/// let jobs = memory::LeasedSemaphore::new("jobs", 2, Some(lease));
/// work(Arc::new(jobs)).await?; // or client.fair_semaphore("jobs", 2)
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
///
/// Every future may be dropped at any await point. A permit that was granted to a caller that has gone is released;
/// a release that was polled once is carried out.
///
/// # Order
///
/// Callers that wait are served in the order of their arrival. `try_acquire` does not pass
/// waiting callers. (That of [`RPermitExpirableSemaphore`](crate::RPermitExpirableSemaphore) takes what is free, past the queue, as Redisson's.)
#[async_trait]
pub trait LeasedSemaphore: Sealed + Send + Sync + std::fmt::Debug + 'static {
    /// The semaphore's name, as the user gave it.
    fn name(&self) -> &str;

    /// How many permits this handle allows at the same time; `None` where that is not the handle's, but stands with the
    /// permits.
    fn limit(&self) -> Option<u32>;

    /// How long a permit lasts without a refresh; `None`: for ever.
    fn lease(&self) -> Option<Duration>;

    /// Another handle to the same semaphore; costs no I/O.
    #[doc(hidden)]
    fn clone_handle(&self) -> Arc<dyn LeasedSemaphore>;

    /// Takes a permit, waiting for `wait` at the most: without a limit for `None`, not at all for zero. `None` when the time has run out.
    /// The other ways to take a permit are made of this one.
    #[doc(hidden)]
    async fn take(&self, wait: Option<Duration>) -> Result<Option<Held>>;

    /// Takes a permit, waiting until there is one.
    #[must_use = "nothing gives back what this takes but a call of `release`; `permit` gives a guard"]
    async fn acquire(&self) -> Result<Held> {
        Ok(self.take(None).await?.expect("waited for"))
    }

    /// Takes a permit if one is free now; see [the order](Self#order).
    #[must_use = "nothing gives back what this takes but a call of `release`; `try_permit` gives a guard"]
    async fn try_acquire(&self) -> Result<Option<Held>> {
        self.take(Some(Duration::ZERO)).await
    }

    /// Takes a permit, waiting for `wait` at the most; `None` when the time is over.
    #[must_use = "nothing gives back what this takes but a call of `release`; `permit_for` gives a guard"]
    async fn try_acquire_for(&self, wait: Duration) -> Result<Option<Held>> {
        self.take(Some(wait)).await
    }

    /// Gives the permit with this id back; `false` if it was not held, or not any more.
    async fn release(&self, id: &str) -> Result<bool>;

    /// Lets the permit with this id last for its full time again; `false` if it was not held, or not any more: then
    /// nothing of it is left.
    async fn refresh(&self, id: &str) -> Result<bool>;

    /// The holders of permits now, other programs included.
    async fn holders(&self) -> Result<Vec<Holder>>;

    /// Takes all permits away from their holders, without notifying these; returns how many they were.
    async fn release_all(&self) -> Result<u64>;

    /// Gives the permit with this id back in the background: what a guard does when it is dropped. A failure is only logged. May be called
    /// outside of a runtime.
    #[doc(hidden)]
    fn release_detached(&self, id: &str);

    /// Counts what a guard holds.
    #[doc(hidden)]
    fn holding(&self) -> Holding {
        Holding::default()
    }

    /// Refreshes a permit in the background from now on, every third of its time, until it is released. The
    /// lease says when it is lost. Must be called within the runtime.
    ///
    /// A permit that is kept already has one lease, which this returns again. Refreshes by this client since
    /// `held` was granted count. Where the lease has run out, as far as this client knows, the permit is lost.
    #[doc(hidden)]
    fn keep(&self, held: &Held) -> Lease;

    /// Ends what [`keep`](LeasedSemaphore::keep) has begun.
    #[doc(hidden)]
    fn unkeep(&self, id: &str);

    /// [`acquire`](LeasedSemaphore::acquire) with a guard that refreshes the permit and gives it back.
    async fn permit(&self) -> Result<LeasedPermit> {
        let held = self.acquire().await?;
        Ok(LeasedPermit::new(self.clone_handle(), held))
    }

    /// [`try_acquire_for`](LeasedSemaphore::try_acquire_for) with a guard; `None` when the time has run out.
    async fn permit_for(&self, wait: Duration) -> Result<Option<LeasedPermit>> {
        let held = self.try_acquire_for(wait).await?;
        Ok(held.map(|held| LeasedPermit::new(self.clone_handle(), held)))
    }

    /// [`try_acquire`](LeasedSemaphore::try_acquire) with a guard; `None` when there is no permit.
    async fn try_permit(&self) -> Result<Option<LeasedPermit>> {
        let held = self.try_acquire().await?;
        Ok(held.map(|held| LeasedPermit::new(self.clone_handle(), held)))
    }
}

/// A permit that was granted.
#[must_use = "nothing gives it back but a call of `release`"]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub(crate) id: Arc<str>,
    pub(crate) slot: Option<u32>,
    /// Counted from before it was asked for.
    pub(crate) until: Option<Moment>,
}

impl Held {
    /// The id to release and refresh it by.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The number of the permit, from 1 to the limit, where permits have numbers. It stays the same while it is held.
    #[must_use]
    pub fn slot(&self) -> Option<u32> {
        self.slot
    }

    /// How much of its first lease is left; `None`: it lasts for ever.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.until.map(Moment::remaining)
    }
}

/// The holder of a permit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    pub(crate) id: String,
    pub(crate) remaining: Option<Duration>,
    pub(crate) slot: Option<u32>,
}

impl Holder {
    /// The permit's id. Bytes of other programs that are no UTF-8 are replaced.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How long it lasts without a refresh; `None`: for ever.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.remaining
    }

    /// The number of the permit, where permits have numbers.
    #[must_use]
    pub fn slot(&self) -> Option<u32> {
        self.slot
    }
}

/// A permit held; refreshed in the background, and released when dropped.
///
/// Dropping never blocks: the release is carried out in the background, and a failure is only logged.
/// [`release`](LeasedPermit::release) waits for it and returns its result. [`forget`](LeasedPermit::forget) keeps the permit
/// taken until its time is over.
///
/// A permit can be lost while the guard is there: another caller takes it away, or the server can't be reached for
/// as long as it lasts; see [`lost`](LeasedPermit::lost).
#[must_use = "the permit is given back when the guard is dropped"]
#[derive(Debug)]
pub struct LeasedPermit {
    semaphore: Arc<dyn LeasedSemaphore>,
    lease: Lease,
    held: Held,
    /// It has been released or forgotten.
    spent: bool,
    holding: Holding,
}

impl LeasedPermit {
    pub(crate) fn new(semaphore: Arc<dyn LeasedSemaphore>, held: Held) -> Self {
        LeasedPermit {
            lease: semaphore.keep(&held),
            holding: semaphore.holding(),
            semaphore,
            held,
            spent: false,
        }
    }

    /// The permit's id.
    #[must_use]
    pub fn id(&self) -> &str {
        self.held.id()
    }

    /// The number of the permit, where it has one: see [`Held::slot`]. Good as the number of a shard or a worker.
    #[must_use]
    pub fn slot(&self) -> Option<u32> {
        self.held.slot()
    }

    /// The semaphore that it was taken from.
    #[must_use]
    pub fn semaphore(&self) -> &Arc<dyn LeasedSemaphore> {
        &self.semaphore
    }

    /// The known state of the lease. Outlives the guard.
    #[must_use]
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Whether the permit has been lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.lease.is_lost()
    }

    /// Ends when the permit is lost, as [`Lease::lost`] does, which is as cancel-safe. Never ends where permits last for ever.
    pub async fn lost(&self) {
        self.lease.lost().await;
    }

    /// Runs `future` until it is done, or the permit is lost; see [`Permit::run`](crate::Permit::run). [`release`](Self::release) tells a loss
    /// that `run` has missed. It is as cancel-safe as `future`.
    #[must_use = "`None` says that the permit was lost"]
    pub async fn run<F: Future>(&self, future: F) -> Option<F::Output> {
        self.lease.run(future).await
    }

    /// Gives the permit back and waits until that is done; `false` if it had been lost.
    ///
    /// # Errors
    ///
    /// Those of [`LeasedSemaphore::release`]. The guard is spent either way.
    ///
    /// # Cancel safety
    ///
    /// As that of [`Permit::release`](crate::Permit::release).
    pub async fn release(mut self) -> Result<bool> {
        let semaphore = Arc::clone(&self.semaphore);
        let id = Arc::clone(&self.held.id);
        let release = semaphore.release(&id);
        // From here on the semaphore's own future carries the release out, even when it is dropped.
        self.spent = true;
        semaphore.unkeep(&id);
        let lease = self.lease.clone().ended_on_drop();
        let done = release.await;
        if done == Ok(false) {
            lease.lose();
        }
        done
    }

    /// Keeps the permit taken: it is not released on drop, and not refreshed any more.
    #[must_use = "the permit stays taken"]
    pub fn forget(mut self) -> Held {
        self.spent = true;
        self.semaphore.unkeep(&self.held.id);
        self.held.clone()
    }
}

impl Drop for LeasedPermit {
    fn drop(&mut self) {
        if self.is_lost() {
            self.holding.note_lost();
        }
        if !self.spent {
            self.semaphore.release_detached(&self.held.id);
            self.lease.end();
        }
    }
}
