//! The callers of one process that wait for permits of one semaphore, in the order of their arrival.
//!
//! The first ones ask together: a *claim* names them by runs of equal amounts. A smaller request behind
//! one that does not fit may pass it, until the larger one has been passed for [`PASSING_LIMIT`]; then
//! the line stops until that one is served.
//!
//! Who is at the end of its wait stands in line no more, but keeps its ticket until it is answered: a question that
//! names it may be on its way. The next one names it among those who take what is left, and is its last.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::claim::{Claim, Run};
use super::turns::Report;
use crate::api::PASSING_LIMIT;
use crate::error::Result;

/// A claim names this many waiters at first; more as long as all that were named are served.
const FIRST_REACH: usize = 16;
const LONGEST_REACH: usize = 4096;
/// A claim has this many runs at the most: it bounds the script's time and the request's size.
const MOST_RUNS: usize = 64;

/// Where the answer to a caller goes. Who gets permits is told 1, or, where they are on record, the number of the life
/// that they are on record under.
pub(crate) type Reply = oneshot::Sender<Result<i64>>;

/// One caller.
pub(crate) struct Waiter {
    pub(crate) permits: u32,
    /// What it takes is on record.
    pub(crate) recorded: bool,
    pub(crate) reply: Reply,
    /// When it came.
    pub(crate) since: Instant,
    /// Whether it waits for an answer since then, or has joined without asking.
    pub(crate) asked: bool,
    /// A question that named it has never been answered, and never will be.
    pub(crate) doubtful: bool,
}

/// The line.
pub(crate) struct Waiters {
    by_ticket: BTreeMap<u64, Waiter>,
    /// Those at the end of their wait, and since when.
    ending: BTreeMap<u64, (Waiter, Instant)>,
    /// How many wait for each amount.
    amounts: BTreeMap<u32, usize>,
    next_ticket: u64,
    /// The server has answered all that joined before this one, if only by serving others first.
    answered_before: u64,
    /// The waiter that others have passed, and since when.
    passed: Option<(u64, Instant)>,
    reach: usize,
}

/// Who leaves when a claim has been answered.
#[derive(Default)]
pub(crate) struct Served {
    /// The permits, whether they are on record, and who has them; one who has left meanwhile comes without its waiter.
    pub(crate) granted: Vec<(u32, bool, Option<Waiter>)>,
    /// Those who have asked for the last time.
    pub(crate) refused: Vec<Waiter>,
}

impl Waiters {
    pub(crate) fn new() -> Self {
        Waiters {
            by_ticket: BTreeMap::new(),
            ending: BTreeMap::new(),
            amounts: BTreeMap::new(),
            next_ticket: 0,
            answered_before: 0,
            passed: None,
            reach: FIRST_REACH,
        }
    }

    /// Whether nobody stands in line.
    /// How many callers there are, also at the end of their wait.
    pub(crate) fn len(&self) -> usize {
        self.by_ticket.len() + self.ending.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_ticket.is_empty()
    }

    /// Whether somebody is at the end of its wait and has to ask for the last time.
    pub(crate) fn somebody_ends(&self) -> bool {
        !self.ending.is_empty()
    }

    /// Joins the end of the line.
    pub(crate) fn join(&mut self, waiter: Waiter) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        *self.amounts.entry(waiter.permits).or_default() += 1;
        self.by_ticket.insert(ticket, waiter);
        ticket
    }

    /// Leaves, served or not.
    pub(crate) fn leave(&mut self, ticket: u64) -> Option<Waiter> {
        if let Some(waiter) = self.leave_line(ticket) {
            return Some(waiter);
        }
        self.ending.remove(&ticket).map(|(waiter, _)| waiter)
    }

    fn leave_line(&mut self, ticket: u64) -> Option<Waiter> {
        let waiter = self.by_ticket.remove(&ticket)?;
        if let Some(count) = self.amounts.get_mut(&waiter.permits) {
            *count -= 1;
            if *count == 0 {
                self.amounts.remove(&waiter.permits);
            }
        }
        Some(waiter)
    }

    /// The wait of `ticket` is over: it asks for the last time. Whether it was still there.
    pub(crate) fn end(&mut self, ticket: u64, now: Instant) -> bool {
        let waiter = self.leave_line(ticket);
        let there = waiter.is_some();
        self.ending
            .extend(waiter.map(|waiter| (ticket, (waiter, now))));
        there
    }

    /// Empties the line; those at the end of their wait are still answered.
    pub(crate) fn take_line(&mut self) -> Vec<Waiter> {
        self.amounts.clear();
        std::mem::take(&mut self.by_ticket).into_values().collect()
    }

    /// The same: those up to the ticket `asking`, whom the question under way may name, and the others.
    pub(crate) fn take_line_apart(&mut self, asking: Option<u64>) -> (Vec<Waiter>, Vec<Waiter>) {
        let others = match asking {
            Some(last) => self.by_ticket.split_off(&(last + 1)),
            None => std::mem::take(&mut self.by_ticket),
        };
        (self.take_line(), others.into_values().collect())
    }

    /// Takes out all, those at the end of their wait, too.
    pub(crate) fn take_all(&mut self) -> Vec<Waiter> {
        let ending = std::mem::take(&mut self.ending).into_values();
        let mut all = self.take_line();
        all.extend(ending.map(|(waiter, _)| waiter));
        all
    }

    /// Takes out those that `claim` names.
    pub(crate) fn take_named(&mut self, claim: &Claim) -> Vec<Waiter> {
        claim
            .tickets()
            .filter_map(|ticket| self.leave(ticket))
            .collect()
    }

    /// Takes out those that `claim`, which has failed, stands for: what stops the first ones in line stops all.
    pub(crate) fn take_failed(&mut self, claim: &Claim) -> Vec<Waiter> {
        let mut failed = if claim.runs.is_empty() {
            Vec::new()
        } else {
            self.take_line()
        };
        failed.extend(self.take_named(claim));
        failed
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
            named: claim.runs.iter().map(|run| run.tickets.len()).sum(),
            waiting: self.by_ticket.len(),
            ticket: self.by_ticket.keys().next().map_or(0, |first| first + 1),
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
        let unanswered = |(ticket, waiter): (&u64, &Waiter)| {
            let unanswered = waiter.asked && *ticket >= self.answered_before;
            unanswered.then_some((*ticket, waiter.since))
        };
        let standing = self.by_ticket.iter().filter_map(unanswered);
        let ending = self
            .ending
            .iter()
            .map(|(ticket, (_, since))| (*ticket, *since));
        for (ticket, since) in standing.chain(ending) {
            let due = since + window;
            if due <= now {
                overdue.push(ticket);
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

    /// Whether somebody whom `claim` names has gone.
    pub(crate) fn somebody_has_left(&self, claim: &Claim) -> bool {
        let here =
            |ticket| self.by_ticket.contains_key(&ticket) || self.ending.contains_key(&ticket);
        !claim.tickets().all(here)
    }

    /// `claim` was sent, and what has become of it will never be known.
    pub(crate) fn note_doubt(&mut self, claim: &Claim) {
        for ticket in claim.tickets() {
            if let Some(waiter) = self.by_ticket.get_mut(&ticket) {
                waiter.doubtful = true;
            } else if let Some((waiter, _)) = self.ending.get_mut(&ticket) {
                waiter.doubtful = true;
            }
        }
    }

    /// Who asks next: the first ones. With `free`, the permits that were free when these could not use them, those
    /// behind whom they fit come in addition.
    pub(crate) fn claim(&self, now: Instant, free: Option<i64>) -> Claim {
        let strict = self.must_not_pass(now);
        let free = free.filter(|_| !strict);
        let mut claim = Claim {
            strict,
            searched: free,
            end: self.next_ticket,
            ..Claim::default()
        };
        let near = if free.is_some() {
            MOST_RUNS / 2
        } else {
            MOST_RUNS
        };
        let mut first_behind = 0;
        for (ticket, waiter) in self.by_ticket.iter().take(self.reach) {
            if !claim.name(*ticket, waiter, near) {
                break;
            }
            first_behind = ticket + 1;
        }
        if let Some(free) = free {
            let behind = self.by_ticket.range(first_behind..);
            let fitting = behind.filter(|(_, waiter)| i64::from(waiter.permits) <= free);
            for (ticket, waiter) in fitting.take(self.reach) {
                if !claim.name(*ticket, waiter, MOST_RUNS) {
                    break;
                }
            }
        }
        claim
    }

    /// Adds those at the end of their wait to `claim`, as many as it has room for.
    pub(crate) fn name_ending(&self, claim: &mut Claim) {
        for (ticket, (waiter, _)) in self.ending.iter().take(LONGEST_REACH) {
            let full = claim.last.len() == MOST_RUNS;
            let run = claim.last.iter_mut().find(|run| run.suits(waiter));
            match run {
                Some(run) => run.tickets.push(*ticket),
                None if full => break,
                None => claim.last.push(Run::of(*ticket, waiter)),
            }
        }
    }

    /// Takes out those that a claim has served, `served[i]` of the i-th run, and those who have asked for the last time;
    /// notes who was passed.
    pub(crate) fn serve(&mut self, claim: &Claim, served: &[usize], now: Instant) -> Served {
        let mut out = Served::default();
        let mut count = 0;
        let mut all = true;
        for (index, (run, &served)) in claim.all_runs().zip(served).enumerate() {
            let (granted, refused) = run.tickets.split_at(served);
            for ticket in granted {
                let waiter = self.leave(*ticket);
                out.granted.push((run.permits, run.recorded, waiter));
            }
            if index < claim.runs.len() {
                count += served;
                all &= refused.is_empty();
            } else {
                let refused = refused.iter().filter_map(|ticket| self.leave(*ticket));
                out.refused.extend(refused);
            }
        }
        if !claim.runs.is_empty() {
            self.reach = if all {
                (self.reach * 4).min(LONGEST_REACH)
            } else {
                (count * 2).clamp(FIRST_REACH, LONGEST_REACH)
            };
        }
        self.answered_before = self.answered_before.max(claim.end);
        self.note_passing(claim, served, now);
        out
    }

    /// Takes out those whom exactly `permits` permits serve, in order; nobody if some would be left over, or if somebody
    /// would be passed for whom they are enough together with those that are `free`. Permits on record serve only those
    /// whose are to be.
    pub(crate) fn serve_exactly(
        &mut self,
        permits: u32,
        recorded: bool,
        free: i64,
        now: Instant,
    ) -> Vec<Waiter> {
        let strict = self.must_not_pass(now);
        let mut rest = permits;
        let mut tickets = Vec::new();
        let mut passed = None;
        for (ticket, waiter) in self.by_ticket.iter().take(MOST_RUNS) {
            if waiter.permits <= rest && waiter.recorded == recorded {
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
            .filter_map(|ticket| self.leave_line(*ticket))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of those who want so many each, and where they are answered.
    fn line(amounts: &[u32]) -> (Waiters, Vec<oneshot::Receiver<Result<i64>>>) {
        let mut waiters = Waiters::new();
        let mut answers = Vec::new();
        for permits in amounts {
            let (reply, answer) = oneshot::channel();
            answers.push(answer);
            waiters.join(Waiter {
                permits: *permits,
                recorded: false,
                reply,
                since: Instant::now(),
                asked: true,
                doubtful: false,
            });
        }
        (waiters, answers)
    }

    fn named(runs: &[Run]) -> Vec<(u32, usize)> {
        let named = |run: &Run| (run.permits, run.tickets.len());
        runs.iter().map(named).collect()
    }

    #[test]
    fn those_whom_it_fits_are_searched_for_behind_the_first_ones() {
        let amounts = [[5; 20].as_slice(), &[1, 4, 2]].concat();
        let (mut waiters, _answers) = line(&amounts);
        let now = Instant::now();
        let claim = waiters.claim(now, None);
        assert_eq!(named(&claim.runs), [(5, FIRST_REACH)]);
        waiters.serve(&claim, &[0], now);
        assert!(!claim.is_in_vain(&[0], 3), "nobody has been searched for");
        let claim = waiters.claim(now, Some(3));
        assert_eq!(named(&claim.runs), [(5, FIRST_REACH), (1, 1), (2, 1)]);
        assert!(claim.is_in_vain(&[0, 0, 0], 3));
        assert!(!claim.is_in_vain(&[0, 0, 0], 2), "less is free now");
        assert!(!claim.is_in_vain(&[0, 1, 0], 3), "somebody was served");
        let served = waiters.serve(&claim, &[0, 1, 1], now);
        assert_eq!(served.granted.len(), 2);
        assert!(served.refused.is_empty(), "the others go on waiting");
    }

    #[test]
    fn permits_on_record_are_not_handed_to_callers_without_a_guard() {
        let (mut waiters, _answers) = line(&[1, 1]);
        let now = Instant::now();
        assert!(waiters.serve_exactly(1, true, 0, now).is_empty());
        assert_eq!(waiters.serve_exactly(1, false, 0, now).len(), 1);
    }

    #[test]
    fn who_is_at_the_end_of_its_wait_is_named_once_more_and_leaves_then() {
        let (mut waiters, _answers) = line(&[2, 1, 2]);
        let now = Instant::now();
        let under_way = waiters.claim(now, None);
        assert!(waiters.end(0, now) && waiters.end(2, now));
        assert!(!waiters.somebody_has_left(&under_way), "they can be served");
        let mut last = waiters.claim(now, None);
        waiters.name_ending(&mut last);
        assert_eq!(named(&last.runs), [(1, 1)]);
        assert_eq!(named(&last.last), [(2, 2)]);
        assert!(last.names(0) && last.names(1) && last.names(2));
        let served = waiters.serve(&last, &[0, 1], now);
        assert_eq!(served.granted.len(), 1);
        assert_eq!(served.refused.len(), 1);
        assert!(!waiters.somebody_ends() && !waiters.is_empty());
        assert!(!waiters.end(0, now), "its answer is on its way");
    }
}
