//! The one core of all objects in memory: their state, and the queue of waiting callers. It follows the rule of `lua/queue`.
//!
//! Each change ends with a look at the queue: the first waiters that the rest suffices for are granted it. Wakers are called when nothing
//! is locked, as they may run anything.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::OptionFuture;
use tokio::sync::Notify;
use tokio::task::coop::consume_budget;
use tokio::time::{Instant, sleep_until};

use super::faults::{Deferred, Fault};
use crate::api::check_name;
use crate::error::Result;
use crate::sync::{Mutex, MutexGuard, unlocked};

/// The state of an object that callers wait for.
pub(super) trait Rules: Sized + Send + 'static {
    type Want: Send;
    type Grant: Send;
    /// A waiter that the rest does not suffice for blocks later ones for a time, again and again.
    const BLOCKS: bool = false;

    /// Frees the holds and counters whose time has ended by `now`.
    fn expire(&mut self, _now: Instant) {}

    /// When the next one ends.
    fn next_end(&self) -> Option<Instant> {
        None
    }

    /// Nothing is left for any waiter.
    fn is_used_up(&self) -> bool {
        false
    }

    /// Whether it may be taken now, `behind` a waiter that it was not enough for.
    fn fits(&self, want: &Self::Want, behind: bool) -> bool;

    fn take(&mut self, want: &Self::Want) -> Self::Grant;

    /// The caller has gone that this was granted to.
    fn take_back(&mut self, want: &Self::Want, grant: Self::Grant);
}

/// The part that all handles of one object share.
pub(super) struct Shared<R: Rules> {
    pub(super) name: String,
    /// The error of all calls, if the object has been made with wrong arguments.
    pub(super) valid: Result<()>,
    pub(super) queue: Mutex<Queue<R>>,
    pub(super) fault_changed: Notify,
}

pub(super) struct Queue<R: Rules> {
    pub(super) rules: R,
    pub(super) fault: Fault,
    pub(super) deferred: Vec<Deferred<R>>,
    /// In the order of their arrival.
    waiters: VecDeque<Waiter<R::Want>>,
    /// The grants that their callers have not fetched.
    granted: BTreeMap<u64, (R::Want, R::Grant)>,
    next_id: u64,
    /// When the change under way began.
    now: Instant,
    /// From when to when a waiter has blocked later ones, the last time.
    block: Option<(Instant, Instant)>,
    /// When the waiters look by themselves.
    end: Option<Instant>,
}

struct Waiter<W> {
    id: u64,
    want: W,
    since: Instant,
    /// Behind that it is granted nothing, whether it has been polled since or not.
    deadline: Option<Instant>,
    /// Wakes the caller: it has its grant, or something ends earlier than it knows.
    bell: Arc<Notify>,
}

impl<R: Rules> Shared<R> {
    /// An object whose calls all fail with the error of `valid`, if there is one.
    pub(super) fn new(name: String, valid: Result<()>, rules: R) -> Arc<Self> {
        Arc::new(Shared {
            valid: check_name(&name).and(valid),
            name,
            queue: Mutex::new(Queue {
                rules,
                fault: Fault::None,
                deferred: Vec::new(),
                waiters: VecDeque::new(),
                granted: BTreeMap::new(),
                next_id: 0,
                now: Instant::now(),
                block: None,
                end: None,
            }),
            fault_changed: Notify::new(),
        })
    }

    /// Carries out a call that does not wait.
    pub(super) async fn call<T>(&self, call: impl FnOnce(&mut R) -> T) -> Result<T> {
        self.pass(None).await?;
        Ok(self.change(call))
    }

    /// Does something with the state as of now.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut R) -> T) -> T {
        let mut queue = self.current();
        let answer = change(&mut queue.rules);
        queue.serve();
        answer
    }

    /// The queue as of now: waiters have what has ended.
    pub(super) fn current(&self) -> MutexGuard<'_, Queue<R>> {
        let mut queue = self.queue.lock();
        let now = Instant::now();
        queue.now = now;
        queue.rules.expire(now);
        if queue.end.is_some_and(|end| end <= now) {
            queue.serve();
        }
        queue
    }

    /// Takes what is wanted, waiting for `wait` at the most: without a limit for `None`, not at all for zero.
    pub(super) async fn acquire(
        &self,
        want: R::Want,
        wait: Option<Duration>,
    ) -> Result<Option<R::Grant>> {
        let at_most = wait.filter(|wait| !wait.is_zero());
        self.pass(at_most).await?;
        if wait != at_most {
            return Ok(self.change(|rules| rules.fits(&want, false).then(|| rules.take(&want))));
        }
        let bell = Arc::new(Notify::new());
        let (place, deadline) = {
            let mut queue = self.current();
            let (id, since, fits) = (queue.next_id, queue.now, queue.rules.fits(&want, false));
            // A wait that the clock cannot express has no end.
            let deadline = wait.and_then(|wait| since.checked_add(wait));
            queue.next_id += 1;
            queue.waiters.push_back(Waiter {
                id,
                want,
                since,
                deadline,
                bell: Arc::clone(&bell),
            });
            // Otherwise nothing has changed for those that came before.
            if fits {
                queue.serve();
            }
            (Place { shared: self, id }, deadline)
        };
        // Other tasks run now and then, also where each call is granted at once.
        consume_budget().await;
        loop {
            let (granted, end) = {
                let mut queue = self.current();
                (queue.granted.remove(&place.id), queue.end)
            };
            if granted.is_some() || deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Ok(granted.map(|(_, grant)| grant));
            }
            let next = end.into_iter().chain(deadline).min();
            tokio::select! {
                biased;
                () = bell.notified() => {}
                Some(()) = OptionFuture::from(next.map(sleep_until)) => {}
            }
        }
    }
}

impl<R: Rules> Queue<R> {
    /// Ends a change: grants what is free to the waiters in their order. A waiter that it does not suffice for is passed, unless it blocks.
    pub(super) fn serve(&mut self) {
        let (now, mut place, mut passed) = (self.now, 0, Vec::new());
        while !self.rules.is_used_up()
            && let Some(waiter) = self.waiters.get(place)
        {
            if waiter.deadline.is_some_and(|deadline| deadline < now) {
                self.waiters.remove(place);
                continue;
            }
            if !self.rules.fits(&waiter.want, place > 0) {
                passed.push(waiter.since);
                place += 1;
                continue;
            }
            if R::BLOCKS && passed.drain(..).any(|since| self.blocks(since, now)) {
                break;
            }
            let waiter = self.waiters.remove(place).expect("it was there");
            waiter.ring();
            // Something has come of its window.
            let end = window(waiter.since, now).1;
            self.block = self.block.filter(|(_, ended)| *ended != end);
            let grant = self.rules.take(&waiter.want);
            self.granted.insert(waiter.id, (waiter.want, grant));
        }
        let block_end = self.block.map(|(_, end)| end).filter(|end| *end > now);
        let end = self.rules.next_end().into_iter().chain(block_end).min();
        let before = std::mem::replace(&mut self.end, end);
        if end.is_some_and(|end| before.is_none_or(|before| end < before)) {
            self.waiters.iter().for_each(Waiter::ring);
        }
    }

    /// Whether a waiter blocks later ones now. When it was not served, no waiter does so for twice as long.
    fn blocks(&mut self, since: Instant, now: Instant) -> bool {
        let (from, end) = window(since, now);
        if now < from || now >= end {
            return false;
        }
        match self.block {
            Some((_, ended)) if ended == end => {}
            Some((began, ended)) if now < ended + 2 * (ended - began) => return false,
            _ => self.block = Some((now, end)),
        }
        true
    }
}

impl<W> Waiter<W> {
    fn ring(&self) {
        let bell = Arc::clone(&self.bell);
        unlocked(move || bell.notify_one());
    }
}

/// From when to when a waiter that came at `since` last blocks others: when it has waited for 1/4 s, 1 s, 4 s and so on, for half as
/// long as that, 20 s at the most.
fn window(since: Instant, now: Instant) -> (Instant, Instant) {
    let mut from = Duration::from_millis(250);
    while from * 4 <= now.saturating_duration_since(since) {
        from *= 4;
    }
    let lasts = (from / 2).min(Duration::from_secs(20));
    (since + from, since + from + lasts)
}

/// A waiter's place; dropped, it is left, and a grant that was not fetched goes back.
struct Place<'a, R: Rules> {
    shared: &'a Shared<R>,
    id: u64,
}

impl<R: Rules> Drop for Place<'_, R> {
    fn drop(&mut self) {
        let mut queue = self.shared.current();
        if let Some((want, grant)) = queue.granted.remove(&self.id) {
            queue.rules.take_back(&want, grant);
        } else if let Ok(place) = queue.waiters.binary_search_by_key(&self.id, |one| one.id) {
            queue.waiters.remove(place);
        } else {
            return;
        }
        queue.serve();
    }
}

impl<R: Rules> fmt::Debug for Shared<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)
    }
}
