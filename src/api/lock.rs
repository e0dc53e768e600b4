//! [`Lock`]: what every lock can do and promises; [`LockGuard`]: one that unlocks itself.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;

use super::RemainingTtl;
use super::Sealed;
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::stats::Holding;

/// A lock that is held by an owner for a time, wherever it is kept. Implemented by this crate alone.
/// [`ClientBuilder`](crate::ClientBuilder#names-and-times-of-calls) explains the names of the calls, and their times.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> redisson_semaphore::Result<()> {
/// use redisson_semaphore::{Lock, memory};
/// use std::sync::Arc;
///
/// async fn import(lock: Arc<dyn Lock>) -> redisson_semaphore::Result<bool> {
///     let Some(guard) = lock.try_guard().await? else {
///         return Ok(false); // another process is at it
///     };
///     guard.unlock().await?;
///     Ok(true)
/// }
///
/// assert!(import(Arc::new(memory::Lock::new("import"))).await?); // or client.lock("import")
/// # Ok(())
/// # }
/// ```
///
/// # Owners
///
/// Async code has no threads to go by, so every guard is an owner of its own, whichever handle it comes from: two guards of one lock
/// exclude each other. [`LockGuard::again`] takes the lock once more for the owner of a guard. For [`lock`](Lock::lock) and
/// [`unlock`](Lock::unlock) every handle is an owner, and its clones are the same one. Nobody but the owner that holds the lock can
/// unlock it.
///
/// # Leases
///
/// A lock that is taken [with a lease](Lock::with_lease) is free again when the lease has run out. One that is taken without is
/// renewed in the background for as long as it is held and the process lives, or, where an implementation says so, for as long
/// as somebody is there who could unlock it. Either may be lost: the lease
/// runs out, someone forces the lock open, the server loses its data. [`lease`](Lock::lease) and the guards tell.
///
/// # Cancel safety
///
/// Every future may be dropped at any await point. A lock that was granted to a dropped future is released, or granted to the
/// next waiter. An unlock that has begun is carried out.
///
/// # Order
///
/// Waiting callers of one process are served in the order of their arrival. `try_lock` takes a lock that is free, also where
/// others wait.
#[async_trait]
pub trait Lock: Sealed + Send + Sync + std::fmt::Debug + 'static {
    /// The lock's name, as the user gave it.
    fn name(&self) -> &str;

    /// The owner that this handle stands for.
    fn owner(&self) -> &str;

    /// Another handle to the same lock, with the same lease, which is an owner of its own; costs no I/O.
    #[doc(hidden)]
    fn fresh_handle(&self) -> Arc<dyn Lock>;

    /// This lock, for the same owner, with a lease: it is free again after `lease`, rounded up to whole milliseconds, and is not renewed. Every
    /// call of the handle that takes the lock takes it for as long.
    ///
    /// # Errors
    ///
    /// The calls of the handle answer with [`InvalidDuration`](crate::Error::InvalidDuration) for a lease that Redis cannot store.
    fn with_lease(&self, lease: Duration) -> Arc<dyn Lock>;

    /// Takes the lock, waiting for `wait` at the most: without a limit for `None`, not at all for zero. `None` when the time has run out.
    /// The other ways to take the lock are made of this one.
    #[doc(hidden)]
    async fn hold(&self, wait: Option<Duration>) -> Result<Option<Hold>>;

    /// Gives the lock back, or one hold of it where the owner has several: the latest that has no guard.
    ///
    /// # Errors
    ///
    /// [`NotHeld`](crate::Error::NotHeld) where this owner does not hold it, or does not any more.
    async fn unlock(&self) -> Result<()>;

    /// Takes the lock away from its owner; `false` if it is free.
    async fn force_unlock(&self) -> Result<bool>;

    /// Whether anybody holds it.
    async fn is_locked(&self) -> Result<bool>;

    /// How often this owner holds it; 0 if it does not. A guard has another owner, the one of [`LockGuard::handle`].
    async fn hold_count(&self) -> Result<u32>;

    /// How long it stays locked if nothing happens.
    async fn remaining_ttl(&self) -> Result<RemainingTtl>;

    /// The lease of this owner's hold as far as it is known here, without I/O. Where there is none, whether what this handle has taken last was
    /// lost.
    fn lease(&self) -> Lease;

    /// Counts what a guard holds.
    #[doc(hidden)]
    fn holding(&self) -> Holding {
        Holding::default()
    }

    /// [`unlock`](Lock::unlock) of this one hold: what a guard does. A hold that was lost, or has been given back already,
    /// is not given back in place of another one of the same owner.
    ///
    /// # Errors
    ///
    /// As there; [`NotHeld`](crate::Error::NotHeld) also where it is not this hold that is held.
    #[doc(hidden)]
    async fn unlock_hold(&self, hold: &Hold) -> Result<()>;

    /// Gives this one hold back in the background, as a guard does that is dropped. A failure is only logged. May be called outside of a
    /// runtime.
    #[doc(hidden)]
    fn unlock_hold_detached(&self, hold: &Hold);

    /// Whether this owner holds it.
    async fn is_held(&self) -> Result<bool> {
        Ok(self.hold_count().await? > 0)
    }

    /// Takes the lock, waiting until it is free.
    #[must_use = "nothing unlocks what this locks but a call of `unlock`; `guard` gives a guard"]
    async fn lock(&self) -> Result<()> {
        self.hold(None).await.map(drop)
    }

    /// Takes the lock if it is free now, or held by this owner already.
    #[must_use = "nothing unlocks what this locks but a call of `unlock`; `try_guard` gives a guard"]
    async fn try_lock(&self) -> Result<bool> {
        self.try_lock_for(Duration::ZERO).await
    }

    /// Takes the lock, waiting for `wait` at the most.
    #[must_use = "nothing unlocks what this locks but a call of `unlock`; `guard_for` gives a guard"]
    async fn try_lock_for(&self, wait: Duration) -> Result<bool> {
        Ok(self.hold(Some(wait)).await?.is_some())
    }

    /// [`lock`](Lock::lock) for an owner of its own, with a guard that unlocks.
    async fn guard(&self) -> Result<LockGuard> {
        Ok(self.guarded(None).await?.expect("waited for"))
    }

    /// [`try_lock`](Lock::try_lock) with a guard; `None` when someone else holds it.
    async fn try_guard(&self) -> Result<Option<LockGuard>> {
        self.guarded(Some(Duration::ZERO)).await
    }

    /// [`try_lock_for`](Lock::try_lock_for) with a guard; `None` when the time has run out.
    async fn guard_for(&self, wait: Duration) -> Result<Option<LockGuard>> {
        self.guarded(Some(wait)).await
    }

    /// [`hold`](Lock::hold) with a guard; `None` when the time has run out.
    #[doc(hidden)]
    async fn guarded(&self, wait: Option<Duration>) -> Result<Option<LockGuard>> {
        let owner = self.fresh_handle();
        let hold = owner.hold(wait).await?;
        Ok(hold.map(|hold| LockGuard::new(owner, hold)))
    }
}

/// A lock taken: what was granted with it.
#[derive(Debug, Clone)]
pub struct Hold {
    pub(crate) lease: Lease,
    pub(crate) id: HoldId,
    pub(crate) token: Option<u64>,
}

/// Tells a hold from the others of its owner. As long as somebody has it, the hold is theirs to give back.
#[derive(Debug, Clone)]
pub(crate) struct HoldId(Arc<u64>);

impl HoldId {
    pub(crate) fn new(number: u64) -> Self {
        HoldId(Arc::new(number))
    }

    pub(crate) fn number(&self) -> u64 {
        *self.0
    }

    /// Sees whether somebody else has it.
    pub(crate) fn watch(&self) -> Weak<u64> {
        Arc::downgrade(&self.0)
    }
}

impl Hold {
    /// Whether and for how long it is still held.
    #[must_use]
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// The fencing token, from locks that give one: higher than those of all earlier holds.
    #[must_use]
    pub fn token(&self) -> Option<u64> {
        self.token
    }
}

/// A lock held; unlocked when dropped.
///
/// Dropping never blocks: the unlock is carried out in the background, and a failure is only logged.
/// [`unlock`](LockGuard::unlock) waits for it and tells. [`forget`](LockGuard::forget) keeps the lock held.
///
/// A lock can be lost while the guard is there; see [`lost`](LockGuard::lost). A guard whose lock was lost gives
/// nothing back, also when its owner has taken the lock again in the meantime.
#[must_use = "the lock is given back when the guard is dropped"]
#[derive(Debug)]
pub struct LockGuard {
    lock: Arc<dyn Lock>,
    hold: Hold,
    held: bool,
    holding: Holding,
}

impl LockGuard {
    pub(crate) fn new(lock: Arc<dyn Lock>, hold: Hold) -> Self {
        LockGuard {
            holding: lock.holding(),
            lock,
            hold,
            held: true,
        }
    }

    /// The lock, of the owner that holds it.
    #[must_use]
    pub fn handle(&self) -> &Arc<dyn Lock> {
        &self.lock
    }

    /// The fencing token, for code that takes any `dyn Lock`; `None` from locks that give none. The guards of an
    /// [`RFencedLock`](crate::RFencedLock) have [a number](crate::FencedGuard::token).
    #[must_use]
    pub fn token(&self) -> Option<u64> {
        self.hold.token
    }

    /// The lease, as far as it is known here; it outlives the guard. The guards of one owner share a lease. It ends when the last of them
    /// gives the lock back.
    #[must_use]
    pub fn lease(&self) -> &Lease {
        &self.hold.lease
    }

    /// Whether the lock has been lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.hold.lease.is_lost()
    }

    /// Ends when the lock is lost, as [`Lease::lost`] does, which is as cancel-safe.
    pub async fn lost(&self) {
        self.hold.lease.lost().await;
    }

    /// Runs `future` until it is done, or the lock is lost: `None` then, and the future has been dropped. A loss is noticed when `future` waits.
    /// If it blocks its thread meanwhile, it is `Some`, and [`unlock`](Self::unlock) tells the loss.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> redisson_semaphore::Result<()> {
    /// use redisson_semaphore::{Lock, memory};
    ///
    /// let door = memory::Lock::new("door");
    /// let guard = door.guard().await?;
    /// assert_eq!(guard.run(async { "done" }).await, Some("done"));
    /// door.lose();
    /// assert_eq!(guard.run(async { "not begun" }).await, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// As safe as `future`.
    #[must_use = "`None` says that the lock was lost"]
    pub async fn run<F: Future>(&self, future: F) -> Option<F::Output> {
        self.hold.lease.run(future).await
    }

    /// Takes the lock once more for the same owner, without waiting: for a function that locks what its caller has locked. The lock is free
    /// when all guards of the owner have gone. The new guard lasts as the first one does: for the lease of the handle, or renewed until it has
    /// gone.
    ///
    /// # Errors
    ///
    /// [`NotHeld`](crate::Error::NotHeld) where the lock has been lost, and always for a lock that is not reentrant. Otherwise the errors of
    /// [`Lock::lock`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, what it has taken is given back.
    pub async fn again(&self) -> Result<LockGuard> {
        let taken = match self.is_lost() {
            true => None,
            false => self.lock.hold(Some(Duration::ZERO)).await?,
        };
        let guard = taken.map(|hold| LockGuard::new(Arc::clone(&self.lock), hold));
        // A loss that was not known until now: the lock has been taken anew.
        let guard =
            guard.filter(|guard| guard.lease().is_same(&self.hold.lease) && !guard.is_lost());
        guard.ok_or_else(|| Error::NotHeld {
            name: self.lock.name().to_owned(),
            owner: self.lock.owner().to_owned(),
        })
    }

    /// Gives the lock back and waits until that is done.
    ///
    /// # Errors
    ///
    /// Those of [`Lock::unlock`]; [`NotHeld`](crate::Error::NotHeld) where the lock had been lost. The guard is
    /// spent either way.
    ///
    /// # Cancel safety
    ///
    /// As that of [`Permit::release`](crate::Permit::release).
    pub async fn unlock(mut self) -> Result<()> {
        let (lock, hold) = (Arc::clone(&self.lock), self.hold.clone());
        let unlock = lock.unlock_hold(&hold);
        // From here on the lock's own future carries the unlock out, even when it is dropped.
        self.held = false;
        unlock.await
    }

    /// Keeps the lock held: it is not unlocked on drop. Returns what was granted. A clone of [`handle`](Self::handle) unlocks it
    /// later. Without such a clone the lock is renewed no more and ends with its lease.
    #[must_use = "the lock stays held"]
    pub fn forget(mut self) -> Hold {
        self.held = false;
        self.hold.clone()
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if self.is_lost() {
            self.holding.note_lost();
        }
        if self.held {
            self.lock.unlock_hold_detached(&self.hold);
        }
    }
}
