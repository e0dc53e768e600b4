//! Those who wait, in the order of their arrival.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::{Primitive, Reply, Ticket};

/// One caller who waits.
pub(super) struct Waiter<P: Primitive> {
    pub(super) want: P::Want,
    pub(super) reply: Reply<P>,
    deadline: Option<Instant>,
    /// Since when it waits for an answer of the server's, if only to somebody else; `None` once there was one.
    pub(super) unanswered: Option<Instant>,
    /// What became of a question that named it will never be known.
    pub(super) in_doubt: bool,
}

/// Those who wait.
pub(crate) struct Waiters<P: Primitive> {
    by_ticket: BTreeMap<Ticket, Waiter<P>>,
    next_ticket: Ticket,
    deadlines: BTreeSet<(Instant, Ticket)>,
    /// Those whose time is up: the next question that names them is their last.
    ending: BTreeSet<Ticket>,
    /// Since when the server has not answered anything, once that has been noticed.
    silent_since: Option<Instant>,
}

impl<P: Primitive> Waiters<P> {
    pub(super) fn new() -> Self {
        Waiters {
            by_ticket: BTreeMap::new(),
            next_ticket: 0,
            deadlines: BTreeSet::new(),
            ending: BTreeSet::new(),
            silent_since: None,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_ticket.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.by_ticket.len()
    }

    /// The next one's ticket.
    pub(super) fn end(&self) -> Ticket {
        self.next_ticket
    }

    /// In the order of arrival.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Ticket, &P::Want)> {
        let each = self.by_ticket.iter();
        each.map(|(ticket, waiter)| (*ticket, &waiter.want))
    }

    pub(super) fn get(&self, ticket: Ticket) -> Option<&Waiter<P>> {
        self.by_ticket.get(&ticket)
    }

    pub(super) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut Waiter<P>> {
        self.by_ticket.get_mut(&ticket)
    }

    pub(super) fn join(
        &mut self,
        want: P::Want,
        reply: Reply<P>,
        deadline: Option<Instant>,
        now: Instant,
    ) -> Ticket {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        match deadline {
            Some(deadline) if deadline <= now => drop(self.ending.insert(ticket)),
            Some(deadline) => drop(self.deadlines.insert((deadline, ticket))),
            None => {}
        }
        let waiter = Waiter {
            want,
            reply,
            deadline,
            unanswered: Some(now),
            in_doubt: false,
        };
        self.by_ticket.insert(ticket, waiter);
        ticket
    }

    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<Waiter<P>> {
        let waiter = self.by_ticket.remove(&ticket)?;
        self.ending.remove(&ticket);
        if let Some(deadline) = waiter.deadline {
            self.deadlines.remove(&(deadline, ticket));
        }
        Some(waiter)
    }

    pub(super) fn first(&self) -> Option<Ticket> {
        self.by_ticket.keys().next().copied()
    }

    /// The first of those whose time is not up.
    pub(super) fn first_to_stay(&self) -> Option<(Ticket, P::Want)> {
        let mut all = self.iter();
        let first = all.find(|(ticket, _)| !self.ending.contains(ticket));
        first.map(|(ticket, want)| (ticket, want.clone()))
    }

    /// Whether the first of all has been told to wait.
    pub(super) fn somebody_was_answered(&self) -> bool {
        let mut all = self.by_ticket.values();
        all.next().is_some_and(|first| first.unanswered.is_none())
    }

    pub(super) fn tickets(&self) -> Vec<Ticket> {
        self.by_ticket.keys().copied().collect()
    }

    pub(super) fn first_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Time has passed.
    pub(super) fn end_overdue(&mut self, now: Instant) {
        while let Some((deadline, ticket)) = self.deadlines.first().copied()
            && deadline <= now
        {
            self.deadlines.pop_first();
            self.ending.insert(ticket);
            if let Some(waiter) = self.by_ticket.get_mut(&ticket) {
                // It has been told to wait, but for no longer than until now.
                waiter.unanswered.get_or_insert(now);
            }
        }
    }

    pub(super) fn somebody_ends(&self) -> bool {
        !self.ending.is_empty()
    }

    pub(super) fn ending(&self) -> impl Iterator<Item = Ticket> {
        self.ending.iter().copied()
    }

    pub(super) fn ends(&self, ticket: Ticket) -> bool {
        self.ending.contains(&ticket)
    }

    /// The server has answered something that was sent at `sent`: all who were there then do wait.
    pub(super) fn answered(&mut self, sent: Instant) {
        self.silent_since = None;
        // Those without an answer are the last ones, and some whose time is up.
        for (ticket, waiter) in self.by_ticket.iter_mut().rev() {
            match waiter.unanswered {
                Some(since) if since <= sent && !self.ending.contains(ticket) => {
                    waiter.unanswered = None;
                }
                Some(_) => {}
                None => break,
            }
        }
    }

    /// Those who wait although the server has answered.
    pub(super) fn answered_ones(&self) -> Vec<Ticket> {
        let all = self.by_ticket.iter();
        all.filter_map(|(ticket, waiter)| waiter.unanswered.is_none().then_some(*ticket))
            .collect()
    }

    /// The server has been silent since `began` at the latest. Who has waited in vain for an answer for `window`, and since
    /// when; and when the next one will have.
    pub(super) fn overdue(
        &mut self,
        began: Instant,
        now: Instant,
        window: Duration,
    ) -> (Vec<(Ticket, Instant)>, Option<Instant>) {
        let silent = *self.silent_since.get_or_insert(began);
        let (mut overdue, mut next) = (Vec::new(), None::<Instant>);
        for (ticket, waiter) in &self.by_ticket {
            let Some(since) = waiter.unanswered.map(|since| since.max(silent)) else {
                continue;
            };
            let due = since + window;
            if due <= now {
                overdue.push((*ticket, since));
            } else {
                next = Some(next.map_or(due, |next| next.min(due)));
            }
        }
        (overdue, next)
    }
}
