//! [`Lock`] and [`ReadWriteLock`]: the locks inside one process.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::faults::fault_switch;
use super::queue::{Rules, Shared};
use crate::api::{self, Hold, HoldId, RemainingTtl};
use crate::error::{Error, Result};
use crate::lease::{Change, LastLease, Lease};
use crate::sync::unlocked;

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
        self.side(true)
    }

    /// The side for one writer.
    #[must_use]
    pub fn write(&self) -> Lock {
        self.side(false)
    }

    fn side(&self, reads: bool) -> Lock {
        Lock {
            reads,
            last: LastLease::default(),
            ..self.0.clone()
        }
    }
}

/// The remaining time of a lock that was taken without a lease.
const KEPT: Duration = Duration::from_secs(30);

struct State {
    fenced: bool,
    holdings: Vec<Holding>,
    /// How often the lock was taken: the number, and the fencing token, of the last hold.
    taken: u64,
}

/// The lock for this owner, for so long; `None`: without an end.
struct Claim {
    owner: Arc<str>,
    reads: bool,
    term: Option<Duration>,
}

/// The lock as somebody holds it.
struct Holding {
    owner: Arc<str>,
    reads: bool,
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
    fn is_of(&self, owner: &str, reads: bool) -> bool {
        *self.owner == *owner && self.reads == reads
    }

    /// Sets its end by the holds that are left: none where one of them has none. Else those of a reader each have their own, and of a writer
    /// the latest counts anew.
    fn renew(&mut self) {
        let endless = self.holds.iter().any(|held| held.term.is_none());
        let end = match self.reads {
            true => self.holds.iter().map(|held| held.expires).max(),
            false => self.holds.last().map(|held| end_of(held.term)),
        };
        self.expires = end.flatten().filter(|_| !endless);
        self.lease.set(match self.expires {
            Some(expires) => Change::Until(Some(expires.into())),
            None => Change::Kept(KEPT),
        });
    }
}

impl Rules for State {
    type Want = Claim;
    type Grant = Hold;

    fn expire(&mut self, now: Instant) {
        let over = |held: &mut Holding| held.expires.is_some_and(|expires| expires <= now);
        let over = self.holdings.extract_if(.., over);
        over.for_each(|held| held.lease.lose());
    }

    /// An owner does not wait for itself, but one that reads and wants to write.
    fn fits(&self, claim: &Claim) -> bool {
        let beside = |held: &Holding| claim.reads && (held.reads || held.owner == claim.owner);
        let again = |held: &Holding| held.is_of(&claim.owner, claim.reads);
        self.holdings.iter().all(beside) || self.holdings.iter().any(again)
    }

    fn stays_behind(&self, claim: &Claim) -> bool {
        self.holdings.iter().all(|held| held.owner != claim.owner)
    }

    fn take(&mut self, claim: &Claim) -> Hold {
        let Claim { owner, reads, term } = claim;
        self.taken += 1;
        let id = HoldId::new(self.taken);
        let mut holdings = self.holdings.iter();
        let held = holdings.position(|held| held.is_of(owner, *reads));
        let place = held.unwrap_or_else(|| {
            self.holdings.push(Holding {
                owner: Arc::clone(owner),
                reads: *reads,
                holds: Vec::new(),
                expires: None,
                lease: Lease::kept(KEPT),
            });
            self.holdings.len() - 1
        });
        let holding = &mut self.holdings[place];
        holding.holds.push(Held {
            number: self.taken,
            claim: id.watch(),
            term: *term,
            expires: end_of(*term),
        });
        holding.renew();
        Hold {
            lease: holding.lease.clone(),
            id,
            token: self.fenced.then_some(self.taken),
        }
    }

    fn take_back(&mut self, hold: Hold) {
        let number = hold.id.number();
        let is_it = |held: &Held| held.number == number;
        self.release(|held| held.holds.iter().any(is_it), Some(number));
    }

    fn next_end(&self) -> Option<Instant> {
        self.holdings.iter().filter_map(|held| held.expires).min()
    }
}

impl State {
    /// Gives a hold back: the one with `number`; without that the latest that nobody has the id of, or the latest. Whether there was
    /// one.
    fn release(&mut self, is_meant: impl FnMut(&Holding) -> bool, number: Option<u64>) -> bool {
        let Some(at) = self.holdings.iter().position(is_meant) else {
            return false;
        };
        let holding = &mut self.holdings[at];
        let place = holding.holds.iter().rposition(|held| match number {
            Some(number) => held.number == number,
            None => held.claim.strong_count() == 0,
        });
        let latest = holding.holds.len() - 1;
        let Some(place) = place.or(number.is_none().then_some(latest)) else {
            return false;
        };
        holding.holds.remove(place);
        if holding.holds.is_empty() {
            self.holdings.remove(at).lease.end();
        } else {
            holding.renew();
        }
        true
    }

    /// Takes one side away from its holders; whether there were any. Readers beside the writer are its own.
    fn force(&mut self, reads: bool) -> bool {
        if reads == self.holdings.iter().any(|held| !held.reads) {
            return false;
        }
        let gone = std::mem::take(&mut self.holdings);
        gone.iter().for_each(|held| held.lease.lose());
        !gone.is_empty()
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
            holdings: Vec::new(),
            taken: 0,
        };
        Lock {
            shared: Shared::new(name, Ok(()), state),
            owner: "memory:0".into(),
            reads: false,
            last: LastLease::default(),
            lease: None,
        }
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

    /// Releases a hold; see [`State::release`].
    fn release(&self, number: Option<u64>) -> impl FnOnce(&mut State) -> bool + Send + 'static {
        let (owner, reads) = (Arc::clone(&self.owner), self.reads);
        move |state| state.release(|held| held.is_of(&owner, reads), number)
    }

    /// The same without a caller.
    fn release_detached(&self, number: Option<u64>) {
        let (release, name) = (self.release(number), self.shared.name.clone());
        self.shared.owe(move |state| {
            if !release(state) {
                unlocked(move || tracing::debug!(name, "lost before it was unlocked"));
            }
        });
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
        all.find(|held| held.is_of(&self.owner, self.reads))
            .map(read)
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
        self.shared.check()?;
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
        let remaining = |held: &Holding| held.expires.map_or(KEPT, left);
        // One without an end is the last.
        let last = |held: &&Holding| (held.expires.is_none(), held.expires);
        let last = |state: &mut State| state.holdings.iter().max_by_key(last).map(remaining);
        let left = self.shared.call(last).await?;
        Ok(left.map_or(RemainingTtl::Missing, RemainingTtl::Expires))
    }

    fn lease(&self) -> Lease {
        let lease = |state: &mut State| self.held(state, |held| held.lease.clone());
        self.last.show(self.shared.change(lease))
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
