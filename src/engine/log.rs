//! Log entries about calls that have no caller to report to: they have all that a repair by hand needs.

use std::fmt::{Display, Write};
use std::time::Duration;

use tokio::time::Instant;

use crate::sync::{Mutex, unlocked};

/// How long the log is silent while nothing changes.
const SILENCE: Duration = Duration::from_secs(60);

/// A log entry that is written at most once in a while.
#[derive(Default)]
pub(crate) struct Seldom(Mutex<Option<Instant>>);

impl Seldom {
    /// Whether it is written now.
    pub(crate) fn is_due(&self) -> bool {
        let now = Instant::now();
        let mut logged = self.0.lock();
        let due = logged.is_none_or(|logged| now.saturating_duration_since(logged) >= SILENCE);
        if due {
            *logged = Some(now);
        }
        due
    }
}

/// Calls, each with how often it was made: "release(2) x 3, acquire(1)".
pub(crate) fn list_of(calls: impl Iterator<Item = (impl Display, usize)>) -> String {
    let mut list = String::new();
    for (call, count) in calls {
        let comma = if list.is_empty() { "" } else { ", " };
        let _ = match count {
            1 => write!(list, "{comma}{call}"),
            _ => write!(list, "{comma}{call} x {count}"),
        };
    }
    list
}

/// `calls` on the object called `name` were sent, and their answers will never be known.
pub(crate) fn unknown(name: &str, calls: String) {
    if calls.is_empty() {
        return;
    }
    let name = name.to_owned();
    unlocked(move || tracing::error!(name, calls, "the outcome of these calls stays unknown"));
}

/// The runtime has ended before the deferred `calls` were sent.
pub(crate) fn abandoned(name: &str, calls: &str) {
    if !calls.is_empty() {
        tracing::error!(name, calls, "not carried out: the runtime has ended");
    }
}

/// The runtime has ended while `calls` were under way.
pub(crate) fn lost(name: &str, calls: &str) {
    tracing::error!(
        name,
        calls,
        "what became of these calls is not known: the runtime has ended"
    );
}
