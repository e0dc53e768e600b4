//! The callers of this client that wait for one object, in the order of their arrival.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeBounds;

use tokio::time::Instant;

use super::outcome::{Reply, Want};

/// The place of a waiter: later ones have higher numbers.
pub(super) type Id = u64;

pub(super) struct Waiter<W> {
    pub(super) want: W,
    pub(super) since: Instant,
    deadline: Option<Instant>,
    /// Without an answer of the server it ends then.
    pub(super) due: Option<Instant>,
    pub(super) reply: Reply<W>,
}

pub(super) struct Waiters<W> {
    all: BTreeMap<Id, Waiter<W>>,
    by_want: BTreeMap<W, BTreeSet<Id>>,
    deadlines: BTreeSet<(Instant, Id)>,
    next: Id,
    /// The server has answered since all before this one came: these wait for a grant.
    answered: Id,
}

impl<W> Default for Waiters<W> {
    fn default() -> Self {
        Waiters {
            all: BTreeMap::new(),
            by_want: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            next: 0,
            answered: 0,
        }
    }
}

impl<W: Want> Waiters<W> {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// The next one's place.
    pub(super) fn next(&self) -> Id {
        self.next
    }

    pub(super) fn add(
        &mut self,
        want: W,
        since: Instant,
        (deadline, due): (Option<Instant>, Option<Instant>),
        reply: Reply<W>,
    ) -> Id {
        let id = self.next;
        self.next += 1;
        self.by_want.entry(want).or_default().insert(id);
        self.deadlines
            .extend(deadline.map(|deadline| (deadline, id)));
        let waiter = Waiter {
            want,
            since,
            deadline,
            due,
            reply,
        };
        self.all.insert(id, waiter);
        id
    }

    pub(super) fn remove(&mut self, id: Id) -> Option<Waiter<W>> {
        let waiter = self.all.remove(&id)?;
        if let Some(alike) = self.by_want.get_mut(&waiter.want) {
            alike.remove(&id);
            if alike.is_empty() {
                self.by_want.remove(&waiter.want);
            }
        }
        if let Some(deadline) = waiter.deadline {
            self.deadlines.remove(&(deadline, id));
        }
        Some(waiter)
    }

    pub(super) fn has(&self, id: Id) -> bool {
        self.all.contains_key(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Id, &Waiter<W>)> {
        self.all.iter().map(|(id, waiter)| (*id, waiter))
    }

    /// How many that want the same are before this one, where that is fewer than `most`.
    pub(super) fn rank(&self, id: Id, most: usize) -> Option<usize> {
        let want = self.all.get(&id)?.want;
        let mut alike = self.by_want.get(&want)?.iter().take(most);
        alike.position(|other| *other == id)
    }

    /// Which of these are wanted, and the first that wants each; smaller amounts first.
    pub(super) fn wants(&self, range: impl RangeBounds<W>) -> impl Iterator<Item = (W, Id)> {
        let all = self.by_want.range(range);
        all.filter_map(|(want, alike)| Some((*want, *alike.first()?)))
    }

    /// All that want this.
    pub(super) fn alike(&self, want: W) -> impl Iterator<Item = Id> {
        self.by_want.get(&want).into_iter().flatten().copied()
    }

    pub(super) fn get(&self, id: Id) -> Option<&Waiter<W>> {
        self.all.get(&id)
    }

    /// Takes the earliest one that wants this, if its place is before `end`.
    pub(super) fn take(&mut self, want: W, end: Id) -> Option<Waiter<W>> {
        let id = *self.by_want.get(&want)?.first()?;
        if id < end { self.remove(id) } else { None }
    }

    /// How many want this.
    pub(super) fn count(&self, want: W) -> usize {
        self.by_want.get(&want).map_or(0, BTreeSet::len)
    }

    /// The server has answered something that was sent when `next` was the next place.
    pub(super) fn answered(&mut self, next: Id) {
        self.answered = self.answered.max(next);
    }

    pub(super) fn is_answered(&self, id: Id) -> bool {
        id < self.answered
    }

    /// The waiters whose deadline has passed. One that has had no answer yet waits for the first.
    pub(super) fn overdue(&self, now: Instant) -> Vec<Id> {
        let due = self.deadlines.iter();
        let due = due.take_while(|(deadline, _)| *deadline <= now);
        due.map(|(_, id)| *id)
            .filter(|id| self.is_answered(*id))
            .collect()
    }

    /// The first deadline of those that have been answered.
    pub(super) fn first_deadline(&self) -> Option<Instant> {
        let mut all = self.deadlines.iter();
        all.find(|(_, id)| self.is_answered(*id))
            .map(|(deadline, _)| *deadline)
    }

    /// Those without an answer yet.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = (Id, &Waiter<W>)> {
        self.all
            .range(self.answered..)
            .map(|(id, waiter)| (*id, waiter))
    }

    /// Takes all.
    pub(super) fn take_all(&mut self) -> BTreeMap<Id, Waiter<W>> {
        self.by_want.clear();
        self.deadlines.clear();
        std::mem::take(&mut self.all)
    }
}
