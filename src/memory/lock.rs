//! [`Lock`] and [`ReadWriteLock`]: the locks inside one process.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::faults::fault_switch;
use super::holds::{Claim, Holding, KEPT, State};
use super::queue::Shared;
use crate::api::{self, Hold, RemainingTtl};
use crate::error::{Error, Result};
use crate::lease::{LastLease, Lease};
use crate::sync::unlocked;

/// A reentrant lock inside one process, with the behaviour of [`RLock`](crate::RLock).
///
/// [`Lock`](crate::Lock#owners) explains owners; [`with_owner`](Lock::with_owner) makes a handle for another one. Without a lease the lock
/// is held until it is unlocked. Its lease shows 30 s all the time, as if it had just been renewed. A guard that is forgotten, or whose
/// unlock fails, leaves it held for a clone of [`LockGuard::handle`](crate::LockGuard::handle), for
/// [`force_unlock`](crate::Lock::force_unlock), or for [`lose`](Lock::lose).
///
/// Waiting callers get it in their order, and `try_lock` finds it held while others wait: so it also stands for an
/// [`RFairLock`](crate::RFairLock). Calls of one owner that wait at the same time have a place each here; there they share one.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> redisson_semaphore::Result<()> {
/// use redisson_semaphore::{Lock, memory};
///
/// let door = memory::Lock::new("door");
/// let guard = door.guard().await?;
/// assert!(door.try_guard().await?.is_none());
/// guard.unlock().await?;
/// assert!(door.try_guard().await?.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Lock {
    shared: Arc<Shared<State>>,
    owner: Arc<str>,
    /// The side for readers; any other lock is one for a writer.
    reads: bool,
    /// The lease of its last hold.
    last: LastLease,
    /// For how long this handle takes the lock; `None`: without an end.
    lease: Option<Duration>,
}

/// A lock for many readers or one writer inside one process, with the behaviour of [`RReadWriteLock`](crate::RReadWriteLock).
///
/// Both sides of a handle, and of its clones, are of one owner, as those of [`with_owner`](ReadWriteLock::with_owner). `try_lock` of a
/// reader takes the lock beside other readers past a writer that waits, as it does in Redis.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> redisson_semaphore::Result<()> {
/// use redisson_semaphore::{Lock, memory};
///
/// let prices = memory::ReadWriteLock::new("prices");
/// let (one, two) = (prices.read().guard().await?, prices.read().guard().await?);
/// assert!(prices.write().try_guard().await?.is_none());
/// drop((one, two));
/// assert!(prices.write().try_guard().await?.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ReadWriteLock(Lock);

impl ReadWriteLock {
    /// A lock that nobody holds.
    pub fn new(name: impl Into<String>) -> Self {
        ReadWriteLock(Lock::new(name))
    }

    /// This lock for the owner number `id`; see [`Lock::with_owner`].
    #[must_use]
    pub fn with_owner(&self, id: u64) -> Self {
        ReadWriteLock(self.0.with_owner(id))
    }

    /// The side for readers.
    #[must_use]
    pub fn read(&self) -> Lock {
        Lock {
            reads: true,
            ..self.write()
        }
    }

    /// The side for one writer.
    #[must_use]
    pub fn write(&self) -> Lock {
        Lock {
            last: LastLease::default(),
            ..self.0.clone()
        }
    }
}

impl Lock {
    /// A lock that nobody holds.
    pub fn new(name: impl Into<String>) -> Self {
        Lock {
            shared: Shared::new(name.into(), Ok(()), State::default()),
            owner: "memory:0".into(),
            reads: false,
            last: LastLease::default(),
            lease: None,
        }
    }

    /// A lock that gives fencing tokens, as [`RFencedLock`](crate::RFencedLock) does.
    pub fn fenced(name: impl Into<String>) -> Self {
        let lock = Self::new(name);
        lock.shared.change(|state| state.fenced = true);
        lock
    }

    /// This lock for the owner number `id`. Handles of the same number are the same owner; the first one has 0.
    #[must_use]
    pub fn with_owner(&self, id: u64) -> Self {
        self.of(&id)
    }

    fn of(&self, owner: &dyn fmt::Display) -> Self {
        Lock {
            owner: format!("memory:{owner}").into(),
            last: LastLease::default(),
            ..self.clone()
        }
    }

    /// This lock with a lease; see [`RLock::with_lease`](crate::RLock::with_lease).
    #[must_use]
    pub fn with_lease(&self, lease: Duration) -> Self {
        Lock {
            lease: Some(lease),
            ..self.clone()
        }
    }

    /// Releases the hold with this number, or one of the owner's.
    fn release(&self, number: Option<u64>) -> impl FnOnce(&mut State) -> bool + Send + 'static {
        let (owner, reads) = (Arc::clone(&self.owner), self.reads);
        move |state| state.release(&owner, reads, number)
    }

    async fn give_back(&self, number: Option<u64>) -> Result<()> {
        let release = self.release(number);
        let held = self.shared.carry_out("unlock", release).await?;
        held.then_some(()).ok_or_else(|| Error::NotHeld {
            name: self.shared.name.clone(),
            owner: self.owner.to_string(),
        })
    }

    /// Takes the lock away from its owner, whose guards are lost: as when a server has lost its data, or a lease could not be
    /// renewed in time.
    pub fn lose(&self) {
        self.shared.change(|state| state.force(self.reads));
    }

    /// Reads what this owner holds.
    fn held<T>(&self, state: &State, read: impl FnOnce(&Holding) -> T) -> Option<T> {
        let mut all = state.holdings.iter();
        let own = all.find(|held| held.is_of(&self.owner, self.reads));
        own.map(read)
    }
}

fault_switch!(Lock);

#[async_trait]
impl api::Lock for Lock {
    fn name(&self) -> &str {
        &self.shared.name
    }

    fn owner(&self) -> &str {
        &self.owner
    }

    fn fresh_handle(&self) -> Arc<dyn api::Lock> {
        Arc::new(self.of(&crate::outside::uuid()))
    }

    fn with_lease(&self, lease: Duration) -> Arc<dyn api::Lock> {
        Arc::new(self.with_lease(lease))
    }

    async fn hold(&self, wait: Option<Duration>) -> Result<Option<Hold>> {
        self.shared.valid.clone()?;
        if let Some(lease) = self.lease {
            api::check_millis(&self.shared.name, "lease", lease)?;
        }
        let claim = Claim {
            owner: Arc::clone(&self.owner),
            reads: self.reads,
            term: self.lease,
        };
        let hold = self.shared.acquire(claim, wait).await?;
        hold.iter().for_each(|hold| self.last.note(&hold.lease));
        Ok(hold)
    }

    async fn unlock(&self) -> Result<()> {
        self.give_back(None).await
    }

    async fn force_unlock(&self) -> Result<bool> {
        self.shared.call(|state| state.force(self.reads)).await
    }

    async fn is_locked(&self) -> Result<bool> {
        let is_side = |held: &Holding| held.reads == self.reads;
        let is_locked = |state: &mut State| state.holdings.iter().any(is_side);
        self.shared.call(is_locked).await
    }

    async fn hold_count(&self) -> Result<u32> {
        let count = |held: &Holding| u32::try_from(held.holds.len()).unwrap_or(u32::MAX);
        let count = self.shared.call(|state| self.held(state, count)).await?;
        Ok(count.unwrap_or(0))
    }

    async fn remaining_ttl(&self) -> Result<RemainingTtl> {
        let left = |expires: Instant| expires.saturating_duration_since(Instant::now());
        let remaining = |held: &Holding| held.expires().map_or(KEPT, left);
        // One without an end is the last.
        let last = |held: &&Holding| (held.expires().is_none(), held.expires());
        let last = |state: &mut State| state.holdings.iter().max_by_key(last).map(remaining);
        let left = self.shared.call(last).await?;
        Ok(left.map_or(RemainingTtl::Missing, RemainingTtl::Expires))
    }

    fn lease(&self) -> Lease {
        let lease = |state: &mut State| self.held(state, |held| held.lease.clone());
        self.last.show(self.shared.change(lease))
    }

    async fn unlock_hold(&self, hold: &Hold) -> Result<()> {
        self.give_back(Some(hold.id.number())).await
    }

    fn unlock_hold_detached(&self, hold: &Hold) {
        let release = self.release(Some(hold.id.number()));
        let name = self.shared.name.clone();
        self.shared.defer(move |state| {
            if !release(state) {
                unlocked(move || tracing::debug!(name, "lost before it was unlocked"));
            }
        });
    }
}
