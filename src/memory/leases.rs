//! Who holds the permits of a semaphore with ids, and who waits for them: all that one mutex guards.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::faults::Faults;
use super::looks::Looks;
use crate::api::{Held, Holder};
use crate::lease::{Change, Lease};
use crate::sync::Mutex;

/// What all handles of one semaphore share.
pub(super) struct Shared {
    pub(super) name: String,
    pub(super) limit: u32,
    pub(super) lease: Option<Duration>,
    pub(super) faults: Faults,
    /// Tells those who wait that a permit expires earlier than when they looked.
    pub(super) sooner: Notify,
    leases: Mutex<Leases>,
}

pub(super) struct Leases {
    limit: usize,
    lease: Option<Duration>,
    holders: HashMap<Arc<str>, Entry>,
    waiting: BTreeMap<u64, Waiter>,
    looks: Looks,
    /// Of those who wait, and of those who hold, in the order of their coming.
    next: u64,
    /// Slots that have fallen free, below the first one that nobody has had.
    free_slots: BTreeSet<u32>,
    fresh_slot: u32,
    /// What others are to be told when the mutex is free: a waker may run anything.
    news: Vec<News>,
}

enum News {
    Granted(oneshot::Sender<Held>, Held),
    Changed(Lease),
    Sooner,
}

struct Entry {
    number: u64,
    slot: u32,
    until: Option<Instant>,
    /// It has a guard, and does not expire.
    kept: Option<Lease>,
}

impl Shared {
    pub(super) fn new(name: String, limit: u32, lease: Option<Duration>) -> Self {
        let leases = Leases {
            limit: limit as usize,
            lease,
            holders: HashMap::new(),
            waiting: BTreeMap::new(),
            looks: Looks::default(),
            next: 0,
            free_slots: BTreeSet::new(),
            fresh_slot: 1,
            news: Vec::new(),
        };
        Shared {
            name,
            limit,
            lease,
            faults: Faults::default(),
            sooner: Notify::new(),
            leases: Mutex::new(leases),
        }
    }

    /// Changes something, and tells all whom that concerns.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Leases) -> T) -> T {
        let (answer, mut news) = {
            let mut leases = self.leases.lock();
            let answer = change(&mut leases);
            leases.look();
            (answer, VecDeque::from(std::mem::take(&mut leases.news)))
        };
        while let Some(next) = news.pop_front() {
            match next {
                News::Granted(grant, held) => {
                    if let Err(held) = grant.send(held) {
                        // It has gone meanwhile.
                        let mut leases = self.leases.lock();
                        leases.release(&held.id);
                        leases.look();
                        news.extend(leases.news.drain(..));
                    }
                }
                News::Changed(lease) => lease.tell(),
                News::Sooner => self.sooner.notify_waiters(),
            }
        }
        answer
    }
}

/// Somebody who waits.
pub(super) struct Waiter {
    /// Behind that it is granted nothing, whether it has been polled since or not.
    deadline: Option<Instant>,
    grant: oneshot::Sender<Held>,
}

impl Waiter {
    fn is_late(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| deadline < now)
    }
}

impl Leases {
    /// Joins the line until `deadline`, and is served if it can be.
    pub(super) fn join(&mut self, deadline: Option<Instant>) -> (u64, oneshot::Receiver<Held>) {
        let (grant, granted) = oneshot::channel();
        let ticket = self.number();
        self.waiting.insert(ticket, Waiter { deadline, grant });
        self.serve();
        (ticket, granted)
    }

    /// Takes one who waits out of the line: to be dropped when the mutex is free, as its channel knows the waker.
    #[must_use]
    pub(super) fn leave(&mut self, ticket: u64) -> Option<Waiter> {
        self.waiting.remove(&ticket)
    }

    /// Lets those who wait look anew if the first end has come nearer.
    fn look(&mut self) {
        let sooner = self.looks.come_nearer(self.first_end());
        if sooner && !self.waiting.is_empty() {
            self.news.push(News::Sooner);
        }
    }

    /// Takes a permit if nobody waits for it.
    pub(super) fn try_take(&mut self) -> Option<Held> {
        self.serve();
        let free = self.first().is_none() && self.holders.len() < self.limit;
        free.then(|| self.take())
    }

    /// The first of those whose time is not over.
    fn first(&self) -> Option<u64> {
        let now = Instant::now();
        let mut waiting = self.waiting.iter();
        let first = waiting.find(|(_, waiter)| !waiter.is_late(now));
        first.map(|(ticket, _)| *ticket)
    }

    /// Serves those who wait, in order, as far as there are permits.
    pub(super) fn serve(&mut self) {
        self.drop_expired();
        while self.holders.len() < self.limit
            && let Some(first) = self.first()
            && let Some(waiter) = self.waiting.remove(&first)
        {
            let held = self.take();
            self.news.push(News::Granted(waiter.grant, held));
        }
    }

    pub(super) fn release(&mut self, id: &str) -> bool {
        self.drop_expired();
        let entry = self.holders.remove(id);
        let held = entry.is_some();
        if let Some(entry) = entry {
            self.leave_slot(entry);
        }
        self.serve();
        held
    }

    pub(super) fn refresh(&mut self, id: &str) -> bool {
        self.drop_expired();
        let until = self.end();
        let entry = self.holders.get_mut(id);
        let held = entry.is_some();
        if let Some(entry) = entry.filter(|entry| entry.kept.is_none()) {
            entry.until = until;
        }
        held
    }

    pub(super) fn keep(&mut self, id: &str) -> Lease {
        self.drop_expired();
        let lease = match self.lease {
            Some(lasts) => Lease::kept(lasts),
            None => Lease::until(None::<Instant>),
        };
        match self.holders.get_mut(id) {
            Some(Entry {
                kept: Some(lease), ..
            }) => return lease.clone(),
            Some(entry) => {
                entry.until = None;
                entry.kept = Some(lease.clone());
            }
            // Nobody has seen it yet.
            None => lease.change(Change::Lost),
        }
        lease
    }

    pub(super) fn unkeep(&mut self, id: &str) {
        let until = self.end();
        if let Some(entry) = self.holders.get_mut(id)
            && let Some(lease) = entry.kept.take()
        {
            entry.until = until;
            lease.change(Change::Until(until.map(Into::into)));
            self.news.push(News::Changed(lease));
        }
    }

    pub(super) fn holders(&mut self) -> Vec<Holder> {
        self.drop_expired();
        let now = Instant::now();
        let mut entries: Vec<_> = self.holders.iter().collect();
        entries.sort_by_key(|(_, entry)| entry.number);
        let holder = |(id, entry): (&Arc<str>, &Entry)| Holder {
            id: id.to_string(),
            remaining: match &entry.kept {
                Some(_) => self.lease,
                None => entry
                    .until
                    .map(|until| until.saturating_duration_since(now)),
            },
            slot: Some(entry.slot),
        };
        entries.into_iter().map(holder).collect()
    }

    pub(super) fn release_all(&mut self) -> u64 {
        self.drop_expired();
        let entries = std::mem::take(&mut self.holders);
        let count = entries.len() as u64;
        for entry in entries.into_values() {
            self.leave_slot(entry);
        }
        self.serve();
        count
    }

    /// When the first permit expires.
    pub(super) fn first_end(&self) -> Option<Instant> {
        self.holders.values().filter_map(|entry| entry.until).min()
    }

    fn take(&mut self) -> Held {
        let id: Arc<str> = crate::outside::uuid().to_string().into();
        let until = self.end();
        let slot = self.free_slots.pop_first().unwrap_or_else(|| {
            self.fresh_slot += 1;
            self.fresh_slot - 1
        });
        let entry = Entry {
            number: self.number(),
            slot,
            until,
            kept: None,
        };
        self.holders.insert(Arc::clone(&id), entry);
        Held {
            id,
            slot: Some(slot),
            until: until.map(Into::into),
        }
    }

    /// One holds no more; who keeps it is told, for its own guard would have ended the keeping first.
    fn leave_slot(&mut self, entry: Entry) {
        self.free_slots.insert(entry.slot);
        if let Some(lease) = entry.kept {
            lease.change(Change::Lost);
            self.news.push(News::Changed(lease));
        }
    }

    fn drop_expired(&mut self) {
        let now = Instant::now();
        let expired = |entry: &mut Entry| entry.until.is_some_and(|until| until <= now);
        for (_, entry) in self.holders.extract_if(|_, entry| expired(entry)) {
            self.free_slots.insert(entry.slot);
        }
    }

    /// When a lease that begins now ends.
    fn end(&self) -> Option<Instant> {
        Instant::now().checked_add(self.lease?)
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}
