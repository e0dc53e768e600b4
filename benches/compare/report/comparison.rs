//! How many times better this crate is than the others.

use super::Report;
use super::metric::{self, Metric};

const REDISSON: [&str; 2] = ["Redisson sync", "Redisson async"];

/// One pair of bars.
pub(super) struct Comparison {
    /// The subject of the comparison, the same for neighbours.
    pub(super) group: &'static str,
    pub(super) label: String,
    pub(super) plain: Option<f64>,
    /// The better one of sync and async.
    pub(super) redisson: Option<f64>,
}

/// All comparisons that were measured.
pub(super) fn all(report: &Report) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    let mut compare = |group, workload: &str, metric: &Metric, label: String| {
        let comparison = Comparison {
            group,
            label,
            plain: report.times_better(workload, metric, "plain"),
            redisson: report.times_better_than_redisson(workload, metric),
        };
        if comparison.plain.or(comparison.redisson).is_some() {
            comparisons.push(comparison);
        }
    };
    let groups: [(&'static str, &Metric); 5] = [
        (
            "acquire + release pairs a second",
            &metric::PAIRS_PER_SECOND,
        ),
        ("Redis CPU per pair", &metric::REDIS_PER_PAIR),
        ("client CPU per pair", &metric::CLIENT_PER_PAIR),
        ("waits (99 %)", &metric::WAIT_P99),
        ("memory per waiter", &metric::BYTES_PER_WAITER),
    ];
    for (group, metric) in groups {
        for workload in &report.workloads {
            if !workload.name.starts_with("wake-up") {
                compare(group, &workload.name, metric, workload.title.clone());
            }
        }
    }
    for (metric, label) in [(&metric::WAIT_P50, "median"), (&metric::WAIT_P99, "99 %")] {
        let group = "wake-up by another process";
        compare(group, "wake-up", metric, label.to_owned());
    }
    comparisons
}

impl Report {
    /// How many times better this crate is in `metric` than `other`; more pairs are better, less of
    /// anything else.
    pub(super) fn times_better(&self, workload: &str, metric: &Metric, other: &str) -> Option<f64> {
        let ours = self.value(workload, "ours", metric)?;
        let theirs = self.value(workload, other, metric)?;
        let ratio = if metric.key == metric::PAIRS_PER_SECOND.key {
            ours / theirs
        } else {
            theirs / ours
        };
        ratio.is_finite().then_some(ratio)
    }

    /// Compared with the better one of Redisson's ways to call.
    pub(super) fn times_better_than_redisson(
        &self,
        workload: &str,
        metric: &Metric,
    ) -> Option<f64> {
        let ratios = REDISSON.map(|way| self.times_better(workload, metric, way));
        ratios.into_iter().flatten().reduce(f64::min)
    }
}
