//! A read-write lock: a run of readers asks together, and a writer alone.

use std::collections::BTreeSet;
use std::str::SplitAsciiWhitespace;

use tokio::time::Instant;

use super::{Server, Subject};
use crate::engine::primitive::{Batch, Look, Primitive, Ticket, Verdict, Waiters};
use crate::engine::request::Arg;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Read,
    Write,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Want {
    pub(super) owner: usize,
    pub(super) mode: Mode,
}

#[derive(Debug)]
pub(super) struct Unlock(usize);

pub(super) struct RwLock;

impl Primitive for RwLock {
    const KIND: &'static str = "rwlock";
    const WAIT: &'static str = "lock";
    type Call = Unlock;
    type Reply = bool;
    type Want = Want;
    type Grant = Want;

    fn name(_: &Unlock) -> &'static str {
        "unlock"
    }

    fn is_owed(_: &Unlock) -> bool {
        true
    }

    fn frees(&self, _: &Unlock) -> bool {
        true
    }

    fn takes(_: &Want) -> bool {
        true
    }

    /// Whatever wakes those in front leads to all.
    fn joins(&mut self, _: &Want, others: &Waiters<Self>, _: Instant) -> Look {
        match others.is_empty() {
            true => Look::Now,
            false => Look::No,
        }
    }

    fn asks<'a>(&mut self, _: &Batch<Self>, waiters: &'a Waiters<Self>) -> Vec<(Ticket, &'a Want)> {
        let reads = |(_, want): &(Ticket, &Want)| want.mode == Mode::Read;
        let readers: Vec<_> = waiters.iter().take_while(reads).collect();
        if readers.is_empty() {
            return waiters.iter().take(1).collect();
        }
        readers
    }

    fn encode(&mut self, batch: &Batch<Self>, args: &mut Vec<Arg>) {
        let number = |owner: usize| Arg::Number(i64::try_from(owner).expect("it is small"));
        for queued in &batch.calls {
            args.extend([Arg::Word("unlock"), number(queued.call.0)]);
        }
        for ask in &batch.asks {
            let word = match ask.want.mode {
                Mode::Read => "read",
                Mode::Write => "write",
            };
            args.extend([Arg::Word(word), number(ask.want.owner)]);
        }
    }

    fn decode(
        &mut self,
        batch: &Batch<Self>,
        words: &mut SplitAsciiWhitespace<'_>,
    ) -> Option<Verdict<Self>> {
        let mut flag = || Some(words.next()? == "1");
        let replies = batch.calls.iter().map(|_| flag());
        let replies = replies.collect::<Option<_>>()?;
        let grants = batch
            .asks
            .iter()
            .map(|ask| Some(flag()?.then_some(ask.want)));
        let grants: Vec<_> = grants.collect::<Option<_>>()?;
        // Those behind who were all let in have not asked yet.
        let all = !grants.is_empty() && grants.iter().all(Option::is_some);
        let look = if all { Look::Now } else { Look::No };
        Some(Verdict::new(replies, grants, look))
    }

    fn give_back(want: Want) -> Option<Unlock> {
        Some(Unlock(want.owner))
    }

    fn unknown(&mut self, batch: &Batch<Self>) -> Vec<Unlock> {
        let again = batch.calls.iter().map(|queued| queued.call.0);
        let taken = batch.asks.iter().map(|ask| ask.want.owner);
        again.chain(taken).map(Unlock).collect()
    }
}

impl Subject for RwLock {
    type Server = Holders;

    fn new() -> Self {
        RwLock
    }

    /// Reader, writer, reader...
    fn want(caller: usize) -> Want {
        let mode = [Mode::Read, Mode::Write][caller % 2];
        Want {
            owner: caller,
            mode,
        }
    }

    fn release(caller: usize) -> Option<Unlock> {
        Some(Unlock(caller))
    }
}

const OUTSIDER: usize = 99;

pub(super) struct Holders {
    readers: BTreeSet<usize>,
    writer: Option<usize>,
}

impl Default for Holders {
    fn default() -> Self {
        Holders {
            readers: BTreeSet::new(),
            writer: Some(OUTSIDER),
        }
    }
}

impl Holders {
    /// The outsider reads.
    pub(super) fn read() -> Self {
        Holders {
            readers: [OUTSIDER].into(),
            writer: None,
        }
    }

    fn unlock(&mut self, owner: usize) -> bool {
        let wrote = self.writer == Some(owner);
        if wrote {
            self.writer = None;
        }
        self.readers.remove(&owner) || wrote
    }
}

impl Server for Holders {
    fn execute(&mut self, steps: &[String]) -> (String, Vec<String>) {
        let (mut words, mut published) = (Vec::new(), Vec::new());
        for step in steps.chunks(2) {
            let owner = step[1].parse().expect("an owner");
            let done = match &*step[0] {
                "unlock" => {
                    let done = self.unlock(owner);
                    published.extend((done && self.is_clean()).then(|| "own".to_owned()));
                    done
                }
                "read" if self.writer.is_none() => {
                    self.readers.insert(owner);
                    true
                }
                "write" if self.writer.is_none() && self.readers.is_empty() => {
                    self.writer = Some(owner);
                    true
                }
                _ => false,
            };
            assert!(self.writer.is_none() || self.readers.is_empty());
            words.push(i64::from(done).to_string());
        }
        (words.join(" "), published)
    }

    fn outsider_goes(&mut self) -> Vec<String> {
        self.execute(&["unlock".to_owned(), OUTSIDER.to_string()]).1
    }

    fn is_clean(&self) -> bool {
        self.writer.is_none() && self.readers.is_empty()
    }
}
