//! The semaphore with ids as a primitive: who asks, and when those who wait look again.

use std::str::SplitAsciiWhitespace;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::calls::{Call, Grant, Reply, Want};
use super::ids;
use super::steps::{self, Steps};
use crate::clock::Moment;
use crate::engine::call::Dropped;
use crate::engine::keys::Keys;
use crate::engine::primitive::{Ask, Batch, Look, Primitive, Ticket, Verdict, Waiters};
use crate::engine::request::Arg;
use crate::engine::turns::{Place, Report, Said, Standing};
use crate::engine::wakeups::Wake;

/// One call takes, or gives back, so many permits at the most.
pub(super) const MOST_AT_ONCE: usize = 1024;

/// So many ids a batch has at the most, that no script is a long one: room for two of the largest calls.
const MOST_IDS: usize = 2 * MOST_AT_ONCE;

/// Those who wait ask for so many permits at a time, unless the first of them wants more.
const MOST_ASKED: usize = 512;

/// Who comes while the last of those who wait are served looks then, unless something has happened before: no answer has told
/// it when a permit ends.
const NEWCOMERS: Duration = Duration::from_millis(50);

/// Somebody has given permits back, it is not known how many: so many are asked for. If that was too little, the answer
/// says so.
const SOME: usize = 16;

/// What is known of a semaphore here.
pub(super) struct PermitExpirable {
    /// How many permits were free when the server answered last.
    free: Option<usize>,
    /// In the line of all clients.
    place: Place,
}

impl PermitExpirable {
    pub(super) fn new(place: Place) -> Self {
        PermitExpirable { free: None, place }
    }

    /// From now on this client takes what it can get.
    pub(super) fn without_turns(&mut self) {
        self.place.switch_off();
    }

    /// What the others are to know of those who wait here.
    fn report(batch: &Batch<Self>) -> Report {
        Report::of(batch, |want| want.since)
    }
}

impl Primitive for PermitExpirable {
    const KIND: &'static str = "permit_expirable_semaphore";
    const WAIT: &'static str = "acquire";
    type Call = Call;
    type Reply = Reply;
    type Want = Want;
    type Grant = Grant;
    type Steps = Steps;

    fn name(call: &Call) -> &'static str {
        call.name()
    }

    fn details(call: &Call) -> String {
        let ids: Vec<_> = match call {
            Call::Release(ids) => ids.iter().map(|id| ids::to_hex(id)).collect(),
            Call::ReleaseTogether(ids) => ids.iter().map(|id| ids::to_hex(id)).collect(),
            _ => return call.name().to_owned(),
        };
        format!("{}({})", call.name(), ids.join(", "))
    }

    fn is_owed(call: &Call) -> bool {
        call.dropped() == Dropped::CarriedOut
    }

    /// Nobody gets an id again; and others would wait for its end.
    fn outlasts_refusals(call: &Call) -> bool {
        matches!(call, Call::Release(_) | Call::ReleaseTogether(_))
    }

    fn add_up(earlier: &mut Call, call: &Call) -> bool {
        let (Call::Release(ids), Call::Release(more)) = (earlier, call) else {
            return false;
        };
        let fits = ids.len() + more.len() <= MOST_AT_ONCE;
        if fits {
            ids.extend(more.iter().cloned());
        }
        fits
    }

    fn frees(&self, call: &Call) -> bool {
        match call {
            Call::Release(_) | Call::ReleaseTogether(_) | Call::Clear(_) => true,
            Call::TrySet(_) | Call::Set(_) => true,
            Call::Add(permits) => *permits > 0,
            // It may end sooner than those who wait know.
            Call::Prolong(..) => true,
            Call::Tend => true,
            Call::Remaining(_) | Call::Count(_) | Call::List(_) => false,
        }
    }

    fn takes(_: &Want) -> bool {
        true
    }

    fn fits(&self, batch: &mut Batch<Self>, call: &Call) -> bool {
        batch.steps.note_call(call, MOST_IDS)
    }

    fn fits_ask(&self, batch: &mut Batch<Self>, ask: &Ask<Self>) -> bool {
        batch.steps.note_ask(ask, MOST_IDS)
    }

    /// Behind others, and with nothing free that is known of, there is no reason to ask: what wakes those in front looks
    /// for the newcomer, too.
    fn joins(&mut self, want: &Want, others: &Waiters<Self>, _: Instant) -> Look {
        match others.is_empty() || self.free.is_none_or(|free| want.permits() <= free) {
            true => Look::Now,
            false => Look::No,
        }
    }

    /// The first, and as many as what is free, or becomes free by this batch, may suffice for; and those who have been passed
    /// for long enough, that they stop the line.
    fn asks<'a>(
        &mut self,
        batch: &Batch<Self>,
        waiters: &'a Waiters<Self>,
    ) -> Vec<(Ticket, &'a Want)> {
        let frees = |call: &Call| match call {
            Call::Release(_) | Call::ReleaseTogether(_) => Some(call.ids()),
            Call::Prolong(..) | Call::Tend => Some(0),
            call => (!self.frees(call)).then_some(0),
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
                asking.push((ticket, want));
            } else if asking.is_empty() {
                asking.push((ticket, want));
            }
            if left == 0 {
                break;
            }
        }
        asking
    }

    fn encode(&mut self, batch: &Batch<Self>, args: &mut Vec<Arg>) {
        if batch
            .calls
            .iter()
            .any(|queued| matches!(queued.call, Call::Tend))
        {
            self.place.looks();
        }
        self.place.departs(batch, Self::report(batch));
        steps::encode(batch, args);
        self.place.write(batch.departed.timer(), args);
    }

    fn keys(&self, keys: &Keys) -> Vec<Arc<str>> {
        keys.parts().chain(self.place.keys()).cloned().collect()
    }

    fn decode(
        &mut self,
        batch: &Batch<Self>,
        words: &mut SplitAsciiWhitespace<'_>,
    ) -> Option<Verdict<Self>> {
        let millis: i64 = words.next()?.parse().ok()?;
        let left: i64 = words.next()?.parse().ok()?;
        let listeners: i64 = words.next()?.parse().ok()?;
        let (replies, grants) = steps::decode(batch, words)?;
        let served = batch.asks.iter().zip(&grants);
        let served = served.filter(|(ask, grant)| !ask.last && grant.is_some());
        let now = batch.answered;
        let Standing {
            held,
            comes,
            look: tend,
            ..
        } = self.place.answered(Said {
            listeners: u64::try_from(listeners).ok(),
            word: words.next(),
            free: left > 0,
            asked: batch.asks.iter().any(|ask| !ask.last),
            waiting: Self::report(batch).waiting > served.count(),
            again: batch.unanswered.is_some(),
            sent: batch.departed.timer(),
            now,
        })?;
        let free = usize::try_from(left).unwrap_or(0);
        let known = self.free.replace(free).unwrap_or(MOST_ASKED);
        let all = !grants.is_empty() && grants.iter().all(Option::is_some);
        let look = match u64::try_from(millis) {
            Ok(0) => Look::Now,
            _ if comes => Look::Now,
            // There is more than those who have asked could know.
            _ if free > 0 && !held && (all || free > known || batch.asks.is_empty()) => Look::Now,
            // All who wait know when the next one ends: not all look then.
            Ok(millis) => Look::After(Duration::from_millis(millis) + self.place.delay(now)),
            // Nobody was left who would have been told when one ends; somebody may have come meanwhile.
            Err(_) if all && batch.waiting == batch.asks.len() => Look::After(NEWCOMERS),
            Err(_) => Look::No,
        };
        Some(Verdict {
            later: tend.map(|pause| (pause, Call::Tend)),
            ..Verdict::new(replies, grants, look)
        })
    }

    fn ends(grant: &Grant) -> Option<Moment> {
        grant.until
    }

    /// Nobody is there any more who could give back those that are still held.
    fn take_back(reply: Reply) -> Option<Call> {
        match reply {
            Reply::NotAll(ids, ..) => Some(Call::Release(ids.into_iter().collect())),
            _ => None,
        }
    }

    fn asks_anew(want: &mut Want) {
        want.ids = ids::make(want.permits());
    }

    fn give_back(grant: Grant) -> Option<Call> {
        Some(Call::release_all(&grant.ids))
    }

    fn unknown(&mut self, batch: &Batch<Self>) -> Vec<Call> {
        let asks = batch.asks.iter();
        asks.map(|ask| Call::release_all(&ask.want.ids)).collect()
    }

    /// A place in the line that nobody stands in holds others up.
    fn rest(&mut self) -> Option<Call> {
        self.place.leaves().then_some(Call::Tend)
    }

    fn channels(&self, _own: &str, _waiters: &Waiters<Self>) -> Vec<String> {
        self.place.channels()
    }

    fn heard(&mut self, channel: &str, wake: &Wake, now: Instant) -> Look {
        if matches!(wake, Wake::Message(_)) {
            self.free = self.free.map(|free| free.max(SOME));
        }
        self.place.heard(channel, wake, now)
    }

    fn remembers(&self) -> Option<Instant> {
        self.place.remembers()
    }

    fn does_without(&mut self, channel: &str) -> bool {
        self.place.does_without(channel)
    }
}
