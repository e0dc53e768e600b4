//! A fair lock: the queue stands in the server, every waiter has a channel of its own, and who goes withdraws.

use std::collections::{BTreeSet, VecDeque};
use std::str::SplitAsciiWhitespace;
use std::time::Duration;

use tokio::time::Instant;

use super::{Server, Subject};
use crate::engine::primitive::{Ask, Batch, Look, Primitive, Ticket, Verdict, Waiters};
use crate::engine::request::Arg;
use crate::engine::wakeups::Wake;

pub(super) type Owner = usize;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Unlock(Owner),
    Withdraw(Owner),
}

/// Who stands in the server's queue, and who was told that it is his turn.
#[derive(Default)]
pub(super) struct FairLock {
    queued: BTreeSet<Ticket>,
    woken: BTreeSet<Owner>,
}

impl FairLock {
    fn owner(call: &Call) -> Owner {
        match call {
            Call::Unlock(owner) | Call::Withdraw(owner) => *owner,
        }
    }
}

impl Primitive for FairLock {
    const KIND: &'static str = "fair_lock";
    const WAIT: &'static str = "lock";
    type Call = Call;
    type Reply = bool;
    type Want = Owner;
    type Grant = Owner;

    fn name(call: &Call) -> &'static str {
        match call {
            Call::Unlock(_) => "unlock",
            Call::Withdraw(_) => "withdraw",
        }
    }

    fn is_owed(_: &Call) -> bool {
        true
    }

    fn frees(&self, _: &Call) -> bool {
        true
    }

    fn takes(_: &Owner) -> bool {
        true
    }

    /// One step an owner.
    fn fits(&self, batch: &mut Batch<Self>, call: &Call) -> bool {
        let of = Self::owner(call);
        batch
            .calls
            .iter()
            .all(|queued| Self::owner(&queued.call) != of)
    }

    fn fits_ask(&self, batch: &mut Batch<Self>, ask: &Ask<Self>) -> bool {
        batch
            .calls
            .iter()
            .all(|queued| Self::owner(&queued.call) != ask.want)
    }

    /// The new ones, those whose turn it is, and the first, who looks when the holder's time has ended.
    fn asks<'a>(
        &mut self,
        _: &Batch<Self>,
        waiters: &'a Waiters<Self>,
    ) -> Vec<(Ticket, &'a Owner)> {
        let asks = |(number, (ticket, want)): (usize, (Ticket, &'a Owner))| {
            let new = !self.queued.contains(&ticket);
            (number == 0 || new || self.woken.contains(want)).then_some((ticket, want))
        };
        waiters.iter().enumerate().filter_map(asks).collect()
    }

    fn encode(&mut self, batch: &Batch<Self>, args: &mut Vec<Arg>) {
        let number = |owner: Owner| Arg::Number(i64::try_from(owner).expect("it is small"));
        for queued in &batch.calls {
            let word = Self::name(&queued.call);
            args.extend([Arg::Word(word), number(Self::owner(&queued.call))]);
        }
        for ask in &batch.asks {
            let word = if ask.last { "try" } else { "lock" };
            args.extend([Arg::Word(word), number(ask.want)]);
        }
    }

    fn decode(
        &mut self,
        batch: &Batch<Self>,
        words: &mut SplitAsciiWhitespace<'_>,
    ) -> Option<Verdict<Self>> {
        let mut number = || words.next()?.parse::<i64>().ok();
        let replies = batch.calls.iter().map(|_| Some(number()? == 1));
        let replies = replies.collect::<Option<_>>()?;
        let (mut grants, mut soonest) = (Vec::new(), None::<u64>);
        for ask in &batch.asks {
            self.woken.remove(&ask.want);
            match number()? {
                -1 => {
                    self.queued.remove(&ask.ticket);
                    grants.push(Some(ask.want));
                }
                millis => {
                    if !ask.last {
                        self.queued.insert(ask.ticket);
                    }
                    let millis = millis.unsigned_abs();
                    soonest = Some(soonest.map_or(millis, |soonest| soonest.min(millis)));
                    grants.push(None);
                }
            }
        }
        let look = soonest.map_or(Look::No, |millis| {
            Look::After(Duration::from_millis(millis))
        });
        Some(Verdict::new(replies, grants, look))
    }

    fn give_back(owner: Owner) -> Option<Call> {
        Some(Call::Unlock(owner))
    }

    fn left(
        &mut self,
        ticket: Ticket,
        want: &Owner,
        _: &Waiters<Self>,
        _: Instant,
    ) -> Option<Call> {
        self.queued.remove(&ticket).then_some(Call::Withdraw(*want))
    }

    /// Each owner here waits for one hold, so what it may have got can be given back blindly.
    fn unknown(&mut self, batch: &Batch<Self>) -> Vec<Call> {
        let again = batch.calls.iter().map(|queued| queued.call);
        let taken = batch.asks.iter().flat_map(|ask| {
            self.queued.remove(&ask.ticket);
            [Call::Unlock(ask.want), Call::Withdraw(ask.want)]
        });
        again.chain(taken).collect()
    }

    fn channels(&self, own: &str, waiters: &Waiters<Self>) -> Vec<String> {
        waiters
            .iter()
            .map(|(_, owner)| format!("{own}:{owner}"))
            .collect()
    }

    fn heard(&mut self, channel: &str, _: &Wake, _: Instant) -> Look {
        let owner: Option<Owner> = channel
            .rsplit_once(':')
            .and_then(|(_, owner)| owner.parse().ok());
        self.woken.extend(owner);
        Look::Now
    }
}

impl Subject for FairLock {
    type Server = Place;

    fn new() -> Self {
        FairLock::default()
    }

    fn want(caller: usize) -> Owner {
        caller
    }

    fn release(caller: usize) -> Option<Call> {
        Some(Call::Unlock(caller))
    }
}

const OUTSIDER: Owner = 99;
/// How long it would be held.
const LEASE: &str = "500";

/// Who holds it, and who stands behind.
pub(super) struct Place {
    holder: Option<Owner>,
    queue: VecDeque<Owner>,
}

impl Default for Place {
    fn default() -> Self {
        Place {
            holder: Some(OUTSIDER),
            queue: VecDeque::new(),
        }
    }
}

impl Place {
    fn unlock(&mut self, owner: Owner) -> bool {
        let held = self.holder == Some(owner);
        if held {
            self.holder = None;
        }
        held
    }

    /// Who is first is told when nobody holds it.
    fn next(&self) -> Vec<String> {
        let first = self.queue.front().filter(|_| self.holder.is_none());
        first
            .map(|owner| format!("own:{owner}"))
            .into_iter()
            .collect()
    }
}

impl Server for Place {
    fn execute(&mut self, steps: &[String]) -> (String, Vec<String>) {
        let mut words = Vec::new();
        for step in steps.chunks(2) {
            let owner = step[1].parse().expect("an owner");
            let word = match &*step[0] {
                "unlock" => i64::from(self.unlock(owner)).to_string(),
                "withdraw" => {
                    self.queue.retain(|other| *other != owner);
                    "1".to_owned()
                }
                kind => {
                    let first = self.queue.front().is_none_or(|first| *first == owner);
                    if self.holder == Some(owner) || self.holder.is_none() && first {
                        self.queue.retain(|other| *other != owner);
                        self.holder = Some(owner);
                        "-1".to_owned()
                    } else {
                        if kind == "lock" && !self.queue.contains(&owner) {
                            self.queue.push_back(owner);
                        }
                        LEASE.to_owned()
                    }
                }
            };
            words.push(word);
        }
        (words.join(" "), self.next())
    }

    fn outsider_goes(&mut self) -> Vec<String> {
        self.unlock(OUTSIDER);
        self.next()
    }

    fn is_clean(&self) -> bool {
        self.holder.is_none() && self.queue.is_empty()
    }
}
