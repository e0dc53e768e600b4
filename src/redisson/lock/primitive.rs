//! The lock as a primitive: who asks, and when those who wait look again.
//!
//! Callers that wait for the lock stand in a queue of the process, of which only the first one ever asks Redis. When a local
//! owner unlocks, the next one's turn travels in the same script, which writes the new owner: it costs no round trip more,
//! and nobody sees the lock free in between. Others get their turn; see [`sharing`](super::sharing). Who only tries does not
//! wait: it is a call.
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
//!
//! # Who is next
//!
//! A client leaves the lock to others for a time, in which those who are far away may come too late every
//! time. Once its callers have waited for five seconds, the question of the first one says so, and if it finds the lock
//! held, and no client is next that has been passed for longer, the key `redisson_lock_next:{name}` names this client: those who
//! wait in other clients leave the free lock to it then, for three of its round trips and a little. That time begins when the
//! first of them sees the free lock, so a client that has died costs it once. Calls that do not wait, and JVMs, take the lock all
//! the same.

use std::str::SplitAsciiWhitespace;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::time::Instant;

use super::herd::Herd;
use super::sharing::Sharing;
use super::steps::{self, Claim, Granted, Reply, Step};
use super::under_way::UnderWay;
use crate::config::Config;
use crate::engine::holds::{Count, Holds, Renewing};
use crate::engine::keys::Keys;
use crate::engine::primitive::{
    Ask, Batch, Line, Look, Primitive, Short, Ticket, Verdict, Waiters, Wire,
};
use crate::engine::request::{Arg, Request, Script};
use crate::engine::wakeups::Wake;
use crate::error::{Error, Result};
use crate::lua;

static RENEWAL: LazyLock<Script> = LazyLock::new(|| Script::new(lua::RENEW_LOCKS));

/// A script call takes this many steps at the most.
const MOST_STEPS: usize = 64;

/// Others are served before a client for so long, then it is next.
const LONGEST_PASSED: Duration = Duration::from_secs(5);
/// Who comes back within this time has not been away.
const LONGEST_ABSENCE: Duration = Duration::from_secs(1);
/// Nobody is waited for longer than this.
const LONGEST_PATIENCE: Duration = Duration::from_secs(2);

/// What is known of a lock here.
pub(super) struct Lock {
    pub(super) keys: Keys,
    /// What the owners of the client hold.
    pub(super) holds: Arc<Holds>,
    pub(super) times: Times,
    pub(super) under_way: UnderWay,
    pub(super) sharing: Sharing,
    pub(super) herd: Herd,
    /// Since when those who wait have done so in vain, these or those before them; and when somebody last came or left.
    pub(super) unserved_since: Option<Instant>,
    pub(super) last_seen: Option<Instant>,
    /// The server has just said that somebody of this client has the lock.
    pub(super) held: Option<Held>,
    /// The last answer says that the lock was taken; to a batch that was sent then or later.
    pub(super) taken: Option<Instant>,
    /// Who has taken it by the last answer.
    pub(super) taken_by: Option<Arc<str>>,
    /// How long the last answer took.
    pub(super) round_trip: Duration,
    /// A fence has been left that is there until then.
    pub(super) fenced_until: Option<Instant>,
    /// Something has been taken that is to be renewed.
    pub(super) renews: bool,
}

/// The client's settings.
#[derive(Clone, Copy)]
pub(super) struct Times {
    /// How long it keeps the lock to itself.
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

/// How long the lock is left free for a client to which everything takes so long: it hears of that, and asks.
fn patience(round_trip: Duration) -> Duration {
    (3 * round_trip + Duration::from_millis(20)).min(LONGEST_PATIENCE)
}

fn has_owner(batch: &Batch<Lock>, owner: &str) -> bool {
    let calls = batch.calls.iter().filter_map(|queued| queued.call.owner());
    let asks = batch.asks.iter().map(|ask| &ask.want.owner);
    calls.chain(asks).any(|other| **other == *owner)
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
            sharing: Sharing::default(),
            herd: Herd::default(),
            unserved_since: None,
            last_seen: None,
            held: None,
            taken: None,
            taken_by: None,
            round_trip: Duration::ZERO,
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

    /// For how long others have been served, where that is too long.
    pub(super) fn passed(&self, now: Instant) -> Option<Duration> {
        let passed = now.saturating_duration_since(self.unserved_since?);
        (passed >= LONGEST_PASSED).then_some(passed)
    }

    /// The lock is free: those who wait look, at once or when others have had their time.
    pub(super) fn look_when_others_had_it(&self, now: Instant) -> Look {
        let until = self.sharing.gives_way(now);
        until.map_or(Look::Now, |until| Look::Instead(until - now))
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
        matches!(call, Step::Release(..))
    }

    fn frees(&self, call: &Step) -> bool {
        match call {
            Step::Release(owner, _) => matches!(self.count(owner), Count::Held(..=1) | Count::Over),
            Step::Force => true,
            Step::Acquire(_) => false,
        }
    }

    fn takes(_: &Claim) -> bool {
        true
    }

    /// What a repeated step goes by is its owner's count before it: one step an owner.
    fn fits(&self, batch: &mut Batch<Self>, call: &Step) -> bool {
        let forces = |call: &Step| matches!(call, Step::Force);
        batch.calls.len() < MOST_STEPS
            && !forces(call)
            && !batch.calls.iter().any(|queued| forces(&queued.call))
            && !call.owner().is_some_and(|owner| has_owner(batch, owner))
    }

    /// There is always room for one: no call waits for another round because of those who wait.
    fn fits_ask(&self, batch: &mut Batch<Self>, ask: &Ask<Self>) -> bool {
        let has_room = batch.asks.is_empty() || batch.calls.len() + batch.asks.len() < MOST_STEPS;
        has_room && !has_owner(batch, &ask.want.owner)
    }

    /// Behind others there is no reason to ask: whatever wakes the first one leads to all. Who holds the lock already does
    /// not wait for it.
    fn joins(&mut self, want: &Claim, others: &Waiters<Self>, now: Instant) -> Look {
        if others.is_empty() {
            self.sharing.wanted_again(now);
            self.herd.rest();
            // A caller that comes back has waited all the while.
            let is_back = |seen| now < seen + LONGEST_ABSENCE;
            if !self.last_seen.is_some_and(is_back) {
                self.unserved_since = None;
            }
        }
        self.unserved_since.get_or_insert(now);
        self.last_seen = Some(now);
        if matches!(self.count(&want.owner), Count::Held(1..) | Count::Over) {
            return Look::Now;
        }
        if !others.is_empty() {
            return Look::No;
        }
        match self.held.as_ref().filter(|held| now < held.fresh_until) {
            Some(held) => Look::Instead(held.ends.saturating_duration_since(now)),
            None => self.look_when_others_had_it(now),
        }
    }

    fn rests(&self, now: Instant) -> Option<Instant> {
        self.sharing.gives_way(now)
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
    /// is given back, and others are to have it.
    fn asks<'a>(
        &mut self,
        batch: &Batch<Self>,
        waiters: &'a Waiters<Self>,
    ) -> Vec<(Ticket, &'a Claim)> {
        let frees = batch.calls.iter().any(|queued| self.frees(&queued.call));
        let now = batch.departed.timer();
        if frees && !self.sharing.may_keep(now, self.times.window) {
            return Vec::new();
        }
        let holder = self.holds.holder(self.keys.object());
        let as_holder = |(_, claim): &(Ticket, &Claim)| Some(&claim.owner) == holder.as_ref();
        let before_others = holder.as_ref().and_then(|_| waiters.iter().find(as_holder));
        let first = before_others.or_else(|| waiters.iter().next());
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
        let fenced = batch.doubtful || self.fenced_until.is_some_and(|until| now < until);
        match &*self.under_way.steps {
            [(step, known)] if !fenced && self.under_way.passed.is_none() => {
                steps::usual(step, known, wire.keys).map(Short::Script)
            }
            _ => None,
        }
    }

    fn request(&mut self, _: &Batch<Self>, wire: &Wire<'_>) -> Request {
        let passed = self.under_way.passed;
        let passed = passed.map(|passed| (passed, patience(self.round_trip)));
        steps::request(wire, &self.under_way.steps, passed)
    }

    fn disown(request: &mut Request, number: u64, found: &str) {
        steps::disown(request, number, found);
    }

    fn encode(&mut self, _: &Batch<Self>, args: &mut Vec<Arg>) {
        steps::write(&self.under_way.steps, args);
    }

    fn decode(
        &mut self,
        batch: &Batch<Self>,
        words: &mut SplitAsciiWhitespace<'_>,
    ) -> Option<Verdict<Self>> {
        let (listeners, answers) = steps::read(words, &self.under_way.steps)?;
        Some(self.arrive(batch, listeners, answers))
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

    fn left(&mut self, _: Ticket, _: &Claim, _: &Waiters<Self>, now: Instant) -> Option<Step> {
        self.last_seen = Some(now);
        None
    }

    /// Of many that wait a few ask at once.
    fn heard(&mut self, _: &str, wake: &Wake, now: Instant) -> Look {
        match wake {
            Wake::Message(_) => {
                self.sharing.heard(now);
                let late = self.herd.heard(self.sharing.others_left(), now);
                return late.map_or(Look::Now, |late| Look::Instead(late - now));
            }
            Wake::Look => {}
            _ => self.sharing.forget_echoes(),
        }
        Look::Now
    }

    fn does_without(&mut self, _: &str) -> bool {
        self.sharing.forget_echoes();
        false
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
