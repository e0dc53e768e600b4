//! What has happened, line by line, and a digest of it.

use std::collections::VecDeque;
use std::fmt::{Arguments, Write};
use std::time::Duration;

use tokio::time::Instant;

/// So many of the last lines are kept anyway.
const KEPT: usize = 400;

pub struct Trace {
    began: Instant,
    /// Whether all lines are kept.
    whole: bool,
    lines: VecDeque<String>,
    closed: bool,
    digest: u64,
}

impl Trace {
    pub fn new(whole: bool) -> Trace {
        Trace {
            began: Instant::now(),
            whole,
            lines: VecDeque::new(),
            closed: false,
            digest: 0xcbf2_9ce4_8422_2325,
        }
    }

    pub fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// The history is over: in which order a runtime drops its tasks depends on how many there have been before it.
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
        for byte in line.bytes() {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if !self.whole && self.lines.len() == KEPT {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    pub fn digest(&self) -> u64 {
        self.digest
    }

    pub fn into_lines(self) -> Vec<String> {
        self.lines.into()
    }
}

/// Bytes as they can be printed, not too many.
pub fn printed(bytes: &[u8]) -> String {
    const MOST: usize = 40;
    let shown = bytes[..bytes.len().min(MOST)].escape_ascii().to_string();
    if bytes.len() > MOST {
        format!("{shown}..")
    } else {
        shown
    }
}
