//! What a process holds, from its journal: between what it surely holds and what it may hold besides.

use std::collections::BTreeMap;

use crate::journal::Step;
use crate::{BUSY, FIRST_LEASED, FIRST_WATCHED, LEASED, RING, WATCHED};

/// The books of one process.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    callers: BTreeMap<usize, Caller>,
    pub(crate) turns: u64,
    pub(crate) dropped: u64,
    pub(crate) errors: BTreeMap<String, u64>,
    /// When its caller in the ring got the permit last.
    pub(crate) ring_got: u64,
}

#[derive(Debug, Default)]
struct Caller {
    held: u32,
    unsure: u32,
    asked: Option<u64>,
}

/// How many permits a process has, as far as it has told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) surely: i64,
    pub(crate) at_most: i64,
}

/// The semaphores that a caller works with.
pub(crate) fn group_of(caller: usize) -> &'static [&'static str] {
    match caller {
        0 => &RING,
        FIRST_WATCHED.. => &[WATCHED],
        FIRST_LEASED.. => &[LEASED],
        _ => &[BUSY],
    }
}

impl Ledger {
    /// Enters a step; returns by how much the permits that are surely held change.
    pub(crate) fn enter(&mut self, at: u64, number: usize, step: &Step) -> i64 {
        let caller = self.callers.entry(number).or_default();
        let held = i64::from(caller.held);
        match *step {
            Step::Ask(permits) => {
                caller.asked = Some(at);
                caller.unsure += permits;
            }
            Step::Got(permits) => {
                caller.unsure -= permits;
                caller.held += permits;
                self.turns += 1;
                if number == 0 {
                    self.ring_got = at;
                }
            }
            Step::Refused(permits) => caller.unsure -= permits,
            Step::Return(permits) => {
                caller.held -= permits;
                caller.unsure += permits;
            }
            Step::Returned(permits) => caller.unsure -= permits,
            Step::Dropped => self.dropped += 1,
            Step::Settled => caller.unsure = 0,
            Step::Failed(ref error) => *self.errors.entry(error.clone()).or_default() += 1,
        }
        if !matches!(step, Step::Ask(_)) {
            caller.asked = None;
        }
        i64::from(caller.held) - held
    }

    pub(crate) fn held(&self, group: &[&str]) -> Held {
        let mut held = Held {
            surely: 0,
            at_most: 0,
        };
        for (number, caller) in &self.callers {
            if group_of(*number) == group {
                held.surely += i64::from(caller.held);
                held.at_most += i64::from(caller.held) + i64::from(caller.unsure);
            }
        }
        held
    }

    /// Those who wait, and since when.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (usize, u64)> {
        self.callers
            .iter()
            .filter_map(|(number, caller)| Some((*number, caller.asked?)))
    }
}

/// How many permits were surely held at one moment by all together, at the most.
///
/// Lines of different processes are read in any order, so a moment is looked at only when it is well past.
#[derive(Debug, Default)]
pub(crate) struct Peak {
    changes: BTreeMap<(u64, u64), i64>,
    entered: u64,
    now: i64,
    pub(crate) most: i64,
}

impl Peak {
    pub(crate) fn enter(&mut self, at: u64, change: i64) {
        if change != 0 {
            self.entered += 1;
            self.changes.insert((at, self.entered), change);
        }
    }

    /// Counts what happened before `at`.
    pub(crate) fn settle(&mut self, at: u64) {
        let later = self.changes.split_off(&(at, 0));
        let mut past = std::mem::replace(&mut self.changes, later);
        // At one moment the returns come first.
        let mut changes: Vec<(u64, i64)> = std::mem::take(&mut past)
            .into_iter()
            .map(|((at, _), change)| (at, change))
            .collect();
        changes.sort();
        for (_, change) in changes {
            self.now += change;
            self.most = self.most.max(self.now);
        }
    }
}
