//! The lock as a primitive: who asks, and when those who wait look again.
//!
//! Callers that wait for the lock stand in a queue of the process, of which only the first one ever asks Redis. When a local
//! owner unlocks, the next one asks in the same script, which writes the new owner where it is its turn: it costs no round trip more,
//! and nobody sees the lock free in between. Whose turn it is among clients, see [`turns`](crate::engine::turns). Who only tries does
//! not wait: it is a call.
//!
//! # Once only
//!
//! A lock's hash tells how often an owner holds it, and all calls on it of one client run one behind the other. So
//! a repeated step sees by the count whether its first copy was carried out: no record is needed, and nothing is
//! left behind in Redis by the locks that a client has used. Only a copy that arrives late, after its call has been
//! answered from a repetition, would do harm. Against that a repetition leaves a fence, the client's key
//! `redisson_lock_fence:{name}:<client id>`: each sending has a number, and one below the fence is refused. To force
//! a lock open changes no count of ours; that leaves its number in the fence, for its repetitions to see.
//!
//! The count is known here, and sent along: a step sets what it makes of that, whatever stands in Redis, so it does the
//! same however often it arrives, and neither a write that a failover lost nor one of a lost hold that was left over
//! counts for long. If Redis does not know the owner at all (the lock has been lost unnoticed), an acquisition is not
//! carried out but answered so, and asked for again as the first one: otherwise its repetition could not tell the hold
//! that was lost from the new one.
//!
//! The usual cases (nobody holds the lock; its owner holds it once) travel as shorter scripts, which need neither
//! number nor count: they do nothing while there is a fence.

use std::str::SplitAsciiWhitespace;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::time::Instant;

use super::steps::{self, Claim, Granted, Known, Reply, Step};
use super::under_way::UnderWay;
use crate::config::Config;
use crate::engine::holds::{Count, Holds, Renewing};
use crate::engine::keys::Keys;
use crate::engine::primitive::{
    Ask, Batch, Line, Look, Primitive, Short, Ticket, Verdict, Waiters, Wire,
};
use crate::engine::request::{Arg, Request, Script};
use crate::engine::turns::{Place, Report};
use crate::engine::wakeups::Wake;
use crate::error::{Error, Result};
use crate::lua;
use crate::transport::{Command, Value};

static RENEWAL: LazyLock<Script> = LazyLock::new(|| Script::new(lua::RENEW_LOCKS));

/// A script call takes this many steps at the most.
const MOST_STEPS: usize = 64;

/// What is known of a lock here.
pub(super) struct Lock {
    pub(super) keys: Keys,
    /// What the owners of the client hold.
    pub(super) holds: Arc<Holds>,
    pub(super) times: Times,
    pub(super) under_way: UnderWay,
    /// In the line of all clients.
    pub(super) place: Place,
    /// When the caller came who is first when the one that asks has been served.
    pub(super) next_since: Option<Instant>,
    /// The server has just said that somebody of this client has the lock.
    pub(super) held: Option<Held>,
    /// The last answer says that the lock was taken; to a batch that was sent then or later.
    pub(super) taken: Option<Instant>,
    /// Who has taken it by the last answer.
    pub(super) taken_by: Option<Arc<str>>,
    /// A fence has been left that is there until then.
    pub(super) fenced_until: Option<Instant>,
    /// Something has been taken that is to be renewed.
    pub(super) renews: bool,
}

/// The client's settings.
#[derive(Clone, Copy)]
pub(super) struct Times {
    /// For so long it is taken for granted that what it has is not worth a question.
    pub(super) window: Duration,
    pub(super) watchdog: Duration,
    pub(super) record_life: Duration,
}

/// What the server has said of a lock that somebody of this client has.
pub(super) struct Held {
    /// No longer worth a question until then.
    pub(super) fresh_until: Instant,
    /// It comes to its end then, if nothing happens.
    pub(super) ends: Instant,
}

/// One script call renews so many locks at the most, as Redisson's does.
const MOST_RENEWED: usize = 100;

/// How a lock is renewed, for so long.
pub(super) fn renewed(lease: Duration) -> Renewing {
    Renewing {
        script: &RENEWAL,
        several: false,
        owner: |owner| Arg::Text(Arc::clone(owner)),
        most: MOST_RENEWED,
        lease,
    }
}

fn has_owner(batch: &Batch<Lock>, owner: &str) -> bool {
    let calls = batch.calls.iter().filter_map(|queued| queued.call.owner());
    let asks = batch.asks.iter().map(|ask| &ask.want.owner);
    calls.chain(asks).any(|other| **other == *owner)
}

/// Who is to have it then is told in the same step.
fn has_force(batch: &Batch<Lock>) -> bool {
    let mut calls = batch.calls.iter();
    calls.any(|queued| matches!(queued.call, Step::Force))
}

impl Lock {
    pub(super) fn new(keys: &Keys, holds: &Arc<Holds>, config: &Config) -> Self {
        Lock {
            keys: keys.clone(),
            holds: Arc::clone(holds),
            times: Times {
                window: config.local_hand_over,
                watchdog: config.lock_watchdog_timeout,
                record_life: config.record_life(),
            },
            under_way: UnderWay::default(),
            place: Place::of(keys, config.safety_interval)
                .expect("its clients keep turns")
                .of_zeros(),
            next_since: None,
            held: None,
            taken: None,
            taken_by: None,
            fenced_until: None,
            renews: false,
        }
    }

    /// The error for an `owner` who does not hold the lock.
    pub(super) fn not_held(&self, owner: &str) -> Error {
        Error::NotHeld {
            name: self.keys.name().to_owned(),
            owner: owner.to_owned(),
        }
    }

    pub(super) fn count(&self, owner: &str) -> Count {
        self.holds.count(self.keys.object(), owner)
    }

    /// Whether `batch`, under way, does nothing but look after those who have been told that it is their turn, and for whoever stands in line
    /// itself. Nobody needs to be looked after as long as somebody holds the lock; who holds it itself does not wait.
    fn only_looks(&self, batch: &Batch<Self>) -> bool {
        let waits = |(step, known): &(Step, Known)| {
            matches!(step, Step::Acquire(_)) && known.holds == Count::Held(0)
        };
        let tends = matches!(batch.calls.as_slice(), [only] if matches!(only.call, Step::Tend));
        tends
            && !batch.doubtful
            && self.place.tells_nothing()
            && self.under_way.steps.iter().skip(1).all(waits)
    }

    /// What the others are to know of those who wait here. Of these one asks; the next one stands in its place then.
    pub(super) fn report(&self, batch: &Batch<Self>) -> Report {
        let report = Report::of(batch, |claim| claim.since);
        let next = self.next_since.filter(|_| report.named > 0);
        let waited = |since| batch.departed.timer().saturating_duration_since(since);
        Report {
            last: next.map_or(report.last, waited),
            ..report
        }
    }
}

impl Primitive for Lock {
    const KIND: &'static str = "lock";
    const WAIT: &'static str = "lock";
    const OVERTAKES: bool = true;
    const SETTLES: bool = true;
    type Call = Step;
    type Reply = Reply;
    type Want = Claim;
    type Grant = Granted;
    type Steps = ();

    fn name(call: &Step) -> &'static str {
        call.name()
    }

    fn details(call: &Step) -> String {
        call.to_string()
    }

    fn wait_details(want: &Claim) -> String {
        Step::Acquire(want.clone()).to_string()
    }

    fn is_owed(call: &Step) -> bool {
        matches!(call, Step::Release(..) | Step::Tend)
    }

    fn frees(&self, call: &Step) -> bool {
        match call {
            Step::Release(owner, _) => matches!(self.count(owner), Count::Held(..=1) | Count::Over),
            Step::Force | Step::Tend => true,
            Step::Acquire(_) => false,
        }
    }

    fn takes(_: &Claim) -> bool {
        true
    }

    /// What a repeated step goes by is its owner's count before it: one step an owner.
    fn fits(&self, batch: &mut Batch<Self>, call: &Step) -> bool {
        batch.calls.len() < MOST_STEPS
            && !matches!(call, Step::Force)
            && !has_force(batch)
            && !call.owner().is_some_and(|owner| has_owner(batch, owner))
    }

    /// There is always room for one: no call waits for another round because of those who wait.
    fn fits_ask(&self, batch: &mut Batch<Self>, ask: &Ask<Self>) -> bool {
        let has_room = batch.asks.is_empty() || batch.calls.len() + batch.asks.len() < MOST_STEPS;
        has_room && !has_owner(batch, &ask.want.owner) && !has_force(batch)
    }

    /// Behind others there is no reason to ask: whatever wakes the first one leads to all. Who holds the lock already does
    /// not wait for it.
    fn joins(&mut self, want: &Claim, others: &Waiters<Self>, now: Instant) -> Look {
        if matches!(self.count(&want.owner), Count::Held(1..) | Count::Over) {
            return Look::Now;
        }
        if !others.is_empty() {
            return Look::No;
        }
        match self.held.as_ref().filter(|held| now < held.fresh_until) {
            Some(held) => Look::After(held.ends.saturating_duration_since(now)),
            None => Look::Now,
        }
    }

    fn settled(
        &mut self,
        batch: &Batch<Self>,
        call: &Step,
        since: Instant,
    ) -> Option<Result<Reply>> {
        match call {
            // A hold that has been lost is not given back: another one may be there by now.
            Step::Release(owner, Some(id)) => {
                let key = self.keys.object();
                let is_gone = self.holds.is_gone(key, owner, id.number());
                is_gone.then(|| Err(self.not_held(owner)))
            }
            Step::Tend => {
                let now = batch.departed.timer();
                let in_vain = !self.place.would_report(now, batch.first_is_known);
                in_vain.then_some(Ok(Reply::Tended))
            }
            // There was no room for it in the last batch, and its answer is known.
            Step::Acquire(claim) => {
                let was_there = self.taken.is_some_and(|sent| since <= sent);
                let is_busy = batch.calls.is_empty() && self.count(&claim.owner) == Count::Held(0);
                (was_there && is_busy).then_some(Ok(Reply::Busy))
            }
            _ => None,
        }
    }

    /// The first; who waits as the owner that holds the lock does not have to wait: it is the first. Nobody, where the lock
    /// is given back by a client that takes no turns: others see it free in between.
    fn asks<'a>(
        &mut self,
        batch: &Batch<Self>,
        waiters: &'a Waiters<Self>,
    ) -> Vec<(Ticket, &'a Claim)> {
        let frees = batch.calls.iter().any(|queued| self.frees(&queued.call));
        if frees && !self.place.is_kept(batch.departed.timer()) {
            return Vec::new();
        }
        let holder = self.holds.holder(self.keys.object());
        let as_holder = |(_, claim): &(Ticket, &Claim)| Some(&claim.owner) == holder.as_ref();
        let before_others = holder.as_ref().and_then(|_| waiters.iter().find(as_holder));
        let first = before_others.or_else(|| waiters.iter().next());
        let behind = |(ticket, _): &(Ticket, &Claim)| first.is_some_and(|first| first.0 != *ticket);
        self.next_since = waiters.iter().find(behind).map(|(_, claim)| claim.since);
        first.into_iter().collect()
    }

    fn would_serve(&mut self, waiters: &Waiters<Self>, _: Instant) -> bool {
        let owner = self.taken_by.as_ref();
        owner.is_some_and(|owner| waiters.iter().any(|(_, claim)| claim.owner == *owner))
    }

    fn given_up(&mut self, call: &Step) -> bool {
        self.note_end(call);
        false
    }

    fn nobody_learned(&mut self, call: &Step) {
        self.note_nobodys(call);
    }

    fn departs(&mut self, batch: &Batch<Self>) {
        self.depart(batch);
    }

    fn undone(&mut self) {
        self.no_answer(Self::note_refusal);
    }

    fn unknown(&mut self, _: &Batch<Self>) -> Vec<Step> {
        self.no_answer(Self::note_silence);
        Vec::new()
    }

    fn short(&self, batch: &Batch<Self>, wire: &Wire<'_>) -> Option<Short> {
        let now = batch.departed.timer();
        if self.place.reports() {
            let question = || Request::Plain(Command::new("PTTL").key(self.keys.object()));
            return self.only_looks(batch).then(|| Short::Look(question()));
        }
        let fenced = batch.doubtful || self.fenced_until.is_some_and(|until| now < until);
        match &*self.under_way.steps {
            [(step, known)] if !fenced => {
                let listens = batch.hears(self.keys.channel());
                let line = self.place.line(now).map(|line| (line, listens));
                steps::usual(step, known, wire.keys, line).map(Short::Script)
            }
            _ => None,
        }
    }

    fn request(&mut self, batch: &Batch<Self>, wire: &Wire<'_>) -> Request {
        let departed = batch.departed.timer();
        steps::request(wire, &self.under_way.steps, &self.place, departed)
    }

    fn disown(request: &mut Request, number: u64, found: &str) {
        steps::disown(request, number, found);
    }

    fn encode(&mut self, _: &Batch<Self>, args: &mut Vec<Arg>) {
        steps::write(&self.under_way.steps, args);
    }

    fn looked(&mut self, batch: &Batch<Self>, value: &Value) -> Option<Verdict<Self>> {
        match value {
            // There is no lock.
            Value::Int(-2) => None,
            Value::Int(ttl) => Some(self.is_held_still(batch, *ttl)),
            _ => None,
        }
    }

    fn decode(
        &mut self,
        batch: &Batch<Self>,
        words: &mut SplitAsciiWhitespace<'_>,
    ) -> Option<Verdict<Self>> {
        let answer = steps::read(words, &self.under_way.steps)?;
        self.arrive(batch, answer)
    }

    fn give_back(granted: Granted) -> Option<Step> {
        Some(granted.give_back())
    }

    fn take_back(reply: Reply) -> Option<Step> {
        match reply {
            Reply::Taken(granted) => Some(granted.give_back()),
            _ => None,
        }
    }

    /// A place in the line that nobody stands in holds others up.
    fn rest(&mut self) -> Option<Step> {
        self.place.leaves().then_some(Step::Tend)
    }

    fn channels(&self, _own: &str, _waiters: &Waiters<Self>) -> Vec<String> {
        self.place.channels()
    }

    fn heard(&mut self, channel: &str, wake: &Wake, now: Instant) -> Look {
        self.place.heard(channel, wake, now)
    }

    fn remembers(&self) -> Option<Instant> {
        self.place.remembers()
    }

    fn does_without(&mut self, channel: &str) -> bool {
        self.place.does_without(channel)
    }

    fn after(&mut self) -> Option<fn(&Arc<Line<Self>>)> {
        let tell: fn(&Arc<Line<Self>>) = |line| line.client().holds.tell();
        let tell_and_renew: fn(&Arc<Line<Self>>) = |line| {
            let core = line.client();
            core.holds.tell();
            core.renew(core.config.lock_watchdog_timeout);
        };
        let renews = std::mem::take(&mut self.renews);
        Some(if renews { tell_and_renew } else { tell })
    }
}
