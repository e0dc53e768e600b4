//! The numbers of a report: their names and how they are written.

use crate::figures::numbers::{grouped, micros, percent, precise};
use crate::sample::Sample;
use crate::waits::Waits;

/// One kind of number.
#[derive(Debug)]
pub(crate) struct Metric {
    /// In JSON.
    pub(crate) key: &'static str,
    /// Above a column.
    pub(crate) head: &'static str,
    unit: Unit,
}

#[derive(Debug)]
enum Unit {
    Count,
    Precise,
    Micros,
    Percent,
    YesOrNo,
}

/// Numbers by kind.
pub(crate) type Numbers = Vec<(&'static Metric, f64)>;

const fn metric(key: &'static str, head: &'static str, unit: Unit) -> Metric {
    Metric { key, head, unit }
}

pub(crate) static PAIRS_PER_SECOND: Metric = metric("pairs_per_second", "pairs/s", Unit::Count);
pub(crate) static WAIT_P50: Metric = metric("wait_p50_micros", "wait p50", Unit::Micros);
pub(crate) static WAIT_MEAN: Metric = metric("wait_mean_micros", "mean", Unit::Micros);
pub(crate) static WAIT_P99: Metric = metric("wait_p99_micros", "p99", Unit::Micros);
pub(crate) static WAIT_MAX: Metric = metric("wait_max_micros", "max", Unit::Micros);
pub(crate) static REDIS_PER_PAIR: Metric =
    metric("redis_cpu_micros_per_pair", "Redis µs/pair", Unit::Precise);
pub(crate) static SCRIPTS_PER_PAIR: Metric =
    metric("scripts_per_pair", "scripts/pair", Unit::Precise);
/// The server's time inside scripts.
pub(crate) static SCRIPT_TIME_PER_PAIR: Metric =
    metric("script_micros_per_pair", "script µs/pair", Unit::Precise);
pub(crate) static CLIENT_PER_PAIR: Metric = metric(
    "client_cpu_micros_per_pair",
    "client µs/pair",
    Unit::Precise,
);
pub(crate) static REDIS_PER_SCRIPT: Metric = metric(
    "redis_cpu_micros_per_script",
    "Redis µs/script",
    Unit::Precise,
);
pub(crate) static COMMANDS_PER_PAIR: Metric =
    metric("commands_per_pair", "commands/pair", Unit::Precise);
pub(crate) static SCRIPTS_PER_PERIOD: Metric =
    metric("scripts_per_period", "scripts/period", Unit::Precise);
pub(crate) static SCRIPT_TIME_PER_PERIOD: Metric =
    metric("script_micros_per_period", "their time", Unit::Micros);
pub(crate) static STILL_HELD: Metric = metric("still_held", "still held", Unit::Percent);
pub(crate) static SCRIPTS_PER_SECOND: Metric =
    metric("scripts_per_second", "scripts/s", Unit::Count);
/// The machine's other programs may interrupt a script, so the very longest says little.
pub(crate) static SCRIPT_P999: Metric = metric("script_p99_9_micros", "script p99.9", Unit::Micros);
pub(crate) static SCRIPT_MAX: Metric = metric("script_max_micros", "max", Unit::Micros);
/// Of the callers of a process, compared with those of all.
pub(crate) static LEAST_SHARE: Metric =
    metric("least_share_of_a_caller", "least share", Unit::Percent);
/// Of a JVM, compared with an equal share of each client.
pub(crate) static SHARE_OF_JVM: Metric = metric("share_of_jvm", "JVM's share", Unit::Percent);
pub(crate) static P99_BY_P50: Metric = metric("wait_p99_by_p50", "p99/p50", Unit::Precise);
pub(crate) static PART_OF_UNDISTURBED: Metric =
    metric("part_of_undisturbed", "of undisturbed", Unit::Percent);
pub(crate) static FIRST_WAIT: Metric = metric("first_wait_micros", "first wait", Unit::Micros);
pub(crate) static NEXT_WAIT: Metric = metric("next_wait_micros", "next wait", Unit::Micros);
pub(crate) static PERMITS_LOST: Metric = metric("permits_lost", "permits lost", Unit::Count);
pub(crate) static PERMIT_USE: Metric = metric("permit_use", "permits held", Unit::Percent);
pub(crate) static BYTES_PER_WAITER: Metric = metric("bytes_per_waiter", "B/waiter", Unit::Count);
pub(crate) static SCRIPTS_PER_RELEASE_OF_1: Metric =
    metric("scripts_per_release_of_1", "scripts: of 1", Unit::Precise);
pub(crate) static SCRIPTS_PER_RELEASE_OF_10: Metric =
    metric("scripts_per_release_of_10", "of 10", Unit::Precise);
pub(crate) static SCRIPTS_PER_RELEASE_OF_100: Metric =
    metric("scripts_per_release_of_100", "of 100", Unit::Precise);
pub(crate) static SCRIPTS_PER_RELEASE_OF_1000: Metric =
    metric("scripts_per_release_of_1000", "of 1,000", Unit::Precise);
pub(crate) static SCRIPTS_FOR_THE_REST: Metric =
    metric("scripts_for_the_rest", "of the rest", Unit::Count);
pub(crate) static SECONDS_FOR_THE_REST: Metric =
    metric("seconds_for_the_rest", "in s", Unit::Precise);
pub(crate) static SERVED: Metric = metric("served", "served", Unit::Percent);
pub(crate) static IN_ORDER: Metric = metric("in_order", "in order", Unit::YesOrNo);

/// All numbers of one sample.
pub(crate) fn of_sample(sample: &Sample) -> Numbers {
    let mut numbers = vec![(&PAIRS_PER_SECOND, sample.pairs_per_second())];
    numbers.extend(of_waits(&sample.waits()));
    numbers.extend([
        (&REDIS_PER_PAIR, sample.redis_micros_per_pair()),
        (&SCRIPTS_PER_PAIR, sample.scripts_per_pair()),
        (&CLIENT_PER_PAIR, sample.client_micros_per_pair()),
    ]);
    numbers
}

pub(crate) fn of_waits(waits: &Waits) -> Numbers {
    vec![
        (&WAIT_MEAN, waits.mean()),
        (&WAIT_P50, waits.percentile(50) as f64),
        (&WAIT_P99, waits.percentile(99) as f64),
        (&WAIT_MAX, waits.max() as f64),
    ]
}

/// The times of the longest of `scripts` scripts. `micros` has the known times, longest first; it is empty if all scripts were short.
pub(crate) fn of_long_scripts(micros: &[u64], scripts: f64) -> Numbers {
    let rank = (scripts / 1000.0) as usize;
    let known = |metric, at| micros.get(at).map(|micros: &u64| (metric, *micros as f64));
    let ranks = [known(&SCRIPT_P999, rank), known(&SCRIPT_MAX, 0)];
    ranks.into_iter().flatten().collect()
}

impl Metric {
    pub(crate) fn write(&self, value: f64) -> String {
        match self.unit {
            Unit::Count => grouped(value),
            Unit::Precise => precise(value),
            Unit::Micros => micros(value),
            Unit::Percent => percent(value),
            Unit::YesOrNo => if value == 1.0 { "yes" } else { "no" }.to_owned(),
        }
    }
}
