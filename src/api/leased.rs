//! [`LeasedSemaphore`]: permits that have ids and last for a time.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Moment;
use crate::error::Result;
use crate::guard::LeasedPermit;
use crate::lease::Lease;
use async_trait::async_trait;

/// A semaphore whose permits have ids, wherever it is kept.
///
/// There are as many permits as its limit says. Whoever acquires one is given an id that nobody else has, and
/// releases by it. A permit that is not refreshed is free again after its [`lease`](LeasedSemaphore::lease).
///
/// # Cancel safety
///
/// Every future may be dropped at any await point. A permit that was granted to a caller who has gone is released;
/// a release that was asked for is carried out.
///
/// # Order
///
/// Callers that wait are served in the order of their arrival. `try_acquire` takes what is not due to those who
/// wait.
#[async_trait]
pub trait LeasedSemaphore: Send + Sync + std::fmt::Debug + 'static {
    /// The semaphore's name, as the user gave it.
    fn name(&self) -> &str;

    /// How many permits this handle allows at the same time.
    fn limit(&self) -> u32;

    /// How long a permit lasts without a refresh; `None`: for ever.
    fn lease(&self) -> Option<Duration>;

    /// Another handle to the same semaphore; costs no I/O.
    fn clone_handle(&self) -> Arc<dyn LeasedSemaphore>;

    /// Takes a permit, waiting until there is one.
    async fn acquire(&self) -> Result<Held>;

    /// Takes a permit if one is free now and not due to somebody who waits.
    async fn try_acquire(&self) -> Result<Option<Held>>;

    /// Takes a permit, waiting for `wait` at the most; tries once more at the end of it.
    async fn try_acquire_for(&self, wait: Duration) -> Result<Option<Held>>;

    /// Gives the permit with this id back; `false` if it was not held, or not any more.
    async fn release(&self, id: &str) -> Result<bool>;

    /// Lets the permit with this id last for its full time again; `false` if it was not held, or not any more: then
    /// nothing of it is left.
    async fn refresh(&self, id: &str) -> Result<bool>;

    /// Who holds permits now, other programs included.
    async fn holders(&self) -> Result<Vec<Holder>>;

    /// Takes all permits away from whoever holds them; how many they were. Their holders are not told.
    async fn release_all(&self) -> Result<u64>;

    /// Gives the permit with this id back without waiting for it: what a guard does when it is dropped.
    ///
    /// The release is carried out in the background; a failure is only logged. May be called outside of a runtime.
    fn release_detached(&self, id: &str);

    /// Refreshes a permit in the background from now on, every third of its time, until it is released. The
    /// lease tells when it is lost. Must be called within the runtime.
    ///
    /// A permit that is kept already has one lease, which this returns again. What this client has refreshed since
    /// `held` was granted counts; where it has run out by what this client knows, it is lost.
    fn keep(&self, held: &Held) -> Lease;

    /// Ends what [`keep`](LeasedSemaphore::keep) has begun.
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

    /// Which of the permits it is, from 1 to the limit, where they are told apart. It stays the same while it is held.
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

/// Somebody who holds a permit.
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

    /// Which of the permits it is, where they are told apart.
    #[must_use]
    pub fn slot(&self) -> Option<u32> {
        self.slot
    }
}
