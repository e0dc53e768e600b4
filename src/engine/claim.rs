//! Waiters of one semaphore that ask together, and what their answer means.

use super::waiters::Waiter;

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
    /// The first ticket that was not given out yet when they asked.
    pub(super) end: u64,
}

/// Those who want the same amount, in their order: neighbours in the line, or all who ask for the last time.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) permits: u32,
    /// What they take is on record.
    pub(crate) recorded: bool,
    pub(crate) tickets: Vec<u64>,
}

impl Run {
    /// One waiter.
    pub(super) fn of(ticket: u64, waiter: &Waiter) -> Self {
        Run {
            permits: waiter.permits,
            recorded: waiter.recorded,
            tickets: vec![ticket],
        }
    }

    /// Whether this waiter wants the same.
    pub(super) fn suits(&self, waiter: &Waiter) -> bool {
        self.permits == waiter.permits && self.recorded == waiter.recorded
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
    pub(crate) fn last_in_line(&self) -> Option<u64> {
        self.runs
            .iter()
            .filter_map(|run| run.tickets.last())
            .max()
            .copied()
    }

    /// All who are named.
    pub(super) fn tickets(&self) -> impl Iterator<Item = u64> {
        self.all_runs().flat_map(|run| run.tickets.iter().copied())
    }

    /// Whether this waiter is named.
    pub(crate) fn names(&self, ticket: u64) -> bool {
        self.all_runs()
            .any(|run| run.tickets.binary_search(&ticket).is_ok())
    }

    /// Names one waiter more, unless that made more than `most_runs`.
    pub(super) fn name(&mut self, ticket: u64, waiter: &Waiter, most_runs: usize) -> bool {
        let runs = self.runs.len();
        match self.runs.last_mut() {
            Some(run) if run.suits(waiter) => run.tickets.push(ticket),
            _ if runs == most_runs => return false,
            _ => self.runs.push(Run::of(ticket, waiter)),
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
