//! The server's answer to a batch: what the words of `lua/recipes/batch.lua` mean.

use std::str::SplitAsciiWhitespace;
use std::sync::Arc;
use std::time::Duration;

use super::calls::Page;
use crate::api::Holder;

/// A peer holds the lock that acquisitions are made under, and nobody was granted anything; or somebody holds the string
/// lock that is waited for.
#[derive(Debug, PartialEq)]
pub(super) struct Locked {
    /// For so long at the most.
    pub(super) left: Duration,
    /// Tells one holder from the next.
    pub(super) holder: String,
}

/// Where this client stands in the line of all clients.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rank {
    /// So many stand before it.
    pub(super) before: u32,
    /// So many stand in line.
    pub(super) of: u32,
}

/// What was done.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Outcome {
    /// The server's clock, in microseconds.
    pub(super) now: u64,
    /// Until the first holder expires.
    pub(super) first_end: Option<Duration>,
    pub(super) rank: Rank,
    /// After how long it is to be seen whether others have come who have been told that it is their turn.
    pub(super) tend: Option<Duration>,
    /// What has expired could not be removed all at once.
    pub(super) more: bool,
    pub(super) locked: Option<Locked>,
    pub(super) served: usize,
    pub(super) tried: usize,
    pub(super) cleared: u64,
    pub(super) released: Vec<bool>,
    /// Of those served, then of those who tried; empty where there are none.
    pub(super) slots: Vec<u32>,
    /// Why nothing could be granted.
    pub(super) failure: Option<String>,
}

impl Outcome {
    /// `None` for what no script of ours says.
    pub(super) fn read(words: &mut SplitAsciiWhitespace<'_>) -> Option<Self> {
        let now = words.next()?.parse().ok()?;
        let first_end = read_millis(words.next()?)?;
        let rank = Rank {
            before: words.next()?.parse().ok()?,
            of: words.next()?.parse().ok()?,
        };
        let tend = match words.next()?.parse().ok()? {
            0 => None,
            micros => Some(Duration::from_micros(micros)),
        };
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
        let slots = match words.next()? {
            "-" => Vec::new(),
            slots => {
                let slots = slots.split(',').map(|slot| slot.parse().ok());
                slots.collect::<Option<_>>()?
            }
        };
        let failure = match words.next()? {
            "-" => None,
            failure => Some(read_text(failure)?),
        };
        Some(Outcome {
            now,
            first_end,
            rank,
            tend,
            more,
            locked,
            served,
            tried,
            cleared,
            released,
            slots,
            failure,
        })
    }
}

impl Page {
    pub(super) fn read(words: &mut SplitAsciiWhitespace<'_>) -> Option<Self> {
        let next = match words.next()? {
            "-" => None,
            next => Some(read_text(next)?.into()),
        };
        let mut holders = Vec::new();
        while let Some(id) = words.next() {
            let remaining = read_millis(words.next()?)?;
            let slot: u32 = words.next()?.parse().ok()?;
            holders.push(Holder {
                id: read_text(id)?,
                remaining,
                slot: (slot > 0).then_some(slot),
            });
        }
        Some(Page { holders, next })
    }

    /// Where the first one begins.
    pub(super) fn start() -> Arc<str> {
        "".into()
    }
}

/// A text as it is, or in hexadecimal digits where it is no word. Bytes that are no UTF-8 are replaced.
fn read_text(word: &str) -> Option<String> {
    let Some(digits) = word.strip_prefix('=') else {
        return Some(word.to_owned());
    };
    let pairs = digits.as_bytes().chunks(2);
    let bytes = pairs.map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok());
    let bytes: Vec<u8> = bytes.collect::<Option<_>>()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// A time in milliseconds, of any size, as a script writes it; less than 0: none.
fn read_millis(word: &str) -> Option<Option<Duration>> {
    let number: f64 = word.parse().ok()?;
    // A cast ends at the largest there is.
    Some((number >= 0.0).then_some(Duration::from_millis(number as u64)))
}

/// A digit for each: whether it was so.
pub(super) fn read_bits(word: &str) -> Option<Vec<bool>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Outcome> {
        Outcome::read(&mut text.split_ascii_whitespace())
    }

    #[test]
    fn answers_are_read() {
        let done = read("17 250 3 7 5000 1 - 2 1 0 10 4,5,6 -");
        let expected = Outcome {
            now: 17,
            first_end: Some(Duration::from_millis(250)),
            rank: Rank { before: 3, of: 7 },
            tend: Some(Duration::from_millis(5)),
            more: true,
            served: 2,
            tried: 1,
            released: vec![true, false],
            slots: vec![4, 5, 6],
            ..Outcome::default()
        };
        assert_eq!(done, Some(expected));
        let failed = read("1 -1 1 2 0 0 40:a1b2 0 0 7 - - =4f4f4d206e6f").expect("it is read");
        assert_eq!(failed.failure.as_deref(), Some("OOM no"));
        assert_eq!((failed.first_end, failed.cleared), (None, 7));
        assert_eq!((&*failed.released, failed.tend), (&[][..], None));
        let locked = Locked {
            left: Duration::from_millis(40),
            holder: "a1b2".to_owned(),
        };
        assert_eq!((failed.rank.before, failed.locked), (1, Some(locked)));
        assert_eq!(read("x"), None);
        assert_eq!(read("1 2 3"), None);
    }

    #[test]
    fn pages_are_read() {
        let page = |text: &str| Page::read(&mut text.split_ascii_whitespace());
        let read = page("=3137206162 a-b 250 0 = -1 3 =c3a42020ff 1e300 0").expect("it is read");
        assert_eq!(read.next.as_deref(), Some("17 ab"));
        let ids: Vec<_> = read.holders.iter().map(Holder::id).collect();
        assert_eq!(ids, ["a-b", "", "ä  \u{fffd}"]);
        assert_eq!(read.holders[0].remaining, Some(Duration::from_millis(250)));
        assert_eq!(
            (read.holders[1].remaining, read.holders[1].slot),
            (None, Some(3))
        );
        assert!(page("-").is_some_and(|page| page.next.is_none() && page.holders.is_empty()));
        assert_eq!(page("- id"), None);
        assert_eq!(
            page("=3 id 1 1").and_then(|page| page.next).as_deref(),
            Some("\u{3}")
        );
        assert_eq!(page("=xy"), None);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(text: String) {
            let _ = (read(&text), Page::read(&mut text.split_ascii_whitespace()));
        }
    }
}
