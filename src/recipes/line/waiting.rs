//! The callers of one line that wait for a permit, in the order of their arrival.
//!
//! The server's clock gives each an arrival at its first asking. By that our clients take turns: the first of
//! one client is not served before one of another client who came earlier.
//!
//! A caller whose waiting time is over keeps its place: the next question is its last, and the answer to that is its
//! answer. It may have been named in a question that is on its way, so there is no other way to tell it the truth.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::super::answer::Page;
use super::super::batch::MOST_CALLS;
use crate::api::Held;
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
    Holders(Page),
    Count(u64),
}

/// Where the answer to a caller goes.
pub(in crate::recipes) type Reply = oneshot::Sender<Result<Done>>;

/// One caller.
#[derive(Debug)]
pub(in crate::recipes) struct Waiter {
    pub(in crate::recipes) reply: Reply,
    /// Since when it waits for its first answer, or for its last; `None` when it has had the first.
    pub(in crate::recipes) asked: Option<Instant>,
    /// By the server's clock, in microseconds; 0 until it has asked.
    pub(in crate::recipes) arrival: u64,
    /// How long the permit is to last that it waits for.
    lasts: Duration,
    /// Since when its waiting time is over.
    ended: Option<Instant>,
    /// A question that named it was given up without an answer.
    pub(in crate::recipes) doubtful: bool,
}

/// The line.
#[derive(Debug, Default)]
pub(in crate::recipes) struct Waiters {
    by_ticket: BTreeMap<u64, Waiter>,
    /// Those whose waiting time is over.
    ended: BTreeSet<u64>,
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
    /// Those for whom it is the last question.
    last_for: Vec<u64>,
}

/// Neighbours in the line who came together, for permits that last equally long.
#[derive(Debug)]
pub(in crate::recipes) struct Run {
    pub(in crate::recipes) arrival: u64,
    pub(in crate::recipes) lasts: Duration,
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

    pub(in crate::recipes) fn len(&self) -> usize {
        self.by_ticket.len()
    }

    pub(in crate::recipes) fn join(&mut self, reply: Reply, lasts: Duration) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let waiter = Waiter {
            reply,
            asked: Some(Instant::now()),
            arrival: 0,
            lasts,
            ended: None,
            doubtful: false,
        };
        self.by_ticket.insert(ticket, waiter);
        ticket
    }

    /// Leaves the line, served or not.
    pub(in crate::recipes) fn leave(&mut self, ticket: u64) -> Option<Waiter> {
        self.ended.remove(&ticket);
        self.by_ticket.remove(&ticket)
    }

    /// Takes those of `tickets` out who are there still.
    pub(in crate::recipes) fn take(&mut self, tickets: Vec<u64>) -> Vec<Waiter> {
        let tickets = tickets.into_iter();
        tickets.filter_map(|ticket| self.leave(ticket)).collect()
    }

    pub(in crate::recipes) fn contains(&self, ticket: u64) -> bool {
        self.by_ticket.contains_key(&ticket)
    }

    /// The waiting time of one is over; `false` if it has been answered already.
    pub(in crate::recipes) fn end(&mut self, ticket: u64) -> bool {
        let Some(waiter) = self.by_ticket.get_mut(&ticket) else {
            return false;
        };
        let now = Instant::now();
        waiter.ended = Some(now);
        waiter.asked.get_or_insert(now);
        self.ended.insert(ticket);
        true
    }

    /// Takes out those for whom `claim` was the last question.
    pub(in crate::recipes) fn take_ended(&mut self, claim: &Claim) -> Vec<Waiter> {
        let tickets = claim.last_for.iter();
        tickets.filter_map(|ticket| self.leave(*ticket)).collect()
    }

    /// Nobody knows what became of `claim`.
    pub(in crate::recipes) fn doubt(&mut self, claim: &Claim) {
        for ticket in claim.tickets() {
            if let Some(waiter) = self.by_ticket.get_mut(&ticket) {
                waiter.doubtful = true;
            }
        }
    }

    pub(in crate::recipes) fn take_all(&mut self) -> Vec<Waiter> {
        self.ended.clear();
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
                Some(run) if run.arrival == waiter.arrival && run.lasts == waiter.lasts => {
                    run.tickets.push(*ticket);
                }
                _ if full => break,
                _ => runs.push(Run {
                    arrival: waiter.arrival,
                    lasts: waiter.lasts,
                    tickets: vec![*ticket],
                }),
            }
        }
        Claim {
            runs,
            waiting: self.by_ticket.len(),
            end: self.next_ticket,
            last_for: self.ended.iter().copied().collect(),
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
            waiter.asked = waiter.ended;
        }
        waiters
    }

    /// Whether somebody has not got his place in the order yet, or has to be asked for for the last time.
    pub(in crate::recipes) fn somebody_cannot_wait(&self) -> bool {
        let last = self.by_ticket.values().next_back();
        !self.ended.is_empty() || last.is_some_and(|waiter| waiter.arrival == 0)
    }

    /// Whether somebody goes on waiting after an answer of the server.
    pub(in crate::recipes) fn somebody_was_answered(&self) -> bool {
        let mut waiting = self.by_ticket.values();
        let first = waiting.find(|waiter| waiter.ended.is_none());
        first.is_some_and(|waiter| waiter.asked.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> (Waiters, [oneshot::Receiver<Result<Done>>; 3]) {
        let mut waiters = Waiters::default();
        let answers = [(); 3].map(|()| {
            let (reply, answer) = oneshot::channel();
            waiters.join(reply, Duration::from_secs(10));
            answer
        });
        (waiters, answers)
    }

    fn tickets(waiters: &Waiters) -> Vec<u64> {
        waiters.by_ticket.keys().copied().collect()
    }

    #[test]
    fn who_is_at_his_end_keeps_his_place_until_a_question_that_was_made_after_it() {
        let (mut waiters, _answers) = three();
        let before = waiters.claim(9);
        assert!(waiters.end(1));
        waiters.serve(&before, 0, 7);
        assert!(waiters.take_ended(&before).is_empty());
        assert_eq!(tickets(&waiters), [0, 1, 2]);
        let last = waiters.claim(9);
        assert_eq!(last.tickets().collect::<Vec<_>>(), [0, 1, 2]);
        waiters.serve(&last, 1, 8);
        assert_eq!(waiters.take_ended(&last).len(), 1);
        assert_eq!(tickets(&waiters), [2]);
        assert!(!waiters.end(1), "it has been answered");
    }

    #[test]
    fn who_is_at_his_end_is_told_in_time_that_nobody_answers() {
        let (mut waiters, _answers) = three();
        let claim = waiters.claim(9);
        waiters.serve(&claim, 0, 7);
        let window = Duration::ZERO;
        let overdue = |waiters: &mut Waiters| waiters.take_overdue(Instant::now(), window).0;
        assert!(overdue(&mut waiters).is_empty(), "all have been answered");
        waiters.end(1);
        waiters.doubt(&claim);
        let told = overdue(&mut waiters);
        assert_eq!(told.len(), 1);
        assert!(told[0].0 == 1 && told[0].1.doubtful);
    }
}
