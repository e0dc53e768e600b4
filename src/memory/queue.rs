//! The one core of all objects in memory: their state, and the queue of waiting callers. It follows the rule of `lua/queue`.
//!
//! Each change serves, before it returns, the first waiters that what is free suffices for. Wakers are called, and dropped, when nothing
//! is locked: they may run anything.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until};

use super::faults::Faults;
use crate::api::check_name;
use crate::error::Result;
use crate::sync::{Mutex, MutexGuard, unlocked};

/// The state of an object that callers wait for.
pub(super) trait Rules: Send + 'static {
    type Want: Send + Sync;
    type Grant: Send + 'static;
    /// A waiter that the rest does not suffice for holds those behind it up for a time, again and again.
    const BLOCKS: bool = false;

    /// Frees the holds and counters whose time has ended by `now`.
    fn expire(&mut self, _now: Instant) {}

    /// Nothing is left for any waiter.
    fn is_used_up(&self) -> bool {
        false
    }

    fn fits(&self, want: &Self::Want) -> bool;

    /// Whether it waits for its turn behind all that came before.
    fn stays_behind(&self, _want: &Self::Want) -> bool {
        false
    }

    fn take(&mut self, want: &Self::Want) -> Self::Grant;

    /// The caller has gone that this was granted to.
    fn take_back(&mut self, grant: Self::Grant);

    /// When the next hold ends.
    fn next_end(&self) -> Option<Instant> {
        None
    }
}

/// The part that all handles of one object share.
pub(super) struct Shared<R: Rules> {
    pub(super) name: String,
    /// The error of all calls, if the object has been made with wrong arguments.
    valid: Result<()>,
    pub(super) faults: Faults,
    queue: Mutex<Queue<R>>,
    /// Tells waiters that something ends earlier than when they looked.
    sooner: Notify,
}

struct Queue<R: Rules> {
    rules: R,
    /// In the order of their arrival.
    waiters: VecDeque<Waiter<R>>,
    next_id: u64,
    shared: Weak<Shared<R>>,
    /// When the change under way began.
    now: Instant,
    /// From when to when a waiter has blocked those behind it; and when the one that does so now stops.
    block: Option<(Instant, Instant)>,
    block_end: Option<Instant>,
    /// When the waiters look by themselves.
    end: Option<Instant>,
}

struct Waiter<R: Rules> {
    id: u64,
    want: R::Want,
    since: Instant,
    /// Behind that it is granted nothing, whether it has been polled since or not.
    deadline: Option<Instant>,
    reply: oneshot::Sender<R::Grant>,
}

impl<R: Rules> Shared<R> {
    /// An object whose calls all fail with the error of `valid`, if there is one.
    pub(super) fn new(name: String, valid: Result<()>, rules: R) -> Arc<Self> {
        Arc::new_cyclic(|shared| Shared {
            valid: check_name(&name).and(valid),
            name,
            faults: Faults::default(),
            queue: Mutex::new(Queue {
                rules,
                waiters: VecDeque::new(),
                next_id: 0,
                shared: Weak::clone(shared),
                now: Instant::now(),
                block: None,
                block_end: None,
                end: None,
            }),
            sooner: Notify::new(),
        })
    }

    pub(super) fn check(&self) -> Result<()> {
        self.valid.clone()
    }

    /// Carries out a call that does not wait.
    pub(super) async fn call<T>(&self, call: impl FnOnce(&mut R) -> T) -> Result<T> {
        self.check()?;
        self.faults.pass(&self.name, None).await?;
        Ok(self.change(call))
    }

    /// Takes what is wanted, waiting for `wait` at the most: without a limit for `None`, not at all for zero.
    pub(super) async fn acquire(
        &self,
        want: R::Want,
        wait: Option<Duration>,
    ) -> Result<Option<R::Grant>> {
        self.check()?;
        let at_most = wait.filter(|wait| !wait.is_zero());
        self.faults.pass(&self.name, at_most).await?;
        Ok(match wait {
            Some(Duration::ZERO) => {
                self.change(|rules| rules.fits(&want).then(|| rules.take(&want)))
            }
            wait => self.wait(want, wait).await,
        })
    }

    /// Carries out what must happen once its caller has asked for it, also when it goes.
    pub(super) async fn carry_out<T: Send + 'static>(
        self: &Arc<Self>,
        operation: &'static str,
        call: impl FnOnce(&mut R) -> T + Send + 'static,
    ) -> Result<T> {
        self.check()?;
        let shared = Arc::clone(self);
        let call = move || shared.change(call);
        self.faults.carry_out(&self.name, operation, call).await
    }

    /// The same without a caller.
    pub(super) fn defer(self: &Arc<Self>, call: impl FnOnce(&mut R) + Send + 'static) {
        let shared = Arc::clone(self);
        self.faults.defer(move || shared.change(call));
    }

    /// Does something with what there is now.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut R) -> T) -> T {
        let mut queue = self.current();
        let answer = change(&mut queue.rules);
        self.settle(queue);
        answer
    }

    /// The queue as of now: waiters have what has ended.
    fn current(&self) -> MutexGuard<'_, Queue<R>> {
        let mut queue = self.queue.lock();
        queue.now = Instant::now();
        let now = queue.now;
        queue.rules.expire(now);
        if queue.end.is_some_and(|end| end <= now) {
            queue.serve();
            // The next end is later: nobody has to look earlier.
            queue.comes_nearer();
        }
        queue
    }

    async fn wait(&self, want: R::Want, wait: Option<Duration>) -> Option<R::Grant> {
        let (mut place, deadline) = self.join(want, wait);
        loop {
            // A change from here on is not missed.
            let sooner = self.sooner.notified();
            let end = self.queue.lock().end;
            let next = [end, deadline].into_iter().flatten().min();
            let time = async {
                match next {
                    Some(next) => sleep_until(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                grant = &mut place.granted => return grant.ok(),
                () = sooner => {}
                // Nobody else says that something has ended.
                () = time => drop(self.current()),
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return place.granted.try_recv().ok();
            }
        }
    }

    /// The place of a new waiter, and its deadline.
    fn join(&self, want: R::Want, wait: Option<Duration>) -> (Place<'_, R>, Option<Instant>) {
        let (reply, granted) = oneshot::channel();
        let mut queue = self.current();
        let since = queue.now;
        // A wait that the clock cannot express has no end.
        let deadline = wait.and_then(|wait| since.checked_add(wait));
        // Nothing has changed for those that came before.
        let is_served = queue.rules.fits(&want);
        let id = queue.next_id;
        queue.next_id += 1;
        queue.waiters.push_back(Waiter {
            id,
            want,
            since,
            deadline,
            reply,
        });
        if is_served {
            self.settle(queue);
        }
        let place = Place {
            shared: self,
            id,
            granted,
        };
        (place, deadline)
    }

    /// Ends a change: serves waiters, and wakes the tasks concerned.
    fn settle(&self, mut queue: MutexGuard<'_, Queue<R>>) {
        queue.serve();
        let sooner = queue.comes_nearer();
        drop(queue);
        if sooner {
            self.sooner.notify_waiters();
        }
    }
}

impl<R: Rules> Queue<R> {
    /// Grants what is free to the waiters in their order. A waiter that it does not suffice for is passed, unless it blocks.
    fn serve(&mut self) {
        let now = self.now;
        let (mut place, mut passed) = (0, Vec::new());
        self.block_end = None;
        while !self.rules.is_used_up()
            && let Some(waiter) = self.waiters.get(place)
        {
            let is_late = waiter.deadline.is_some_and(|deadline| deadline < now);
            let fits = !is_late && self.rules.fits(&waiter.want);
            if !fits || (self.rules.stays_behind(&waiter.want) && !passed.is_empty()) {
                if !is_late && !fits {
                    passed.push(waiter.since);
                }
                place += 1;
                continue;
            }
            if R::BLOCKS && passed.drain(..).any(|since| self.blocks(since, now)) {
                return;
            }
            if let Some(Waiter {
                want, since, reply, ..
            }) = self.waiters.remove(place)
            {
                // Something has come of its window.
                let end = window(since, now).1;
                self.block = self.block.filter(|(_, ended)| *ended != end);
                let (shared, grant) = (Weak::clone(&self.shared), self.rules.take(&want));
                unlocked(move || {
                    // A waiter that has gone gives it back.
                    if let Err(grant) = reply.send(grant)
                        && let Some(shared) = shared.upgrade()
                    {
                        shared.change(|rules| rules.take_back(grant));
                    }
                });
            }
        }
    }

    /// Whether a waiter holds those behind it up now. When it was not served, no waiter does so for twice as long.
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
        self.block_end = Some(end);
        true
    }

    /// Whether waiters are to look earlier than they know.
    fn comes_nearer(&mut self) -> bool {
        let ends = [self.rules.next_end(), self.block_end];
        let end = ends.into_iter().flatten().min();
        let before = std::mem::replace(&mut self.end, end);
        let nearer = end.is_some_and(|end| before.is_none_or(|before| end < before));
        nearer && !self.waiters.is_empty()
    }
}

/// From when to when a waiter that came at `since` last holds others up: when it has waited for 1/4 s, 1 s, 4 s and so on, for half as
/// long as that, 20 s at the most.
fn window(since: Instant, now: Instant) -> (Instant, Instant) {
    let mut from = Duration::from_millis(250);
    while from * 4 <= now.saturating_duration_since(since) {
        from *= 4;
    }
    let lasts = (from / 2).min(Duration::from_secs(20));
    (since + from, since + from + lasts)
}

/// A waiter's place; dropped, it is left, and what was granted meanwhile goes back.
struct Place<'a, R: Rules> {
    shared: &'a Shared<R>,
    id: u64,
    granted: oneshot::Receiver<R::Grant>,
}

impl<R: Rules> Drop for Place<'_, R> {
    fn drop(&mut self) {
        if self.granted.is_terminated() {
            return;
        }
        let mut queue = self.shared.current();
        let place = queue.waiters.binary_search_by_key(&self.id, |one| one.id);
        // Dropped when nothing is locked: it has a waker.
        let _waiter = place.ok().and_then(|place| queue.waiters.remove(place));
        self.shared.settle(queue);
        self.granted.close();
        if let Ok(grant) = self.granted.try_recv() {
            self.shared.change(|rules| rules.take_back(grant));
        }
    }
}

impl<R: Rules> fmt::Debug for Shared<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)
    }
}
