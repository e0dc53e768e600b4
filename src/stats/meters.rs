//! [`Meters`]: what is told to the `metrics` facade.
//!
//! Counters and gauges are moved once a second by what has been counted meanwhile, so that they cost nothing where calls are
//! many, and the clients of a process add up. Only times are told as they come: each of the first ten thousand a second, and of
//! more than that every so many-th, for as many.

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

/// When something began that is measured, and for how many it stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Began {
    at: Instant,
    weight: u32,
}

/// So many times a second are measured, about: the clock takes longer to ask than the rest.
const MEASURED: u64 = 10_000;

thread_local! {
    /// How many have not been measured since the last one that was.
    static PASSED: Cell<u32> = const { Cell::new(0) };
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
    pub(super) fn begin(&self) -> Option<Began> {
        let weight = self.every.load(Ordering::Relaxed);
        if weight > 1 {
            // A thread that is ending measures nothing.
            let passed = PASSED.try_with(|passed| passed.replace(passed.get() + 1));
            if passed.is_ok_and(|passed| passed + 1 < weight) {
                return None;
            }
            PASSED.try_with(|passed| passed.set(0)).ok()?;
        }
        let at = Instant::now();
        Some(Began { at, weight })
    }

    pub(super) fn waited(&self, what: What, began: Option<Began>) {
        tell(&self.waited[place(what)], began);
    }

    pub(super) fn held(&self, what: What, began: Option<Began>) {
        tell(&self.held[place(what)], began);
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

fn tell(histogram: &Histogram, began: Option<Began>) {
    if let Some(Began { at, weight }) = began {
        histogram.record_many(at.elapsed(), weight as usize);
    }
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
        let measured = |count: u32| -> (usize, u32) {
            let began: Vec<_> = (0..count).filter_map(|_| meters.begin()).collect();
            (began.len(), began.iter().map(|began| began.weight).sum())
        };
        assert_eq!(measured(100), (100, 100));
        let granted = 25 * MEASURED;
        let stats = Stats {
            granted,
            ..Stats::default()
        };
        meters.publish(&stats);
        assert_eq!(measured(100), (4, 100));
        // A quiet second later.
        meters.publish(&stats);
        assert_eq!(measured(100), (100, 100));
    }
}
