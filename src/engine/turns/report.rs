//! What a batch tells the server about the callers who wait, and what the server answers.

use std::time::Duration;

use tokio::time::Instant;

use crate::engine::primitive::{Batch, Primitive};
use crate::engine::request::Arg;

/// No pause is longer, whatever is stored: so long those have time at most who are far away and have waited for long.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What a batch tells the server about the callers that wait, for the rule of turns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// For how long the first in line has waited, and the last of those who ask now.
    pub(crate) head: Duration,
    pub(crate) last: Duration,
    /// How many ask now.
    pub(crate) named: usize,
    /// How many wait, those included.
    pub(crate) waiting: usize,
    /// The ticket of the first in line.
    pub(crate) ticket: u64,
    /// 0: this client does not know that it is one of the listeners; 1: it is, at the object's channel; 2: at the line's,
    /// too; 3: and it has heard of others, who need not listen.
    pub(crate) own: u64,
    /// Nobody may pass the first in line.
    pub(crate) strict: bool,
    /// It looks whether those have come whom it has told.
    pub(crate) looks: bool,
    /// It stands in line, as it has been told.
    pub(crate) stood: bool,
    /// If its callers are served while nobody stands in line, it calls those who may have lost their places.
    pub(crate) calls: bool,
    /// How many messages of strangers were heard since the last report.
    pub(crate) heard: i64,
    /// Its look goes on behind so many who stand in line.
    pub(crate) from: u32,
}

impl Report {
    /// What there is to say of those who wait when `batch` departs; `since` says when one came.
    pub(crate) fn of<P: Primitive>(batch: &Batch<P>, since: impl Fn(&P::Want) -> Instant) -> Self {
        let now = batch.departed.timer();
        let waits = |want: &P::Want| now.saturating_duration_since(since(want));
        let last_questions = batch.asks.iter().filter(|ask| ask.last).count();
        let first = batch.first.as_ref();
        let last = batch.asks.iter().rfind(|ask| !ask.last);
        Report {
            head: first.map_or(Duration::ZERO, |(_, want)| waits(want)),
            last: last.map_or(Duration::ZERO, |ask| waits(&ask.want)),
            named: batch.asks.len() - last_questions,
            waiting: batch.waiting.saturating_sub(last_questions),
            ticket: first.map_or(0, |(ticket, _)| ticket + 1),
            ..Report::default()
        }
    }

    /// What there is to say so much later.
    pub(super) fn later(self, time: Duration) -> Self {
        let since = |waited: Duration| waited + time * u32::from(self.waiting > 0);
        Report {
            head: since(self.head),
            last: since(self.last),
            ..self
        }
    }

    /// As `lua/semaphore/turns.lua` reads it, at the end of the arguments.
    pub(crate) fn write(&self, args: &mut Vec<Arg>) {
        let [strict, looks, stood, calls] =
            [self.strict, self.looks, self.stood, self.calls].map(i64::from);
        args.extend([
            Arg::micros(self.head),
            Arg::micros(self.last),
            Arg::number(self.named),
            Arg::number(self.waiting),
            Arg::Number(self.ticket.cast_signed()),
            Arg::Number(self.own.cast_signed()),
            Arg::Number(strict + 2 * looks + 4 * stood + 8 * calls),
            Arg::Number(self.heard),
            Arg::Number(self.from.into()),
        ]);
    }
}

/// What the server answers to a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The server does not let the line be kept.
    Off,
    Seen(Seen),
}

/// How the turns stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Callers of this client were held back from what is free.
    pub(crate) held: bool,
    /// Others were told of it, just now or before it was free again; for so long this client sees to it that they come.
    pub(super) told: Option<Duration>,
    /// When it is to be seen whether those came who were told, now or before.
    pub(super) pause: Option<Duration>,
    /// How many clients stand in line.
    pub(super) clients: u32,
    /// This client is one of the first of them.
    pub(super) near: bool,
    /// Its look goes on behind so many of them, or has ended.
    pub(super) from: u32,
}

impl Verdict {
    /// Reads the last word of an answer.
    pub(crate) fn read(word: &str) -> Option<Self> {
        if word == "turn:off" {
            return Some(Verdict::Off);
        }
        let parts: Vec<&str> = word.strip_prefix("turn:")?.split(':').collect();
        let [held, told, pause, clients, near, from] = parts.as_slice() else {
            return None;
        };
        Some(Verdict::Seen(Seen {
            held: flag(held)?,
            told: pause_of(told)?,
            pause: pause_of(pause)?,
            clients: clients.parse().ok()?,
            near: flag(near)?,
            from: from.parse().ok()?,
        }))
    }
}

/// `None` in it for none at all.
fn pause_of(word: &str) -> Option<Option<Duration>> {
    let micros: u64 = word.parse().ok()?;
    Some((micros > 0).then(|| Duration::from_micros(micros).min(LONGEST_PAUSE)))
}

fn flag(word: &str) -> Option<bool> {
    match word {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read() {
        let Some(Verdict::Seen(seen)) = Verdict::read("turn:1:0:1500:3:1:256") else {
            panic!("it is as the script writes it");
        };
        assert!(seen.held && seen.told.is_none());
        assert_eq!(seen.pause, Some(Duration::from_micros(1500)));
        assert_eq!((seen.clients, seen.from), (3, 256));
        assert_eq!(Verdict::read("turn:off"), Some(Verdict::Off));
    }

    #[test]
    fn anything_else_is_no_answer() {
        for word in [
            "turn:",
            "turn:1:0:3:0:0",
            "turn:x:0:1:1:0:0",
            "turn:0:x:1:1:0:0",
            "turn:0:1:1:-1:0:0",
            "turn:0:1:1:1:0:-1",
            "12",
        ] {
            assert_eq!(Verdict::read(word), None, "{word}");
        }
    }
}
