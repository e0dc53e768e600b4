//! The figures that the crate is to reach.

mod others;
mod semaphore;

use super::Report;
use super::metric::{self, Metric};

/// One figure.
pub(super) struct Target {
    pub(super) text: &'static str,
    pub(super) measured: Option<f64>,
    pub(super) needed: Needed,
}

#[derive(Clone, Copy)]
pub(super) enum Needed {
    AtLeast(f64),
    AtMost(f64),
}

use Needed::{AtLeast, AtMost};

impl Needed {
    pub(super) fn number(self) -> f64 {
        let (AtLeast(number) | AtMost(number)) = self;
        number
    }
}

impl Target {
    /// `None` where it was not measured.
    pub(super) fn reached(&self) -> Option<bool> {
        self.measured.map(|measured| match self.needed {
            AtLeast(least) => measured >= least,
            AtMost(most) => measured <= most,
        })
    }
}

pub(super) fn all(report: &Report) -> Vec<Target> {
    let mut targets = semaphore::all(report);
    targets.extend(others::all(report));
    targets
}

fn target(text: &'static str, measured: Option<f64>, needed: Needed) -> Target {
    Target {
        text,
        measured,
        needed,
    }
}

/// One workload's numbers.
struct Of<'a>(&'a Report, &'static str);

impl Of<'_> {
    fn value(&self, row: &str, metric: &Metric) -> Option<f64> {
        self.0.value(self.1, row, metric)
    }

    fn millis(&self, row: &str, metric: &Metric) -> Option<f64> {
        self.value(row, metric).map(|micros| micros / 1e3)
    }

    fn seconds(&self, row: &str, metric: &Metric) -> Option<f64> {
        self.value(row, metric).map(|micros| micros / 1e6)
    }

    /// The number of a row divided by that of another one.
    fn ratio(&self, metric: &Metric, row: &str, other: &str) -> Option<f64> {
        Some(self.value(row, metric)? / self.value(other, metric)?)
    }

    /// The same with the better one of Redisson's ways to call.
    fn by_redisson(&self, metric: &Metric, row: &str) -> Option<f64> {
        let ways = ["Redisson sync", "Redisson async"];
        let ratios = ways.map(|way| self.ratio(metric, row, way));
        let more_is_better = metric.key == metric::PAIRS_PER_SECOND.key;
        let worse = if more_is_better { f64::min } else { f64::max };
        ratios.into_iter().flatten().reduce(worse)
    }

    /// A row's number divided by another one of it.
    fn within(&self, row: &str, metric: &Metric, other: &Metric) -> Option<f64> {
        Some(self.value(row, metric)? / self.value(row, other)?)
    }
}
