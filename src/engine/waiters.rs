//! The callers of one process that wait for permits of one semaphore, in the order of their arrival.
//!
//! The first ones ask together: a *claim* names them by runs of equal amounts. A smaller request behind
//! one that does not fit may pass it, until the larger one has been passed for [`PASSING_LIMIT`]; then
//! the line stops until that one is served.
//!
//! Tickets, deadlines and who has been answered are those of every line, [`primitive::waiters`](super::primitive::waiters). Who
//! is at the end of its wait stands in line no more, but keeps its ticket until it is answered: a question that
//! names it may be on its way. The next one names it among those who take what is left, and is its last.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::claim::Claim;
use super::primitive::{Ticket, waiters};
use super::turns::Report;
use crate::api::PASSING_LIMIT;
use crate::error::Result;

/// A claim names this many waiters at first; more as long as all that were named are served.
const FIRST_REACH: usize = 16;
pub(super) const LONGEST_REACH: usize = 4096;
/// A claim has this many runs at the most: it bounds the script's time and the request's size.
pub(super) const MOST_RUNS: usize = 64;

/// Where the answer to a caller goes. Who gets permits is told 1, or, where they are on record, the number of the life
/// that they are on record under.
pub(crate) type Reply = oneshot::Sender<Result<i64>>;

/// What a caller waits for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Want {
    pub(crate) permits: u32,
    /// What it takes is on record.
    pub(crate) recorded: bool,
    /// When it came.
    pub(crate) since: Instant,
}

/// One caller.
pub(crate) type Waiter = waiters::Waiter<Want, Reply>;

/// The line.
pub(crate) struct Waiters {
    pub(super) all: waiters::Waiters<Want, Reply>,
    /// How many want each amount.
    amounts: BTreeMap<u32, usize>,
    /// The waiter that others have passed, and since when.
    passed: Option<(Ticket, Instant)>,
    pub(super) reach: usize,
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
            all: waiters::Waiters::default(),
            amounts: BTreeMap::new(),
            passed: None,
            reach: FIRST_REACH,
        }
    }

    /// How many callers there are, also at the end of their wait.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether nobody stands in line.
    pub(crate) fn is_empty(&self) -> bool {
        !self.all.somebody_stays()
    }

    /// Whether somebody is at the end of its wait and has to ask for the last time.
    pub(crate) fn somebody_ends(&self) -> bool {
        self.all.somebody_ends()
    }

    /// Joins the end of the line, until `deadline` if there is one. Who does not `ask` is told what those before it are.
    pub(crate) fn join(
        &mut self,
        want: Want,
        reply: Reply,
        deadline: Option<Instant>,
        asks: bool,
    ) -> Ticket {
        *self.amounts.entry(want.permits).or_default() += 1;
        let last = self.all.last_unanswered().filter(|_| !asks);
        let ticket = self.all.join(want, reply, deadline, want.since);
        if let Some(waiter) = self.all.get_mut(ticket)
            && let Some(unanswered) = last
        {
            waiter.unanswered = unanswered;
        }
        ticket
    }

    /// Leaves, served or not.
    pub(crate) fn leave(&mut self, ticket: Ticket) -> Option<Waiter> {
        let waiter = self.all.remove(ticket)?;
        if let Some(count) = self.amounts.get_mut(&waiter.want.permits) {
            *count -= 1;
            if *count == 0 {
                self.amounts.remove(&waiter.want.permits);
            }
        }
        Some(waiter)
    }

    fn leave_all(&mut self, tickets: Vec<Ticket>) -> Vec<Waiter> {
        let each = tickets.into_iter();
        each.filter_map(|ticket| self.leave(ticket)).collect()
    }

    /// Those whose time is not up.
    pub(super) fn standing(&self) -> impl Iterator<Item = (Ticket, &Want)> {
        self.all
            .iter()
            .filter(|(ticket, _)| !self.all.ends(*ticket))
    }

    /// When the next wait ends.
    pub(crate) fn first_deadline(&self) -> Option<Instant> {
        self.all.first_deadline()
    }

    /// Time has passed. Whether somebody asks for the last time from now on.
    pub(crate) fn end_overdue(&mut self, now: Instant) -> bool {
        self.all.end_overdue(now)
    }

    /// Empties the line; those at the end of their wait are still answered. Those up to the ticket `asking`, whom the
    /// question under way may name, and the others.
    pub(crate) fn take_line(&mut self, asking: Option<Ticket>) -> (Vec<Waiter>, Vec<Waiter>) {
        let may_ask = |ticket: &Ticket| asking.is_some_and(|last| *ticket <= last);
        let tickets: Vec<_> = self.standing().map(|(ticket, _)| ticket).collect();
        let (asking, others) = tickets.into_iter().partition(may_ask);
        (self.leave_all(asking), self.leave_all(others))
    }

    /// Takes out all, those at the end of their wait, too.
    pub(crate) fn take_all(&mut self) -> Vec<Waiter> {
        self.amounts.clear();
        self.all.take_all()
    }

    /// Takes out those that `claim` names.
    pub(crate) fn take_named(&mut self, claim: &Claim) -> Vec<Waiter> {
        self.leave_all(claim.tickets().collect())
    }

    /// Takes out those that `claim`, which has failed, stands for: what stops the first ones in line stops all.
    pub(crate) fn take_failed(&mut self, claim: &Claim) -> Vec<Waiter> {
        let mut failed = if claim.runs.is_empty() {
            Vec::new()
        } else {
            self.take_line(None).1
        };
        failed.extend(self.take_named(claim));
        failed
    }

    /// Takes out those that wait although they have had their answer.
    pub(crate) fn take_answered(&mut self) -> Vec<Waiter> {
        self.leave_all(self.all.answered_ones())
    }

    /// The first in line.
    pub(crate) fn first(&self) -> Option<&Want> {
        self.all.first_to_stay().map(|(_, want)| want)
    }

    /// What the server is told about them, and about those of `claim`, for the rule of turns.
    pub(crate) fn report(&self, claim: &Claim, now: Instant) -> Report {
        let waited = |want: Option<&Want>| {
            want.map_or(Duration::ZERO, |want| {
                now.saturating_duration_since(want.since)
            })
        };
        let last = claim.runs.last().and_then(|run| run.tickets.last());
        let last = last.and_then(|ticket| self.all.get(*ticket));
        let first = self.all.first_to_stay();
        Report {
            head: waited(first.map(|(_, want)| want)),
            last: waited(last.map(|waiter| &waiter.want)),
            named: claim.runs.iter().map(|run| run.tickets.len()).sum(),
            waiting: self.all.len_staying(),
            ticket: first.map_or(0, |(ticket, _)| ticket + 1),
            strict: claim.strict,
            ..Report::default()
        }
    }

    /// Whether somebody goes on waiting after the server's answer.
    pub(crate) fn somebody_was_answered(&self) -> bool {
        let first = self.all.first_to_stay();
        let first = first.and_then(|(ticket, _)| self.all.get(ticket));
        first.is_some_and(|first| first.unanswered.is_none())
    }

    /// Takes out those without any answer for longer than `window`, the server having been silent since `began` at the
    /// latest; also says when the next one's time is up.
    pub(crate) fn take_overdue(
        &mut self,
        began: Instant,
        now: Instant,
        window: Duration,
    ) -> (Vec<(Ticket, Waiter)>, Option<Instant>) {
        let (overdue, next) = self.all.overdue(began, now, window);
        let waiters = overdue
            .into_iter()
            .filter_map(|(ticket, _)| Some((ticket, self.leave(ticket)?)))
            .collect();
        (waiters, next)
    }

    /// Whether somebody whom `claim` names has gone.
    pub(crate) fn somebody_has_left(&self, claim: &Claim) -> bool {
        claim.tickets().any(|ticket| self.all.get(ticket).is_none())
    }

    /// `claim` was sent, and what has become of it will never be known.
    pub(crate) fn note_doubt(&mut self, claim: &Claim) {
        for ticket in claim.tickets() {
            if let Some(waiter) = self.all.get_mut(ticket) {
                waiter.in_doubt = true;
            }
        }
    }

    /// Takes out those that a claim has served, `served[i]` of the i-th run, and those who have asked for the last time;
    /// notes who was passed. It departed at `sent`.
    pub(crate) fn serve(
        &mut self,
        claim: &Claim,
        served: &[usize],
        sent: Instant,
        now: Instant,
    ) -> Served {
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
        self.all.answered(sent);
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
        for (ticket, want) in self.standing().take(MOST_RUNS) {
            if want.permits <= rest && want.recorded == recorded {
                rest -= want.permits;
                tickets.push(ticket);
                if rest == 0 {
                    break;
                }
            } else if strict || i64::from(want.permits) <= free.saturating_add(rest.into()) {
                break;
            } else {
                passed.get_or_insert(ticket);
            }
        }
        if rest > 0 {
            return Vec::new();
        }
        let passed = passed.is_some_and(|passed| tickets.last() > Some(&passed));
        let served = self.leave_all(tickets);
        if passed {
            self.note_passed(now);
        }
        served
    }

    fn head(&self) -> Option<Ticket> {
        self.all.first_to_stay().map(|(ticket, _)| ticket)
    }

    fn note_passing(&mut self, claim: &Claim, served: &[usize], now: Instant) {
        let head = self.head();
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
        let head = self.head();
        if self.passed.map(|(ticket, _)| ticket) != head {
            self.passed = head.map(|head| (head, now));
        }
    }

    pub(super) fn must_not_pass(&self, now: Instant) -> bool {
        self.passed.is_some_and(|(ticket, since)| {
            Some(ticket) == self.head() && now.saturating_duration_since(since) >= PASSING_LIMIT
        })
    }

    /// Whether somebody could be served with `free` permits.
    pub(crate) fn somebody_fits(&self, free: i64, now: Instant) -> bool {
        let wanted = if self.must_not_pass(now) {
            self.first().map(|want| want.permits)
        } else {
            self.amounts.keys().next().copied()
        };
        wanted.is_some_and(|wanted| i64::from(wanted) <= free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::claim::Run;

    /// A line of those who want so many each, and where they are answered.
    fn line(amounts: &[u32]) -> (Waiters, Vec<oneshot::Receiver<Result<i64>>>) {
        let mut waiters = Waiters::new();
        let mut answers = Vec::new();
        for permits in amounts {
            let (reply, answer) = oneshot::channel();
            answers.push(answer);
            let want = Want {
                permits: *permits,
                recorded: false,
                since: Instant::now(),
            };
            waiters.join(want, reply, None, true);
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
        waiters.serve(&claim, &[0], now, now);
        assert!(!claim.is_in_vain(&[0], 3), "nobody has been searched for");
        let claim = waiters.claim(now, Some(3));
        assert_eq!(named(&claim.runs), [(5, FIRST_REACH), (1, 1), (2, 1)]);
        assert!(claim.is_in_vain(&[0, 0, 0], 3));
        assert!(!claim.is_in_vain(&[0, 0, 0], 2), "less is free now");
        assert!(!claim.is_in_vain(&[0, 1, 0], 3), "somebody was served");
        let served = waiters.serve(&claim, &[0, 1, 1], now, now);
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
        assert!(waiters.all.end_wait(0, now) && waiters.all.end_wait(2, now));
        assert!(!waiters.somebody_has_left(&under_way), "they can be served");
        let mut last = waiters.claim(now, None);
        waiters.name_ending(&mut last);
        assert_eq!(named(&last.runs), [(1, 1)]);
        assert_eq!(named(&last.last), [(2, 2)]);
        assert!(last.names(0) && last.names(1) && last.names(2));
        let served = waiters.serve(&last, &[0, 1], now, now);
        assert_eq!(served.granted.len(), 1);
        assert_eq!(served.refused.len(), 1);
        assert!(!waiters.somebody_ends() && !waiters.is_empty());
        assert!(!waiters.all.end_wait(0, now), "its answer is on its way");
    }

    #[test]
    fn who_joins_without_asking_is_answered_with_those_before_it() {
        let (mut waiters, _answers) = line(&[1]);
        let (reply, _answer) = oneshot::channel();
        let (came, now) = (Instant::now(), Instant::now() + Duration::from_secs(1));
        let want = Want {
            permits: 1,
            recorded: false,
            since: now,
        };
        waiters.join(want, reply, None, false);
        waiters.serve(&waiters.claim(came, None), &[0], came, came);
        let (reply, _late) = oneshot::channel();
        waiters.join(want, reply, None, true);
        let (overdue, _) = waiters.take_overdue(now, now + Duration::from_secs(9), Duration::ZERO);
        let overdue: Vec<_> = overdue.into_iter().map(|(ticket, _)| ticket).collect();
        assert_eq!(overdue, [2], "nobody has answered anything since it came");
        assert_eq!(waiters.take_answered().len(), 2);
    }
}
