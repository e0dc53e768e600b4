//! [`Lock`]: the lock inside one process.

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
    /// The lease of its last hold.
    last: LastLease,
    /// For how long this handle takes the lock; `None`: without an end.
    lease: Option<Duration>,
}

/// The remaining time of a lock that was taken without a lease.
const KEPT: Duration = Duration::from_secs(30);

struct State {
    fenced: bool,
    holding: Option<Holding>,
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
    term: Option<Duration>,
}

/// The lock as somebody holds it.
struct Holding {
    owner: Arc<str>,
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
}

impl Rules for State {
    type Want = Claim;
    type Grant = (Arc<str>, Hold);
    const BLOCKS: bool = false;

    fn expire(&mut self, now: Instant) {
        let over = |held: &mut Holding| held.expires.is_some_and(|expires| expires <= now);
        if let Some(held) = self.holding.take_if(over) {
            self.change(&held.lease, Change::Lost);
        }
    }

    /// An owner does not wait for itself.
    fn fits(&self, claim: &Claim) -> bool {
        let holding = self.holding.as_ref();
        holding.is_none_or(|held| held.owner == claim.owner)
    }

    fn take(&mut self, Claim { owner, term }: &Claim) -> Self::Grant {
        self.last_number += 1;
        let id = HoldId::new(self.last_number);
        let taken = Held {
            number: self.last_number,
            claim: id.watch(),
            term: *term,
        };
        let expires = end_of(*term);
        let lease = match &mut self.holding {
            Some(held) => {
                // A hold without an end stays so.
                let endless = held.holds.iter().any(|held| held.term.is_none());
                held.holds.push(taken);
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
                self.holding = Some(Holding {
                    owner: Arc::clone(owner),
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
        (Arc::clone(owner), Hold { lease, id, token })
    }

    fn take_back(&mut self, (owner, hold): Self::Grant) {
        self.release(&owner, Some(hold.id.number()));
    }

    fn next_end(&self) -> Option<Instant> {
        self.holding.as_ref().and_then(|held| held.expires)
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
    fn release(&mut self, owner: &str, number: Option<u64>) -> bool {
        let Some(held) = &mut self.holding else {
            return false;
        };
        if *held.owner != *owner {
            return false;
        }
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
                self.holding = None;
                self.change(&lease, Change::Ended);
            }
            Some(term) => {
                held.expires = end_of(term);
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
            holding: None,
            last_token: 0,
            last_number: 0,
            last_owner: u32::MAX.into(),
            changed: Vec::new(),
        };
        Lock {
            shared: Arc::new(Shared::new(name, state)),
            owner: "memory:0".into(),
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
            .change(|state| state.release(&self.owner, number))
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
            let held = state.holding.take();
            held.iter()
                .for_each(|held| state.change(&held.lease, Change::Lost));
            held.is_some()
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
        Ok(self.shared.change(|state| state.holding.is_some()))
    }

    async fn hold_count(&self) -> Result<u32> {
        self.shared.pass(None).await?;
        Ok(self.shared.change(|state| {
            let held = state.holding.as_ref();
            let held = held.filter(|held| held.owner == self.owner);
            held.map_or(0, |held| {
                u32::try_from(held.holds.len()).unwrap_or(u32::MAX)
            })
        }))
    }

    async fn remaining_ttl(&self) -> Result<RemainingTtl> {
        self.shared.pass(None).await?;
        let end = |held: &Holding| held.expires;
        let end = self.shared.change(|state| state.holding.as_ref().map(end));
        Ok(match end {
            None => RemainingTtl::Missing,
            Some(None) => RemainingTtl::Expires(KEPT),
            Some(Some(expires)) => {
                RemainingTtl::Expires(expires.saturating_duration_since(Instant::now()))
            }
        })
    }

    fn lease(&self) -> Lease {
        let held = self.shared.change(|state| {
            let held = state.holding.as_ref();
            let held = held.filter(|held| held.owner == self.owner);
            held.map(|held| held.lease.clone())
        });
        self.last.show(held)
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
