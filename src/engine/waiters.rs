//! The callers of one process that wait for permits of one semaphore, in the order of their arrival.
//!
//! The first ones ask together: a *claim* names them by runs of equal amounts. A smaller request behind
//! one that does not fit may pass it, until the larger one has been passed for [`PASSING_LIMIT`]; then
//! the line stops until that one is served.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::turns::Report;
use crate::api::PASSING_LIMIT;
use crate::error::Result;

/// A claim names this many waiters at first; more as long as all that were named are served.
const FIRST_REACH: usize = 16;
const LONGEST_REACH: usize = 4096;
/// A claim has this many runs at the most: it bounds the script's time and the request's size.
const MOST_RUNS: usize = 64;

/// Where the answer to a caller goes.
pub(crate) type Reply = oneshot::Sender<Result<i64>>;

/// One caller.
pub(crate) struct Waiter {
    pub(crate) permits: u32,
    pub(crate) reply: Reply,
    /// When it came.
    pub(crate) since: Instant,
    /// Whether it waits for an answer since then, or has joined without asking.
    pub(crate) asked: bool,
}

/// The line.
pub(crate) struct Waiters {
    by_ticket: BTreeMap<u64, Waiter>,
    /// How many wait for each amount.
    amounts: BTreeMap<u32, usize>,
    next_ticket: u64,
    /// How many permits all of them want.
    want: u64,
    /// The server has answered all that joined before this one, if only by serving others first.
    answered_before: u64,
    /// The waiter that others have passed, and since when.
    passed: Option<(u64, Instant)>,
    reach: usize,
}

/// Waiters that ask together.
#[derive(Debug, Default)]
pub(crate) struct Claim {
    pub(crate) runs: Vec<Run>,
    /// Whether the line stops where a run falls short.
    pub(crate) strict: bool,
    /// Whether only those were named that fitted what was free.
    filtered: bool,
    /// The first ticket that was not given out yet when they asked.
    end: u64,
}

/// Neighbours in the line that want the same amount.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) permits: u32,
    pub(crate) tickets: Vec<u64>,
}

impl Waiters {
    pub(crate) fn new() -> Self {
        Waiters {
            by_ticket: BTreeMap::new(),
            amounts: BTreeMap::new(),
            next_ticket: 0,
            want: 0,
            answered_before: 0,
            passed: None,
            reach: FIRST_REACH,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_ticket.is_empty()
    }

    /// Joins the end of the line.
    pub(crate) fn join(&mut self, waiter: Waiter) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        *self.amounts.entry(waiter.permits).or_default() += 1;
        self.want += u64::from(waiter.permits);
        self.by_ticket.insert(ticket, waiter);
        ticket
    }

    /// Leaves the line, served or not.
    pub(crate) fn leave(&mut self, ticket: u64) -> Option<Waiter> {
        let waiter = self.by_ticket.remove(&ticket)?;
        self.want -= u64::from(waiter.permits);
        if let Some(count) = self.amounts.get_mut(&waiter.permits) {
            *count -= 1;
            if *count == 0 {
                self.amounts.remove(&waiter.permits);
            }
        }
        Some(waiter)
    }

    /// Empties the line.
    pub(crate) fn take_all(&mut self) -> Vec<Waiter> {
        self.amounts.clear();
        self.want = 0;
        std::mem::take(&mut self.by_ticket).into_values().collect()
    }

    /// Takes out those that wait although they have had their answer.
    pub(crate) fn take_answered(&mut self) -> Vec<Waiter> {
        let answered = |(ticket, waiter): (&u64, &Waiter)| {
            (*ticket < self.answered_before || !waiter.asked).then_some(*ticket)
        };
        let tickets: Vec<u64> = self.by_ticket.iter().filter_map(answered).collect();
        tickets
            .into_iter()
            .filter_map(|ticket| self.leave(ticket))
            .collect()
    }

    /// The first in line.
    pub(crate) fn first(&self) -> Option<&Waiter> {
        self.by_ticket.values().next()
    }

    /// What the server is told about them, and about those of `claim`, for the rule of turns.
    pub(crate) fn report(&self, claim: &Claim, now: Instant) -> Report {
        let waited = |waiter: Option<&Waiter>| {
            waiter.map_or(Duration::ZERO, |waiter| {
                now.saturating_duration_since(waiter.since)
            })
        };
        let last = claim.runs.last().and_then(|run| run.tickets.last());
        Report {
            head: waited(self.by_ticket.values().next()),
            last: waited(last.and_then(|ticket| self.by_ticket.get(ticket))),
            tail: waited(self.by_ticket.values().next_back()),
            named: claim.runs.iter().map(|run| run.tickets.len()).sum(),
            want: self.want,
            strict: claim.strict,
            ..Report::default()
        }
    }

    /// Whether somebody goes on waiting after the server's answer.
    pub(crate) fn somebody_was_answered(&self) -> bool {
        self.by_ticket
            .keys()
            .next()
            .is_some_and(|first| *first < self.answered_before)
    }

    /// Takes out those without any answer for longer than `window`; also says when the next one's time
    /// is up.
    pub(crate) fn take_overdue(
        &mut self,
        now: Instant,
        window: Duration,
    ) -> (Vec<(u64, Waiter)>, Option<Instant>) {
        let mut overdue = Vec::new();
        let mut next = None;
        for (ticket, waiter) in &self.by_ticket {
            if !waiter.asked || *ticket < self.answered_before {
                continue;
            }
            let due = waiter.since + window;
            if due <= now {
                overdue.push(*ticket);
            } else {
                next = Some(next.map_or(due, |next: Instant| next.min(due)));
            }
        }
        let waiters = overdue
            .into_iter()
            .filter_map(|ticket| Some((ticket, self.leave(ticket)?)))
            .collect();
        (waiters, next)
    }

    /// Who asks next. With `free`, the permits known to be free, only those that fit.
    pub(crate) fn claim(&self, now: Instant, free: Option<i64>) -> Claim {
        let strict = self.must_not_pass(now);
        let mut claim = Claim {
            runs: Vec::new(),
            strict,
            filtered: free.is_some(),
            end: self.next_ticket,
        };
        let fitting = |waiter: &Waiter| match free {
            Some(free) if !strict => i64::from(waiter.permits) <= free,
            _ => true,
        };
        let waiters = self.by_ticket.iter().filter(|(_, waiter)| fitting(waiter));
        for (ticket, waiter) in waiters.take(self.reach) {
            let runs = claim.runs.len();
            match claim.runs.last_mut() {
                Some(run) if run.permits == waiter.permits => run.tickets.push(*ticket),
                _ if runs == MOST_RUNS => break,
                _ => claim.runs.push(Run {
                    permits: waiter.permits,
                    tickets: vec![*ticket],
                }),
            }
        }
        claim
    }

    /// Takes out those that a claim has served, `served[i]` of the i-th run, and notes who was passed.
    /// A ticket that has left the line meanwhile comes back without its waiter.
    pub(crate) fn serve(
        &mut self,
        claim: &Claim,
        served: &[usize],
        now: Instant,
    ) -> Vec<(u32, Option<Waiter>)> {
        let mut out = Vec::new();
        let mut all = true;
        for (run, &count) in claim.runs.iter().zip(served) {
            for ticket in run.tickets.iter().take(count) {
                out.push((run.permits, self.leave(*ticket)));
            }
            all &= count >= run.tickets.len();
        }
        self.reach = if all {
            (self.reach * 4).min(LONGEST_REACH)
        } else {
            (out.len() * 2).clamp(FIRST_REACH, LONGEST_REACH)
        };
        self.answered_before = self.answered_before.max(claim.end);
        self.note_passing(claim, served, now);
        out
    }

    /// Takes out those whom exactly `permits` permits serve, in order; nobody if some would be left over, or if somebody
    /// would be passed for whom they are enough together with those that are `free`.
    pub(crate) fn serve_exactly(&mut self, permits: u32, free: i64, now: Instant) -> Vec<Waiter> {
        let strict = self.must_not_pass(now);
        let mut rest = permits;
        let mut tickets = Vec::new();
        let mut passed = None;
        for (ticket, waiter) in self.by_ticket.iter().take(MOST_RUNS) {
            if waiter.permits <= rest {
                rest -= waiter.permits;
                tickets.push(*ticket);
                if rest == 0 {
                    break;
                }
            } else if strict || i64::from(waiter.permits) <= free.saturating_add(rest.into()) {
                break;
            } else {
                passed.get_or_insert(*ticket);
            }
        }
        if rest > 0 {
            return Vec::new();
        }
        let served = tickets
            .iter()
            .filter_map(|ticket| self.leave(*ticket))
            .collect();
        if passed.is_some_and(|passed| tickets.last() > Some(&passed)) {
            self.note_passed(now);
        }
        served
    }

    fn note_passing(&mut self, claim: &Claim, served: &[usize], now: Instant) {
        let head = self.by_ticket.keys().next().copied();
        let passed = claim
            .runs
            .iter()
            .zip(served)
            .any(|(run, &count)| run.tickets.iter().take(count).next_back().copied() > head);
        if head.is_some() && passed {
            self.note_passed(now);
        }
    }

    /// The first in line has been passed; the limit counts from the first time.
    fn note_passed(&mut self, now: Instant) {
        let head = self.by_ticket.keys().next().copied();
        if self.passed.map(|(ticket, _)| ticket) != head {
            self.passed = head.map(|head| (head, now));
        }
    }

    fn must_not_pass(&self, now: Instant) -> bool {
        let head = self.by_ticket.keys().next();
        self.passed.is_some_and(|(ticket, since)| {
            Some(&ticket) == head && now.saturating_duration_since(since) >= PASSING_LIMIT
        })
    }

    /// Whether somebody could be served with `free` permits.
    pub(crate) fn somebody_fits(&self, free: i64, now: Instant) -> bool {
        let wanted = if self.must_not_pass(now) {
            self.by_ticket.values().next().map(|waiter| waiter.permits)
        } else {
            self.amounts.keys().next().copied()
        };
        wanted.is_some_and(|wanted| i64::from(wanted) <= free)
    }
}

impl Claim {
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether this waiter joined in time to be a part of it.
    pub(crate) fn may_include(&self, ticket: u64) -> bool {
        ticket < self.end
    }

    /// Whether a claim that was served as `served` says has left nobody behind.
    pub(crate) fn is_satisfied(&self, served: &[usize]) -> bool {
        let full = |(run, &count): (&Run, &usize)| run.tickets.len() == count;
        !self.filtered && self.runs.iter().zip(served).all(full)
    }
}
