//! [`Semaphore`]: the trait of all counting semaphores; [`Permit`]: a guard that releases its permits.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::Sealed;
use crate::error::{Error, Result};
use crate::lease::{Lease, run_unless};
use crate::stats::Holding;

/// The most permits that one call can name, and that a counter can hold: 2^31-1, Java's `int`.
pub const MAX_PERMITS: u32 = i32::MAX as u32;

/// The permits that a guard holds under leases: tickets, and how many permits of each. Hidden in the trait, so users cannot name it.
#[derive(Debug, Clone)]
pub struct OnRecord {
    pub(crate) parts: Vec<(u64, u32)>,
}

impl OnRecord {
    /// Takes so many of the permits out.
    fn split(&mut self, permits: u32) -> Self {
        let (mut parts, mut wanted) = (Vec::new(), permits);
        for (ticket, held) in &mut self.parts {
            let taken = wanted.min(*held);
            if taken > 0 {
                parts.push((*ticket, taken));
                (*held, wanted) = (*held - taken, wanted - taken);
            }
        }
        self.parts.retain(|(_, held)| *held > 0);
        OnRecord { parts }
    }
}

/// A counting semaphore, wherever its permits are kept. Implemented by this crate alone.
///
/// The counter is the number of permits available now. It may be negative (after [`add_permits`](Semaphore::add_permits) with a
/// negative number). A permit has no owner: a caller may release the permits of another one, and `release` on its own adds permits.
/// A semaphore that does not exist has no permits. [`ClientBuilder`](crate::ClientBuilder#names-and-times-of-calls) explains the names of
/// the calls, and their times.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> redisson_semaphore::Result<()> {
/// use redisson_semaphore::{Semaphore, memory};
/// use std::sync::Arc;
///
/// async fn serve(seats: Arc<dyn Semaphore>) -> redisson_semaphore::Result<bool> {
///     Ok(seats.try_permit(1).await?.is_some()) // released at the end of the line
/// }
///
/// let seats = Arc::new(memory::Semaphore::with_permits("seats", 1)); // or client.semaphore("seats")
/// assert!(serve(seats).await?);
/// # Ok(())
/// # }
/// ```
///
/// # Amounts
///
/// Amounts are 0 to [`MAX_PERMITS`]; more is [`Error::InvalidPermits`](crate::Error::InvalidPermits).
/// Acquiring or releasing 0 succeeds at once and touches nothing, also where the semaphore is missing. A computed amount is converted
/// where it is known what a bad one means: `u32::try_from(rows.len())?`. Counters are `i64`, as they may be negative.
///
/// # Cancel safety
///
/// Every future may be dropped at any await point. A permit that was granted to a caller that has gone
/// is released or granted to the next waiter; a release that was polled once is carried out.
///
/// # Order
///
/// Waiting callers of one process are served in the order of their arrival. Smaller requests pass a larger one that does not fit, except in
/// [windows](crate::guide::queue) that grow with its wait, up to 20 s. `try_acquire` takes what is free now,
/// past the waiters.
#[async_trait]
pub trait Semaphore: Sealed + Send + Sync + std::fmt::Debug + 'static {
    /// The semaphore's name, as the user gave it.
    fn name(&self) -> &str;

    /// Another handle to the same semaphore; costs no I/O.
    #[doc(hidden)]
    fn clone_handle(&self) -> Arc<dyn Semaphore>;

    /// Sets the number of permits if the semaphore does not exist; `true` if this call has set it.
    async fn try_set_permits(&self, permits: u32) -> Result<bool>;

    /// As [`try_set_permits`](Semaphore::try_set_permits); the semaphore vanishes after `ttl`
    /// (1 ms at least, rounded up to whole milliseconds).
    async fn try_set_permits_for(&self, permits: u32, ttl: Duration) -> Result<bool>;

    /// Acquires `permits` permits, waiting until they are available. All or nothing.
    #[must_use = "nothing gives back what this takes but a call of `release`; `permit` gives a guard"]
    async fn acquire(&self, permits: u32) -> Result<()>;

    /// Acquires `permits` permits if they are free now.
    #[must_use = "nothing gives back what this takes but a call of `release`; `try_permit` gives a guard"]
    async fn try_acquire(&self, permits: u32) -> Result<bool>;

    /// Acquires `permits` permits, waiting for `wait` at the most; `false` when the time is over.
    #[must_use = "nothing gives back what this takes but a call of `release`; `permit_for` gives a guard"]
    async fn try_acquire_for(&self, permits: u32, wait: Duration) -> Result<bool>;

    /// Gives `permits` permits back; creates the semaphore if it does not exist.
    async fn release(&self, permits: u32) -> Result<()>;

    /// Gives `permits` permits back if the semaphore exists; `false` if it does not, or for 0.
    async fn release_if_exists(&self, permits: u32) -> Result<bool>;

    /// Changes the number of permits by `delta`, which may be negative; creates the semaphore if it
    /// does not exist. Never waits: the counter may become negative.
    async fn add_permits(&self, delta: i32) -> Result<()>;

    /// Sets the counter to 0 and returns what it was (negative too); 0 if the semaphore does not exist.
    async fn drain_permits(&self) -> Result<i64>;

    /// The number of permits available now; 0 if the semaphore does not exist.
    async fn available_permits(&self) -> Result<i64>;

    /// Whether the semaphore exists.
    async fn exists(&self) -> Result<bool>;

    /// Tells the semaphores of this process apart: the same for all handles of one, by which permits of one may be merged.
    #[doc(hidden)]
    fn identity(&self) -> usize;

    /// Counts what a guard holds.
    #[doc(hidden)]
    fn holding(&self, _permits: u32) -> Holding {
        Holding::default()
    }

    /// Gives `permits` permits back in the background where the semaphore still exists: what a guard does when it is dropped. A failure is
    /// only logged. May be called outside of a runtime.
    #[doc(hidden)]
    fn release_detached(&self, permits: u32);

    /// Takes permits for a guard, waiting for `wait` (`None`: for as long as it takes). The inner `None`: they are held
    /// without a lease.
    #[doc(hidden)]
    async fn take(&self, permits: u32, wait: Option<Duration>) -> Result<Option<Option<OnRecord>>> {
        let taken = match wait {
            None => self.acquire(permits).await.map(|()| true),
            Some(Duration::ZERO) => self.try_acquire(permits).await,
            Some(wait) => self.try_acquire_for(permits, wait).await,
        };
        taken.map(|taken| taken.then_some(None))
    }

    /// The leases of what a guard holds.
    #[doc(hidden)]
    fn leases_of(&self, _record: &OnRecord) -> Vec<Lease> {
        Vec::new()
    }

    /// Gives permits back that are held under leases.
    #[doc(hidden)]
    async fn release_recorded(&self, _record: &OnRecord) -> Result<()> {
        Ok(())
    }

    /// The same without waiting for it.
    #[doc(hidden)]
    fn release_recorded_detached(&self, _record: &OnRecord) {}

    /// They are not a guard's any more: they stay taken, and their leases end.
    #[doc(hidden)]
    fn forget_recorded(&self, _record: &OnRecord) {}

    /// [`acquire`](Semaphore::acquire) with a guard that gives the permits back.
    async fn permit(&self, permits: u32) -> Result<Permit> {
        let record = self.take(permits, None).await?.flatten();
        Ok(Permit::new(self.clone_handle(), permits, record))
    }

    /// [`try_acquire_for`](Semaphore::try_acquire_for) with a guard; `None` when the time has run out.
    async fn permit_for(&self, permits: u32, wait: Duration) -> Result<Option<Permit>> {
        let taken = self.take(permits, Some(wait)).await?;
        Ok(taken.map(|record| Permit::new(self.clone_handle(), permits, record)))
    }

    /// [`try_acquire`](Semaphore::try_acquire) with a guard; `None` when there are not enough permits.
    async fn try_permit(&self, permits: u32) -> Result<Option<Permit>> {
        let taken = self.take(permits, Some(Duration::ZERO)).await?;
        Ok(taken.map(|record| Permit::new(self.clone_handle(), permits, record)))
    }
}

/// Permits held; released when dropped.
///
/// Dropping never blocks: the release is carried out in the background, and a failure is only logged.
/// [`release`](Permit::release) waits for it and returns its result. [`forget`](Permit::forget) keeps the permits
/// taken, for another caller to release. Where the semaphore does not exist any more, nothing is released, as that would make it anew.
///
/// The permits of a [watched](crate::RSemaphore::watched) guard, as guards of `RSemaphore` are by default, can be lost while the guard is
/// there; see [`lost`](Permit::lost). A lost guard gives nothing back.
#[must_use = "the permits are given back when the guard is dropped"]
#[derive(Debug)]
pub struct Permit {
    semaphore: Arc<dyn Semaphore>,
    permits: u32,
    record: Option<OnRecord>,
    holding: Holding,
}

impl Permit {
    pub(crate) fn new(
        semaphore: Arc<dyn Semaphore>,
        permits: u32,
        record: Option<OnRecord>,
    ) -> Self {
        Permit {
            holding: semaphore.holding(permits),
            semaphore,
            permits,
            record,
        }
    }

    /// How many permits are held.
    #[must_use]
    pub fn permits(&self) -> u32 {
        self.permits
    }

    /// The semaphore that they were taken from.
    #[must_use]
    pub fn semaphore(&self) -> &Arc<dyn Semaphore> {
        &self.semaphore
    }

    /// Returns whether the permits have been lost: the lease could not be renewed in time, and other callers may have them.
    /// Only permits of a [watched](crate::RSemaphore::watched) guard can be lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.leases().iter().any(Lease::is_lost)
    }

    /// Waits until the permits are lost, by this process's own clock, before another caller can have them. Permits that cannot be lost
    /// are waited for without end. See [`is_lost`](Permit::is_lost).
    ///
    /// # Cancel safety
    ///
    /// May be dropped and asked again at any time.
    pub async fn lost(&self) {
        let leases = self.leases();
        if leases.is_empty() {
            return std::future::pending().await;
        }
        let lost = leases.iter().map(|lease| Box::pin(lease.lost()));
        futures::future::select_all(lost).await;
    }

    /// Runs `future` until it is done, or the permits are lost: `None` then, and the future has been dropped. A loss is noticed when `future`
    /// waits. If it blocks its thread meanwhile, it is `Some`, and [`is_lost`](Self::is_lost) tells the loss.
    ///
    /// # Cancel safety
    ///
    /// As safe as `future`.
    #[must_use = "`None` says that the permits were lost"]
    pub async fn run<F: Future>(&self, future: F) -> Option<F::Output> {
        run_unless(self.lost(), future).await
    }

    /// Gives the permits back and waits until that is done.
    ///
    /// # Errors
    ///
    /// Those of [`Semaphore::release`]; [`NotHeld`](crate::Error::NotHeld) where the permits of a
    /// [watched](crate::RSemaphore::watched) guard had been lost. The guard is spent either way. Where nothing took effect, the permits of a
    /// watched guard come back with the end of its lease. Other permits stay taken, and [`Semaphore::release`] gives them back.
    ///
    /// # Cancel safety
    ///
    /// The release is on its way as soon as the future has been polled; a future dropped before that
    /// releases in the background, as dropping the guard does.
    pub async fn release(mut self) -> Result<()> {
        let (permits, record) = (self.permits, self.record.take());
        let semaphore = Arc::clone(&self.semaphore);
        // From here on the semaphore's own future carries the release out, even when it is dropped.
        self.permits = 0;
        let released = match &record {
            Some(record) => semaphore.release_recorded(record).await,
            None => semaphore.release_if_exists(permits).await.map(drop),
        };
        if matches!(released, Err(Error::NotHeld { .. })) {
            self.holding.note_lost();
        }
        released
    }

    /// Splits so many of the permits off, into a guard of their own; `None` if it does not hold that many. None may be
    /// left behind, or split off. Where the release of one part is refused, the permits of the other part are lost, too: they come back
    /// when their lease ends.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> redisson_semaphore::Result<()> {
    /// use redisson_semaphore::{Semaphore, memory};
    ///
    /// let seats = memory::Semaphore::with_permits("seats", 3);
    /// let mut all = seats.permit(3).await?;
    /// let one = all.split(1).expect("there are three");
    /// assert_eq!((all.permits(), one.permits()), (2, 1));
    /// drop(one);
    /// assert_eq!(seats.available_permits().await?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn split(&mut self, permits: u32) -> Option<Permit> {
        self.permits = self.permits.checked_sub(permits)?;
        Some(Permit {
            semaphore: Arc::clone(&self.semaphore),
            permits,
            record: self.record.as_mut().map(|record| record.split(permits)),
            holding: self.holding.split(permits),
        })
    }

    /// Takes the permits of another guard over, to give them back together. Where those of one of them have been lost, the
    /// other's are what is held.
    ///
    /// # Panics
    ///
    /// Where the other guard's permits are of another semaphore, or of the same name but another client; where only one of them
    /// is [watched](crate::RSemaphore::watched); and where both
    /// hold more than [`MAX_PERMITS`] together. Either guard then releases its own permits.
    pub fn merge(&mut self, mut other: Permit) {
        assert!(
            self.semaphore.identity() == other.semaphore.identity(),
            "permits of one semaphore cannot be merged with those of another"
        );
        if self.is_lost() {
            std::mem::swap(self, &mut other);
        }
        if other.is_lost() {
            return;
        }
        let both = (self.permits.checked_add(other.permits)).filter(|both| *both <= MAX_PERMITS);
        self.permits = both.expect("together they are more than a call can give back");
        other.permits = 0;
        if let Some(more) = other.record.take() {
            match &mut self.record {
                Some(record) => record.parts.extend(more.parts),
                // A guard of nothing has no record.
                None => self.record = Some(more),
            }
        }
        self.holding.merge(std::mem::take(&mut other.holding));
    }

    /// Keeps the permits taken: they are not released on drop. Returns how many.
    ///
    /// The permits of a [watched](crate::RSemaphore::watched) guard do not come back any more when this process dies. The entry is
    /// removed in the background. Where the lease has ended by then, as when the client is cut off for 3 s right after the grant, other callers may have the
    /// permits, and a release by hand makes them too many.
    pub fn forget(mut self) -> u32 {
        let permits = std::mem::take(&mut self.permits);
        if let Some(record) = self.record.take() {
            self.semaphore.forget_recorded(&record);
        }
        permits
    }

    fn leases(&self) -> Vec<Lease> {
        let record = self.record.as_ref();
        record.map_or(Vec::new(), |record| self.semaphore.leases_of(record))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.permits == 0 {
            return;
        }
        if self.is_lost() {
            self.holding.note_lost();
        }
        match &self.record {
            Some(record) => self.semaphore.release_recorded_detached(record),
            None => self.semaphore.release_detached(self.permits),
        }
    }
}
