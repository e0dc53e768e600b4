//! Turns between processes: first come, first served, to within a few milliseconds.
//!
//! (header follows)

use std::time::Duration;

use tokio::time::Instant;

/// What a client knows of others is believed for this long while its callers wait.
const FRESH: Duration = Duration::from_millis(20);

/// What a batch tells the server about the callers that wait, for the rule of turns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
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
    /// How many thousandths of an equal share strangers are offered.
    pub(crate) offer: i64,
    /// How many callers were served without Redis since the last report.
    pub(crate) handed_over: i64,
}

/// What the server answers to a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Some callers were held back; after this long they may take what is free then.
    pub(crate) pause: Option<Duration>,
    /// Who was looked at, if there was anything to take.
    pub(crate) seen: Option<Seen>,
    /// How many messages the scripts have announced permits with, and to how many callers they have given
    /// some, since the record was made.
    announced: i64,
    granted: i64,
}

/// What the records say of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    /// For how long, in microseconds, a caller must have waited to be served without Redis; negative: who
    /// will come in that time may be, too.
    keep: i64,
    /// How many listeners keep no record: JVMs.
    strangers: u32,
    /// How many clients with callers who wait keep one.
    clients: u32,
}

impl Verdict {
    /// Reads the last word of an answer.
    pub(crate) fn read(word: &str) -> Option<Self> {
        let parts: Vec<&str> = word.strip_prefix("turn:")?.split(':').collect();
        let [pause, keep, strangers, clients, announced, granted] = parts.as_slice() else {
            return None;
        };
        let pause: u64 = pause.parse().ok()?;
        let seen = match *keep {
            "-" => None,
            keep => Some(Seen {
                keep: keep.parse().ok()?,
                strangers: strangers.parse().ok()?,
                clients: clients.parse().ok()?,
            }),
        };
        Some(Verdict {
            pause: (pause > 0).then(|| Duration::from_micros(pause)),
            seen,
            announced: announced.parse().ok()?,
            granted: granted.parse().ok()?,
        })
    }
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
    strangers: Strangers,
    /// How many callers were served without Redis since the last report.
    handed_over: i64,
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

    /// Whether the next batch carries a report. `answered`: the server has
    /// told callers who still wait.
    pub(crate) fn wants_report(&self, now: Instant, answered: bool) -> bool {
        if self.off {
            return false;
        }
        let fresh = |at: Instant| now.saturating_duration_since(at) < FRESH;
        self.others > 0 || self.on_record || answered && !self.learned.is_some_and(fresh)
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
        fits && self.strangers.offer() == 0 && self.keep_before.is_some_and(|before| came <= before)
    }

    /// A message that announces permits has come.
    pub(crate) fn heard(&mut self) {
        self.strangers.heard += 1;
    }

    /// Messages may have been missed.
    pub(crate) fn deaf(&mut self) {
        self.strangers.last = None;
    }

    /// Callers have been served without Redis.
    pub(crate) fn handed_over(&mut self, callers: usize) {
        self.handed_over += i64::try_from(callers).unwrap_or(i64::MAX);
    }

    /// Completes what a batch reports; `own`: how many of the listeners are this client.
    pub(crate) fn report(&mut self, of_line: Report, own: u64) -> Report {
        Report {
            own,
            offer: self.strangers.offer(),
            handed_over: std::mem::take(&mut self.handed_over),
            ..of_line
        }
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
        if let Some(seen) = verdict.seen {
            let distance = Duration::from_micros(seen.keep.unsigned_abs());
            self.keep_before = if seen.keep < 0 {
                sent.checked_add(distance)
            } else {
                sent.checked_sub(distance)
            };
            (self.strangers.count, self.strangers.clients) = (seen.strangers, seen.clients);
        }
        self.strangers
            .counted(verdict.announced, verdict.granted, now);
        self.held_until = verdict.pause.map(|pause| now + pause);
        self.held_until
    }
}

/// Listeners that keep no record, and how they get on beside those that do.
///
/// Who releases permits announces them, with one message. So the messages that were heard and that no script of
/// ours has counted are releases of strangers, and about as many callers of theirs have had permits.
#[derive(Debug, Default)]
struct Strangers {
    count: u32,
    clients: u32,
    /// Messages so far.
    heard: i64,
    /// What was heard, announced and granted when last looked at, and when that was.
    last: Option<(i64, i64, i64, Instant)>,
    /// How many callers of strangers, and of clients with a record, have had permits lately.
    theirs: f64,
    ours: f64,
}

/// After this long what has happened counts half.
const HALF_LIFE: f64 = 0.5;

impl Strangers {
    fn counted(&mut self, announced: i64, granted: i64, now: Instant) {
        let last = self.last.replace((self.heard, announced, granted, now));
        let Some((heard, announced_before, granted_before, then)) = last else {
            return;
        };
        if announced < announced_before || granted < granted_before {
            // The record has been made anew.
            return;
        }
        let fade = 0.5_f64.powf(now.saturating_duration_since(then).as_secs_f64() / HALF_LIFE);
        let foreign = (self.heard - heard) - (announced - announced_before);
        self.theirs = self.theirs * fade + foreign as f64;
        self.ours = self.ours * fade + (granted - granted_before) as f64;
    }

    fn offer(&self) -> i64 {
        if self.count == 0 {
            return 0;
        }
        let theirs = self.theirs.max(0.0) / f64::from(self.count);
        let ours = self.ours.max(1.0) / f64::from(self.clients.max(1));
        // All until they have an equal share, nothing when they have half as much again.
        let offer = 1.0 - (theirs / ours - 1.0) / 0.5;
        (1000.0 * offer).clamp(0.0, 1000.0) as i64
    }
}
