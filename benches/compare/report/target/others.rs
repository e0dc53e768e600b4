//! The targets of the other primitives.

use super::super::Report;
use super::super::metric::{self, PAIRS_PER_SECOND, WAIT_MAX, WAIT_P50};
use super::Needed::{AtLeast, AtMost};
use super::{Of, Target, target};

pub(super) fn all(report: &Report) -> Vec<Target> {
    [leased(report), fair(report), lock(report)]
        .into_iter()
        .flatten()
        .collect()
}

#[rustfmt::skip]
fn leased(report: &Report) -> Vec<Target> {
    let held = Of(report, "leased-held");
    vec![
        target("permits with ids, 1 caller: pairs/s, x plain",
            Of(report, "leased-1").ratio(&PAIRS_PER_SECOND, "ours", "plain"), AtLeast(0.95)),
        target("permits with ids, 256 callers: pairs/s, x Redisson",
            Of(report, "leased-256").by_redisson(&PAIRS_PER_SECOND, "ours"), AtLeast(30.0)),
        target("100,000 permits with ids: scripts for a renewal of all", held.value("ours", &metric::SCRIPTS_PER_PERIOD), AtMost(1000.0)),
        target("100,000 permits with ids: 99.9 % of the scripts in ms", held.millis("ours", &metric::SCRIPT_P999), AtMost(5.0)),
        target("100,000 permits with ids: part that is still held", held.value("ours", &metric::STILL_HELD), AtLeast(1.0)),
    ]
}

#[rustfmt::skip]
fn fair(report: &Report) -> Vec<Target> {
    let by_original = |workload| Of(report, workload).ratio(&PAIRS_PER_SECOND, "ours", "original");
    let waiting = Of(report, "fair-waiting");
    vec![
        target("fair semaphore, 1 caller: pairs/s, x the original", by_original("fair-1"), AtLeast(3.0)),
        target("fair semaphore, 256 callers: pairs/s, x the original", by_original("fair-256"), AtLeast(10.0)),
        target("fair semaphore, 256 callers on 8 permits: pairs/s, x the original", by_original("fair-scarce"), AtLeast(10.0)),
        target("fair semaphore, 10,000 holders: Redis CPU a script in ms",
            Of(report, "fair-held").millis("ours", &metric::REDIS_PER_SCRIPT), AtMost(1.0)),
        target("1,000 clients waiting for a fair semaphore: server time a check in ms",
            waiting.millis("1,000 clients", &metric::REDIS_PER_SCRIPT), AtMost(0.1)),
        target("1,000 clients waiting for a fair semaphore, a busy server: its time a check in ms",
            waiting.millis("1,000 clients, a busy server", &metric::REDIS_PER_SCRIPT), AtMost(0.1)),
    ]
}

#[rustfmt::skip]
fn lock(report: &Report) -> Vec<Target> {
    let (alone, shared) = (Of(report, "lock-1"), Of(report, "lock-shared"));
    let least = |row| shared.value(row, &metric::LEAST_SHARE);
    let longest = |row, jvms| shared.ratio(&WAIT_MAX, row, jvms);
    vec![
        target("lock, 1 caller: pairs/s, x plain", alone.ratio(&PAIRS_PER_SECOND, "ours", "plain"), AtLeast(0.95)),
        target("lock, 1 caller: pairs/s, x Redisson", alone.by_redisson(&PAIRS_PER_SECOND, "ours"), AtLeast(1.3)),
        target("lock from process to process: p50, x Redisson's",
            Of(report, "lock-hand-over").by_redisson(&WAIT_P50, "ours"), AtMost(0.5)),
        target("lock, 2 of ours, 2 JVMs, held 1 ms: least share of a caller, x equal", least("held 1 ms"), AtLeast(0.5)),
        target("lock, 2 of ours, 2 JVMs, held 1 ms: longest wait, x among JVMs",
            longest("held 1 ms", "held 1 ms, JVMs only"), AtMost(1.0)),
        target("lock, 2 of ours, 2 JVMs, held 5 ms: least share of a caller, x equal", least("held 5 ms"), AtLeast(0.5)),
        target("lock, 2 of ours, 2 JVMs, held 5 ms: longest wait, x among JVMs",
            longest("held 5 ms", "held 5 ms, JVMs only"), AtMost(1.0)),
        target("lock, 2 of ours, 2 JVMs, held 20 ms: least share of a caller, x equal", least("held 20 ms"), AtLeast(0.5)),
        target("lock, 2 of ours, 2 JVMs, held 20 ms: longest wait, x among JVMs",
            longest("held 20 ms", "held 20 ms, JVMs only"), AtMost(1.0)),
        target("lock, 1 caller of ours, 2 JVMs, held 1.5 ms: least share of a caller, x equal", least("held 1.5 ms"), AtLeast(0.5)),
        target("lock, 1 caller of ours, 2 JVMs, held 1.5 ms: longest wait, x among JVMs",
            longest("held 1.5 ms", "held 1.5 ms, JVMs only"), AtMost(1.0)),
        target("lock, 1 caller of ours, 2 JVMs, held 1.5 ms: grants, x among JVMs",
            shared.ratio(&PAIRS_PER_SECOND, "held 1.5 ms", "held 1.5 ms, JVMs only"), AtLeast(0.8)),
    ]
}
