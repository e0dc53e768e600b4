//! The queue of waiting callers, common to all in-memory implementations: the rule of `lua/queue` in one process.
//!
//! Each change serves, before it returns, the first waiters that what is free suffices for. Wakers are called, and dropped, when nothing
//! is locked: they may run anything.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until};

use super::faults::Faults;
use crate::api::check_name;
use crate::error::Result;
use crate::lease::Lease;
use crate::sync::{Mutex, MutexGuard};

/// The object that callers wait for, and its holders.
pub(super) trait Rules: Send + 'static {
    type Want: Clone + Ord + Send + Sync;
    type Grant: Send;
    /// A waiter that the rest does not suffice for holds those behind it up for a time, again and again.
    const BLOCKS: bool;

    /// Frees the holds and counters whose time has ended by `now`.
    fn expire(&mut self, now: Instant);

    fn fits(&self, want: &Self::Want) -> bool;

    /// Whether it waits for its turn behind all that came before.
    fn stays_behind(&self, _want: &Self::Want) -> bool {
        false
    }

    fn take(&mut self, want: &Self::Want) -> Self::Grant;

    /// The caller has gone that this was granted to.
    fn take_back(&mut self, grant: Self::Grant);

    /// When the next one ends.
    fn next_end(&self) -> Option<Instant>;

    /// The leases that have changed, and whose holders are to be woken.
    fn changed(&mut self) -> Vec<Lease>;
}

/// The part that all handles of one object share.
pub(super) struct Shared<R: Rules> {
    pub(super) name: String,
    pub(super) faults: Faults,
    queue: Mutex<Queue<R>>,
    /// Tells waiters that something ends earlier than when they looked.
    sooner: Notify,
}

struct Queue<R: Rules> {
    rules: R,
    /// By the order of their arrival.
    waiters: BTreeMap<u64, Waiter<R>>,
    by_want: BTreeMap<R::Want, BTreeSet<u64>>,
    next: u64,
    /// Grants whose waiters are to be woken.
    served: Vec<(Waiter<R>, R::Grant)>,
    /// From when to when a waiter has blocked those behind it; and when the one that does so now stops.
    block: Option<(Instant, Instant)>,
    block_end: Option<Instant>,
    /// When the waiters look by themselves.
    end: Option<Instant>,
}

struct Waiter<R: Rules> {
    want: R::Want,
    since: Instant,
    /// Behind that it is granted nothing, whether it has been polled since or not.
    deadline: Option<Instant>,
    reply: oneshot::Sender<R::Grant>,
}

impl<R: Rules> Shared<R> {
    pub(super) fn new(name: String, rules: R) -> Self {
        Shared {
            name,
            faults: Faults::default(),
            queue: Mutex::new(Queue {
                rules,
                waiters: BTreeMap::new(),
                by_want: BTreeMap::new(),
                next: 0,
                served: Vec::new(),
                block: None,
                block_end: None,
                end: None,
            }),
            sooner: Notify::new(),
        }
    }

    /// Lets a call pass that waits for `wait` at the most, unless its name is none, or something is wrong on purpose.
    pub(super) async fn pass(&self, wait: Option<Duration>) -> Result<()> {
        check_name(&self.name)?;
        self.faults.pass(&self.name, wait).await
    }

    /// Carries out what must happen once its caller has asked for it, also when it goes.
    pub(super) async fn carry_out<T: Send + 'static>(
        &self,
        operation: &'static str,
        act: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        check_name(&self.name)?;
        self.faults.carry_out(&self.name, operation, act).await
    }

    /// The queue as of now.
    fn current(&self) -> MutexGuard<'_, Queue<R>> {
        let mut queue = self.queue.lock();
        queue.rules.expire(Instant::now());
        queue
    }

    /// Does something with what there is now.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut R) -> T) -> T {
        let mut queue = self.current();
        queue.serve();
        let answer = change(&mut queue.rules);
        self.settle(queue);
        answer
    }

    /// Takes what is wanted if it is free.
    pub(super) fn take(&self, want: &R::Want) -> Option<R::Grant> {
        self.change(|rules| rules.fits(want).then(|| rules.take(want)))
    }

    /// Takes what is wanted in turn, waiting for `wait` at the most; `None`: without limit.
    pub(super) async fn wait(&self, want: R::Want, wait: Option<Duration>) -> Option<R::Grant> {
        // A wait that the clock cannot express has no end.
        let deadline = wait.and_then(|wait| Instant::now().checked_add(wait));
        let mut place = self.join(want, deadline);
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
                () = time => self.change(|_| ()),
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return place.granted.try_recv().ok();
            }
        }
    }

    fn join(&self, want: R::Want, deadline: Option<Instant>) -> Place<'_, R> {
        let (reply, granted) = oneshot::channel();
        let mut queue = self.current();
        let id = queue.next;
        queue.next += 1;
        let alike = queue.by_want.entry(want.clone()).or_default();
        alike.insert(id);
        let waiter = Waiter {
            want,
            since: Instant::now(),
            deadline,
            reply,
        };
        queue.waiters.insert(id, waiter);
        self.settle(queue);
        Place {
            shared: self,
            id,
            granted,
        }
    }

    /// Ends a change: serves waiters, and wakes the tasks concerned.
    fn settle<'a>(&'a self, mut queue: MutexGuard<'a, Queue<R>>) {
        loop {
            queue.serve();
            let served = std::mem::take(&mut queue.served);
            let (changed, sooner) = (queue.rules.changed(), queue.comes_nearer());
            drop(queue);
            if sooner {
                self.sooner.notify_waiters();
            }
            changed.iter().for_each(Lease::tell);
            let tell = |(waiter, grant): (Waiter<R>, R::Grant)| waiter.reply.send(grant).err();
            let unclaimed: Vec<_> = served.into_iter().filter_map(tell).collect();
            if unclaimed.is_empty() {
                return;
            }
            queue = self.queue.lock();
            for grant in unclaimed {
                queue.rules.take_back(grant);
            }
        }
    }
}

impl<R: Rules> Queue<R> {
    fn serve(&mut self) {
        self.block_end = None;
        let now = Instant::now();
        while let Some(id) = self.due(now) {
            let Some(waiter) = self.remove(id) else {
                return;
            };
            // Something has come of it.
            let window = window(waiter.since, now);
            self.block = self.block.filter(|(_, end)| *end != window.1);
            let grant = self.rules.take(&waiter.want);
            self.served.push((waiter, grant));
        }
    }

    /// The waiter whose turn it is: the first that what is free suffices for, and that none before it holds up.
    fn due(&mut self, now: Instant) -> Option<u64> {
        let (mut fit, mut others) = (Vec::new(), Vec::new());
        for (want, alike) in &self.by_want {
            let in_time = |id: &&u64| {
                let deadline = self.waiters.get(id).and_then(|waiter| waiter.deadline);
                deadline.is_none_or(|deadline| deadline >= now)
            };
            let Some(first) = alike.iter().find(in_time).copied() else {
                continue;
            };
            if self.rules.fits(want) {
                fit.push((first, self.rules.stays_behind(want)));
            } else {
                others.push(first);
            }
        }
        let held_up = |behind, id| behind && others.iter().any(|other| *other < id);
        fit.retain(|(id, behind)| !held_up(*behind, *id));
        let due = fit.into_iter().map(|(id, _)| id).min()?;
        let mut before = others.into_iter().filter(|other| R::BLOCKS && *other < due);
        let blocked = before.any(|other| self.blocks(other, now));
        (!blocked).then_some(due)
    }

    /// Whether a waiter holds those behind it up now. When it was not served, no waiter does so for twice as long.
    fn blocks(&mut self, id: u64, now: Instant) -> bool {
        let Some(waiter) = self.waiters.get(&id) else {
            return false;
        };
        let (from, end) = window(waiter.since, now);
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

    fn remove(&mut self, id: u64) -> Option<Waiter<R>> {
        let waiter = self.waiters.remove(&id)?;
        if let Some(alike) = self.by_want.get_mut(&waiter.want) {
            alike.remove(&id);
            if alike.is_empty() {
                self.by_want.remove(&waiter.want);
            }
        }
        Some(waiter)
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
        let waiter = queue.remove(self.id);
        self.shared.settle(queue);
        drop(waiter);
        self.granted.close();
        if let Ok(grant) = self.granted.try_recv() {
            self.shared.change(|rules| rules.take_back(grant));
        }
    }
}
