//! Turns between processes: first come, first served, to within a few milliseconds.
//!
//! (header follows)

use std::time::Duration;

use tokio::time::Instant;

/// What a client knows of others is believed for this long while its callers wait.
const FRESH: Duration = Duration::from_millis(20);

/// What a batch tells the server about the callers that wait, for the rule of turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Report {
    /// For how long the first in line has waited, the last of those who ask now, and the last of all.
    pub(crate) head: Duration,
    pub(crate) last: Duration,
    pub(crate) tail: Duration,
    /// How many ask now.
    pub(crate) named: usize,
    /// How many permits all want.
    pub(crate) want: u64,
    /// How many of the listeners are this client itself.
    pub(crate) own: u64,
    /// Nobody may pass the first in line.
    pub(crate) strict: bool,
}

/// What the server answers to a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Some callers were held back; after this long they may take what is free then.
    pub(crate) pause: Option<Duration>,
    /// For how long, in microseconds, a caller must have waited to be served without Redis; negative: who
    /// will come in that time may be, too.
    pub(crate) keep: Option<i64>,
    /// How many listeners keep no record: JVMs.
    pub(crate) strangers: Option<u64>,
}

impl Verdict {
    /// Reads the last word of an answer.
    pub(crate) fn read(word: &str) -> Option<Self> {
        let mut parts = word.strip_prefix("turn:")?.split(':');
        let pause: u64 = parts.next()?.parse().ok()?;
        let keep = learned(parts.next()?)?;
        let strangers: Option<i64> = learned(parts.next()?)?;
        Some(Verdict {
            pause: (pause > 0).then(|| Duration::from_micros(pause)),
            keep,
            strangers: strangers.and_then(|count| u64::try_from(count).ok()),
        })
    }
}

fn learned(part: &str) -> Option<Option<i64>> {
    if part == "-" {
        return Some(None);
    }
    part.parse().ok().map(Some)
}

/// Whose turn it is, as far as this process knows.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    off: bool,
    others: u64,
    /// When `others` was learned.
    learned: Option<Instant>,
    /// The record in Redis says that callers of this client wait.
    on_record: bool,
    strangers: bool,
    /// Callers who came before this may be served within the process.
    keep_before: Option<Instant>,
    /// Until then what is free is kept for others.
    held_until: Option<Instant>,
}

impl Turns {
    /// From now on this client takes what it can get.
    pub(crate) fn switch_off(&mut self) {
        self.off = true;
    }

    /// Whether the next batch carries a report. `waiting`: callers wait; `answered`: and the server has
    /// told some of them so.
    pub(crate) fn wants_report(&self, now: Instant, waiting: bool, answered: bool) -> bool {
        if self.off {
            return false;
        }
        let fresh = |at: Instant| now.saturating_duration_since(at) < FRESH;
        waiting && self.others > 0 || self.on_record || answered && !self.learned.is_some_and(fresh)
    }

    /// Whether the rule is to be kept.
    pub(crate) fn others_listen(&self) -> bool {
        !self.off && self.others > 0
    }

    /// Whether a release may serve callers of this process without Redis, the first of whom came at `came`
    /// and can be served by it, or not.
    pub(crate) fn may_keep(&self, came: Instant, fits: bool) -> bool {
        if self.off || self.others == 0 {
            return true;
        }
        fits && !self.strangers && self.keep_before.is_some_and(|before| came <= before)
    }

    /// Whether callers of this process are held back while permits are free.
    pub(crate) fn is_held(&self, now: Instant) -> bool {
        self.held_until.is_some_and(|until| now < until)
    }

    /// How many other listeners a batch has seen.
    pub(crate) fn seen(&mut self, others: u64, now: Instant) {
        self.others = others;
        self.learned = Some(now);
    }

    /// The server's answer to a batch with a report, sent at `sent`, that leaves callers waiting or not. Says when
    /// those who were held back should look again.
    pub(crate) fn answered(
        &mut self,
        verdict: Option<Verdict>,
        waiting: bool,
        sent: Instant,
        now: Instant,
    ) -> Option<Instant> {
        self.on_record = verdict.is_some() && waiting;
        self.held_until = None;
        let verdict = verdict?;
        if let Some(keep) = verdict.keep {
            let distance = Duration::from_micros(keep.unsigned_abs());
            self.keep_before = if keep < 0 {
                sent.checked_add(distance)
            } else {
                sent.checked_sub(distance)
            };
        }
        if let Some(strangers) = verdict.strangers {
            self.strangers = strangers > 0;
        }
        self.held_until = verdict.pause.map(|pause| now + pause);
        self.held_until
    }
}
