//! The measurements, and whether they are as promised.

use std::time::Duration;

use crate::Result;
use crate::crowd::{Crowd, LIMIT};
use crate::wakeups::{Times, WakeUps};

pub(crate) struct Report {
    pub(crate) wakeups: WakeUps,
    pub(crate) crowd: Crowd,
}

impl Report {
    pub(crate) fn table(&self) -> Vec<String> {
        let crowd = &self.crowd;
        let times = |name: &str, times: &Times| {
            let [p50, p99, most] = [50, 99, 100].map(|percent| millis(times.percentile(percent)));
            format!("{name:30}{p50:>10}{p99:>12}{most:>12}{:>10}", times.count())
        };
        let value = |name: &str, value: String| format!("{name:30}  {value}");
        vec![
            format!(
                "{:30}{:>10}{:>12}{:>12}{:>10}",
                "Measured", "p50", "p99", "max", "rounds"
            ),
            times("wake-up, Rust -> Java", &self.wakeups.rust_to_java),
            times("wake-up, Java -> Rust", &self.wakeups.java_to_rust),
            value(
                "permits acquired",
                format!(
                    "Rust {}, Java {} in {:.1?}",
                    crowd.rust, crowd.java, crowd.took
                ),
            ),
            value(
                "most holders at once",
                format!("{} of {LIMIT}", crowd.most_held),
            ),
            value(
                "permits at the end",
                format!("{} of {LIMIT}", crowd.available_at_end),
            ),
        ]
    }

    /// One line that says what is not as it must be.
    pub(crate) fn verdict(&self) -> Result<()> {
        let crowd = &self.crowd;
        let limit = i64::from(LIMIT);
        let promises = [
            (
                crowd.most_held <= limit,
                format!("{} held at once", crowd.most_held),
            ),
            (
                crowd.available_at_end == limit,
                format!("{} permits at the end", crowd.available_at_end),
            ),
            (
                crowd.held_at_end == 0,
                format!("{} still held at the end", crowd.held_at_end),
            ),
            (crowd.rust > 0, "Rust acquired nothing".to_owned()),
            (crowd.java > 0, "Java acquired nothing".to_owned()),
        ];
        let broken: Vec<String> = promises
            .into_iter()
            .filter_map(|(kept, otherwise)| (!kept).then_some(otherwise))
            .collect();
        if broken.is_empty() {
            return Ok(());
        }
        Err(format!("BROKEN, with {LIMIT} permits: {}", broken.join("; ")).into())
    }
}

pub(crate) fn millis(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}
