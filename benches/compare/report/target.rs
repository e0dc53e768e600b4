//! The figures that the crate is to reach.

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

/// "x Redisson" is the better one of its sync and its async calls.
#[rustfmt::skip]
pub(super) fn all(report: &Report) -> Vec<Target> {
    let pairs = &metric::PAIRS_PER_SECOND;
    let plain = |workload, metric: &Metric| report.times_better(workload, metric, "plain");
    let redisson = |workload, metric: &Metric| report.times_better_than_redisson(workload, metric);
    let ours = |workload, metric: &Metric| report.value(workload, "ours", metric);
    let part = |better: Option<f64>| better.map(f64::recip);
    let target = |text, measured, needed| Target { text, measured, needed };
    vec![
        target("1 caller: pairs/s, x plain", plain("ample-1", pairs), AtLeast(0.95)),
        target("1 caller: pairs/s, x Redisson", redisson("ample-1", pairs), AtLeast(1.3)),
        target("16 callers: pairs/s, x plain", plain("ample-16", pairs), AtLeast(1.3)),
        target("16 callers: pairs/s, x Redisson", redisson("ample-16", pairs), AtLeast(6.0)),
        target("256 callers: pairs/s, x plain", plain("ample-256", pairs), AtLeast(5.0)),
        target("256 callers: pairs/s, x Redisson", redisson("ample-256", pairs), AtLeast(50.0)),
        target("256 callers: Redis CPU per pair, x Redisson's",
            part(redisson("ample-256", &metric::REDIS_PER_PAIR)), AtMost(1.0 / 40.0)),
        target("1,024 callers: pairs/s, x plain", plain("ample-1024", pairs), AtLeast(6.0)),
        target("1,024 callers: pairs/s, x Redisson", redisson("ample-1024", pairs), AtLeast(70.0)),
        target("1,024 callers on 8 permits: pairs/s, x Redisson",
            redisson("scarce-1024", pairs), AtLeast(100.0)),
        target("1,024 callers on 8 permits: wait p99 in ms",
            ours("scarce-1024", &metric::WAIT_P99).map(|micros| micros / 1e3), AtMost(20.0)),
        target("1,000 semaphores: pairs/s, x plain", plain("many-1000", pairs), AtLeast(0.95)),
        target("fair semaphore, 1 caller: pairs/s, x the original",
            report.times_better("fair-1", pairs, "original"), AtLeast(3.0)),
        target("fair semaphore, 256 callers: pairs/s, x the original",
            report.times_better("fair-256", pairs, "original"), AtLeast(10.0)),
        target("fair semaphore, 256 callers on 8 permits: pairs/s, x the original",
            report.times_better("fair-scarce", pairs, "original"), AtLeast(10.0)),
        target("fair semaphore, 10,000 holders: Redis CPU a script in ms",
            ours("fair-held", &metric::REDIS_PER_SCRIPT).map(|micros| micros / 1e3), AtMost(1.0)),
        target("wake-up across processes: p50, x Redisson's",
            part(redisson("wake-up", &metric::WAIT_P50)), AtMost(0.5)),
        target("wake-up across processes: p99, x Redisson's",
            part(redisson("wake-up", &metric::WAIT_P99)), AtMost(0.2)),
        target("lock, 1 caller: pairs/s, x plain", plain("lock-1", pairs), AtLeast(0.95)),
        target("lock, 1 caller: pairs/s, x Redisson", redisson("lock-1", pairs), AtLeast(1.3)),
        target("lock from process to process: p50, x Redisson's",
            part(redisson("lock-hand-over", &metric::WAIT_P50)), AtMost(0.5)),
        target("100,000 waiters: bytes each", ours("line", &metric::BYTES_PER_WAITER), AtMost(1024.0)),
        target("100,000 waiters: scripts per release of 1", ours("line", &metric::SCRIPTS_PER_RELEASE_OF_1), AtMost(10.0)),
        target("100,000 waiters: scripts per release of 1,000", ours("line", &metric::SCRIPTS_PER_RELEASE_OF_1000), AtMost(10.0)),
        target("100,000 waiters: part that was served", ours("line", &metric::SERVED), AtLeast(1.0)),
        target("100,000 waiters: served in order (1: yes)", ours("line", &metric::IN_ORDER), AtLeast(1.0)),
    ]
}
