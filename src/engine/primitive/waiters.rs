//! Those who wait, in the order of their arrival.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::Ticket;
use super::row::Row;

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
    all: Row<Waiter<W, R>>,
    deadlines: BTreeSet<(Instant, Ticket)>,
    /// Those whose time is up: the next question that names them is their last.
    ending: BTreeSet<Ticket>,
    /// Since when the server has not answered anything, once that has been noticed.
    silent_since: Option<Instant>,
}

impl<W, R> Default for Waiters<W, R> {
    fn default() -> Self {
        Waiters {
            all: Row::default(),
            deadlines: BTreeSet::new(),
            ending: BTreeSet::new(),
            silent_since: None,
        }
    }
}

impl<W, R> Waiters<W, R> {
    pub(crate) fn is_empty(&self) -> bool {
        self.all.len() == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// The next one's ticket.
    pub(crate) fn end(&self) -> Ticket {
        self.all.end()
    }

    /// In the order of arrival.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Ticket, &W)> {
        let each = self.all.iter();
        each.map(|(ticket, waiter)| (ticket, &waiter.want))
    }

    pub(crate) fn get(&self, ticket: Ticket) -> Option<&Waiter<W, R>> {
        self.all.get(ticket)
    }

    pub(crate) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut Waiter<W, R>> {
        self.all.get_mut(ticket)
    }

    /// The last one from now on. Who does not `ask` is told what those before it are.
    pub(crate) fn join(
        &mut self,
        want: W,
        reply: R,
        deadline: Option<Instant>,
        asks: bool,
        now: Instant,
    ) -> Ticket {
        // Who does not wait asks in any case.
        let asks = asks || deadline.is_some_and(|deadline| deadline <= now);
        let last = self.all.last().filter(|_| !asks);
        let unanswered = last.map_or(Some(now), |last| last.unanswered);
        let ticket = self.all.push(Waiter {
            want,
            reply,
            deadline,
            unanswered,
            in_doubt: false,
        });
        match deadline {
            Some(deadline) if deadline <= now => drop(self.ending.insert(ticket)),
            Some(deadline) => drop(self.deadlines.insert((deadline, ticket))),
            None => {}
        }
        ticket
    }

    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<Waiter<W, R>> {
        let waiter = self.all.remove(ticket)?;
        self.ending.remove(&ticket);
        if let Some(deadline) = waiter.deadline {
            self.deadlines.remove(&(deadline, ticket));
        }
        Some(waiter)
    }

    pub(crate) fn first(&self) -> Option<Ticket> {
        self.all.first().map(|(ticket, _)| ticket)
    }

    /// The first of those whose time is not up.
    pub(crate) fn first_to_stay(&self) -> Option<(Ticket, &W)> {
        let first = self.first_waiter_to_stay();
        first.map(|(ticket, waiter)| (ticket, &waiter.want))
    }

    pub(crate) fn first_waiter_to_stay(&self) -> Option<(Ticket, &Waiter<W, R>)> {
        let stays = |(ticket, _): &(Ticket, _)| !self.ends(*ticket);
        let first = self.all.first().filter(stays);
        first.or_else(|| self.all.iter().find(stays))
    }

    pub(crate) fn tickets(&self) -> Vec<Ticket> {
        self.all.iter().map(|(ticket, _)| ticket).collect()
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
            if let Some(waiter) = self.all.get_mut(ticket) {
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
        !self.ending.is_empty() && self.ending.contains(&ticket)
    }

    /// The server has answered something that was sent at `sent`: all who were there then do wait.
    pub(crate) fn answered(&mut self, sent: Instant) {
        self.silent_since = None;
        // Those without an answer are the last ones, and some whose time is up.
        for (ticket, waiter) in self.all.iter_mut().rev() {
            match waiter.unanswered {
                Some(since) if since <= sent && !self.ending.contains(&ticket) => {
                    waiter.unanswered = None;
                }
                Some(_) => {}
                None => break,
            }
        }
    }

    /// Those who wait although the server has answered.
    pub(crate) fn answered_ones(&self) -> Vec<Ticket> {
        let all = self.all.iter();
        all.filter_map(|(ticket, waiter)| waiter.unanswered.is_none().then_some(ticket))
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
        for (ticket, waiter) in self.all.iter() {
            let Some(since) = waiter.unanswered.map(|since| since.max(silent)) else {
                continue;
            };
            let due = since + window;
            if due <= now {
                overdue.push((ticket, since));
            } else {
                next = Some(next.map_or(due, |next| next.min(due)));
            }
        }
        (overdue, next)
    }
}
