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
    let ratio = |(workload, row, metric): (&str, &str, &Metric), (other, below): (&str, &Metric)|
        Some(report.value(workload, row, metric)? / report.value(workload, other, below)?);
    let within = |workload, row, metric, below| ratio((workload, row, metric), (row, below));
    let (p50, p99, max, mean) =
        (&metric::WAIT_P50, &metric::WAIT_P99, &metric::WAIT_MAX, &metric::WAIT_MEAN);
    let held = &metric::PERMIT_USE;
    let (scripts, redis) = (&metric::SCRIPTS_PER_PAIR, &metric::REDIS_PER_PAIR);
    let clients = |count, metric: &Metric| report.value("turns-clients", &format!("{count} clients"), metric);
    let busy = |workload, count, metric: &Metric|
        report.value(workload, &format!("{count} clients, a busy server"), metric).map(|micros| micros / 1e3);
    let beside_jvm = |row| report.value("turns-beside-jvm", row, &metric::LEAST_SHARE);
    let large = |held| report.value("turns-large", held, max).map(|micros| micros / 1e6);
    let lock = |row| report.value("turns-lock", row, &metric::LEAST_SHARE);
    let longest_of_lock = |row, javas| ratio(("turns-lock", row, max), (javas, max));
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
        target("guards, 1 caller: pairs/s watched, x without",
            ratio(("watched-1", "watched", pairs), ("guards", pairs)), AtLeast(0.95)),
        target("guards, 256 callers: pairs/s watched, x without",
            ratio(("watched-256", "watched", pairs), ("guards", pairs)), AtLeast(0.9)),
        target("permits with ids, 1 caller: pairs/s, x plain", plain("leased-1", pairs), AtLeast(0.95)),
        target("permits with ids, 256 callers: pairs/s, x Redisson", redisson("leased-256", pairs), AtLeast(30.0)),
        target("100,000 permits with ids: scripts for a renewal of all",
            ours("leased-held", &metric::SCRIPTS_PER_PERIOD), AtMost(1000.0)),
        target("100,000 permits with ids: 99.9 % of the scripts in ms",
            ours("leased-held", &metric::SCRIPT_P999).map(|micros| micros / 1e3), AtMost(5.0)),
        target("100,000 permits with ids: part that is still held", ours("leased-held", &metric::STILL_HELD), AtLeast(1.0)),
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
        target("4 x 64 callers, 8 permits: part of them held", ours("shared", held), AtLeast(0.97)),
        target("4 x 64 callers, 8 permits: wait p99, x p50", within("shared", "ours", p99, p50), AtMost(1.2)),
        target("4 x 64 callers, 8 permits: longest wait, x p50", within("shared", "ours", max, p50), AtMost(1.5)),
        target("4 x 64 callers, 8 permits: smallest share, x the mean", report.smallest_share("shared", "ours"), AtLeast(0.95)),
        target("16 and 112 callers: mean wait of 16, x that of 112",
            ratio(("turns-sizes", "- 16 callers", mean), ("- 112 callers", mean)).map(|ratio| ratio.max(ratio.recip())),
            AtMost(1.1)),
        target("4 x 16 callers, 1 permit: smallest share, x the mean",
            report.smallest_share("turns-one-permit", "ours"), AtLeast(0.9)),
        target("4 x 16 callers, 1 permit: wait p99, x p50", within("turns-one-permit", "ours", p99, p50), AtMost(1.3)),
        target("amounts 1 and 5: longest wait for 5, x the mean", within("turns-amounts", "- amount 5", max, mean), AtMost(3.0)),
        target("amounts 1 and 5: part of the permits held", ours("turns-amounts", held), AtLeast(0.85)),
        target("2 of ours, 2 JVMs: Java's wait p50, x among JVMs",
            ratio(("shared", "- Redisson sync", p50), ("Redisson sync", p50)), AtMost(1.0)),
        target("2 of ours, 2 JVMs: Java's mean wait, x among JVMs",
            ratio(("shared", "- Redisson sync", mean), ("Redisson sync", mean)), AtMost(1.0)),
        target("2 of ours, 2 JVMs: Java's wait p99, x among JVMs",
            ratio(("shared", "- Redisson sync", p99), ("Redisson sync", p99)), AtMost(1.0)),
        target("2 of ours, 2 JVMs: smallest share, x the mean", report.smallest_share("shared", "two of each"), AtLeast(0.6)),
        target("2 of ours, 2 JVMs: part of the permits held", report.value("shared", "two of each", held), AtLeast(0.9)),
        target("1,000 of ours, 4 Java threads: Java's mean wait, x ours",
            ratio(("turns-crowd", "- 4 Java threads", mean), ("- ours", mean)), AtMost(1.0)),
        target("300 clients, 1 permit: scripts a grant", clients("300", scripts), AtMost(6.0)),
        target("300 clients, 1 permit: server time a grant in ms", clients("300", redis).map(|micros| micros / 1e3), AtMost(0.4)),
        target("300 clients, 1 permit: grants a second, x those of 2 clients",
            ratio(("turns-clients", "300 clients", pairs), ("2 clients", pairs)), AtLeast(0.85)),
        target("1,000 clients, 1 permit: scripts a grant", clients("1,000", scripts), AtMost(6.0)),
        target("1,000 clients, 1 permit: server time a grant in ms", clients("1,000", redis).map(|micros| micros / 1e3), AtMost(0.5)),
        target("1,000 clients, 1 permit: 99.9 % of the scripts in ms",
            clients("1,000", &metric::SCRIPT_P999).map(|micros| micros / 1e3), AtMost(0.3)),
        target("300 clients, 1 permit, a busy server: its time in scripts a grant in ms",
            busy("turns-clients", "300", &metric::SCRIPT_TIME_PER_PAIR), AtMost(0.4)),
        target("1,000 clients, 1 permit, a busy server: its time in scripts a grant in ms",
            busy("turns-clients", "1,000", &metric::SCRIPT_TIME_PER_PAIR), AtMost(0.5)),
        target("1,000 clients waiting for a fair semaphore: server time a look in ms",
            report.value("turns-fair-waiting", "1,000 clients", &metric::REDIS_PER_SCRIPT).map(|micros| micros / 1e3), AtMost(0.1)),
        target("1,000 clients waiting for a fair semaphore, a busy server: its time a look in ms",
            busy("turns-fair-waiting", "1,000", &metric::REDIS_PER_SCRIPT), AtMost(0.1)),
        target("60 clients beside a JVM of 4 threads, 1 permit: least share of a caller of ours, x equal",
            beside_jvm("60 clients, 1 permits"), AtLeast(0.7)),
        target("60 clients beside a JVM of 4 threads, 4 permits: least share of a caller of ours, x equal",
            beside_jvm("60 clients, 4 permits"), AtLeast(0.7)),
        target("8 of 8 permits beside 16 callers, held 4 ms: longest wait in s", large("held 4 ms"), AtMost(5.5)),
        target("8 of 8 permits beside 16 callers, held 20 ms: longest wait in s", large("held 20 ms"), AtMost(5.5)),
        target("8 of 8 permits beside 16 callers, held 100 ms: longest wait in s", large("held 100 ms"), AtMost(5.5)),
        target("lock, 2 of ours, 2 JVMs, held 1 ms: least share of a caller, x equal", lock("held 1 ms"), AtLeast(0.5)),
        target("lock, 2 of ours, 2 JVMs, held 1 ms: longest wait, x among JVMs",
            longest_of_lock("held 1 ms", "held 1 ms, JVMs only"), AtMost(1.0)),
        target("lock, 2 of ours, 2 JVMs, held 5 ms: least share of a caller, x equal", lock("held 5 ms"), AtLeast(0.5)),
        target("lock, 2 of ours, 2 JVMs, held 5 ms: longest wait, x among JVMs",
            longest_of_lock("held 5 ms", "held 5 ms, JVMs only"), AtMost(1.0)),
        target("lock, 2 of ours, 2 JVMs, held 20 ms: least share of a caller, x equal", lock("held 20 ms"), AtLeast(0.5)),
        target("lock, 2 of ours, 2 JVMs, held 20 ms: longest wait, x among JVMs",
            longest_of_lock("held 20 ms", "held 20 ms, JVMs only"), AtMost(1.0)),
        target("lock, 1 caller of ours, 2 JVMs, held 1.5 ms: least share of a caller, x equal", lock("held 1.5 ms"), AtLeast(0.5)),
        target("lock, 1 caller of ours, 2 JVMs, held 1.5 ms: longest wait, x among JVMs",
            longest_of_lock("held 1.5 ms", "held 1.5 ms, JVMs only"), AtMost(1.0)),
        target("lock, 1 caller of ours, 2 JVMs, held 1.5 ms: grants, x among JVMs",
            ratio(("turns-lock", "held 1.5 ms", pairs), ("held 1.5 ms, JVMs only", pairs)), AtLeast(0.8)),
        target("100,000 waiters: bytes each", ours("line", &metric::BYTES_PER_WAITER), AtMost(1024.0)),
        target("100,000 waiters: scripts per release of 1", ours("line", &metric::SCRIPTS_PER_RELEASE_OF_1), AtMost(10.0)),
        target("100,000 waiters: scripts per release of 1,000", ours("line", &metric::SCRIPTS_PER_RELEASE_OF_1000), AtMost(10.0)),
        target("100,000 waiters: part that was served", ours("line", &metric::SERVED), AtLeast(1.0)),
        target("100,000 waiters: served in order (1: yes)", ours("line", &metric::IN_ORDER), AtLeast(1.0)),
    ]
}
