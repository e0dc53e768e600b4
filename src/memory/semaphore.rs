//! [`Semaphore`]: the counting semaphore inside one process.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::faults::fault_switch;
use super::queue::{Rules, Shared};
use crate::api::{self, MAX_PERMITS, check_millis, check_name};
use crate::error::{Error, Result};
use crate::lease::Lease;

/// The range of a counter: Java's `int`.
const RANGE: std::ops::RangeInclusive<i64> = i32::MIN as i64..=i32::MAX as i64;

/// A counting semaphore inside this process.
///
/// Cloning it is cheap and gives another handle to the same permits. There is no registry: two
/// semaphores of the same name that were made apart have nothing to do with each other.
///
/// Amounts and the order of callers are explained at the trait,
/// [`Semaphore`](crate::Semaphore). Its methods are also here without importing it. A request that is too large for what is free holds
/// those behind it up in the windows of [the guide](crate::guide::queue#large-requests). Permits may be
/// released from any thread, within a runtime or not; a wait with a time, and one behind a larger request, needs
/// a tokio runtime with its timer.
///
/// When its time to live is over the semaphore is missing, with whatever permits it had; waiting callers go on waiting.
/// A [`release`](crate::Semaphore::release) afterwards creates it anew, without a time to live; a guard's end does not. A guard releases into
/// the semaphore that is there then, also into one that was made anew.
///
/// # Errors
///
/// [`Error::InvalidName`] if the name is empty; [`Error::InvalidPermits`] above [`MAX_PERMITS`]; [`Error::OutOfRange`] where the counter
/// would leave the range of 32 bits; [`Error::InvalidDuration`] for a time to live below a millisecond, or too far away for the clock.
///
/// # Cancel safety
///
/// All but the waits take effect on the first poll. A wait that is dropped gives up its place, and what it was granted in
/// the meantime goes to the next waiter, or back.
///
/// # Examples
///
/// ```
/// use redisson_semaphore::{Semaphore, memory};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> redisson_semaphore::Result<()> {
/// let seats = memory::Semaphore::with_permits("seats", 8);
/// let two = seats.permit(2).await?;
/// assert_eq!(seats.available_permits().await?, 6);
/// two.release().await?;
/// assert_eq!(seats.available_permits().await?, 8);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Semaphore {
    shared: Arc<Shared<Counter>>,
}

/// The counter and its time to live.
#[derive(Default)]
pub(super) struct Counter {
    /// `None` while the semaphore does not exist.
    available: Option<i64>,
    expires: Option<Instant>,
}

impl Counter {
    /// Changes the counter by `delta`; the counter as it stays if the result does not fit.
    fn add(&mut self, delta: i64) -> std::result::Result<(), i64> {
        let available = self.available.unwrap_or(0);
        let changed = Some(available + delta).filter(|changed| RANGE.contains(changed));
        self.available = Some(changed.ok_or(available)?);
        Ok(())
    }

    fn lose(&mut self) {
        *self = Counter::default();
    }
}

impl Rules for Counter {
    type Want = u32;
    type Grant = u32;
    const BLOCKS: bool = true;

    fn expire(&mut self, now: Instant) {
        if self.expires.is_some_and(|expires| expires <= now) {
            self.lose();
        }
    }

    fn fits(&self, permits: &u32) -> bool {
        self.available
            .is_some_and(|available| available >= i64::from(*permits))
    }

    fn take(&mut self, permits: &u32) -> u32 {
        self.available = self
            .available
            .map(|available| available - i64::from(*permits));
        *permits
    }

    /// They are gone if the semaphore no longer exists. There is no caller to tell that they do not fit.
    fn take_back(&mut self, permits: u32) {
        let back = |available: i64| (available + i64::from(permits)).min(MAX_PERMITS.into());
        self.available = self.available.map(back);
    }

    fn next_end(&self) -> Option<Instant> {
        None
    }

    fn changed(&mut self) -> Vec<Lease> {
        Vec::new()
    }
}

impl Semaphore {
    /// A semaphore that does not exist yet: it has no permits until a call sets, adds or releases
    /// some.
    pub fn new(name: impl Into<String>) -> Self {
        Self::make(name.into(), None)
    }

    /// A semaphore that exists, with `permits` permits.
    ///
    /// # Panics
    ///
    /// If `permits` is more than [`MAX_PERMITS`].
    pub fn with_permits(name: impl Into<String>, permits: u32) -> Self {
        assert!(
            permits <= MAX_PERMITS,
            "{permits} permits are more than {MAX_PERMITS}"
        );
        Self::make(name.into(), Some(permits.into()))
    }

    fn make(name: String, available: Option<i64>) -> Self {
        let expires = None;
        let counter = Counter { available, expires };
        Semaphore {
            shared: Arc::new(Shared::new(name, counter)),
        }
    }

    /// Loses all there is, as a server does that restarts without its data: the semaphore does not exist any more. Holders
    /// of permits are not notified, as permits have no owners. Waiters go on waiting.
    pub fn lose(&self) {
        self.shared.change(Counter::lose);
    }

    async fn create(&self, permits: u32, ttl: Option<Duration>) -> Result<bool> {
        self.check(permits)?;
        self.expiry(ttl)?;
        self.shared.pass(None).await?;
        // It begins now: the call may have waited.
        let expires = self.expiry(ttl)?;
        Ok(self.shared.change(|counter| {
            let new = counter.available.is_none();
            if new {
                (counter.available, counter.expires) = (Some(permits.into()), expires);
            }
            new
        }))
    }

    /// Takes permits; `wait` as in [`take`](api::Semaphore::take).
    async fn acquired(&self, permits: u32, wait: Option<Duration>) -> Result<bool> {
        self.check(permits)?;
        if permits == 0 {
            return Ok(true);
        }
        self.shared
            .pass(wait.filter(|wait| !wait.is_zero()))
            .await?;
        Ok(match wait {
            Some(Duration::ZERO) => self.shared.take(&permits).is_some(),
            wait => self.shared.wait(permits, wait).await.is_some(),
        })
    }

    /// Gives permits back; `only` if the semaphore exists.
    fn release_now(&self, permits: u32, only: bool) -> Result<bool> {
        self.check(permits)?;
        if permits == 0 {
            return Ok(false);
        }
        let released = self.shared.change(|counter| match counter.available {
            None if only => Ok(false),
            _ => counter.add(permits.into()).map(|()| true),
        });
        released.map_err(|available| self.out_of_range(available, permits.into()))
    }

    fn out_of_range(&self, available: i64, delta: i64) -> Error {
        Error::OutOfRange {
            name: self.shared.name.clone(),
            available,
            delta,
        }
    }

    fn check(&self, permits: u32) -> Result<()> {
        let name = &self.shared.name;
        check_name(name)?;
        if permits > MAX_PERMITS {
            return Err(Error::InvalidPermits {
                name: name.clone(),
                permits,
            });
        }
        Ok(())
    }

    /// When a time to live that begins now ends.
    fn expiry(&self, ttl: Option<Duration>) -> Result<Option<Instant>> {
        let name = &self.shared.name;
        let Some(ttl) = ttl else { return Ok(None) };
        let millis = check_millis(name, "time to live", ttl)?;
        let ttl = Duration::from_millis(millis.unsigned_abs());
        let expires = Instant::now().checked_add(ttl);
        let refusal = || Error::InvalidDuration {
            name: name.clone(),
            what: "time to live",
            value: ttl,
            reason: "the clock cannot express its end",
        };
        expires.map(Some).ok_or_else(refusal)
    }
}

fault_switch!(Semaphore: shared.faults);

impl api::Sealed for Semaphore {}

#[async_trait]
impl api::Semaphore for Semaphore {
    fn name(&self) -> &str {
        &self.shared.name
    }

    fn clone_handle(&self) -> Arc<dyn api::Semaphore> {
        Arc::new(self.clone())
    }

    async fn try_set_permits(&self, permits: u32) -> Result<bool> {
        self.create(permits, None).await
    }

    async fn try_set_permits_for(&self, permits: u32, ttl: Duration) -> Result<bool> {
        self.create(permits, Some(ttl)).await
    }

    async fn acquire(&self, permits: u32) -> Result<()> {
        self.acquired(permits, None).await.map(drop)
    }

    async fn try_acquire(&self, permits: u32) -> Result<bool> {
        self.acquired(permits, Some(Duration::ZERO)).await
    }

    async fn try_acquire_for(&self, permits: u32, wait: Duration) -> Result<bool> {
        self.acquired(permits, Some(wait)).await
    }

    async fn release(&self, permits: u32) -> Result<()> {
        self.check(permits)?;
        let semaphore = self.clone();
        let release = move || semaphore.release_now(permits, false);
        self.shared.carry_out("release", release).await?.map(drop)
    }

    async fn release_if_exists(&self, permits: u32) -> Result<bool> {
        self.check(permits)?;
        let semaphore = self.clone();
        let release = move || semaphore.release_now(permits, true);
        self.shared.carry_out("release_if_exists", release).await?
    }

    async fn add_permits(&self, delta: i32) -> Result<()> {
        self.shared.pass(None).await?;
        let added = self.shared.change(|counter| counter.add(delta.into()));
        added.map_err(|available| self.out_of_range(available, delta.into()))
    }

    async fn drain_permits(&self) -> Result<i64> {
        self.shared.pass(None).await?;
        let drain = |counter: &mut Counter| counter.available.as_mut().map(std::mem::take);
        Ok(self.shared.change(drain).unwrap_or(0))
    }

    async fn available_permits(&self) -> Result<i64> {
        self.shared.pass(None).await?;
        Ok(self.shared.change(|counter| counter.available.unwrap_or(0)))
    }

    async fn exists(&self) -> Result<bool> {
        self.shared.pass(None).await?;
        Ok(self.shared.change(|counter| counter.available.is_some()))
    }

    fn identity(&self) -> usize {
        Arc::as_ptr(&self.shared) as usize
    }

    fn release_detached(&self, permits: u32) {
        let semaphore = self.clone();
        self.shared.faults.owe(move || {
            if let Err(error) = semaphore.release_now(permits, true) {
                tracing::warn!(%error, permits, "permits could not be given back");
            }
        });
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("name", &self.shared.name)
            .finish_non_exhaustive()
    }
}
