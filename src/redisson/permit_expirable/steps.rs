//! The semaphore with ids as a primitive: who asks, as which steps a batch travels, and what its answer says.

use std::ops::Range;
use std::str::SplitAsciiWhitespace;
use std::time::Duration;

use tokio::time::Instant;

use super::calls::{Call, Counted, Grant, Page, Reply, Want, millis};
use super::ids;
use crate::api::{Holder, RemainingTtl};
use crate::clock::Moment;
use crate::engine::call::Dropped;
use crate::engine::primitive::{Ask, Batch, Look, Primitive, Queued, Ticket, Verdict, Waiters};
use crate::engine::request::Arg;

/// One call takes, or gives back, so many permits at the most.
pub(super) const MOST_AT_ONCE: usize = 1024;

/// So many ids a batch has at the most, that no script is a long one: room for two of the largest calls.
const MOST_IDS: usize = 2 * MOST_AT_ONCE;

/// Those who wait ask for so many permits at a time, unless the first of them wants more.
const MOST_ASKED: usize = 512;

/// Somebody has given permits back, it is not known how many: so many are asked for. If that was too little, the answer
/// says so.
const SOME: usize = 16;

/// While others listen, callers of this client pass permits on among themselves for so long; then it leaves for a
/// moment to others what comes back.
const ROUND: Duration = Duration::from_millis(50);
const MOMENT: Duration = Duration::from_millis(5);

/// What is known of a semaphore here.
#[derive(Default)]
pub(super) struct PermitExpirable {
    /// How many permits were free when the server answered last.
    free: Option<usize>,
    /// Since when permits are passed on here while others listen.
    busy_since: Option<Instant>,
    /// Until then those who wait leave what there is to others.
    leaves_until: Option<Instant>,
}

impl PermitExpirable {
    /// Whether those who wait do not ask now, with what `batch` gives back on its way.
    fn leaves(&self, batch: &Batch<Self>) -> bool {
        let now = batch.departed.timer();
        let has_had_enough = |since| gives_back(batch) && now >= since + ROUND;
        self.leaves_until.is_some_and(|until| now < until)
            || self.busy_since.is_some_and(has_had_enough)
    }

    /// An answer has come: so many listen, where that was asked.
    fn note_others(&mut self, batch: &Batch<Self>, listeners: u64) {
        let passes = gives_back(batch) && !batch.asks.is_empty();
        if passes && listeners > 1 {
            self.busy_since.get_or_insert(batch.departed.timer());
        } else if passes {
            self.busy_since = None;
        }
    }
}

/// Whether a call of it gives permits back.
fn gives_back(batch: &Batch<PermitExpirable>) -> bool {
    batch.calls.iter().any(|queued| queued.call.ids() > 0)
}

/// What travels as one step.
enum Step {
    /// Calls that release, each on its own.
    Releases(Range<usize>),
    Call(usize),
    /// Questions for permits with the same lease.
    Asks(Range<usize>),
}

/// Like calls that follow each other are one step.
fn steps(batch: &Batch<PermitExpirable>) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (number, queued) in batch.calls.iter().enumerate() {
        match (&queued.call, steps.last_mut()) {
            (Call::Release(_), Some(Step::Releases(range))) => range.end = number + 1,
            (Call::Release(_), _) => steps.push(Step::Releases(number..number + 1)),
            _ => steps.push(Step::Call(number)),
        }
    }
    for (number, ask) in batch.asks.iter().enumerate() {
        match steps.last_mut() {
            Some(Step::Asks(range)) if batch.asks[range.start].want.lease == ask.want.lease => {
                range.end = number + 1;
            }
            _ => steps.push(Step::Asks(number..number + 1)),
        }
    }
    steps
}

impl Primitive for PermitExpirable {
    const KIND: &'static str = "permit_expirable_semaphore";
    const WAIT: &'static str = "acquire";
    type Call = Call;
    type Reply = Reply;
    type Want = Want;
    type Grant = Grant;

    fn name(call: &Call) -> &'static str {
        call.name()
    }

    fn is_owed(call: &Call) -> bool {
        call.dropped() == Dropped::CarriedOut
    }

    fn add_up(earlier: &mut Call, call: &Call) -> bool {
        let (Call::Release(ids), Call::Release(more)) = (earlier, call) else {
            return false;
        };
        let fits = ids.len() + more.len() <= MOST_AT_ONCE;
        if fits {
            ids.extend_from_slice(more);
        }
        fits
    }

    fn frees(call: &Call) -> bool {
        match call {
            Call::Release(_) | Call::ReleaseTogether(_) | Call::Clear => true,
            Call::TrySet(_) | Call::Set(_) => true,
            Call::Add(permits) => *permits > 0,
            // It may end sooner than those who wait know.
            Call::Prolong(..) => true,
            Call::Remaining(_) | Call::Count(_) | Call::List(_) => false,
        }
    }

    fn takes(_: &Want) -> bool {
        true
    }

    fn fits(&self, batch: &Batch<Self>, call: &Call) -> bool {
        ids_in(batch) + call.ids() <= MOST_IDS
    }

    fn fits_ask(&self, batch: &Batch<Self>, want: &Want) -> bool {
        ids_in(batch) + want.permits() <= MOST_IDS
    }

    /// Behind others, and with nothing free that is known of, there is no reason to ask: what wakes those in front looks
    /// for the newcomer, too.
    fn joins(&self, want: &Want, others: &Waiters<Self>) -> bool {
        others.is_empty() || self.free.is_none_or(|free| want.permits() <= free)
    }

    /// The first, and as many as what is free, or becomes free by this batch, may suffice for; and those who have been passed
    /// for long enough, that they stop the line.
    fn asks(&self, batch: &Batch<Self>, waiters: &Waiters<Self>) -> Vec<Ticket> {
        if self.leaves(batch) {
            return Vec::new();
        }
        let frees = |call: &Call| match call {
            Call::Release(_) | Call::ReleaseTogether(_) => Some(call.ids()),
            Call::Prolong(..) => Some(0),
            call => (!Self::frees(call)).then_some(0),
        };
        let freed: Option<usize> = batch.calls.iter().map(|queued| frees(&queued.call)).sum();
        let known = self.free.zip(freed).map(|(free, freed)| free + freed);
        let mut left = known.unwrap_or(MOST_ASKED).min(MOST_ASKED);
        let (mut asking, mut stopping) = (Vec::new(), MOST_ASKED);
        for (ticket, want) in waiters.iter() {
            let room = if want.is_passed(batch.departed) {
                &mut stopping
            } else {
                &mut left
            };
            if want.permits() <= *room {
                *room -= want.permits();
                asking.push(ticket);
            } else if asking.is_empty() {
                asking.push(ticket);
            }
            if left == 0 {
                break;
            }
        }
        asking
    }

    fn encode(&mut self, batch: &Batch<Self>, args: &mut Vec<Arg>) {
        if self.busy_since.is_some() && self.leaves(batch) {
            self.busy_since = None;
            self.leaves_until = Some(batch.departed.timer() + MOMENT);
        }
        let releases = |queued: &Queued<Self>| queued.call.ids() > 0;
        args.push(
            if batch.asks.is_empty() && batch.calls.iter().all(releases) {
                // Who releases does not care what has ended.
                Arg::Number(-1)
            } else {
                number(batch.asks.iter().map(|ask| ask.want.permits()).sum())
            },
        );
        for step in steps(batch) {
            match step {
                Step::Releases(calls) => {
                    let calls = &batch.calls[calls];
                    let count = calls.iter().map(|queued| queued.call.ids()).sum();
                    args.extend([Arg::Word("release"), number(count)]);
                    for queued in calls {
                        push_ids(&queued.call, args);
                    }
                }
                Step::Call(call) => encode_call(&batch.calls[call].call, args),
                Step::Asks(asks) => {
                    let asks = &batch.asks[asks];
                    let stops = asks.iter().take_while(|ask| stops(ask, batch.departed));
                    args.push(Arg::Word("acquire"));
                    args.push(Arg::Number(millis(asks[0].want.lease)));
                    args.push(number(stops.count()));
                    args.push(number(asks.len()));
                    args.extend(asks.iter().map(|ask| Arg::Bytes(ask.want.ids.clone())));
                }
            }
        }
    }

    fn decode(
        &mut self,
        batch: &Batch<Self>,
        words: &mut SplitAsciiWhitespace<'_>,
    ) -> Option<Verdict<Self>> {
        let millis: i64 = words.next()?.parse().ok()?;
        let left: i64 = words.next()?.parse().ok()?;
        let listeners: u64 = words.next()?.parse().ok()?;
        let (mut replies, mut grants) = (Vec::new(), Vec::new());
        for step in steps(batch) {
            let word = words.next()?;
            match step {
                Step::Releases(calls) => {
                    let mut flags = word.bytes();
                    for queued in &batch.calls[calls] {
                        let mut of_it = (0..queued.call.ids()).map(|_| flags.next());
                        replies.push(released(of_it.next()??)?);
                        of_it.try_for_each(|flag| flag.map(drop))?;
                    }
                    flags.next().is_none().then_some(())?;
                }
                Step::Call(call) => replies.push(decode_call(&batch.calls[call].call, word)?),
                Step::Asks(asks) => {
                    let asks = &batch.asks[asks];
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
        let free = usize::try_from(left).unwrap_or(0);
        let known = self.free.replace(free).unwrap_or(MOST_ASKED);
        let all = !grants.is_empty() && grants.iter().all(Option::is_some);
        self.note_others(batch, listeners);
        let pause = self
            .leaves_until
            .map(|until| until.saturating_duration_since(batch.answered));
        let look = match u64::try_from(millis) {
            // There is more than those who have asked could know.
            _ if free > 0 && (all || free > known || batch.asks.is_empty()) => Look::Now,
            Ok(0) => Look::Now,
            Ok(millis) => Look::After(Duration::from_millis(millis)),
            Err(_) => Look::No,
        };
        let look = match pause.filter(|pause| !pause.is_zero()) {
            // A timer that is early would find nobody who asks.
            Some(pause) => Look::After(pause + MOMENT / 5),
            None => look,
        };
        Some(Verdict::new(replies, grants, look))
    }

    fn give_back(grant: Grant) -> Option<Call> {
        Some(Call::release_all(&grant.ids))
    }

    fn unknown(&mut self, batch: &Batch<Self>) -> Vec<Call> {
        let asks = batch.asks.iter();
        asks.map(|ask| Call::release_all(&ask.want.ids)).collect()
    }

    fn heard(&mut self, _channel: &str) -> Look {
        self.free = self.free.map(|free| free.max(SOME));
        Look::Now
    }
}

/// Whether one who asks stops the line where it does not fit.
fn stops(ask: &Ask<PermitExpirable>, now: Moment) -> bool {
    !ask.last && ask.want.is_passed(now)
}

fn number(count: usize) -> Arg {
    Arg::Number(i64::try_from(count).unwrap_or(i64::MAX))
}

fn ids_in(batch: &Batch<PermitExpirable>) -> usize {
    let calls = batch.calls.iter().map(|queued| queued.call.ids());
    let asks = batch.asks.iter().map(|ask| ask.want.permits());
    calls.chain(asks).sum()
}

fn push_ids(call: &Call, args: &mut Vec<Arg>) {
    if let Call::Release(ids) | Call::ReleaseTogether(ids) = call {
        args.extend(ids.iter().cloned().map(Arg::Bytes));
    }
}

fn encode_call(call: &Call, args: &mut Vec<Arg>) {
    let (word, what) = match call {
        Call::Release(ids) => ("release", number(ids.len())),
        Call::ReleaseTogether(ids) => ("together", number(ids.len())),
        Call::Prolong(id, _) => ("prolong", Arg::Bytes(id.clone())),
        Call::Remaining(id) => ("remaining", Arg::Bytes(id.clone())),
        Call::Count(Counted::Available) => ("available", Arg::Number(0)),
        Call::Count(Counted::Acquired) => ("acquired", Arg::Number(0)),
        Call::Count(Counted::Total) => ("total", Arg::Number(0)),
        Call::TrySet(permits) => ("try_set", Arg::Number((*permits).into())),
        Call::Set(permits) => ("set", Arg::Number((*permits).into())),
        Call::Add(permits) => ("add", Arg::Number((*permits).into())),
        Call::Clear => ("clear", Arg::Number(0)),
        Call::List(from) => ("list", Arg::Text(from.clone())),
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
        Call::Release(_) | Call::ReleaseTogether(_) | Call::Count(_) => {
            Reply::Count(word.parse().ok()?)
        }
        Call::Remaining(_) => Reply::Remaining(match word {
            "none" => RemainingTtl::Missing,
            "never" => RemainingTtl::Persistent,
            millis => RemainingTtl::Expires(Duration::from_millis(millis.parse().ok()?)),
        }),
        Call::Clear => {
            let (count, left) = pair()?;
            Reply::Cleared(count.try_into().ok()?, left.try_into().ok()?)
        }
        Call::List(_) => Reply::Page(decode_page(word)?),
    })
}

fn decode_page(word: &str) -> Option<Page> {
    let mut parts = word.split(',');
    let next = match parts.next()? {
        "-" => None,
        behind => Some(behind.replace('/', " ").into()),
    };
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
        holders: parts.map(holder).collect::<Option<_>>()?,
        next,
    })
}
