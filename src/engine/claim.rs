//! Waiters of one semaphore that ask together, and what their answer means.

use tokio::time::Instant;

use super::primitive::Ticket;
use super::waiters::{LONGEST_REACH, MOST_RUNS, Waiters, Want};

/// Waiters that ask together.
#[derive(Debug, Default)]
pub(crate) struct Claim {
    pub(crate) runs: Vec<Run>,
    /// Those who ask for the last time, behind all others.
    pub(crate) last: Vec<Run>,
    /// Whether the line stops where a run falls short.
    pub(crate) strict: bool,
    /// What was known to be free, if the line was searched for those it fits.
    pub(super) searched: Option<i64>,
}

/// Those who want the same amount, in their order: neighbours in the line, or all who ask for the last time.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) permits: u32,
    /// What they take is on record.
    pub(crate) recorded: bool,
    pub(crate) tickets: Vec<Ticket>,
}

impl Run {
    /// One waiter.
    pub(super) fn of(ticket: Ticket, want: &Want) -> Self {
        Run {
            permits: want.permits,
            recorded: want.recorded,
            tickets: vec![ticket],
        }
    }

    /// Whether a waiter wants the same.
    pub(super) fn suits(&self, want: &Want) -> bool {
        self.permits == want.permits && self.recorded == want.recorded
    }
}

impl Claim {
    /// Whether nobody is named.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many runs it has.
    pub(crate) fn len(&self) -> usize {
        self.runs.len() + self.last.len()
    }

    /// Those who wait on, and those who ask for the last time.
    pub(crate) fn all_runs(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().chain(&self.last)
    }

    /// The last one of those named who wait on.
    pub(crate) fn last_in_line(&self) -> Option<Ticket> {
        self.runs
            .iter()
            .filter_map(|run| run.tickets.last())
            .max()
            .copied()
    }

    /// All who are named.
    pub(super) fn tickets(&self) -> impl Iterator<Item = Ticket> {
        self.all_runs().flat_map(|run| run.tickets.iter().copied())
    }

    /// Whether this waiter is named.
    pub(crate) fn names(&self, ticket: Ticket) -> bool {
        self.all_runs()
            .any(|run| run.tickets.binary_search(&ticket).is_ok())
    }

    /// Names one waiter more, unless that made more than `most_runs`.
    pub(super) fn name(&mut self, ticket: Ticket, want: &Want, most_runs: usize) -> bool {
        let runs = self.runs.len();
        match self.runs.last_mut() {
            Some(run) if run.suits(want) => run.tickets.push(ticket),
            _ if runs == most_runs => return false,
            _ => self.runs.push(Run::of(ticket, want)),
        }
        true
    }

    /// Whether a claim that was served as `served` says has left nobody behind.
    pub(crate) fn is_satisfied(&self, served: &[usize]) -> bool {
        let full = |(run, &count): (&Run, &usize)| run.tickets.len() == count;
        self.runs.iter().zip(served).all(full)
    }

    /// How many of those in line were served.
    pub(crate) fn served_in_line(&self, served: &[usize]) -> usize {
        served.iter().take(self.runs.len()).sum()
    }

    /// Whether another search for those whom `available` permits fit would find nobody new.
    pub(crate) fn is_in_vain(&self, served: &[usize], available: i64) -> bool {
        let nobody = |(_, &count): (&Run, &usize)| count == 0;
        self.searched == Some(available) && self.runs.iter().zip(served).all(nobody)
    }
}

impl Waiters {
    /// Who asks next: the first ones. With `free`, the permits that were free when these could not use them, those
    /// behind whom they fit come in addition.
    pub(crate) fn claim(&self, now: Instant, free: Option<i64>) -> Claim {
        let strict = self.must_not_pass(now);
        let free = free.filter(|_| !strict);
        let mut claim = Claim {
            strict,
            searched: free,
            ..Claim::default()
        };
        let near = if free.is_some() {
            MOST_RUNS / 2
        } else {
            MOST_RUNS
        };
        let mut named = 0;
        for (ticket, want) in self.standing().take(self.reach) {
            if !claim.name(ticket, want, near) {
                break;
            }
            named += 1;
        }
        if let Some(free) = free {
            let behind = self.standing().skip(named);
            let fitting = behind.filter(|(_, want)| i64::from(want.permits) <= free);
            for (ticket, want) in fitting.take(self.reach) {
                if !claim.name(ticket, want, MOST_RUNS) {
                    break;
                }
            }
        }
        claim
    }

    /// Adds those at the end of their wait to `claim`, as many as it has room for.
    pub(crate) fn name_ending(&self, claim: &mut Claim) {
        for ticket in self.all.ending().take(LONGEST_REACH) {
            let Some(waiter) = self.all.get(ticket) else {
                continue;
            };
            let full = claim.last.len() == MOST_RUNS;
            let run = claim.last.iter_mut().find(|run| run.suits(&waiter.want));
            match run {
                Some(run) => run.tickets.push(ticket),
                None if full => break,
                None => claim.last.push(Run::of(ticket, &waiter.want)),
            }
        }
    }
}
