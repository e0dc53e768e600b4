//! As which words a batch of calls on a semaphore with ids travels, and what the words of its answer say; see
//! `lua/permit_expirable/steps.lua`.

use std::ops::Range;
use std::str::SplitAsciiWhitespace;
use std::time::Duration;

use super::calls::{Call, Counted, Grant, Page, Reply, millis};
use super::ids::{self, Id};
use super::primitive::PermitExpirable;
use crate::api::{Holder, RemainingTtl};
use crate::clock::Moment;
use crate::engine::primitive::{Ask, Batch, Queued};
use crate::engine::request::Arg;

/// What travels as one step.
enum Step {
    /// Calls that release, each on its own.
    Releases(Range<usize>),
    Call(usize),
    /// What does all that it does by travelling.
    Tend,
    /// Questions for permits with the same lease, of callers who wait on or of those who do not.
    Asks(Range<usize>),
}

/// The steps of a batch, in their order: like calls that follow each other are one.
#[derive(Default)]
pub(super) struct Steps {
    steps: Vec<Step>,
    calls: usize,
    asks: usize,
    /// How many ids there are in them.
    ids: usize,
    /// What the last question was for, and whether it was somebody's last.
    asked: Option<(Option<Duration>, bool)>,
}

impl Steps {
    /// Adds a call, unless these were more than `most` ids then.
    pub(super) fn note_call(&mut self, call: &Call, most: usize) -> bool {
        if self.ids > 0 && self.ids + call.ids() > most {
            return false;
        }
        self.ids += call.ids();
        let number = self.calls;
        self.calls += 1;
        match (call, self.steps.last_mut()) {
            (Call::Release(_), Some(Step::Releases(range))) => range.end = number + 1,
            (Call::Release(_), _) => self.steps.push(Step::Releases(number..number + 1)),
            (Call::Tend, _) => self.steps.push(Step::Tend),
            _ => self.steps.push(Step::Call(number)),
        }
        true
    }

    /// The same for a question; these come behind the calls.
    pub(super) fn note_ask(&mut self, ask: &Ask<PermitExpirable>, most: usize) -> bool {
        if self.ids > 0 && self.ids + ask.want.permits() > most {
            return false;
        }
        self.ids += ask.want.permits();
        let number = self.asks;
        self.asks += 1;
        let asked = self.asked.replace((ask.want.lease, ask.last));
        match self.steps.last_mut() {
            Some(Step::Asks(range)) if asked == self.asked => range.end = number + 1,
            _ => self.steps.push(Step::Asks(number..number + 1)),
        }
        true
    }
}

/// Writes all but the report.
pub(super) fn encode(batch: &Batch<PermitExpirable>, args: &mut Vec<Arg>) {
    let releases = |queued: &Queued<PermitExpirable>| queued.call.ids() > 0;
    args.push(
        if batch.asks.is_empty() && batch.calls.iter().all(releases) {
            // Who releases does not care what has ended.
            Arg::Number(-1)
        } else {
            let asked: usize = batch.asks.iter().map(|ask| ask.want.permits()).sum();
            // Those who wait behind these are served when the next one ends.
            Arg::number(asked + usize::from(batch.waiting > batch.asks.len()))
        },
    );
    for step in &batch.steps.steps {
        match step {
            Step::Releases(calls) => {
                let calls = &batch.calls[calls.clone()];
                let count: usize = calls.iter().map(|queued| queued.call.ids()).sum();
                args.extend([Arg::Word("release"), Arg::number(count)]);
                for queued in calls {
                    push_ids(&queued.call, args);
                }
            }
            Step::Call(call) => encode_call(&batch.calls[*call].call, args),
            Step::Tend => {}
            Step::Asks(asks) => {
                let asks = &batch.asks[asks.clone()];
                let stops = asks.iter().take_while(|ask| stops(ask, batch.departed));
                args.push(Arg::Word(if asks[0].last { "try" } else { "acquire" }));
                args.push(Arg::Number(millis(asks[0].want.lease)));
                args.push(Arg::number(stops.count()));
                args.push(Arg::number(asks.len()));
                args.extend(asks.iter().map(|ask| ask.want.ids.arg()));
            }
        }
    }
}

/// Reads what has become of each call and each question; `None` for what the script never answers.
pub(super) fn decode(
    batch: &Batch<PermitExpirable>,
    words: &mut SplitAsciiWhitespace<'_>,
) -> Option<(Vec<Reply>, Vec<Option<Grant>>)> {
    let (mut replies, mut grants) = (Vec::new(), Vec::new());
    for step in &batch.steps.steps {
        if matches!(step, Step::Tend) {
            replies.push(Reply::Done(true));
            continue;
        }
        let word = words.next()?;
        match step {
            Step::Tend => {}
            Step::Releases(calls) => {
                let mut flags = word.bytes();
                for queued in &batch.calls[calls.clone()] {
                    let mut of_it = (0..queued.call.ids()).map(|_| flags.next());
                    replies.push(released(of_it.next()??)?);
                    of_it.try_for_each(|flag| flag.map(drop))?;
                }
                flags.next().is_none().then_some(())?;
            }
            Step::Call(call) => replies.push(decode_call(&batch.calls[*call].call, word)?),
            Step::Asks(asks) => {
                let asks = &batch.asks[asks.clone()];
                (word.len() == asks.len()).then_some(())?;
                for (ask, flag) in asks.iter().zip(word.bytes()) {
                    let lasts = |lease: Duration| batch.departed.checked_add(lease);
                    let grant = Grant {
                        ids: ask.want.ids.clone(),
                        until: ask.want.lease.and_then(lasts),
                    };
                    grants.push((flag == b'1').then_some(grant));
                }
            }
        }
    }
    Some((replies, grants))
}

/// Whether one who asks stops the line where it does not fit.
fn stops(ask: &Ask<PermitExpirable>, now: Moment) -> bool {
    !ask.last && ask.want.is_passed(now)
}

fn push_ids(call: &Call, args: &mut Vec<Arg>) {
    match call {
        Call::Release(ids) => args.extend(ids.iter().map(Id::arg)),
        Call::ReleaseTogether(ids) => args.extend(ids.iter().map(Id::arg)),
        _ => {}
    }
}

fn encode_call(call: &Call, args: &mut Vec<Arg>) {
    let (word, what) = match call {
        Call::Release(ids) => ("release", Arg::number(ids.len())),
        Call::ReleaseTogether(ids) => ("together", Arg::number(ids.len())),
        Call::Prolong(id, _) => ("prolong", id.arg()),
        Call::Remaining(id) => ("remaining", id.arg()),
        Call::Count(Counted::Available) => ("available", Arg::Number(0)),
        Call::Count(Counted::Acquired) => ("acquired", Arg::Number(0)),
        Call::Count(Counted::Total) => ("total", Arg::Number(0)),
        Call::TrySet(permits) => ("try_set", Arg::Number((*permits).into())),
        Call::Set(permits) => ("set", Arg::Number((*permits).into())),
        Call::Add(permits) => ("add", Arg::Number((*permits).into())),
        Call::Clear(most) => ("clear", Arg::number(*most)),
        Call::List(from) => ("list", Arg::Text(from.clone())),
        Call::Tend => return,
    };
    args.extend([Arg::Word(word), what]);
    push_ids(call, args);
    if let Call::Prolong(_, lease) = call {
        args.push(Arg::Number(millis(*lease)));
    }
}

fn released(flag: u8) -> Option<Reply> {
    match flag {
        b'1' => Some(Reply::Done(true)),
        b'0' => Some(Reply::Done(false)),
        b'o' => Some(Reply::OldForm),
        _ => None,
    }
}

/// What `word` says of `call`; `None` for what the script never answers.
fn decode_call(call: &Call, word: &str) -> Option<Reply> {
    if word == "o" {
        return Some(Reply::OldForm);
    }
    let pair = || {
        let (one, two) = word.split_once(':')?;
        Some((one.parse::<i64>().ok()?, two.parse::<i64>().ok()?))
    };
    Some(match call {
        Call::Set(_) | Call::Add(_) if word != "1" => Reply::OutOfRange(pair()?.1),
        Call::TrySet(_) | Call::Set(_) | Call::Add(_) | Call::Prolong(..) => {
            released(*word.as_bytes().first()?)?
        }
        Call::ReleaseTogether(ids) if word.contains(':') => {
            let (form, place) = word.split_once(':')?;
            Reply::NotAll(ids.clone(), place.parse().ok()?, form == "o")
        }
        Call::Release(_) | Call::ReleaseTogether(_) | Call::Count(_) => {
            Reply::Count(word.parse().ok()?)
        }
        Call::Remaining(_) => Reply::Remaining(match word {
            "none" => RemainingTtl::Missing,
            "never" => RemainingTtl::Persistent,
            millis => RemainingTtl::Expires(Duration::from_millis(millis.parse().ok()?)),
        }),
        Call::Clear(_) => {
            let (count, left) = pair()?;
            Reply::Cleared(count.try_into().ok()?, left.try_into().ok()?)
        }
        Call::List(_) => Reply::Page(decode_page(word)?),
        Call::Tend => return None,
    })
}

fn decode_page(word: &str) -> Option<Page> {
    let mut parts = word.split(',');
    let next = match parts.next()? {
        "-" => None,
        behind => Some(behind.replace('/', " ").into()),
    };
    // Somebody may have entered what is no id at all.
    let named = |part: &&str| !part.starts_with('=');
    let holder = |part: &str| {
        let (id, left) = part.split_once('=')?;
        let left: i64 = left.parse().ok()?;
        ids::from_hex(id)?;
        Some(Holder {
            id: id.to_owned(),
            remaining: u64::try_from(left).ok().map(Duration::from_millis),
            slot: None,
        })
    };
    Some(Page {
        holders: parts.filter(named).map(holder).collect::<Option<_>>()?,
        next,
    })
}
