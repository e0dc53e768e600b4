//! The server's answer to a batch: what the script's words mean.

use std::sync::Arc;
use std::time::Duration;

use super::batch::Batch;
use super::line::alarm::Rank;
use crate::api::Holder;
use crate::transport::Value;

/// Stands in front of an answer that should have been put on record, and could not.
const UNRECORDED: &str = "unrecorded ";

/// The server's answer to a batch.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    Done(Outcome),
    Holders(Page),
    /// A score that looks like a time in other units.
    Units(String),
    /// The error that an earlier copy of this batch was answered with.
    Refused(String),
    /// A later batch is on record already.
    Stale,
}

/// Some of the holders.
#[derive(Debug, PartialEq)]
pub(super) struct Page {
    pub(super) holders: Vec<Holder>,
    /// Where the next page goes on; `None`: it was the last.
    pub(super) next: Option<Arc<str>>,
}

/// A peer holds the lock that acquisitions are made under, and nobody was granted anything; or somebody holds the string
/// lock that is waited for.
#[derive(Debug, PartialEq)]
pub(super) struct Locked {
    /// For so long at the most.
    pub(super) left: Duration,
    /// Tells one holder from the next.
    pub(super) holder: String,
}

/// What was done.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Outcome {
    /// The server's clock, in microseconds.
    pub(super) now: u64,
    /// Until the first holder expires.
    pub(super) first_end: Option<Duration>,
    /// Where this client stands now in the line of all clients.
    pub(super) rank: Rank,
    /// After how long it is to be seen whether others have come who have been told that it is their turn.
    pub(super) again: Option<Duration>,
    /// What has expired could not be removed all at once.
    pub(super) more: bool,
    pub(super) locked: Option<Locked>,
    pub(super) served: usize,
    pub(super) tried: usize,
    pub(super) cleared: u64,
    pub(super) released: Vec<bool>,
    pub(super) refreshed: Vec<bool>,
    /// Of those served, then of those who tried; empty where there are none.
    pub(super) slots: Vec<u32>,
    /// Why nothing could be granted.
    pub(super) failure: Option<String>,
}

impl Answer {
    /// Reads the answer to `batch`; `None` for one that no script of ours gives to it.
    pub(super) fn read(value: &Value, batch: &Batch) -> Option<Self> {
        let answer = Answer::parse(value)?;
        let expected = match &answer {
            Answer::Done(outcome) => batch.expects(outcome),
            Answer::Holders(_) => batch.is_list(),
            _ => true,
        };
        expected.then_some(answer)
    }

    /// Whether an answer to a batch that had to be put on record says that it was. A list of holders never is.
    pub(super) fn is_on_record(value: &Value) -> bool {
        match value {
            Value::BulkString(bytes) => !bytes.starts_with(UNRECORDED.as_bytes()),
            _ => false,
        }
    }

    fn parse(value: &Value) -> Option<Self> {
        let bytes = match value {
            Value::BulkString(bytes) => bytes,
            Value::Array(items) => return read_page(items).map(Answer::Holders),
            _ => return None,
        };
        let text = String::from_utf8_lossy(bytes);
        let text = text.strip_prefix(UNRECORDED).unwrap_or(&text);
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let rest_of = |rest: &str| rest.to_owned();
        match word {
            "done" => read_outcome(rest).map(Answer::Done),
            "units" => Some(Answer::Units(rest_of(rest))),
            "refused" => Some(Answer::Refused(rest_of(rest))),
            "stale" => Some(Answer::Stale),
            _ => None,
        }
    }
}

fn read_outcome(text: &str) -> Option<Outcome> {
    let mut words = text.splitn(14, ' ');
    let now = words.next()?.parse().ok()?;
    let first_end = read_millis(words.next()?)?;
    let rank = Rank {
        before: words.next()?.parse().ok()?,
        of: words.next()?.parse().ok()?,
    };
    let again = read_number(words.next()?)?.map(Duration::from_micros);
    let more = words.next()? == "1";
    let locked = match words.next()? {
        "-" => None,
        lock => {
            let (left, holder) = lock.split_once(':')?;
            Some(Locked {
                left: read_millis(left)?.unwrap_or_default(),
                holder: holder.to_owned(),
            })
        }
    };
    let served = words.next()?.parse().ok()?;
    let tried = words.next()?.parse().ok()?;
    let cleared = words.next()?.parse().ok()?;
    let released = read_bits(words.next()?)?;
    let refreshed = read_bits(words.next()?)?;
    let slots = match words.next()? {
        "-" => Vec::new(),
        slots => {
            let slots: Option<Vec<u32>> = slots.split(',').map(|slot| slot.parse().ok()).collect();
            slots?
        }
    };
    let failure = words.next().filter(|failure| *failure != "-");
    Some(Outcome {
        now,
        first_end,
        rank,
        again,
        more,
        locked,
        served,
        tried,
        cleared,
        released,
        refreshed,
        slots,
        failure: failure.map(str::to_owned),
    })
}

/// A number of any size, as a script writes it; less than 0: none.
fn read_number(word: &str) -> Option<Option<u64>> {
    let number: f64 = word.parse().ok()?;
    // A cast ends at the largest there is.
    Some((number >= 0.0).then_some(number as u64))
}

/// A time in milliseconds.
fn read_millis(word: &str) -> Option<Option<Duration>> {
    Some(read_number(word)?.map(Duration::from_millis))
}

fn read_bits(word: &str) -> Option<Vec<bool>> {
    let bit = |bit| match bit {
        b'0' => Some(false),
        b'1' => Some(true),
        _ => None,
    };
    match word {
        "-" => Some(Vec::new()),
        bits => bits.bytes().map(bit).collect(),
    }
}

fn read_page(items: &[Value]) -> Option<Page> {
    let (next, items) = items.split_first()?;
    let text = |value: &Value| match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    };
    let holder = |item: &[Value]| {
        let left = read_millis(&text(&item[1])?)?;
        let slot: u32 = text(&item[2])?.parse().ok()?;
        Some(Holder {
            id: text(&item[0])?,
            remaining: left,
            slot: (slot > 0).then_some(slot),
        })
    };
    if !items.len().is_multiple_of(3) {
        return None;
    }
    let holders: Option<Vec<Holder>> = items.chunks_exact(3).map(holder).collect();
    let next = text(next)?;
    Some(Page {
        holders: holders?,
        next: (!next.is_empty()).then(|| next.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::super::batch::{Call, Operation};
    use super::*;

    #[test]
    fn answers_are_read() {
        let read = |text: &str| Answer::parse(&Value::BulkString(text.as_bytes().to_vec()));
        let done = read("done 17 250 3 7 5000 1 - 2 1 0 10 - 4,5,6 -");
        let expected = Outcome {
            now: 17,
            first_end: Some(Duration::from_millis(250)),
            rank: Rank { before: 3, of: 7 },
            again: Some(Duration::from_millis(5)),
            more: true,
            served: 2,
            tried: 1,
            released: vec![true, false],
            slots: vec![4, 5, 6],
            ..Outcome::default()
        };
        assert_eq!(done, Some(Answer::Done(expected)));
        let Some(Answer::Done(failed)) =
            read("done 1 -1 1 2 -1 0 40:a1b2 0 0 7 - 1 - OOM no memory")
        else {
            panic!("not read");
        };
        assert_eq!(failed.failure.as_deref(), Some("OOM no memory"));
        assert_eq!((failed.first_end, failed.cleared), (None, 7));
        assert_eq!(failed.refreshed, [true]);
        let locked = Locked {
            left: Duration::from_millis(40),
            holder: "a1b2".to_owned(),
        };
        assert_eq!((failed.rank.before, failed.locked), (1, Some(locked)));
        assert_eq!(read("stale"), Some(Answer::Stale));
        let units = Answer::Units("17".to_owned());
        assert_eq!(read("unrecorded units 17"), Some(units));
        assert_eq!(read("done x"), None);
        assert_eq!(read("else"), None);
    }

    #[test]
    fn what_is_not_on_record_is_known() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let done = "done 17 -1 0 0 -1 0 - 0 0 0 - - - -";
        assert!(Answer::is_on_record(&text(done)));
        assert!(!Answer::is_on_record(&text(&format!("unrecorded {done}"))));
        assert!(!Answer::is_on_record(&Value::Array(vec![text("")])));
    }

    proptest::proptest! {
        #[test]
        fn any_value_is_read(value in crate::any_value::value(), releases in 0_usize..4, tries in 0_usize..4) {
            let mut batch = Batch::new(Default::default());
            let releases = (0..releases).map(|_| Operation::Release("a".into()));
            for operation in releases.chain((0..tries).map(|_| Operation::Try(Duration::ZERO))) {
                let since = tokio::time::Instant::now();
                let call = Call { operation, reply: None, since };
                batch.add(call).expect("there is room");
            }
            if let Some(Answer::Done(outcome)) = Answer::read(&value, &batch) {
                assert_eq!(outcome.released.len(), batch.releases.len());
                assert!(outcome.served == 0 && outcome.tried <= tries);
            }
        }
    }
}
