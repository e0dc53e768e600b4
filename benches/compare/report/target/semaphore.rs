//! The targets of the semaphore.

use super::super::Report;
use super::super::metric::{self, PAIRS_PER_SECOND, WAIT_MAX, WAIT_P50, WAIT_P99};
use super::Needed::{AtLeast, AtMost};
use super::{Of, Target, target};

pub(super) fn all(report: &Report) -> Vec<Target> {
    [
        hand_over(report),
        many_processes(report),
        beside_others(report),
        throughput(report),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[rustfmt::skip]
fn hand_over(report: &Report) -> Vec<Target> {
    let clients = Of(report, "clients");
    let (scripts, redis) = (&metric::SCRIPTS_PER_PAIR, &metric::REDIS_PER_PAIR);
    let (pinned, wake_up) = (Of(report, "wake-up-pinned"), Of(report, "wake-up"));
    vec![
        target("300 clients, 1 permit, guards: scripts a grant", clients.value("guards, 300", scripts), AtMost(1.3)),
        target("300 clients, 1 permit, bare: scripts a grant", clients.value("ours, 300", scripts), AtMost(2.3)),
        target("300 clients, 1 permit, guards: server time a grant in ms", clients.millis("guards, 300", redis), AtMost(0.2)),
        target("300 clients, 1 permit, bare: server time a grant in ms", clients.millis("ours, 300", redis), AtMost(0.2)),
        target("1,000 clients, 1 permit, bare: 99.9 % of the scripts in ms",
            clients.millis("ours, 1,000", &metric::SCRIPT_P999), AtMost(0.3)),
        target("wake-up on one core, guards: p50, x plain", pinned.ratio(&WAIT_P50, "guards", "plain"), AtMost(1.3)),
        target("wake-up on one core, bare: p50, x plain", pinned.ratio(&WAIT_P50, "ours", "plain"), AtMost(1.8)),
        target("wake-up on one core, guards: p50, x Redisson's", pinned.by_redisson(&WAIT_P50, "guards"), AtMost(0.3)),
        target("wake-up on one core, bare: p50, x Redisson's", pinned.by_redisson(&WAIT_P50, "ours"), AtMost(0.4)),
        target("wake-up on all cores, guards: p50, x plain", wake_up.ratio(&WAIT_P50, "guards", "plain"), AtMost(0.9)),
        target("wake-up on all cores, bare: p50, x plain", wake_up.ratio(&WAIT_P50, "ours", "plain"), AtMost(1.6)),
        target("wake-up on all cores, guards: p50, x Redisson's", wake_up.by_redisson(&WAIT_P50, "guards"), AtMost(0.5)),
        target("wake-up on all cores, bare: p50, x Redisson's", wake_up.by_redisson(&WAIT_P50, "ours"), AtMost(0.85)),
    ]
}

#[rustfmt::skip]
fn many_processes(report: &Report) -> Vec<Target> {
    let (shared, one) = (Of(report, "shared"), Of(report, "shared-1-permit"));
    let (least, used) = (&metric::LEAST_SHARE, &metric::PERMIT_USE);
    let sizes = Of(report, "uneven-sizes");
    let of_16 = sizes.ratio(&metric::WAIT_MEAN, "- ours: 16 callers", "- ours: 112 callers");
    let amounts = Of(report, "uneven-amounts");
    vec![
        target("4 x 64 callers, 8 permits: part of them held", shared.value("ours", used), AtLeast(0.96)),
        target("4 x 64 callers, 8 permits: wait p99, x p50", shared.value("ours", &metric::P99_BY_P50), AtMost(1.08)),
        target("4 x 64 callers, 8 permits: smallest share, x the mean", shared.value("ours", least), AtLeast(0.97)),
        target("4 x 64 callers, 8 permits: scripts a grant", shared.value("ours", &metric::SCRIPTS_PER_PAIR), AtMost(0.85)),
        target("4 x 64 callers, 8 permits, no hold: pairs/s",
            Of(report, "shared-no-hold").value("ours", &PAIRS_PER_SECOND), AtLeast(100_000.0)),
        target("4 x 16 callers, 1 permit: smallest share, x the mean", one.value("ours", least), AtLeast(0.9)),
        target("4 x 16 callers, 1 permit: wait p99, x p50", one.value("ours", &metric::P99_BY_P50), AtMost(1.3)),
        target("16 and 112 callers: mean wait of 16, x that of 112", of_16.map(|ratio| ratio.max(ratio.recip())), AtMost(1.1)),
        target("amounts 1 and 5: longest wait for 5, x the mean",
            amounts.within("- ours: amount 5", &WAIT_MAX, &metric::WAIT_MEAN), AtMost(3.0)),
        target("amounts 1 and 5: part of the permits held", amounts.value("ours", used), AtLeast(0.85)),
    ]
}

#[rustfmt::skip]
fn beside_others(report: &Report) -> Vec<Target> {
    let (shared, jvm) = (Of(report, "shared"), Of(report, "beside-jvm"));
    let (large, lost) = (Of(report, "large"), Of(report, "lost-waiter"));
    let (first, next) = (&metric::FIRST_WAIT, &metric::NEXT_WAIT);
    let least = &metric::LEAST_SHARE;
    vec![
        target("2 of ours, 2 JVMs: part of the permits held", shared.value("two of each", &metric::PERMIT_USE), AtLeast(0.93)),
        target("2 of ours, 2 JVMs: smallest share, x the mean", shared.value("two of each", least), AtLeast(0.75)),
        target("2 of ours, 2 JVMs: Java's wait p99, x among JVMs",
            shared.ratio(&WAIT_P99, "- Redisson sync", "Redisson sync"), AtMost(1.0)),
        target("1,000 of ours, 4 Java threads: Java's mean wait, x ours",
            Of(report, "uneven-crowd").ratio(&metric::WAIT_MEAN, "- ours: 4 Java threads", "- ours: 1,000 callers"), AtMost(1.0)),
        target("40 clients beside a JVM, 1 permit: least share, x equal", jvm.value("ours, 1 permit", least), AtLeast(0.5)),
        target("40 clients beside a JVM, 1 permit: the JVM's share, x equal", jvm.value("ours, 1 permit", &metric::SHARE_OF_JVM), AtLeast(0.5)),
        target("40 clients beside a JVM, 4 permits: least share, x equal", jvm.value("ours, 4 permits", least), AtLeast(0.5)),
        target("40 clients beside a JVM, 4 permits: the JVM's share, x equal", jvm.value("ours, 4 permits", &metric::SHARE_OF_JVM), AtLeast(0.5)),
        target("8 of 8 permits beside 64 callers, held 5 ms: longest wait in s", large.seconds("held 5 ms", &WAIT_MAX), AtMost(0.5)),
        target("8 of 8 permits beside 64 callers, held 100 ms: longest wait in s", large.seconds("held 100 ms", &WAIT_MAX), AtMost(1.5)),
        target("8 of 8 permits beside 64 callers, held 1 s: longest wait in s", large.seconds("held 1000 ms", &WAIT_MAX), AtMost(8.0)),
        target("ten times 9 of 8 permits, all at once: throughput of small ones",
            Of(report, "too-large").value("all at once", &metric::PART_OF_UNDISTURBED), AtLeast(0.75)),
        target("ten times 9 of 8 permits, one after the other: throughput of small ones",
            Of(report, "too-large").value("one after the other", &metric::PART_OF_UNDISTURBED), AtLeast(0.75)),
        target("a waiter is killed: the others wait, ms", lost.millis("ours, killed", first), AtMost(5.0)),
        target("a waiter is stopped: the others wait, ms", lost.millis("ours, stopped", first), AtMost(120.0)),
        target("a waiter is stopped: the next ones wait, ms", lost.millis("ours, stopped", next), AtMost(5.0)),
        target("a waiter vanishes: the others wait, ms", lost.millis("ours, vanished", first), AtMost(120.0)),
        target("a waiter vanishes: the next ones wait, ms", lost.millis("ours, vanished", next), AtMost(5.0)),
        target("a waiter is stopped, guards: the others wait, ms", lost.millis("guards, stopped", first), AtMost(520.0)),
        target("a waiter vanishes, guards: the others wait, ms", lost.millis("guards, vanished", first), AtMost(520.0)),
        target("a waiter vanishes: permits lost", lost.value("ours, vanished", &metric::PERMITS_LOST), AtMost(0.0)),
        target("a waiter vanishes, guards: permits lost", lost.value("guards, vanished", &metric::PERMITS_LOST), AtMost(0.0)),
    ]
}

/// The targets relative to a plain client are the guide's figures, less 20 %.
#[rustfmt::skip]
fn throughput(report: &Report) -> Vec<Target> {
    let by_plain = |workload, row| Of(report, workload).ratio(&PAIRS_PER_SECOND, row, "plain");
    let line = Of(report, "line");
    vec![
        target("1 caller on one core, bare: pairs/s, x plain", by_plain("ample-1-pinned", "ours"), AtLeast(0.85)),
        target("1 caller on one core, guards: pairs/s, x plain", by_plain("ample-1-pinned", "guards"), AtLeast(1.4)),
        target("16 callers: pairs/s, x plain", by_plain("ample-16", "ours"), AtLeast(11.8)),
        target("256 callers: pairs/s, x plain", by_plain("ample-256", "ours"), AtLeast(12.7)),
        target("256 callers: Redis CPU a pair, x Redisson's",
            Of(report, "ample-256").by_redisson(&metric::REDIS_PER_PAIR, "ours"), AtMost(1.0 / 40.0)),
        target("1,024 callers: pairs/s, x plain", by_plain("ample-1024", "ours"), AtLeast(11.2)),
        target("1,024 callers on 8 permits: pairs/s, x plain", by_plain("scarce-1024", "ours"), AtLeast(39.0)),
        target("1,024 callers on 8 permits: wait p99 in ms", Of(report, "scarce-1024").millis("ours", &WAIT_P99), AtMost(1.3)),
        target("1,000 semaphores: pairs/s, x plain", by_plain("many-1000", "ours"), AtLeast(0.7)),
        target("100,000 waiters: bytes each", line.value("ours", &metric::BYTES_PER_WAITER), AtMost(880.0)),
        target("100,000 waiters: scripts per release of 1", line.value("ours", &metric::SCRIPTS_PER_RELEASE_OF_1), AtMost(2.8)),
        target("100,000 waiters: scripts per release of 1,000", line.value("ours", &metric::SCRIPTS_PER_RELEASE_OF_1000), AtMost(4.1)),
        target("100,000 waiters: part that was served", line.value("ours", &metric::SERVED), AtLeast(1.0)),
        target("100,000 waiters: served in order (1: yes)", line.value("ours", &metric::IN_ORDER), AtLeast(1.0)),
    ]
}
