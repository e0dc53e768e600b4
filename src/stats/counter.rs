//! [`Numbers`]: what many threads count at once.

use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

/// What is counted.
#[derive(Debug, Clone, Copy)]
pub(super) enum Number {
    Granted,
    Refused,
    Failed,
    OutcomesUnknown,
    HeldPermits,
    HeldLocks,
    Lost,
    Retries,
}

const NUMBERS: usize = 8;
const PLACES: usize = 32;

/// Each thread counts in a place of its own, as long as there are enough: nobody else writes there, so it takes no more than
/// an addition. The others share one.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    own: [Place; PLACES],
    shared: Place,
}

/// All numbers of a thread, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Place([AtomicI64; NUMBERS]);

/// Which of the places is a thread's, until it ends.
struct Own(usize);

/// The places that are in use, a bit for each.
static IN_USE: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static OWN: Own = Own::take();
}

impl Own {
    fn take() -> Self {
        let lowest_free = |in_use: u32| Some(in_use | in_use.checked_add(1)?);
        // Who comes after another thread sees what that has counted.
        let taken = IN_USE.fetch_update(Ordering::Acquire, Ordering::Relaxed, lowest_free);
        Own(taken.map_or(PLACES, |in_use| in_use.trailing_ones() as usize))
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if self.0 < PLACES {
            IN_USE.fetch_and(!(1 << self.0), Ordering::Release);
        }
    }
}

impl Numbers {
    #[inline]
    pub(super) fn add(&self, number: Number, amount: i64) {
        // A thread that is ending has no place any more.
        let own = OWN.try_with(|own| own.0).unwrap_or(PLACES);
        match self.own.get(own) {
            Some(Place(own)) => {
                let own = &own[number as usize];
                let sum = own.load(Ordering::Relaxed).wrapping_add(amount);
                own.store(sum, Ordering::Relaxed);
            }
            None => {
                let Place(shared) = &self.shared;
                shared[number as usize].fetch_add(amount, Ordering::Relaxed);
            }
        }
    }

    /// What was added on one thread may have been taken away on another, and seen before.
    pub(super) fn sum(&self, number: Number) -> u64 {
        let places = self.own.iter().chain([&self.shared]);
        let sum: i64 = places
            .map(|Place(place)| place[number as usize].load(Ordering::Relaxed))
            .fold(0, i64::wrapping_add);
        u64::try_from(sum).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More at once than there are places, and more after them.
    #[test]
    fn what_all_threads_have_counted_adds_up() {
        let numbers = Numbers::default();
        for _ in 0..3 {
            let all_here = std::sync::Barrier::new(2 * PLACES);
            std::thread::scope(|scope| {
                for _ in 0..2 * PLACES {
                    scope.spawn(|| {
                        numbers.add(Number::Granted, 0);
                        all_here.wait();
                        (0..1000).for_each(|_| numbers.add(Number::Granted, 3));
                        numbers.add(Number::HeldPermits, 1);
                        numbers.add(Number::HeldPermits, -1);
                    });
                }
            });
        }
        assert_eq!(numbers.sum(Number::Granted), 3 * 2 * PLACES as u64 * 3000);
        assert_eq!(numbers.sum(Number::HeldPermits), 0);
        numbers.add(Number::HeldPermits, -5);
        assert_eq!(numbers.sum(Number::HeldPermits), 0, "never below zero");
    }

    #[test]
    fn a_place_is_free_again_when_its_thread_has_ended() {
        let own = || std::thread::spawn(|| OWN.with(|own| own.0)).join().unwrap();
        // Other tests take places, too: so many threads one behind the other never need as many.
        let places: Vec<usize> = (0..4 * PLACES).map(|_| own()).collect();
        let distinct: std::collections::BTreeSet<_> = places.iter().collect();
        assert!(distinct.len() < places.len() / 2, "{places:?}");
    }
}
