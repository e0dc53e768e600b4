//! [`Counter`]: a number that many threads move at once.

use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

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
    pub(super) fn sum(&self) -> u64 {
        let places = self.0.iter();
        let sum: i64 = places.map(|place| place.0.load(Ordering::Relaxed)).sum();
        u64::try_from(sum).unwrap_or(0)
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
}
