//! The events of a history, line by line.

use std::fmt::{Arguments, Write};
use std::time::Duration;

use tokio::time::Instant;

pub struct Trace {
    began: Instant,
    lines: Vec<String>,
    closed: bool,
}

impl Default for Trace {
    fn default() -> Trace {
        Trace {
            began: Instant::now(),
            lines: Vec::new(),
            closed: false,
        }
    }
}

impl Trace {
    pub fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Ends the trace, as the history is over. The order in which a runtime drops its tasks depends on how many there have been before it.
    pub fn close(&mut self) {
        self.closed = true;
    }

    pub fn note(&mut self, what: Arguments<'_>) {
        if self.closed {
            return;
        }
        let now = self.now();
        let mut line = String::with_capacity(96);
        let _ = write!(
            line,
            "{:>4}.{:03} {what}",
            now.as_secs(),
            now.subsec_millis()
        );
        self.lines.push(line);
    }

    pub fn into_lines(self) -> Vec<String> {
        self.lines
    }
}

/// Returns bytes in printable form, but not too many of them.
pub fn printed(bytes: &[u8]) -> String {
    const MOST: usize = 40;
    let shown = bytes[..bytes.len().min(MOST)].escape_ascii().to_string();
    if bytes.len() > MOST {
        format!("{shown}..")
    } else {
        shown
    }
}
