//! Those who wait, in the order of their arrival.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::Ticket;

/// One caller who waits for `W`, and where its answer goes.
pub(crate) struct Waiter<W, R> {
    pub(crate) want: W,
    pub(crate) reply: R,
    deadline: Option<Instant>,
    /// Since when it waits for an answer of the server's, if only to somebody else; `None` once there was one.
    pub(crate) unanswered: Option<Instant>,
    /// What became of a question that named it will never be known.
    pub(crate) in_doubt: bool,
}

/// Those who wait.
pub(crate) struct Waiters<W, R> {
    by_ticket: BTreeMap<Ticket, Waiter<W, R>>,
    next_ticket: Ticket,
    deadlines: BTreeSet<(Instant, Ticket)>,
    /// Those whose time is up: the next question that names them is their last.
    ending: BTreeSet<Ticket>,
    /// Since when the server has not answered anything, once that has been noticed.
    silent_since: Option<Instant>,
}

impl<W, R> Default for Waiters<W, R> {
    fn default() -> Self {
        Waiters {
            by_ticket: BTreeMap::new(),
            next_ticket: 0,
            deadlines: BTreeSet::new(),
            ending: BTreeSet::new(),
            silent_since: None,
        }
    }
}

impl<W, R> Waiters<W, R> {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_ticket.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_ticket.len()
    }

    /// The next one's ticket.
    pub(crate) fn end(&self) -> Ticket {
        self.next_ticket
    }

    /// In the order of arrival.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Ticket, &W)> {
        let each = self.by_ticket.iter();
        each.map(|(ticket, waiter)| (*ticket, &waiter.want))
    }

    /// Those whose time is not up.
    pub(crate) fn staying(&self) -> impl Iterator<Item = (Ticket, &W)> {
        self.iter()
            .filter(|(ticket, _)| !self.ending.contains(ticket))
    }

    pub(crate) fn get(&self, ticket: Ticket) -> Option<&Waiter<W, R>> {
        self.by_ticket.get(&ticket)
    }

    pub(crate) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut Waiter<W, R>> {
        self.by_ticket.get_mut(&ticket)
    }

    pub(crate) fn join(
        &mut self,
        want: W,
        reply: R,
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

    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<Waiter<W, R>> {
        let waiter = self.by_ticket.remove(&ticket)?;
        self.ending.remove(&ticket);
        if let Some(deadline) = waiter.deadline {
            self.deadlines.remove(&(deadline, ticket));
        }
        Some(waiter)
    }

    pub(crate) fn first(&self) -> Option<Ticket> {
        self.by_ticket.keys().next().copied()
    }

    /// Whether somebody's time is not up.
    pub(crate) fn somebody_stays(&self) -> bool {
        self.by_ticket.len() > self.ending.len()
    }

    /// Since when the last one waits for an answer, if it does; nothing if there is nobody.
    pub(crate) fn last_unanswered(&self) -> Option<Option<Instant>> {
        let last = self.by_ticket.values().next_back();
        last.map(|last| last.unanswered)
    }

    /// The first of those whose time is not up.
    pub(crate) fn first_to_stay(&self) -> Option<(Ticket, &W)> {
        let first = self.first_waiter_to_stay();
        first.map(|(ticket, waiter)| (ticket, &waiter.want))
    }

    pub(crate) fn first_waiter_to_stay(&self) -> Option<(Ticket, &Waiter<W, R>)> {
        let stays = |(ticket, _): &(&Ticket, _)| !self.ending.contains(ticket);
        let first = self.by_ticket.first_key_value();
        let first = first.filter(stays);
        let first = first.or_else(|| self.by_ticket.iter().find(stays))?;
        Some((*first.0, first.1))
    }

    /// Whether that one has been told to wait.
    pub(crate) fn first_to_stay_was_answered(&self) -> bool {
        let first = self.first_waiter_to_stay();
        first.is_some_and(|(_, first)| first.unanswered.is_none())
    }

    pub(crate) fn tickets(&self) -> Vec<Ticket> {
        self.by_ticket.keys().copied().collect()
    }

    pub(crate) fn first_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Time has passed: somebody's may be up.
    pub(crate) fn end_overdue(&mut self, now: Instant) {
        while let Some((deadline, ticket)) = self.deadlines.first().copied()
            && deadline <= now
        {
            self.deadlines.pop_first();
            if let Some(waiter) = self.by_ticket.get_mut(&ticket) {
                // It has been told to wait, but for no longer than until now.
                waiter.unanswered.get_or_insert(now);
                self.ending.insert(ticket);
            }
        }
    }

    pub(crate) fn somebody_ends(&self) -> bool {
        !self.ending.is_empty()
    }

    pub(crate) fn ending(&self) -> impl Iterator<Item = Ticket> {
        self.ending.iter().copied()
    }

    pub(crate) fn ends(&self, ticket: Ticket) -> bool {
        self.ending.contains(&ticket)
    }

    /// The server has answered something that was sent at `sent`: all who were there then do wait.
    pub(crate) fn answered(&mut self, sent: Instant) {
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
    pub(crate) fn answered_ones(&self) -> Vec<Ticket> {
        let all = self.by_ticket.iter();
        all.filter_map(|(ticket, waiter)| waiter.unanswered.is_none().then_some(*ticket))
            .collect()
    }

    /// The server has been silent since `began` at the latest. Who has waited in vain for an answer for `window`, and since
    /// when; and when the next one will have.
    pub(crate) fn overdue(
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
