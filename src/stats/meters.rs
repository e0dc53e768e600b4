//! [`Meters`]: the values for the `metrics` facade.
//!
//! Counters and gauges are moved once a second by what has been counted meanwhile, so that they cost nothing where calls are
//! many, and the clients of a process add up. Times are reported as they come.

use std::fmt;
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
        }
    }
}

impl Meters {
    pub(super) fn waited(&self, what: What, began: Instant) {
        self.waited[what as usize].record(began.elapsed());
    }

    pub(super) fn held(&self, what: What, began: Instant) {
        self.held[what as usize].record(began.elapsed());
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
        *told = *stats;
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
