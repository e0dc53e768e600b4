//! What a process tells about each of its callers: before it asks, and after it was answered.
//!
//! Each line is written before the step that it announces, or after the one that it reports, so the lines of a
//! process that was killed say what it held for certain, and what it may have held besides.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

/// One step of one caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// It is about to ask for permits.
    Ask(u32),
    /// It has got them.
    Got(u32),
    /// It was told that it does not get them.
    Refused(u32),
    /// It has dropped a future or a guard, and does not know how far that had come.
    Dropped,
    /// It is about to give permits back.
    Return(u32),
    /// They are given back.
    Returned(u32),
    /// What it has dropped has been settled: nothing is owed any more.
    Settled,
    /// A call has failed.
    Failed(String),
}

/// A line of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    /// The process works under this id.
    Client(String),
    Step {
        /// In microseconds since 1970.
        at: u64,
        caller: usize,
        step: Step,
    },
    /// It has ended in good order.
    End,
}

impl Line {
    pub(crate) fn now(caller: usize, step: Step) -> Line {
        let at = now();
        Line::Step { at, caller, step }
    }

    /// Hands the line to whoever reads this process's output; a write that fails ends the process.
    pub(crate) fn tell(&self) {
        let mut out = std::io::stdout().lock();
        if out.write_all(self.to_text().as_bytes()).is_err() || out.flush().is_err() {
            std::process::exit(1);
        }
    }

    fn to_text(&self) -> String {
        let (at, caller, step) = match self {
            Line::Client(id) => return format!("client {id}\n"),
            Line::End => return "end\n".to_owned(),
            Line::Step { at, caller, step } => (at, caller, step),
        };
        let (word, rest) = match step {
            Step::Ask(permits) => ("ask", permits.to_string()),
            Step::Got(permits) => ("got", permits.to_string()),
            Step::Refused(permits) => ("refused", permits.to_string()),
            Step::Dropped => ("dropped", String::new()),
            Step::Return(permits) => ("return", permits.to_string()),
            Step::Returned(permits) => ("returned", permits.to_string()),
            Step::Settled => ("settled", String::new()),
            Step::Failed(error) => ("failed", error.replace('\n', " ")),
        };
        format!("{at} {caller} {word} {rest}\n")
    }

    /// `None` for what is no line, as the last one of a process that was killed.
    pub(crate) fn parse(text: &str) -> Option<Line> {
        if let Some(id) = text.strip_prefix("client ") {
            return Some(Line::Client(id.to_owned()));
        }
        if text == "end" {
            return Some(Line::End);
        }
        let mut words = text.splitn(4, ' ');
        let at = words.next()?.parse().ok()?;
        let caller = words.next()?.parse().ok()?;
        let (word, rest) = (words.next()?, words.next()?);
        let permits = || rest.parse().ok();
        let step = match word {
            "ask" => Step::Ask(permits()?),
            "got" => Step::Got(permits()?),
            "refused" => Step::Refused(permits()?),
            "dropped" => Step::Dropped,
            "return" => Step::Return(permits()?),
            "returned" => Step::Returned(permits()?),
            "settled" => Step::Settled,
            "failed" => Step::Failed(rest.to_owned()),
            _ => return None,
        };
        Some(Line::Step { at, caller, step })
    }
}

/// The clock that all processes of the machine share, in microseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_micros()).unwrap_or(u64::MAX)
}
