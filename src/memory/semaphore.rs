//! [`Semaphore`]: the public type over [`State`](super::state::State).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::faults::fault_switch;
use super::line::Wakers;
use super::state::State;
use super::wait::{Shared, Wait, wake};
use crate::api::{MAX_PERMITS, Permit, check_millis, check_name, semaphore_by_inherent_methods};
use crate::error::{Error, Result};
use crate::stats::Counters;

/// A counting semaphore inside this process.
///
/// Cloning it is cheap and gives another handle to the same permits. There is no registry: two
/// semaphores of the same name that were made apart have nothing to do with each other.
///
/// What amounts are, and in which order callers are served, is said at the trait,
/// [`Semaphore`](crate::Semaphore), whose methods are there without importing it, too. Permits may be
/// released from any thread, within a runtime or not; only a timed wait that really has to wait needs
/// a tokio runtime with its timer.
///
/// Every method returns [`Error::InvalidName`] if the name is empty.
///
/// # Examples
///
/// ```
/// use redisson_semaphore::memory::Semaphore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> redisson_semaphore::Result<()> {
/// let seats = Semaphore::with_permits("seats", 8);
/// let two = seats.permit(2).await?;
/// assert_eq!(seats.available_permits().await?, 6);
/// two.release().await?;
/// assert_eq!(seats.available_permits().await?, 8);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Semaphore {
    shared: Arc<Shared>,
}

impl Semaphore {
    /// A semaphore that does not exist yet: it has no permits until somebody sets, adds or releases
    /// some.
    pub fn new(name: impl Into<String>) -> Self {
        Semaphore {
            shared: Arc::new(Shared::new(name.into(), State::default())),
        }
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
        Semaphore {
            shared: Arc::new(Shared::new(name.into(), State::with_permits(permits))),
        }
    }

    /// The semaphore's name, as the user gave it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Sets the number of permits if the semaphore does not exist; `true` for the caller who did.
    ///
    /// 0 permits create it as well.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPermits`] above [`MAX_PERMITS`].
    ///
    /// # Cancel safety
    ///
    /// Takes effect on the first poll.
    pub async fn try_set_permits(&self, permits: u32) -> Result<bool> {
        self.check(permits)?;
        self.pass(None).await?;
        Ok(self.create(permits, None))
    }

    /// Sets the number of permits if the semaphore does not exist; it vanishes after `ttl`.
    ///
    /// `ttl` is rounded up to whole milliseconds. Afterwards the semaphore is missing, with whatever permits it
    /// had; waiting callers go on waiting. No other method changes the time. Permits acquired before and
    /// released afterwards create it anew, without a time to live.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPermits`] above [`MAX_PERMITS`]; [`Error::InvalidDuration`] below a millisecond,
    /// or too far away for the clock.
    ///
    /// # Cancel safety
    ///
    /// Takes effect on the first poll.
    pub async fn try_set_permits_for(&self, permits: u32, ttl: Duration) -> Result<bool> {
        self.check(permits)?;
        self.expiry(ttl)?;
        self.pass(None).await?;
        // It begins now: the call may have waited.
        Ok(self.create(permits, Some(self.expiry(ttl)?)))
    }

    /// Takes `permits` permits, waiting until they are there. All or nothing.
    ///
    /// Callers are served in the order of their arrival. A smaller request passes a larger one that does
    /// not fit, for 5 seconds from the first time on; then the line stops until the larger one is served
    /// or gives up: so a request for more permits than there will ever be holds up all others.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPermits`] above [`MAX_PERMITS`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in line. Permits granted to it in the meantime go to the
    /// next in line, or back.
    #[must_use = "nothing gives back what this takes but a call of `release`; `permit` gives a guard"]
    pub async fn acquire(&self, permits: u32) -> Result<()> {
        self.check(permits)?;
        if permits > 0 {
            self.pass(None).await?;
            self.wait(permits).await;
        }
        Ok(())
    }

    /// Takes `permits` permits if they are free now, whoever waits.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPermits`] above [`MAX_PERMITS`].
    ///
    /// # Cancel safety
    ///
    /// Takes effect on the first poll, which is also the last.
    #[must_use = "nothing gives back what this takes but a call of `release`; `try_permit` gives a guard"]
    pub async fn try_acquire(&self, permits: u32) -> Result<bool> {
        self.check(permits)?;
        if permits == 0 {
            return Ok(true);
        }
        self.pass(None).await?;
        Ok(self.shared.lock().take(permits))
    }

    /// Takes `permits` permits, waiting in line as [`acquire`](Semaphore::acquire) does, for `wait` at
    /// the most; `false` when the time has run out.
    ///
    /// At the end of the time the caller is looked at once more: permits granted to him at that very
    /// moment are his. A `wait` of zero is [`try_acquire`](Semaphore::try_acquire); one that the clock
    /// cannot express never ends.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPermits`] above [`MAX_PERMITS`].
    ///
    /// # Panics
    ///
    /// If it has to wait outside of a tokio runtime with a timer.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Semaphore::acquire).
    #[must_use = "nothing gives back what this takes but a call of `release`; `permit_for` gives a guard"]
    pub async fn try_acquire_for(&self, permits: u32, wait: Duration) -> Result<bool> {
        if wait.is_zero() {
            return self.try_acquire(permits).await;
        }
        self.check(permits)?;
        if permits == 0 {
            return Ok(true);
        }
        self.pass(Some(wait)).await?;
        if self.shared.lock().take_in_turn(permits) {
            return Ok(true);
        }
        let deadline = Instant::now().checked_add(wait);
        let mut waiting = Wait::new(&self.shared, permits, deadline);
        let Some(deadline) = deadline else {
            waiting.await;
            return Ok(true);
        };
        let in_time = timeout_at(deadline, &mut waiting).await.is_ok();
        Ok(in_time || waiting.give_up())
    }

    /// Gives `permits` permits back; creates the semaphore if it does not exist.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPermits`] above [`MAX_PERMITS`]; [`Error::OutOfRange`] if there would be more than
    /// that afterwards.
    ///
    /// # Cancel safety
    ///
    /// Takes effect on the first poll.
    pub async fn release(&self, permits: u32) -> Result<()> {
        self.check(permits)?;
        let semaphore = self.clone();
        let release = move || semaphore.release_now(permits);
        let Shared { name, faults, .. } = &*self.shared;
        faults.carry_out(name, "release", release).await?
    }

    /// Gives `permits` permits back if the semaphore exists; `false` if it does not, or for 0.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPermits`] above [`MAX_PERMITS`]; [`Error::OutOfRange`] if there would be more than
    /// that afterwards.
    ///
    /// # Cancel safety
    ///
    /// Takes effect on the first poll.
    pub async fn release_if_exists(&self, permits: u32) -> Result<bool> {
        self.check(permits)?;
        if permits == 0 {
            return Ok(false);
        }
        let semaphore = self.clone();
        let release = move || semaphore.release_if_exists_now(permits);
        let Shared { name, faults, .. } = &*self.shared;
        faults.carry_out(name, "release_if_exists", release).await?
    }

    /// Changes the number of permits by `delta`, which may be negative; creates the semaphore if it does
    /// not exist, for a `delta` of 0 too.
    ///
    /// Never waits: the counter may become negative.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] if the counter would leave the range of 32 bits.
    ///
    /// # Cancel safety
    ///
    /// Takes effect on the first poll.
    pub async fn add_permits(&self, delta: i32) -> Result<()> {
        self.check(0)?;
        self.pass(None).await?;
        let wakers = self.shared.lock().add(delta.into());
        self.finish(delta.into(), wakers)
    }

    /// Sets the counter to 0 and returns what it was (negative too); 0 if the semaphore does not exist,
    /// which it does not create.
    ///
    /// # Errors
    ///
    /// None but that of the empty name.
    ///
    /// # Cancel safety
    ///
    /// Takes effect on the first poll, which is also the last: a future that was polled has answered.
    pub async fn drain_permits(&self) -> Result<i64> {
        self.check(0)?;
        self.pass(None).await?;
        Ok(self.shared.lock().drain())
    }

    /// The number of permits available now; 0 if the semaphore does not exist.
    ///
    /// # Errors
    ///
    /// None but that of the empty name.
    ///
    /// # Cancel safety
    ///
    /// Changes nothing.
    pub async fn available_permits(&self) -> Result<i64> {
        self.check(0)?;
        self.pass(None).await?;
        Ok(self.shared.lock().counter().unwrap_or(0))
    }

    fn identity(&self) -> usize {
        Arc::as_ptr(&self.shared) as usize
    }

    fn counters(&self) -> Option<&Counters> {
        None
    }

    pub(crate) fn release_detached(&self, permits: u32) {
        let semaphore = self.clone();
        self.shared.faults.owe(move || {
            if let Err(error) = semaphore.release_now(permits) {
                tracing::warn!(%error, permits, "permits could not be given back");
            }
        });
    }

    /// Loses all there is, as a server does that restarts without its data: the semaphore does not exist any more. Those who
    /// hold permits are not told, as nobody's name stands on one; those who wait go on waiting.
    pub fn lose(&self) {
        self.shared.lock().lose();
    }

    /// [`acquire`](Semaphore::acquire) with a guard that gives the permits back.
    ///
    /// # Errors
    ///
    /// Those of [`acquire`](Semaphore::acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Semaphore::acquire).
    pub async fn permit(&self, permits: u32) -> Result<Permit> {
        self.acquire(permits).await?;
        Ok(self.guard(permits))
    }

    /// [`try_acquire_for`](Semaphore::try_acquire_for) with a guard; `None` when the time has run out.
    ///
    /// # Errors
    ///
    /// Those of [`try_acquire_for`](Semaphore::try_acquire_for).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Semaphore::acquire).
    pub async fn permit_for(&self, permits: u32, wait: Duration) -> Result<Option<Permit>> {
        let taken = self.try_acquire_for(permits, wait).await?;
        Ok(taken.then(|| self.guard(permits)))
    }

    /// [`try_acquire`](Semaphore::try_acquire) with a guard; `None` when there are not enough permits.
    ///
    /// # Errors
    ///
    /// Those of [`try_acquire`](Semaphore::try_acquire).
    ///
    /// # Cancel safety
    ///
    /// Takes effect on the first poll, which is also the last.
    pub async fn try_permit(&self, permits: u32) -> Result<Option<Permit>> {
        let taken = self.try_acquire(permits).await?;
        Ok(taken.then(|| self.guard(permits)))
    }

    fn guard(&self, permits: u32) -> Permit {
        Permit::new(Arc::new(self.clone()), permits, None)
    }

    pub(super) fn wait(&self, permits: u32) -> Wait<'_> {
        Wait::new(&self.shared, permits, None)
    }

    fn release_now(&self, permits: u32) -> Result<()> {
        self.check(permits)?;
        if permits == 0 {
            return Ok(());
        }
        let wakers = self.shared.lock().add(permits.into());
        self.finish(permits.into(), wakers)
    }

    fn release_if_exists_now(&self, permits: u32) -> Result<bool> {
        let wakers = {
            let mut state = self.shared.lock();
            if state.counter().is_none() {
                return Ok(false);
            }
            state.add(permits.into())
        };
        self.finish(permits.into(), wakers)?;
        Ok(true)
    }

    /// Unless something is wrong on purpose.
    async fn pass(&self, wait: Option<Duration>) -> Result<()> {
        self.shared.faults.pass(&self.shared.name, wait).await
    }

    fn create(&self, permits: u32, expires: Option<Instant>) -> bool {
        let created = self.shared.lock().create(permits, expires);
        created.map(wake).is_some()
    }

    /// Wakes those served by a change of the counter, or tells that it does not fit.
    fn finish(&self, delta: i64, wakers: Result<Wakers, i64>) -> Result<()> {
        let name = &self.shared.name;
        wakers.map(wake).map_err(|available| Error::OutOfRange {
            name: name.clone(),
            available,
            delta,
        })
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
    fn expiry(&self, ttl: Duration) -> Result<Instant> {
        let name = &self.shared.name;
        let millis = check_millis(name, "time to live", ttl)?;
        let ttl = Duration::from_millis(millis.unsigned_abs());
        Instant::now()
            .checked_add(ttl)
            .ok_or_else(|| Error::InvalidDuration {
                name: name.clone(),
                what: "time to live",
                value: ttl,
                reason: "the clock cannot express its end",
            })
    }
}

semaphore_by_inherent_methods!(Semaphore);
fault_switch!(Semaphore: shared.faults);

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("name", &self.shared.name)
            .finish_non_exhaustive()
    }
}
