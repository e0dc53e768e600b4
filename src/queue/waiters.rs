//! The callers of this client that wait for one object, in the order of their arrival.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use tokio::time::Instant;

use super::by_want::{ByWant, Wanting};
use super::outcome::{Reply, Want};

/// The place of a waiter: later ones have higher numbers.
pub(super) type Id = u64;

pub(super) struct Waiter<W> {
    pub(super) want: W,
    pub(super) since: Instant,
    pub(super) deadline: Option<Instant>,
    /// Without an answer of the server it ends then.
    pub(super) due: Option<Instant>,
    pub(super) reply: Reply<W>,
}

impl<W: Want> Wanting for Waiter<W> {
    type Want = W;

    fn want(&self) -> W {
        self.want
    }
}

pub(super) struct Waiters<W: Want> {
    all: ByWant<Waiter<W>>,
    deadlines: BTreeSet<(Instant, Id)>,
    next: Id,
    /// The waiters before this one have had an answer, or need none: they wait for a grant, and may time out.
    answered: Id,
}

impl<W: Want> Default for Waiters<W> {
    fn default() -> Self {
        Waiters {
            all: ByWant::default(),
            deadlines: BTreeSet::new(),
            next: 0,
            answered: 0,
        }
    }
}

/// For questions.
impl<W: Want> Deref for Waiters<W> {
    type Target = ByWant<Waiter<W>>;

    fn deref(&self) -> &ByWant<Waiter<W>> {
        &self.all
    }
}

impl<W: Want> Waiters<W> {
    /// The next one's place.
    pub(super) fn next(&self) -> Id {
        self.next
    }

    pub(super) fn add(&mut self, waiter: Waiter<W>) -> Id {
        let id = self.next;
        self.next += 1;
        let deadline = waiter.deadline;
        self.deadlines
            .extend(deadline.map(|deadline| (deadline, id)));
        self.all.insert(id, waiter);
        id
    }

    pub(super) fn remove(&mut self, id: Id) -> Option<Waiter<W>> {
        let waiter = self.all.remove(id)?;
        if let Some(deadline) = waiter.deadline {
            self.deadlines.remove(&(deadline, id));
        }
        Some(waiter)
    }

    /// Takes the earliest one that wants this, if its place is before `end`.
    pub(super) fn take(&mut self, want: W, end: Id) -> Option<Waiter<W>> {
        let id = self.alike(want).next().filter(|id| *id < end)?;
        self.remove(id)
    }

    pub(super) fn take_all(&mut self) -> BTreeMap<Id, Waiter<W>> {
        self.deadlines.clear();
        self.all.take_all()
    }

    /// How many that want the same are before this one, where that is fewer than `most`.
    pub(super) fn rank(&self, id: Id, most: usize) -> Option<usize> {
        let want = self.get(id)?.want;
        self.alike(want).take(most).position(|other| other == id)
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
        self.range(self.answered..)
    }
}
