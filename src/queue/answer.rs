//! The script's answer to a batch.

use std::str::{FromStr, SplitAsciiWhitespace};
use std::time::Duration;

use super::batch::{Batch, Run};
use super::entries::Entry;
use super::outcome::{Outcome, Taken, Ticket, Want};
use super::primitive::{self, Call, Primitive};
use crate::engine::once::{NOTHING, STALE};

/// A longer time counts as so many microseconds, a day.
const LONGEST: f64 = 86_400_000_000.0;

/// The answer to a batch.
#[derive(Debug)]
pub(super) enum Said<'a, W> {
    Done(Answer<'a, W>),
    /// Nothing has changed, because of this error.
    Refused(&'a str),
    /// The same, behind a change.
    Unsure(&'a str),
    /// The object's key holds this, which is no number.
    Unreadable(&'a str),
    /// A later batch is on record.
    Stale,
    /// It has not been carried out, and will not be.
    NotDone,
}

/// The answer of a script, parsed.
#[derive(Debug)]
pub(super) struct Answer<'a, W> {
    /// How much is free behind it.
    pub(super) available: i64,
    /// When this client is to have the queue served again, if it is to do so: a grant or a lease ends then.
    pub(super) serve_in: Option<Duration>,
    /// The script has passed so many entries, and there are more: the next one is to go on behind them.
    pub(super) skip: Option<u64>,
    /// For how long the first entry of another client has waited.
    pub(super) foreign: Option<Duration>,
    /// How many JVMs listen, where that was seen.
    pub(super) jvms: Option<u32>,
    /// This client is the one that listens to JVMs.
    pub(super) watches: bool,
    /// The server's clock in microseconds, where it was asked.
    pub(super) clock: Option<u64>,
    results: SplitAsciiWhitespace<'a>,
    /// The entries of this client that have been served.
    pub(super) served: Vec<(Ticket, Entry<W>, Taken)>,
    /// Those that could not be, and have left the queue.
    pub(super) dropped: Vec<Ticket>,
}

impl<'a, W: Want> Said<'a, W> {
    /// `None` for what the script never says.
    pub(super) fn read(text: &'a str) -> Option<Self> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        Some(match word {
            "done" => Said::Done(Answer::read(rest)?),
            "refused" => Said::Refused(rest),
            "unsure" => Said::Unsure(rest),
            "unreadable" => Said::Unreadable(rest),
            STALE => Said::Stale,
            NOTHING => Said::NotDone,
            _ => return None,
        })
    }
}

impl<'a, W: Want> Answer<'a, W> {
    fn read(text: &'a str) -> Option<Self> {
        let Some((words, served)) = text.split_once('|') else {
            return Answer::read_short(text);
        };
        let mut words = words.split_ascii_whitespace();
        // Endless where another program has written the time.
        let micros =
            |time: f64| (time >= 0.0).then(|| Duration::from_micros(time.min(LONGEST) as u64));
        let available = number(words.next())?;
        let next: f64 = number(words.next())?;
        let own_words = served.split_ascii_whitespace();
        let (dropped, served): (Vec<_>, Vec<_>) = own_words.partition(|word| word.starts_with('-'));
        let served = served.into_iter().map(own);
        let dropped = dropped.into_iter().map(|word| number(word.get(1..)));
        Some(Answer {
            available,
            serve_in: micros(next),
            skip: (next < -1.0).then(|| (-1.0 - next) as u64),
            foreign: micros(number(words.next())?),
            jvms: listeners(words.next())?,
            watches: number::<u8>(words.next())? == 1,
            clock: Some(number(words.next())?).filter(|clock| *clock > 0),
            results: words,
            served: served.collect::<Option<_>>()?,
            dropped: dropped.collect::<Option<_>>()?,
        })
    }

    /// Without waiters: how much is free, how many JVMs listen, and the results.
    fn read_short(text: &'a str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        Some(Answer {
            available: number(words.next())?,
            serve_in: None,
            skip: None,
            foreign: None,
            jvms: listeners(words.next())?,
            watches: false,
            clock: None,
            results: words,
            served: Vec::new(),
            dropped: Vec::new(),
        })
    }

    /// The result of the next step.
    pub(super) fn result(&mut self) -> Option<&'a str> {
        self.results.next()
    }

    /// How many were carried out, and what was added to that of the last one.
    pub(super) fn count(&mut self) -> Option<(usize, Taken)> {
        let (count, taken) = counted(self.results.next()?)?;
        Some((usize::try_from(count).ok()?, taken))
    }

    pub(super) fn flag(&mut self) -> Option<bool> {
        match self.results.next()? {
            "1" => Some(true),
            "0" => Some(false),
            _ => None,
        }
    }

    pub(super) fn is_read(&mut self) -> bool {
        self.results.next().is_none()
    }
}

/// The results of the steps of a batch.
pub(super) struct Results<W> {
    pub(super) extends: Vec<bool>,
    pub(super) confirms: Vec<Option<Taken>>,
    /// One for each call.
    pub(super) calls: Vec<primitive::Result<W>>,
    /// How many of each run have been served, and how the last of these was.
    pub(super) runs: Vec<(usize, Taken)>,
}

impl<W: Want> Results<W> {
    /// `None` for what the script never answers to `batch`.
    pub(super) fn read<P: Primitive<Want = W>>(
        name: &str,
        batch: &Batch<P>,
        answer: &mut Answer<'_, W>,
    ) -> Option<Self> {
        let extends = batch.extends.iter().map(|_| answer.flag());
        let extends = extends.collect::<Option<_>>()?;
        let confirms = batch.confirms.iter().map(|_| match answer.count()? {
            (0, _) => Some(None),
            (1, taken) => Some(Some(taken)),
            _ => None,
        });
        let confirms = confirms.collect::<Option<_>>()?;
        for _ in &batch.leaves {
            answer.result()?;
        }
        let mut calls = Vec::with_capacity(batch.calls.len());
        for step in batch.steps() {
            let word = answer.result()?;
            for index in 0..step.len() {
                calls.push(step[0].call()?.read(name, word, index)?);
            }
        }
        let count = |run: &Run<W>, answer: &mut Answer<'_, W>| {
            answer.count().filter(|(served, _)| *served <= run.count)
        };
        let runs = batch.runs.iter().map(|run| count(run, answer));
        let runs = runs.collect::<Option<_>>()?;
        for _ in batch.flags() {
            answer.result()?;
        }
        answer.is_read().then_some(Results {
            extends,
            confirms,
            calls,
            runs,
        })
    }
}

/// An entry that was served, and its token where it has one.
fn own<W: Want>(word: &str) -> Option<(Ticket, Entry<W>, Taken)> {
    let (text, token) = word.split_once('=').unwrap_or((word, "0"));
    let (ticket, entry): (_, Entry<W>) = Entry::read(text)?;
    let token = token.parse().ok()?;
    let count = entry.want.count_of_grant();
    Some((ticket, entry, Taken { token, count }))
}

/// Of a step: how many were carried out, and behind that the token and the count of the last one, where the primitive has these.
fn counted(word: &str) -> Option<(u64, Taken)> {
    let mut words = word.splitn(3, ':');
    let done = number(words.next())?;
    let taken = match words.next() {
        None => Taken::default(),
        token => Taken {
            token: number(token)?,
            count: number(words.next())?,
        },
    };
    Some((done, taken))
}

/// The outcome of a step that takes something for one caller: 0 where it has not.
pub(crate) fn taking<W>(word: &str) -> Option<Outcome<W>> {
    Some(match counted(word)? {
        (0, _) => Outcome::Number(0),
        (_, taken) => Outcome::Taken(taken),
    })
}

/// How many listen; -1 where that was not seen.
fn listeners(word: Option<&str>) -> Option<Option<u32>> {
    match number::<i64>(word)? {
        -1 => Some(None),
        count => Some(Some(u32::try_from(count).ok()?)),
    }
}

fn number<T: FromStr>(word: Option<&str>) -> Option<T> {
    word?.parse().ok()
}
