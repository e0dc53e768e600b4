//! [`Lock`] and [`ReadWriteLock`]: the locks inside one process.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::faults::fault_switch;
use super::queue::{Rules, Shared};
use crate::api::{self, Hold, HoldId, RemainingTtl, check_name};
use crate::error::{Error, Result};
use crate::lease::{Change, LastLease, Lease};

/// A reentrant lock inside one process, with the behaviour of [`RLock`](crate::RLock).
///
/// Each guard is an owner of its own. For [`lock`](crate::Lock::lock) and [`unlock`](crate::Lock::unlock), clones of a handle are one owner;
/// [`with_owner`](Lock::with_owner) makes a handle for another one. A lock that is
/// taken without a lease is held until it is unlocked: there is nothing that could renew it too late. Its lease shows 30 s
/// all the time, as if it had just been renewed. A guard that is forgotten, or whose unlock fails, leaves it held for a clone of
/// [`LockGuard::handle`](crate::LockGuard::handle), for [`force_unlock`](crate::Lock::force_unlock), or for [`lose`](Lock::lose).
///
/// Waiting callers get it in their order, and `try_lock` finds it held while others wait: so it also stands for an
/// [`RFairLock`](crate::RFairLock). Calls of one owner that wait at the same time have a place each here; there they share one.
///
/// Every operation returns [`Error::InvalidName`] if the name is empty.
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
#[derive(Clone)]
pub struct Lock {
    shared: Arc<Shared<State>>,
    owner: Arc<str>,
    side: Side,
    /// The lease of its last hold.
    last: LastLease,
    /// For how long this handle takes the lock; `None`: without an end.
    lease: Option<Duration>,
}

/// A lock for many readers or one writer inside one process, with the behaviour of [`RReadWriteLock`](crate::RReadWriteLock).
///
/// Both sides of a handle, and of its clones, are of one owner, as those of [`with_owner`](ReadWriteLock::with_owner).
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
        ReadWriteLock(Lock::make(name.into(), false))
    }

    /// This lock for the owner number `id`; see [`Lock::with_owner`].
    #[must_use]
    pub fn with_owner(&self, id: u64) -> Self {
        ReadWriteLock(self.0.with_owner(id))
    }

    /// The side for readers.
    #[must_use]
    pub fn read(&self) -> Lock {
        self.side(Side::Read)
    }

    /// The side for one writer.
    #[must_use]
    pub fn write(&self) -> Lock {
        self.side(Side::Write)
    }

    fn side(&self, side: Side) -> Lock {
        let last = LastLease::default();
        Lock {
            side,
            last,
            ..self.0.clone()
        }
    }
}

/// The part of a lock that a claim takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Whole,
    Read,
    Write,
}

/// The remaining time of a lock that was taken without a lease.
const KEPT: Duration = Duration::from_secs(30);

struct State {
    fenced: bool,
    holding: Vec<Holding>,
    last_token: u64,
    /// Of the times that the lock was taken.
    last_number: u64,
    /// Of the owners that were made for guards.
    last_owner: u64,
    changed: Vec<Lease>,
}

/// The lock for this owner, for so long; `None`: without an end.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    owner: Arc<str>,
    side: Side,
    term: Option<Duration>,
}

/// The lock as somebody holds it.
struct Holding {
    owner: Arc<str>,
    side: Side,
    /// Each time that it was taken, the latest last.
    holds: Vec<Held>,
    expires: Option<Instant>,
    lease: Lease,
}

/// One time that the lock was taken.
struct Held {
    number: u64,
    /// Whether somebody has its id, and will give this one back.
    claim: Weak<u64>,
    /// `None` has no end.
    term: Option<Duration>,
    expires: Option<Instant>,
}

impl Holding {
    fn is_of(&self, owner: &str, side: Side) -> bool {
        *self.owner == *owner && self.side == side
    }

    /// When it ends by its holds: those of a reader each have their own end.
    fn end(&self) -> Option<Instant> {
        let ends = self.holds.iter().map(|held| held.expires);
        ends.max().flatten()
    }
}

impl Rules for State {
    type Want = Claim;
    type Grant = (Claim, Hold);
    const BLOCKS: bool = false;

    fn expire(&mut self, now: Instant) {
        let over = |held: &mut Holding| held.expires.is_some_and(|expires| expires <= now);
        let over: Vec<_> = self.holding.extract_if(.., over).collect();
        for held in over {
            self.change(&held.lease, Change::Lost);
        }
    }

    /// An owner does not wait for itself, but one that reads and wants to write.
    fn fits(&self, claim: &Claim) -> bool {
        let reads = claim.side == Side::Read;
        let beside = |held: &Holding| {
            held.owner == claim.owner && (reads || held.side == claim.side)
                || reads && held.side == Side::Read
        };
        let is_held = |held: &Holding| held.is_of(&claim.owner, claim.side);
        self.holding.iter().all(beside) || self.holding.iter().any(is_held)
    }

    fn stays_behind(&self, claim: &Claim) -> bool {
        let is_in = |held: &Holding| held.owner == claim.owner;
        claim.side != Side::Whole && !self.holding.iter().any(is_in)
    }

    fn take(&mut self, Claim { owner, side, term }: &Claim) -> Self::Grant {
        self.last_number += 1;
        let id = HoldId::new(self.last_number);
        let taken = Held {
            number: self.last_number,
            claim: id.watch(),
            term: *term,
            expires: end_of(*term),
        };
        let expires = end_of(*term);
        let lease = match self
            .holding
            .iter_mut()
            .find(|held| held.is_of(owner, *side))
        {
            Some(held) => {
                // A hold without an end stays so.
                let endless = held.holds.iter().any(|held| held.term.is_none());
                held.holds.push(taken);
                let expires = if *side == Side::Read {
                    held.end()
                } else {
                    expires
                };
                held.expires = expires.filter(|_| !endless);
                let (lease, change) = (held.lease.clone(), until(held.expires));
                self.change(&lease, change);
                lease
            }
            None => {
                let lease = match expires {
                    Some(_) => Lease::until(expires),
                    None => Lease::kept(KEPT),
                };
                self.holding.push(Holding {
                    owner: Arc::clone(owner),
                    side: *side,
                    holds: vec![taken],
                    expires,
                    lease: lease.clone(),
                });
                lease
            }
        };
        let token = self.fenced.then(|| {
            self.last_token += 1;
            self.last_token
        });
        let claim = Claim {
            owner: Arc::clone(owner),
            side: *side,
            term: *term,
        };
        (claim, Hold { lease, id, token })
    }

    fn take_back(&mut self, (claim, hold): Self::Grant) {
        self.release(&claim.owner, claim.side, Some(hold.id.number()));
    }

    fn next_end(&self) -> Option<Instant> {
        self.holding.iter().filter_map(|held| held.expires).min()
    }

    fn changed(&mut self) -> Vec<Lease> {
        std::mem::take(&mut self.changed)
    }
}

impl State {
    fn change(&mut self, lease: &Lease, change: Change) {
        lease.change(change);
        self.changed.push(lease.clone());
    }

    /// Gives a hold of `owner` back: the one with `number`; without that the latest that nobody has the id of, or the
    /// latest. Whether it had it.
    fn release(&mut self, owner: &str, side: Side, number: Option<u64>) -> bool {
        let Some(at) = self.holding.iter().position(|held| held.is_of(owner, side)) else {
            return false;
        };
        let held = &mut self.holding[at];
        let place = match number {
            Some(number) => held.holds.iter().position(|held| held.number == number),
            None => {
                let free = |held: &Held| held.claim.strong_count() == 0;
                let latest = held.holds.len().checked_sub(1);
                held.holds.iter().rposition(free).or(latest)
            }
        };
        let Some(place) = place else { return false };
        held.holds.remove(place);
        let lease = held.lease.clone();
        let terms = held.holds.iter().map(|held| held.term);
        // A hold without an end stays so, whatever was taken on top of it.
        match terms.reduce(|below, term| below.and(term)) {
            None => {
                self.holding.remove(at);
                self.change(&lease, Change::Ended);
            }
            Some(term) => {
                held.expires = match (side, term) {
                    (Side::Read, Some(_)) => held.end(),
                    _ => end_of(term),
                };
                let change = until(held.expires);
                self.change(&lease, change);
            }
        }
        true
    }
}

/// The change of a lease that ends then, or never by itself.
fn until(expires: Option<Instant>) -> Change {
    match expires {
        Some(expires) => Change::Until(Some(expires.into())),
        None => Change::Kept(KEPT),
    }
}

/// When a hold that is taken now ends.
fn end_of(term: Option<Duration>) -> Option<Instant> {
    term.and_then(|term| Instant::now().checked_add(term))
}

impl Lock {
    /// A lock that nobody holds.
    pub fn new(name: impl Into<String>) -> Self {
        Self::make(name.into(), false)
    }

    /// A lock that gives fencing tokens, as [`RFencedLock`](crate::RFencedLock) does.
    pub fn fenced(name: impl Into<String>) -> Self {
        Self::make(name.into(), true)
    }

    fn make(name: String, fenced: bool) -> Self {
        let state = State {
            fenced,
            holding: Vec::new(),
            last_token: 0,
            last_number: 0,
            last_owner: u32::MAX.into(),
            changed: Vec::new(),
        };
        Lock {
            shared: Arc::new(Shared::new(name, state)),
            owner: "memory:0".into(),
            side: Side::Whole,
            last: LastLease::default(),
            lease: None,
        }
    }

    /// This lock for the owner number `id`, below 2^32. Handles of the same number are the same owner; the first one has 0.
    #[must_use]
    pub fn with_owner(&self, id: u64) -> Self {
        Lock {
            shared: Arc::clone(&self.shared),
            owner: format!("memory:{id}").into(),
            side: self.side,
            last: LastLease::default(),
            lease: self.lease,
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

    /// Releases a hold, and grants the lock to the next waiter; whether it was held.
    fn release(&self, number: Option<u64>) -> bool {
        self.shared
            .change(|state| state.release(&self.owner, self.side, number))
    }

    /// The same without a caller.
    fn release_detached(&self, number: Option<u64>) {
        let lock = self.clone();
        self.shared.faults.owe(move || {
            if !lock.release(number) {
                tracing::debug!(name = lock.shared.name, "lost before it was unlocked");
            }
        });
    }

    async fn give_back(&self, number: Option<u64>) -> Result<()> {
        let lock = self.clone();
        let release = move || lock.release(number);
        let held = self.shared.carry_out("unlock", release).await?;
        held.then_some(()).ok_or_else(|| self.not_held())
    }

    /// Takes the lock away from its owner, whose guards are lost: as when a server has lost its data, or a lease could not be
    /// renewed in time.
    pub fn lose(&self) {
        self.force();
    }

    fn force(&self) -> bool {
        self.shared.change(|state| {
            let side = |held: &Holding| held.side == self.side;
            let takes = match self.side {
                Side::Read => !state.holding.iter().any(|held| held.side == Side::Write),
                _ => state.holding.iter().any(side),
            };
            // Readers beside the writer are its own.
            let gone = state.holding.extract_if(.., |_| takes).collect::<Vec<_>>();
            gone.iter()
                .for_each(|held| state.change(&held.lease, Change::Lost));
            !gone.is_empty()
        })
    }

    /// Reads what this owner holds.
    fn held<T>(&self, read: impl FnOnce(&Holding) -> T) -> Option<T> {
        self.shared.change(|state| {
            let mut all = state.holding.iter();
            all.find(|held| held.is_of(&self.owner, self.side))
                .map(read)
        })
    }

    fn not_held(&self) -> Error {
        Error::NotHeld {
            name: self.shared.name.clone(),
            owner: self.owner.to_string(),
        }
    }
}

fault_switch!(Lock: shared.faults);

impl api::Sealed for Lock {}

#[async_trait]
impl api::Lock for Lock {
    fn name(&self) -> &str {
        &self.shared.name
    }

    fn owner(&self) -> &str {
        &self.owner
    }

    fn fresh_handle(&self) -> Arc<dyn api::Lock> {
        let owner = self.shared.change(|state| {
            state.last_owner += 1;
            state.last_owner
        });
        Arc::new(self.with_owner(owner))
    }

    fn with_lease(&self, lease: Duration) -> Arc<dyn api::Lock> {
        Arc::new(self.with_lease(lease))
    }

    async fn hold(&self, wait: Option<Duration>) -> Result<Option<Hold>> {
        check_name(&self.shared.name)?;
        if let Some(lease) = self.lease {
            api::check_millis(&self.shared.name, "lease", lease)?;
        }
        self.shared
            .pass(wait.filter(|wait| !wait.is_zero()))
            .await?;
        let claim = Claim {
            owner: Arc::clone(&self.owner),
            side: self.side,
            term: self.lease,
        };
        let taken = match wait {
            Some(Duration::ZERO) => self.shared.take(&claim),
            wait => self.shared.wait(claim, wait).await,
        };
        let hold = taken.map(|(_, hold)| hold);
        hold.iter().for_each(|hold| self.last.note(&hold.lease));
        Ok(hold)
    }

    async fn unlock(&self) -> Result<()> {
        self.give_back(None).await
    }

    async fn force_unlock(&self) -> Result<bool> {
        self.shared.pass(None).await?;
        Ok(self.force())
    }

    async fn is_locked(&self) -> Result<bool> {
        self.shared.pass(None).await?;
        let is_side = |held: &Holding| held.side == self.side;
        Ok(self
            .shared
            .change(|state| state.holding.iter().any(is_side)))
    }

    async fn hold_count(&self) -> Result<u32> {
        self.shared.pass(None).await?;
        let count = self.held(|held| u32::try_from(held.holds.len()).unwrap_or(u32::MAX));
        Ok(count.unwrap_or(0))
    }

    async fn remaining_ttl(&self) -> Result<RemainingTtl> {
        self.shared.pass(None).await?;
        // One without an end is the last.
        let last = |held: &&Holding| (held.expires.is_none(), held.expires);
        let end = self.shared.change(|state| {
            let held = state.holding.iter().max_by_key(last);
            held.map(|held| held.expires)
        });
        Ok(match end {
            None => RemainingTtl::Missing,
            Some(None) => RemainingTtl::Expires(KEPT),
            Some(Some(expires)) => {
                RemainingTtl::Expires(expires.saturating_duration_since(Instant::now()))
            }
        })
    }

    fn lease(&self) -> Lease {
        self.last.show(self.held(|held| held.lease.clone()))
    }

    fn unlock_detached(&self) {
        self.release_detached(None);
    }

    async fn unlock_hold(&self, hold: &Hold) -> Result<()> {
        self.give_back(Some(hold.id.number())).await
    }

    fn unlock_hold_detached(&self, hold: &Hold) {
        self.release_detached(Some(hold.id.number()));
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock")
            .field("name", &self.shared.name)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}
