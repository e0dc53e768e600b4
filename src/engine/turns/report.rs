//! What a batch tells the server about the callers who wait, and what the server answers.

use std::time::Duration;

/// No pause is longer: permits are kept for others for some milliseconds.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

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
    pub(super) announced: i64,
    pub(super) granted: i64,
    /// The server does not let the record be kept.
    pub(super) off: bool,
}

/// What the records say of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    /// For how long, in microseconds, a caller must have waited to be served without Redis; negative: who
    /// will come in that time may be, too.
    pub(super) keep: i64,
    /// How many listeners keep no record: JVMs.
    pub(super) strangers: u32,
    /// How many clients with callers who wait keep one.
    pub(super) clients: u32,
}

impl Verdict {
    /// Without a record nobody is held back, not even those who were just now.
    const OFF: Verdict = Verdict {
        pause: Some(Duration::ZERO),
        seen: None,
        announced: 0,
        granted: 0,
        off: true,
    };

    /// Reads the last word of an answer.
    pub(crate) fn read(word: &str) -> Option<Self> {
        if word == "turn:off" {
            return Some(Verdict::OFF);
        }
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
            pause: (pause > 0).then(|| Duration::from_micros(pause).min(LONGEST_PAUSE)),
            seen,
            announced: announced.parse().ok()?,
            granted: granted.parse().ok()?,
            off: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read() {
        let verdict = Verdict::read("turn:1500:-2000:2:3:40:500").expect("as the script writes it");
        assert_eq!(verdict.pause, Some(Duration::from_micros(1500)));
        let seen = verdict.seen.expect("it looked around");
        assert_eq!((seen.keep, seen.strangers, seen.clients), (-2000, 2, 3));
        assert_eq!((verdict.announced, verdict.granted), (40, 500));
    }

    #[test]
    fn who_had_nothing_to_take_has_not_looked_around() {
        let verdict = Verdict::read("turn:0:-:-:1:40:500").expect("as the script writes it");
        assert_eq!((verdict.pause, verdict.seen), (None, None));
    }

    #[test]
    fn anything_else_is_no_answer() {
        for word in [
            "turn:",
            "turn:1:2:3:4:5",
            "turn:x:-:-:1:0:0",
            "turn:0:1:-1:1:0:0",
            "12",
        ] {
            assert_eq!(Verdict::read(word), None, "{word}");
        }
    }
}
