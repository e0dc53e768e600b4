//! [`LockGuard`]: a lock that unlocks itself.

use std::sync::Arc;

use crate::api::{Hold, Lock};
use crate::error::Result;
use crate::lease::Lease;

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
}

impl LockGuard {
    pub(crate) fn new(lock: Arc<dyn Lock>, hold: Hold) -> Self {
        LockGuard {
            lock,
            hold,
            held: true,
        }
    }

    /// The lock, of the owner that holds it.
    #[must_use]
    pub fn lock(&self) -> &Arc<dyn Lock> {
        &self.lock
    }

    /// The fencing token, from locks that give one.
    ///
    /// Sent along with whatever is written under the lock, it lets the place that is written to refuse a holder
    /// whose lock has been lost: it refuses any token lower than the highest that it has seen.
    #[must_use]
    pub fn token(&self) -> Option<u64> {
        self.hold.token
    }

    /// What is known of the lease. Outlives the guard. An owner that has taken the lock several times has one lease for
    /// all of them, which ends with the last that is given back.
    #[must_use]
    pub fn lease(&self) -> &Lease {
        &self.hold.lease
    }

    /// Whether the lock has been lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.hold.lease.is_lost()
    }

    /// Ends when the lock is lost: at the latest when the lease that was granted has run out by this process's
    /// clock.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and asked again at any time.
    pub async fn lost(&self) {
        self.hold.lease.lost().await;
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
    /// The unlock is on its way as soon as the future has been polled; a future dropped before that unlocks in the
    /// background, as dropping the guard does.
    pub async fn unlock(mut self) -> Result<()> {
        let (lock, hold) = (Arc::clone(&self.lock), self.hold.clone());
        let unlock = lock.unlock_hold(&hold);
        // From here on the lock's own future carries the unlock out, even when it is dropped.
        self.held = false;
        unlock.await
    }

    /// Keeps the lock held: it is not unlocked on drop. What was granted with it stays known.
    #[must_use = "the lock stays held"]
    pub fn forget(mut self) -> Hold {
        self.held = false;
        self.hold.clone()
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if self.held {
            self.lock.unlock_hold_detached(&self.hold);
        }
    }
}
