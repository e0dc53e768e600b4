//! [`Lock`]: the lock inside one process.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::api::{self, Hold, HoldId, RemainingTtl};
use crate::error::{Error, Result};
use crate::lease::Lease;

/// A reentrant lock inside one process, with the behaviour of [`RLock`](crate::RLock).
///
/// Clones of a handle are one owner; [`with_owner`](Lock::with_owner) makes a handle for another one. A lock that is
/// taken without a lease is held until it is unlocked: there is nothing that could renew it too late.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> redisson_semaphore::Result<()> {
/// use redisson_semaphore::{Lock, memory};
///
/// let mine = memory::Lock::new("door");
/// let yours = mine.with_owner(2);
/// let guard = mine.guard().await?;
/// assert!(!yours.try_lock().await?);
/// guard.unlock().await?;
/// assert!(yours.try_lock().await?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Lock {
    shared: Arc<Shared>,
    owner: Arc<str>,
}

struct Shared {
    name: String,
    fenced: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    holding: Option<Holding>,
    waiters: VecDeque<Waiter>,
    last_ticket: u64,
    last_token: u64,
    /// Of the times that the lock was taken.
    last_number: u64,
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

struct Waiter {
    ticket: u64,
    owner: Arc<str>,
    term: Option<Duration>,
    granted: oneshot::Sender<Hold>,
}

impl State {
    /// Frees the lock if its lease has run out, and serves those whose turn it is.
    fn settle(&mut self, fenced: bool) {
        let now = Instant::now();
        let over = |held: &Holding| held.expires.is_some_and(|expires| expires <= now);
        if self.holding.as_ref().is_some_and(over)
            && let Some(held) = self.holding.take()
        {
            held.lease.lose();
        }
        while self.holding.is_none()
            && let Some(waiter) = self.waiters.pop_front()
        {
            if let Some(hold) = self.take(&waiter.owner, waiter.term, fenced)
                && waiter.granted.send(hold).is_err()
            {
                self.holding = None;
            }
        }
    }

    /// Takes the lock if `owner` can have it.
    fn take(&mut self, owner: &Arc<str>, term: Option<Duration>, fenced: bool) -> Option<Hold> {
        let expires = end_of(term);
        let number = self.last_number + 1;
        let id = HoldId::new(number);
        let taken = Held {
            number,
            claim: id.watch(),
            term,
        };
        let lease = match &mut self.holding {
            Some(held) if held.owner == *owner => {
                // A hold without an end stays so.
                let endless = held.holds.iter().any(|held| held.term.is_none());
                let expires = expires.filter(|_| !endless);
                held.holds.push(taken);
                held.expires = expires;
                held.lease.extend(expires);
                held.lease.clone()
            }
            Some(_) => return None,
            None => {
                let lease = Lease::until(expires);
                self.holding = Some(Holding {
                    owner: Arc::clone(owner),
                    holds: vec![taken],
                    expires,
                    lease: lease.clone(),
                });
                lease
            }
        };
        self.last_number = number;
        let token = fenced.then(|| {
            self.last_token += 1;
            self.last_token
        });
        Some(Hold { lease, id, token })
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
        let terms = held.holds.iter().map(|held| held.term);
        // A hold without an end stays so, whatever was taken on top of it.
        match terms.reduce(|below, term| below.and(term)) {
            None => {
                held.lease.end();
                self.holding = None;
            }
            Some(term) => {
                held.expires = end_of(term);
                held.lease.extend(held.expires);
            }
        }
        true
    }
}

/// When a hold that is taken now ends.
fn end_of(term: Option<Duration>) -> Option<Instant> {
    term.and_then(|term| Instant::now().checked_add(term))
}

impl Shared {
    /// The state as of now.
    fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.settle(self.fenced);
        state
    }
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
        let shared = Shared {
            name,
            fenced,
            state: Mutex::default(),
        };
        Lock {
            shared: Arc::new(shared),
            owner: "memory:0".into(),
        }
    }

    /// This lock for the owner number `id`. Handles of the same number are the same owner; the first one has 0.
    #[must_use]
    pub fn with_owner(&self, id: u64) -> Self {
        Lock {
            shared: Arc::clone(&self.shared),
            owner: format!("memory:{id}").into(),
        }
    }

    /// Gives a hold back, and the lock to whoever is next; whether it was held.
    fn release(&self, number: Option<u64>) -> bool {
        let mut state = self.shared.lock();
        let held = state.release(&self.owner, number);
        state.settle(self.shared.fenced);
        held
    }

    fn not_held(&self) -> Error {
        Error::NotHeld {
            name: self.shared.name.clone(),
            owner: self.owner.to_string(),
        }
    }

    fn check(&self, lease: Option<Duration>) -> Result<()> {
        if self.shared.name.is_empty() {
            return Err(Error::InvalidName {
                name: String::new(),
                reason: "it is empty",
            });
        }
        match lease {
            Some(lease) => api::check_millis(&self.shared.name, "lease", lease).map(drop),
            None => Ok(()),
        }
    }
}

/// A place among those who wait; dropped, it is left, and what was granted meanwhile is given back.
struct Place<'a> {
    lock: &'a Lock,
    ticket: u64,
    granted: oneshot::Receiver<Hold>,
    taken: bool,
}

impl Place<'_> {
    /// Waits for the lock until `deadline`.
    async fn granted(&mut self, deadline: Option<Instant>) -> Option<Hold> {
        loop {
            let expires = self
                .lock
                .shared
                .lock()
                .holding
                .as_ref()
                .and_then(|held| held.expires);
            let next = [expires, deadline].into_iter().flatten().min();
            let granted = async {
                match next {
                    Some(next) => tokio::time::timeout_at(next, &mut self.granted).await.ok(),
                    None => Some((&mut self.granted).await),
                }
            };
            if let Some(Ok(hold)) = granted.await {
                self.taken = true;
                return Some(hold);
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                // Whoever held it may have lost it in this very moment.
                drop(self.lock.shared.lock());
                let hold = self.granted.try_recv().ok();
                self.taken = hold.is_some();
                return hold;
            }
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        let mut state = self.lock.shared.lock();
        state.waiters.retain(|waiter| waiter.ticket != self.ticket);
        self.granted.close();
        if let Ok(hold) = self.granted.try_recv() {
            state.release(&self.lock.owner, Some(hold.id.number()));
        }
        state.settle(self.lock.shared.fenced);
    }
}

#[async_trait]
impl api::Lock for Lock {
    fn name(&self) -> &str {
        &self.shared.name
    }

    fn owner(&self) -> &str {
        &self.owner
    }

    fn clone_handle(&self) -> Arc<dyn api::Lock> {
        Arc::new(self.clone())
    }

    async fn hold(&self, wait: Option<Duration>, lease: Option<Duration>) -> Result<Option<Hold>> {
        self.check(lease)?;
        let mut place = {
            let mut state = self.shared.lock();
            if let Some(hold) = state.take(&self.owner, lease, self.shared.fenced) {
                return Ok(Some(hold));
            }
            if wait.is_some_and(|wait| wait.is_zero()) {
                return Ok(None);
            }
            state.last_ticket += 1;
            let (sender, granted) = oneshot::channel();
            let ticket = state.last_ticket;
            state.waiters.push_back(Waiter {
                ticket,
                owner: Arc::clone(&self.owner),
                term: lease,
                granted: sender,
            });
            Place {
                lock: self,
                ticket,
                granted,
                taken: false,
            }
        };
        // A wait that the clock cannot express has no end.
        let deadline = wait.and_then(|wait| Instant::now().checked_add(wait));
        Ok(place.granted(deadline).await)
    }

    async fn unlock(&self) -> Result<()> {
        self.check(None)?;
        let held = self.release(None);
        held.then_some(()).ok_or_else(|| self.not_held())
    }

    async fn force_unlock(&self) -> Result<bool> {
        self.check(None)?;
        let mut state = self.shared.lock();
        let holding = state.holding.take();
        state.settle(self.shared.fenced);
        Ok(match holding {
            Some(held) => {
                held.lease.lose();
                true
            }
            None => false,
        })
    }

    async fn is_locked(&self) -> Result<bool> {
        self.check(None)?;
        Ok(self.shared.lock().holding.is_some())
    }

    async fn hold_count(&self) -> Result<u32> {
        self.check(None)?;
        let state = self.shared.lock();
        let held = state.holding.as_ref();
        let held = held.filter(|held| held.owner == self.owner);
        Ok(held.map_or(0, |held| {
            u32::try_from(held.holds.len()).unwrap_or(u32::MAX)
        }))
    }

    async fn remaining_ttl(&self) -> Result<RemainingTtl> {
        self.check(None)?;
        Ok(match &self.shared.lock().holding {
            None => RemainingTtl::Missing,
            Some(Holding { expires: None, .. }) => RemainingTtl::Persistent,
            Some(Holding {
                expires: Some(expires),
                ..
            }) => RemainingTtl::Expires(expires.saturating_duration_since(Instant::now())),
        })
    }

    fn lease(&self) -> Lease {
        match &self.shared.lock().holding {
            Some(held) if held.owner == self.owner => held.lease.clone(),
            _ => Lease::ended(),
        }
    }

    fn unlock_detached(&self) {
        if !self.release(None) {
            tracing::debug!(name = self.shared.name, "lost before it was unlocked");
        }
    }

    async fn unlock_hold(&self, hold: &Hold) -> Result<()> {
        let held = self.release(Some(hold.id.number()));
        held.then_some(()).ok_or_else(|| self.not_held())
    }

    fn unlock_hold_detached(&self, hold: &Hold) {
        if !self.release(Some(hold.id.number())) {
            tracing::debug!(name = self.shared.name, "lost before it was unlocked");
        }
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
