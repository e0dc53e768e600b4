//! [`Semaphore`]: the counting semaphore inside one process.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::faults::fault_switch;
use super::queue::{Rules, Shared};
use crate::api::{self, MAX_PERMITS, check_millis};
use crate::error::{Error, Result};
use crate::sync::unlocked;

/// A counting semaphore inside this process, with the amounts and the order of the trait, [`Semaphore`](crate::Semaphore).
///
/// It is a counter that may be missing or negative. A large request blocks later ones in the windows of
/// [the guide](crate::guide::queue#large-requests). Permits may be released from any thread, within a runtime or not; a wait with a time,
/// and one behind a larger request, needs a tokio runtime with its timer.
///
/// When its time to live is over the semaphore is missing, with whatever permits it had. Waiters go on waiting.
/// A [`release`](crate::Semaphore::release) creates it anew, without a time to live; a guard's end does not. A guard releases into
/// the semaphore that is there then, also into one that was made anew.
///
/// # Errors
///
/// [`Error::InvalidPermits`] above [`MAX_PERMITS`]; [`Error::OutOfRange`] where the counter would leave the range of 32 bits;
/// [`Error::InvalidDuration`] for a time to live below a millisecond, or above 2^53 of them.
///
/// # Cancel safety
///
/// All but the waits take effect on the first poll. A wait that is dropped leaves the queue. Permits that it was granted go to the next
/// waiter, or back.
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
#[derive(Clone, Debug)]
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
    fn count(&self) -> i64 {
        self.available.unwrap_or(0)
    }

    fn add(&mut self, name: &str, delta: i64) -> Result<()> {
        let available = self.count();
        let changed = i32::try_from(available + delta).map_err(|_| Error::OutOfRange {
            name: name.to_owned(),
            available,
            delta,
        })?;
        self.available = Some(changed.into());
        Ok(())
    }

    /// Gives permits back; `only` if the semaphore exists.
    fn release(&mut self, name: &str, permits: u32, only: bool) -> Result<bool> {
        if only && self.available.is_none() {
            return Ok(false);
        }
        self.add(name, permits.into()).map(|()| true)
    }
}

impl Rules for Counter {
    type Want = u32;
    type Grant = ();
    const BLOCKS: bool = true;

    fn expire(&mut self, now: Instant) {
        if self.expires.is_some_and(|expires| expires <= now) {
            *self = Counter::default();
        }
    }

    fn is_used_up(&self) -> bool {
        self.count() <= 0
    }

    fn fits(&self, permits: &u32, _behind: bool) -> bool {
        self.count() >= i64::from(*permits)
    }

    fn take(&mut self, permits: &u32) {
        self.available = Some(self.count() - i64::from(*permits));
    }

    /// They are gone if the semaphore no longer exists. There is no caller that could learn that they do not fit.
    fn take_back(&mut self, permits: &u32, (): ()) {
        let back = |available: i64| (available + i64::from(*permits)).min(MAX_PERMITS.into());
        self.available = self.available.map(back);
    }
}

impl Semaphore {
    /// A semaphore that does not exist yet: it has no permits until a call sets, adds or releases some.
    pub fn new(name: impl Into<String>) -> Self {
        let shared = Shared::new(name.into(), Ok(()), Counter::default());
        Semaphore { shared }
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
        let made = Self::new(name);
        made.shared
            .change(|counter| counter.available = Some(permits.into()));
        made
    }

    /// Loses all there is, as a server does that restarts without its data: the semaphore does not exist any more. Holders
    /// of permits are not notified, as permits have no owners. Waiters go on waiting.
    pub fn lose(&self) {
        self.shared.change(std::mem::take);
    }

    async fn create(&self, permits: u32, ttl: Option<Duration>) -> Result<bool> {
        self.check(permits)?;
        let millis = |ttl| check_millis(&self.shared.name, "time to live", ttl);
        let millis = ttl.map(millis).transpose()?;
        let ttl = millis.map(|millis| Duration::from_millis(millis.unsigned_abs()));
        let create = |counter: &mut Counter| {
            let new = counter.available.is_none();
            if new {
                counter.available = Some(permits.into());
                // It begins now: the call may have waited. Behind the end of the clock there is none.
                counter.expires = ttl.and_then(|ttl| Instant::now().checked_add(ttl));
            }
            new
        };
        self.shared.call(create).await
    }

    async fn acquired(&self, permits: u32, wait: Option<Duration>) -> Result<bool> {
        self.check(permits)?;
        Ok(permits == 0 || self.shared.acquire(permits, wait).await?.is_some())
    }

    /// Gives permits back; `only` if the semaphore exists.
    async fn give_back(&self, operation: &'static str, permits: u32, only: bool) -> Result<bool> {
        self.check(permits)?;
        if permits == 0 {
            return Ok(false);
        }
        let name = self.shared.name.clone();
        let release = move |counter: &mut Counter| counter.release(&name, permits, only);
        self.shared.carry_out(operation, release).await?
    }

    fn check(&self, permits: u32) -> Result<()> {
        self.shared.valid.clone()?;
        if permits > MAX_PERMITS {
            let name = self.shared.name.clone();
            return Err(Error::InvalidPermits { name, permits });
        }
        Ok(())
    }
}

fault_switch!(Semaphore);

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
        self.give_back("release", permits, false).await.map(drop)
    }

    async fn release_if_exists(&self, permits: u32) -> Result<bool> {
        self.give_back("release_if_exists", permits, true).await
    }

    async fn add_permits(&self, delta: i32) -> Result<()> {
        let add = |counter: &mut Counter| counter.add(&self.shared.name, delta.into());
        self.shared.call(add).await?
    }

    async fn drain_permits(&self) -> Result<i64> {
        let drain = |counter: &mut Counter| counter.available.as_mut().map(std::mem::take);
        Ok(self.shared.call(drain).await?.unwrap_or(0))
    }

    async fn available_permits(&self) -> Result<i64> {
        self.shared.call(|counter| counter.count()).await
    }

    async fn exists(&self) -> Result<bool> {
        self.shared
            .call(|counter| counter.available.is_some())
            .await
    }

    fn identity(&self) -> usize {
        Arc::as_ptr(&self.shared) as usize
    }

    fn release_detached(&self, permits: u32) {
        let name = self.shared.name.clone();
        self.shared.defer(move |counter| {
            if let Err(error) = counter.release(&name, permits, true) {
                unlocked(move || tracing::warn!(name, %error, "permits could not be given back"));
            }
        });
    }
}
