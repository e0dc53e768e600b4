//! [`Stats`]: what has become of a client's calls; and the counters behind it.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// What has become of a client's calls so far, and how things stand now; see [`Client::stats`](crate::Client::stats).
///
/// A snapshot: the numbers are read one after another while others go on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Calls that were granted permits or a lock.
    pub granted: u64,
    /// Calls that were refused them: not free, or not in time.
    pub refused: u64,
    /// Calls of any kind that have failed.
    pub failed: u64,
    /// Of these, calls whose outcome is unknown.
    pub outcomes_unknown: u64,
    /// Callers that wait now, for permits, a lock or their answer.
    pub waiting: u64,
    /// Permits that guards hold now. What was acquired without a guard is not known.
    pub held_permits: u64,
    /// Locks that guards hold now, each as often as it is held.
    pub held_locks: u64,
    /// Locks and leased permits that were lost while a guard held them; counted when the guard goes.
    pub lost: u64,
    /// Requests that were sent, or asked about, once more.
    pub retries: u64,
    /// How often the connection for commands has come back.
    pub reconnections: u64,
}

/// What counts for one client.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) granted: Counter,
    pub(crate) refused: Counter,
    pub(crate) failed: Counter,
    pub(crate) outcomes_unknown: Counter,
    pub(crate) waiting: Counter,
    held_permits: Counter,
    held_locks: Counter,
    lost: Counter,
    pub(crate) retries: Counter,
}

impl Counters {
    /// The connection has come back so often.
    pub(crate) fn look(&self, reconnections: u64) -> Stats {
        Stats {
            granted: self.granted.sum(),
            refused: self.refused.sum(),
            failed: self.failed.sum(),
            outcomes_unknown: self.outcomes_unknown.sum(),
            waiting: self.waiting.sum(),
            held_permits: self.held_permits.sum(),
            held_locks: self.held_locks.sum(),
            lost: self.lost.sum(),
            retries: self.retries.sum(),
            reconnections,
        }
    }
}

/// A counter that many threads move at once: each in a place of its own, as far as there are enough.
#[derive(Debug, Default)]
pub(crate) struct Counter([Place; PLACES]);

const PLACES: usize = 8;

/// On a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Place(AtomicI64);

thread_local! {
    /// Which of the places is this thread's.
    static OWN: Cell<usize> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed) % PLACES);
}

static NEXT: AtomicUsize = AtomicUsize::new(0);

impl Counter {
    pub(crate) fn add(&self, amount: i64) {
        // A thread that is ending has no place any more.
        let own = OWN.try_with(Cell::get).unwrap_or(0);
        self.0[own].0.fetch_add(amount, Ordering::Relaxed);
    }

    /// What was added on one thread may have been taken away on another, and seen before.
    fn sum(&self) -> u64 {
        let places = self.0.iter();
        let sum: i64 = places.map(|place| place.0.load(Ordering::Relaxed)).sum();
        u64::try_from(sum).unwrap_or(0)
    }
}

/// What a guard holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Permits,
    Lock,
}

/// What a guard holds, as long as it does: hidden in the traits, where nobody can name it.
#[derive(Debug, Default)]
pub struct Holding(Option<Held>);

#[derive(Debug)]
struct Held {
    counters: Arc<Counters>,
    what: What,
    amount: u32,
}

impl Held {
    fn count(&self, amount: i64) {
        match self.what {
            What::Permits => self.counters.held_permits.add(amount),
            What::Lock => self.counters.held_locks.add(amount),
        }
    }
}

impl Holding {
    pub(crate) fn new(counters: &Arc<Counters>, what: What, amount: u32) -> Self {
        let held = Held {
            counters: Arc::clone(counters),
            what,
            amount,
        };
        held.count(amount.into());
        Holding(Some(held))
    }

    /// Lets another guard hold so much of it, which is no more than there is.
    pub(crate) fn split(&mut self, amount: u32) -> Holding {
        Holding(self.0.as_mut().map(|held| {
            held.amount -= amount;
            Held {
                counters: Arc::clone(&held.counters),
                amount,
                ..*held
            }
        }))
    }

    /// Takes over what another guard holds of the same thing.
    pub(crate) fn merge(&mut self, mut other: Holding) {
        if let (Some(held), Some(other)) = (&mut self.0, &mut other.0) {
            held.amount += std::mem::take(&mut other.amount);
        }
    }

    /// It was lost on the way.
    pub(crate) fn note_lost(&self) {
        if let Some(held) = &self.0 {
            held.counters.lost.add(1);
        }
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        if let Some(held) = &self.0 {
            held.count(-i64::from(held.amount));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_add_up_over_threads() {
        let counter = Counter::default();
        std::thread::scope(|scope| {
            for _ in 0..2 * PLACES {
                scope.spawn(|| (0..1000).for_each(|_| counter.add(3)));
            }
        });
        assert_eq!(counter.sum(), 2 * PLACES as u64 * 3000);
        counter.add(-i64::MAX);
        assert_eq!(counter.sum(), 0, "never below zero");
    }

    #[test]
    fn what_guards_hold_is_split_merged_and_given_back() {
        let counters = Arc::new(Counters::default());
        let mut all = Holding::new(&counters, What::Permits, 5);
        let lock = Holding::new(&counters, What::Lock, 1);
        let two = all.split(2);
        assert_eq!(counters.look(0).held_permits, 5);
        drop(two);
        assert_eq!(counters.look(0).held_permits, 3);
        let one = all.split(1);
        all.merge(one);
        assert_eq!(counters.look(0).held_permits, 3);
        lock.note_lost();
        drop((all, lock));
        let stats = Stats {
            lost: 1,
            ..Stats::default()
        };
        assert_eq!(counters.look(0), stats);
    }
}
