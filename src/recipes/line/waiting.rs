//! The callers of one line that wait for a permit, in the order of their arrival.
//!
//! The server's clock gives each an arrival at its first asking. By that our clients take turns: the first of
//! one client is not served before one of another client who came earlier.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::super::batch::MOST_CALLS;
use crate::api::{Held, Holder};
use crate::error::Result;

/// A claim has this many runs at the most.
const MOST_RUNS: usize = 64;

/// What a call is answered with.
#[derive(Debug)]
pub(in crate::recipes) enum Done {
    /// Granted or not.
    Held(Option<Held>),
    /// Whether it held.
    Was(bool),
    Holders(Vec<Holder>),
    Count(u64),
}

/// Where the answer to a caller goes.
pub(in crate::recipes) type Reply = oneshot::Sender<Result<Done>>;

/// One caller.
#[derive(Debug)]
pub(in crate::recipes) struct Waiter {
    pub(in crate::recipes) reply: Reply,
    /// Since when it waits for its first answer; `None` when it has had it.
    pub(in crate::recipes) asked: Option<Instant>,
    /// By the server's clock, in microseconds; 0 until it has asked.
    pub(in crate::recipes) arrival: u64,
}

/// The line.
#[derive(Debug, Default)]
pub(in crate::recipes) struct Waiters {
    by_ticket: BTreeMap<u64, Waiter>,
    next_ticket: u64,
}

/// Those who ask together.
#[derive(Debug, Default)]
pub(in crate::recipes) struct Claim {
    pub(in crate::recipes) runs: Vec<Run>,
    /// How many wait, named or not.
    pub(in crate::recipes) waiting: usize,
    /// The tickets from this one on were given out later.
    end: u64,
}

/// Neighbours in the line who came together.
#[derive(Debug)]
pub(in crate::recipes) struct Run {
    pub(in crate::recipes) arrival: u64,
    pub(in crate::recipes) tickets: Vec<u64>,
}

impl Claim {
    /// How many are named.
    pub(in crate::recipes) fn len(&self) -> usize {
        self.runs.iter().map(|run| run.tickets.len()).sum()
    }

    pub(in crate::recipes) fn tickets(&self) -> impl Iterator<Item = u64> + '_ {
        self.runs.iter().flat_map(|run| run.tickets.iter().copied())
    }
}

impl Waiters {
    pub(in crate::recipes) fn is_empty(&self) -> bool {
        self.by_ticket.is_empty()
    }

    pub(in crate::recipes) fn join(&mut self, reply: Reply) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let waiter = Waiter {
            reply,
            asked: Some(Instant::now()),
            arrival: 0,
        };
        self.by_ticket.insert(ticket, waiter);
        ticket
    }

    /// Leaves the line, served or not.
    pub(in crate::recipes) fn leave(&mut self, ticket: u64) -> Option<Waiter> {
        self.by_ticket.remove(&ticket)
    }

    pub(in crate::recipes) fn take_all(&mut self) -> Vec<Waiter> {
        std::mem::take(&mut self.by_ticket).into_values().collect()
    }

    /// Takes out those who wait although they have had their answer.
    pub(in crate::recipes) fn take_answered(&mut self) -> Vec<Waiter> {
        let all = std::mem::take(&mut self.by_ticket).into_iter();
        let (answered, others) = all.partition(|(_, waiter)| waiter.asked.is_none());
        self.by_ticket = others;
        BTreeMap::into_values(answered).collect()
    }

    /// Takes out those without any answer for longer than `window`; also says when the next one's time is up.
    pub(in crate::recipes) fn take_overdue(
        &mut self,
        now: Instant,
        window: Duration,
    ) -> (Vec<(u64, Waiter)>, Option<Instant>) {
        let due = |waiter: &Waiter| waiter.asked.map(|since| since + window);
        let over = |waiter: &Waiter| due(waiter).is_some_and(|due| due <= now);
        let tickets: Vec<u64> = self
            .by_ticket
            .iter()
            .filter_map(|(ticket, waiter)| over(waiter).then_some(*ticket))
            .collect();
        let overdue = tickets
            .into_iter()
            .filter_map(|ticket| Some((ticket, self.leave(ticket)?)))
            .collect();
        (overdue, self.by_ticket.values().filter_map(due).min())
    }

    /// Who asks now: as many as there can be permits for, which are `limit`, and the next one, who then stands for
    /// all the others in the line that all clients see.
    pub(in crate::recipes) fn claim(&self, limit: u32) -> Claim {
        let mut runs: Vec<Run> = Vec::new();
        let most = MOST_CALLS.min((limit as usize).saturating_add(1));
        for (ticket, waiter) in self.by_ticket.iter().take(most) {
            let full = runs.len() == MOST_RUNS;
            match runs.last_mut() {
                Some(run) if run.arrival == waiter.arrival => run.tickets.push(*ticket),
                _ if full => break,
                _ => runs.push(Run {
                    arrival: waiter.arrival,
                    tickets: vec![*ticket],
                }),
            }
        }
        Claim {
            runs,
            waiting: self.by_ticket.len(),
            end: self.next_ticket,
        }
    }

    /// The server has answered `claim` at `now` by its clock, and served the first `served`: takes those out. One who
    /// has left meanwhile comes as `None`. Those who were counted only have come before that, too.
    pub(in crate::recipes) fn serve(
        &mut self,
        claim: &Claim,
        served: usize,
        now: u64,
    ) -> Vec<Option<Waiter>> {
        let tickets = claim.tickets().take(served);
        let waiters = tickets.map(|ticket| self.leave(ticket)).collect();
        for (_, waiter) in self.by_ticket.range_mut(..claim.end).rev() {
            if waiter.arrival != 0 {
                break;
            }
            waiter.arrival = now;
            waiter.asked = None;
        }
        waiters
    }

    /// The server has answered `claim`, if only that it must wait.
    pub(in crate::recipes) fn note_answered(&mut self, claim: &Claim) {
        for (_, waiter) in self.by_ticket.range_mut(..claim.end).rev() {
            if waiter.asked.take().is_none() {
                break;
            }
        }
    }

    /// Whether somebody goes on waiting after an answer of the server.
    pub(in crate::recipes) fn somebody_was_answered(&self) -> bool {
        let first = self.by_ticket.values().next();
        first.is_some_and(|waiter| waiter.asked.is_none())
    }
}
