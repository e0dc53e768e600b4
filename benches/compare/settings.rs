//! How long everything takes.

use std::time::Duration;

/// The durations and amounts of a run.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) name: &'static str,
    /// Only these workloads: names, separated by commas; `fair-*` stands for all that begin so.
    pub(crate) only: Option<String>,
    /// How long a JVM works before it is measured for the first time.
    pub(crate) jvm_warm_up: Duration,
    /// Before the first round of each contestant in each workload.
    pub(crate) warm_up: Duration,
    /// Before each further round.
    pub(crate) warm_up_again: Duration,
    /// The contestants take turns; each is measured so often in a workload.
    pub(crate) rounds: usize,
    /// One round.
    pub(crate) measure: Duration,
    /// One round with several processes, where some wait for seconds.
    pub(crate) measure_shared: Duration,
    /// How many clients share one permit.
    pub(crate) clients: &'static [u64],
    /// How many clients wait where only their checks are measured.
    pub(crate) waiting_clients: u64,
    /// How long the permits are held that a large request waits for, in milliseconds; and how many such requests.
    pub(crate) holds_beside_large: &'static [u64],
    pub(crate) large_requests: usize,
    /// How often a waiting client is lost in each way.
    pub(crate) lost_waiters: usize,
    /// How long a lock is held for which JVMs wait, too, in milliseconds.
    pub(crate) lock_holds: &'static [u64],
    /// How many wake-ups are measured, half of them in each direction, and how many go before.
    pub(crate) wake_ups: usize,
    pub(crate) wake_ups_before: usize,
    /// The length of the long line, for those that take it and those that don't.
    pub(crate) line: u64,
    pub(crate) line_of_redisson: u64,
    /// How many permits are held and renewed.
    pub(crate) held: u64,
}

impl Settings {
    /// `BENCH=quick` or nothing.
    pub(crate) fn from_environment() -> Settings {
        let mut settings = match std::env::var("BENCH").as_deref() {
            Ok("quick") => Settings::quick(),
            _ => Settings::full(),
        };
        settings.only = std::env::var("ONLY").ok().filter(|only| !only.is_empty());
        settings
    }

    fn full() -> Settings {
        Settings {
            name: "full",
            only: None,
            jvm_warm_up: Duration::from_secs(15),
            warm_up: Duration::from_secs(1),
            warm_up_again: Duration::from_millis(200),
            rounds: 5,
            measure: Duration::from_millis(600),
            measure_shared: Duration::from_secs(10),
            clients: &[2, 300, 1000],
            waiting_clients: 1000,
            holds_beside_large: &[5, 100, 1000],
            large_requests: 3,
            lost_waiters: 5,
            lock_holds: &[1, 5, 20],
            wake_ups: 2000,
            wake_ups_before: 1000,
            line: 100_000,
            line_of_redisson: 10_000,
            held: 100_000,
        }
    }

    fn quick() -> Settings {
        Settings {
            name: "quick",
            jvm_warm_up: Duration::from_secs(2),
            warm_up: Duration::from_millis(150),
            warm_up_again: Duration::from_millis(50),
            rounds: 1,
            measure: Duration::from_millis(400),
            measure_shared: Duration::from_secs(2),
            clients: &[300],
            waiting_clients: 300,
            holds_beside_large: &[5, 100, 1000],
            large_requests: 1,
            lost_waiters: 1,
            lock_holds: &[5],
            wake_ups: 200,
            wake_ups_before: 100,
            line_of_redisson: 2_000,
            ..Settings::full()
        }
    }
}
