//! [`Lock`]: the lock inside one process.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until};

use super::faults::{Faults, fault_switch};
use super::looks::Looks;
use crate::api::{self, Hold, HoldId, RemainingTtl, check_name};
use crate::error::{Error, Result};
use crate::lease::{Change, LastLease, Lease};
use crate::sync::Mutex;

/// A reentrant lock inside one process, with the behaviour of [`RLock`](crate::RLock).
///
/// Clones of a handle are one owner; [`with_owner`](Lock::with_owner) makes a handle for another one. A lock that is
/// taken without a lease is held until it is unlocked: there is nothing that could renew it too late. What is told to be
/// left of it are 30 s all the time, as if it had just been renewed.
///
/// Every operation returns [`Error::InvalidName`] if the name is empty.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> redisson_semaphore::Result<()> {
/// use redisson_semaphore::memory;
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
    /// What it has held last.
    last: LastLease,
}

struct Shared {
    name: String,
    fenced: bool,
    faults: Faults,
    state: Mutex<State>,
    /// Tells those who wait that the lock is free earlier than when they looked.
    sooner: Notify,
}

/// What is left of a lock that was taken without a lease.
const KEPT: Duration = Duration::from_secs(30);

#[derive(Default)]
struct State {
    holding: Option<Holding>,
    waiters: VecDeque<Waiter>,
    last_ticket: u64,
    last_token: u64,
    /// Of the times that the lock was taken.
    last_number: u64,
    looks: Looks,
    /// What others are to be told when the mutex is free: a waker may run anything.
    news: VecDeque<News>,
}

enum News {
    Granted(Waiter, Hold),
    Changed(Lease),
    Sooner,
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
    /// Behind that it has none of it, whether it has been polled since or not.
    deadline: Option<Instant>,
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
            self.change(&held.lease, Change::Lost);
        }
        if self.holding.is_none() {
            // The first one, and all who wait as the same owner: they do not wait for themselves.
            for waiter in std::mem::take(&mut self.waiters) {
                if waiter.deadline.is_some_and(|deadline| deadline < now) {
                    self.waiters.push_back(waiter);
                    continue;
                }
                match self.take(&waiter.owner, waiter.term, fenced) {
                    Some(hold) => self.news.push_back(News::Granted(waiter, hold)),
                    None => self.waiters.push_back(waiter),
                }
            }
        }
        self.look();
    }

    /// When it is free by itself.
    fn end(&self) -> Option<Instant> {
        self.holding.as_ref().and_then(|held| held.expires)
    }

    /// Lets those who wait look anew if its end has come nearer: who holds it is another, or has taken or unlocked it once more.
    fn look(&mut self) {
        let sooner = self.looks.come_nearer(self.end());
        if sooner && !self.waiters.is_empty() {
            self.news.push_back(News::Sooner);
        }
    }

    fn change(&mut self, lease: &Lease, change: Change) {
        lease.change(change);
        self.news.push_back(News::Changed(lease.clone()));
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
                let lease = held.lease.clone();
                self.change(&lease, until(expires));
                lease
            }
            Some(_) => return None,
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

/// What a lease becomes that ends then, or never by itself.
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

impl Shared {
    /// Does something with the state as of now, and tells all whom that concerns.
    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let (answer, mut news) = {
            let mut state = self.state.lock();
            state.settle(self.fenced);
            let answer = act(&mut state);
            state.settle(self.fenced);
            (answer, std::mem::take(&mut state.news))
        };
        while let Some(next) = news.pop_front() {
            match next {
                News::Granted(waiter, hold) => {
                    if let Err(hold) = waiter.granted.send(hold) {
                        // It has gone meanwhile.
                        let mut state = self.state.lock();
                        state.release(&waiter.owner, Some(hold.id.number()));
                        state.settle(self.fenced);
                        news.append(&mut state.news);
                    }
                }
                News::Changed(lease) => lease.tell(),
                News::Sooner => self.sooner.notify_waiters(),
            }
        }
        answer
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
            faults: Faults::default(),
            state: Mutex::default(),
            sooner: Notify::new(),
        };
        Lock {
            shared: Arc::new(shared),
            owner: "memory:0".into(),
            last: LastLease::default(),
        }
    }

    /// This lock for the owner number `id`. Handles of the same number are the same owner; the first one has 0.
    #[must_use]
    pub fn with_owner(&self, id: u64) -> Self {
        Lock {
            shared: Arc::clone(&self.shared),
            owner: format!("memory:{id}").into(),
            last: LastLease::default(),
        }
    }

    /// Gives a hold back, and the lock to whoever is next; whether it was held.
    fn release(&self, number: Option<u64>) -> bool {
        self.shared.with(|state| state.release(&self.owner, number))
    }

    /// The same with nobody there to be told.
    fn release_detached(&self, number: Option<u64>) {
        let lock = self.clone();
        self.shared.faults.owe(move || {
            if !lock.release(number) {
                tracing::debug!(name = lock.shared.name, "lost before it was unlocked");
            }
        });
    }

    async fn give_back(&self, number: Option<u64>) -> Result<()> {
        self.check(None)?;
        let lock = self.clone();
        let Shared { name, faults, .. } = &*self.shared;
        let release = move || lock.release(number);
        let held = faults.carry_out(name, "unlock", release).await?;
        held.then_some(()).ok_or_else(|| self.not_held())
    }

    /// Unless something is wrong with it, and with those arguments, or on purpose.
    async fn pass(&self, wait: Option<Duration>, lease: Option<Duration>) -> Result<()> {
        self.check(lease)?;
        self.shared.faults.pass(&self.shared.name, wait).await
    }

    /// Takes the lock away from whoever holds it, and tells it, as where a server has lost its data or a lease could not be
    /// renewed in time.
    pub fn lose(&self) {
        self.force();
    }

    fn force(&self) -> bool {
        self.shared.with(|state| {
            let Some(held) = state.holding.take() else {
                return false;
            };
            state.change(&held.lease, Change::Lost);
            true
        })
    }

    fn not_held(&self) -> Error {
        Error::NotHeld {
            name: self.shared.name.clone(),
            owner: self.owner.to_string(),
        }
    }

    fn check(&self, lease: Option<Duration>) -> Result<()> {
        check_name(&self.shared.name)?;
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
            let shared = &self.lock.shared;
            // A change from here on is not missed.
            let sooner = shared.sooner.notified();
            let end = shared.with(|state| state.end());
            let next = [end, deadline].into_iter().flatten().min();
            let time = async {
                match next {
                    Some(next) => sleep_until(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                hold = &mut self.granted => {
                    self.taken = true;
                    return Some(hold.expect("kept in the line until it is used"));
                }
                () = sooner => {}
                () = time => {}
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                // Whoever held it may have lost it in this very moment.
                shared.with(|_| ());
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
        let shared = &self.lock.shared;
        // Dropped when the mutex is free: its channel knows this caller's waker.
        let place = |state: &mut State| {
            let place = state
                .waiters
                .iter()
                .position(|waiter| waiter.ticket == self.ticket)?;
            state.waiters.remove(place)
        };
        drop(shared.with(place));
        self.granted.close();
        if let Ok(hold) = self.granted.try_recv() {
            self.lock.release(Some(hold.id.number()));
        }
    }
}

api::inherent_lock!(Lock);
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

    fn clone_handle(&self) -> Arc<dyn api::Lock> {
        Arc::new(self.clone())
    }

    async fn hold(&self, wait: Option<Duration>, lease: Option<Duration>) -> Result<Option<Hold>> {
        self.pass(wait.filter(|wait| !wait.is_zero()), lease)
            .await?;
        // A wait that the clock cannot express has no end.
        let deadline = wait.and_then(|wait| Instant::now().checked_add(wait));
        let place = self.shared.with(|state| {
            if let Some(hold) = state.take(&self.owner, lease, self.shared.fenced) {
                return Err(Some(hold));
            }
            if wait.is_some_and(|wait| wait.is_zero()) {
                return Err(None);
            }
            state.last_ticket += 1;
            let (sender, granted) = oneshot::channel();
            let ticket = state.last_ticket;
            state.waiters.push_back(Waiter {
                ticket,
                owner: Arc::clone(&self.owner),
                term: lease,
                deadline,
                granted: sender,
            });
            Ok(Place {
                lock: self,
                ticket,
                granted,
                taken: false,
            })
        });
        let hold = match place {
            Ok(mut place) => place.granted(deadline).await,
            Err(hold) => hold,
        };
        hold.iter().for_each(|hold| self.last.note(&hold.lease));
        Ok(hold)
    }

    async fn unlock(&self) -> Result<()> {
        self.give_back(None).await
    }

    async fn force_unlock(&self) -> Result<bool> {
        self.pass(None, None).await?;
        Ok(self.force())
    }

    async fn is_locked(&self) -> Result<bool> {
        self.pass(None, None).await?;
        Ok(self.shared.with(|state| state.holding.is_some()))
    }

    async fn hold_count(&self) -> Result<u32> {
        self.pass(None, None).await?;
        Ok(self.shared.with(|state| {
            let held = state.holding.as_ref();
            let held = held.filter(|held| held.owner == self.owner);
            held.map_or(0, |held| {
                u32::try_from(held.holds.len()).unwrap_or(u32::MAX)
            })
        }))
    }

    async fn remaining_ttl(&self) -> Result<RemainingTtl> {
        self.pass(None, None).await?;
        let end = |held: &Holding| held.expires;
        let end = self.shared.with(|state| state.holding.as_ref().map(end));
        Ok(match end {
            None => RemainingTtl::Missing,
            Some(None) => RemainingTtl::Expires(KEPT),
            Some(Some(expires)) => {
                RemainingTtl::Expires(expires.saturating_duration_since(Instant::now()))
            }
        })
    }

    fn lease(&self) -> Lease {
        let held = self.shared.with(|state| {
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
