//! [`Meters`]: the values for the `metrics` facade.
//!
//! Counters and gauges are moved once a second by what has been counted meanwhile, so that they cost nothing where calls are
//! many, and the clients of a process add up. Only times are reported as they come: each where they are few, and of more than ten
//! thousand a second every so many-th, as a sample. (A recorder takes longer for a time than a busy semaphore for a call.)

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use metrics::{Counter, Gauge, Histogram, Unit};

use super::{Stats, What};
use crate::sync::Mutex;

/// A client's part in the metrics: of the recorder that was there when the client was made.
pub(super) struct Meters {
    waited: [Histogram; 2],
    held: [Histogram; 2],
    counters: [Counter; 7],
    gauges: [Gauge; 3],
    told: Mutex<Stats>,
    /// Each so many-th time is measured.
    every: AtomicU32,
}

/// So many times a second are measured, about.
const MEASURED: u64 = 10_000;

thread_local! {
    /// How many are passed over until the next one is measured.
    static LEFT: Cell<u32> = const { Cell::new(0) };
}

/// A name, and what is counted.
type Number = (&'static str, fn(&Stats) -> u64);

const WAITED: &str = "redisson_semaphore_wait_seconds";
const HELD: &str = "redisson_semaphore_hold_seconds";
const COUNTERS: [Number; 7] = [
    ("granted", |stats| stats.granted),
    ("refused", |stats| stats.refused),
    ("failed", |stats| stats.failed),
    ("outcomes_unknown", |stats| stats.outcomes_unknown),
    ("lost", |stats| stats.lost),
    ("retries", |stats| stats.retries),
    ("reconnections", |stats| stats.reconnections),
];
const GAUGES: [Number; 3] = [
    ("waiting", |stats| stats.waiting),
    ("held_permits", |stats| stats.held_permits),
    ("held_locks", |stats| stats.held_locks),
];

impl Default for Meters {
    fn default() -> Self {
        metrics::describe_histogram!(WAITED, Unit::Seconds, "Waits that were granted something");
        metrics::describe_histogram!(HELD, Unit::Seconds, "How long guards held it");
        let times = |name: &'static str| {
            [What::Permits, What::Lock].map(|what| metrics::histogram!(name, "what" => what.word()))
        };
        Meters {
            waited: times(WAITED),
            held: times(HELD),
            counters: COUNTERS
                .map(|(name, _)| metrics::counter!(format!("redisson_semaphore_{name}_total"))),
            gauges: GAUGES.map(|(name, _)| metrics::gauge!(format!("redisson_semaphore_{name}"))),
            told: Mutex::default(),
            every: AtomicU32::new(1),
        }
    }
}

impl Meters {
    /// When something begins, if it is measured.
    #[inline]
    pub(super) fn begin(&self) -> Option<Instant> {
        let every = self.every.load(Ordering::Relaxed);
        (every == 1 || is_one_of(every)).then(Instant::now)
    }

    pub(super) fn waited(&self, what: What, began: Option<Instant>) {
        if let Some(began) = began {
            self.waited[place(what)].record(began.elapsed());
        }
    }

    pub(super) fn held(&self, what: What, began: Option<Instant>) {
        if let Some(began) = began {
            self.held[place(what)].record(began.elapsed());
        }
    }

    /// Things stand as `stats` say.
    pub(super) fn publish(&self, stats: &Stats) {
        let mut told = self.told.lock();
        for (counter, (_, of)) in self.counters.iter().zip(COUNTERS) {
            counter.increment(of(stats).saturating_sub(of(&told)));
        }
        for (gauge, (_, of)) in self.gauges.iter().zip(GAUGES) {
            gauge.increment(of(stats) as f64 - of(&told) as f64);
        }
        let granted = stats.granted.saturating_sub(told.granted);
        let every = u32::try_from(granted / MEASURED).unwrap_or(u32::MAX);
        self.every.store(every.max(1), Ordering::Relaxed);
        *told = *stats;
    }
}

/// Whether this one is measured, of which each `every`-th is, at the mean: a fixed distance might always meet the same of several
/// things that take turns.
fn is_one_of(every: u32) -> bool {
    LEFT.with(|left| match left.get().checked_sub(1) {
        Some(less) => {
            left.set(less);
            false
        }
        None => {
            left.set(fastrand::u32(0..every.saturating_mul(2) - 1));
            true
        }
    })
}

fn place(what: What) -> usize {
    match what {
        What::Permits => 0,
        What::Lock => 1,
    }
}

/// Nobody waits or holds anything by a client that has gone.
impl Drop for Meters {
    fn drop(&mut self) {
        let gone = Stats {
            waiting: 0,
            held_permits: 0,
            held_locks: 0,
            ..*self.told.lock()
        };
        self.publish(&gone);
    }
}

impl fmt::Debug for Meters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meters").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_measured_as_they_come_and_of_many_every_so_many_th() {
        let meters = Meters::default();
        let measured = |count: u32| (0..count).filter_map(|_| meters.begin()).count();
        assert_eq!(measured(100), 100);
        let granted = 25 * MEASURED;
        let stats = Stats {
            granted,
            ..Stats::default()
        };
        meters.publish(&stats);
        let some = measured(100_000);
        assert!((3600..4400).contains(&some), "{some} of 100,000");
        // A quiet second later.
        meters.publish(&stats);
        assert_eq!(measured(100), 100);
    }
}
