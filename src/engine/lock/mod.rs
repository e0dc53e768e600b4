//! The calls of one client on one lock: queued, sent in rounds, answered one by one.
//!
//! As with the semaphore's line there is one round at a time, so the calls keep their order, and a caller that is
//! alone carries its round out itself. Callers that wait for the lock stand in a queue of the process, of which only
//! the first one ever asks Redis. When a local owner unlocks, the next one's turn travels in the same script, which
//! writes the new owner: it costs no round trip more, and nobody sees the lock free in between. Others get their
//! turn; see [`sharing`].
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
//! A client leaves the lock to others for a time ([`sharing`]), in which those who are far away may come too late every
//! time. Once its callers have waited for five seconds, the question of the first one says so, and if it finds the lock
//! held, and no client is next that has been passed for longer, the key `redisson_lock_next:{name}` names this client: those who wait in other clients leave the free lock to
//! it then, for three of its round trips and a little. That time begins when the first of them sees the free lock, so a client that
//! has died costs it once. Calls that do not wait, and JVMs, take the lock all the same.
//!
//! | File | What it holds |
//! |---|---|
//! | `mod.rs` | the queue, and how calls get into it |
//! | `calls.rs` | the calls, and how they travel |
//! | `round.rs` | what a round takes along, and how it is carried out |
//! | `answers.rs` | who is told what by an answer |
//! | `trouble.rs` | who is told what without one |
//! | `waiting.rs` | the queue of those who wait, and when they ask |
//! | `sharing.rs` | when the lock is left to other clients |
//! | `herd.rs` | which clients ask when it has come free |
//! | `locked.rs` | the state while it is locked |
//! | `seat.rs` | a caller's place, and what its drop gives back |
//!
//! What the owners hold stands in the client's table, [`holds`](super::holds).

mod answers;
mod calls;
mod herd;
mod locked;
mod round;
mod seat;
mod sharing;
mod trouble;
mod waiting;

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use self::calls::{Call, Outcome, Step};
pub(crate) use self::calls::{Claim, Kind, Term, Usual};
use self::locked::Locked;
use self::seat::Seat;
use self::waiting::Waiting;
use super::answer::{self, answer_of};
use super::command::{Command, Commands};
use super::core::Core;
use super::drive::{self, Driver, Inline};
use super::holds::{Count, Holds};
use super::keys::Keys;
use super::once::CLIENT_CLOSED;
use super::primitive::Ticket;
use super::primitive::timer::Timer;
use super::registry::Shared;
use super::request::Request;
use crate::api::{Hold, HoldId};
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::sync::Mutex;
use crate::transport::Value;

/// One lock of one client.
pub(crate) struct LockLine {
    core: Arc<Core>,
    kind: &'static Kind,
    keys: Keys,
    /// Which client is next, where that is settled.
    next: Arc<str>,
    /// The counter of fencing tokens, for locks that have one.
    token: Option<Arc<str>>,
    driver: Driver,
    state: Mutex<State>,
    itself: Weak<LockLine>,
}

struct State {
    queue: VecDeque<Queued>,
    waiting: Waiting,
    timer: Timer,
    /// The tickets of those who wait and whom the question under way names.
    asking: Vec<Ticket>,
    /// The server has just said that somebody of this client has the lock.
    held: Option<Held>,
    /// How long the last answer took.
    round_trip: Duration,
    /// A request was given up whose copies may still reach the server.
    doubtful: bool,
    /// A fence has been left that is there until then.
    fenced_until: Option<Instant>,
    /// Counted as busy in the core.
    busy: bool,
    closed: bool,
}

/// What the server has said of a lock that somebody of this client has.
struct Held {
    /// No longer worth a question until then.
    fresh_until: Instant,
    /// It comes to its end then, if nothing happens.
    ends: Instant,
    /// The channel was heard.
    confirmed: bool,
}

/// Something queued for the next round.
enum Queued {
    Call(Call),
    Command(Command),
}

impl Queued {
    /// Whether nobody waits for it any more, and it is not owed: then it must not be sent.
    fn is_pointless(&mut self) -> bool {
        match self {
            Queued::Call(call) => call.is_pointless(),
            Queued::Command(command) => command.is_pointless(),
        }
    }
}

impl State {
    /// The next of those queued that is to be carried out.
    fn next(&mut self) -> Option<&Queued> {
        while self
            .queue
            .front_mut()
            .is_some_and(|next| next.is_pointless())
        {
            self.queue.pop_front();
        }
        self.queue.front()
    }

    /// Somebody wants the lock.
    fn note_wish(&mut self, now: Instant) {
        if self.waiting.is_empty() {
            self.waiting.sharing.wanted_again(now);
        }
    }
}

impl LockLine {
    /// The client's one line of the lock with these names.
    pub(crate) fn of(
        core: &Arc<Core>,
        kind: &'static Kind,
        keys: Keys,
        next: String,
        token: Option<String>,
    ) -> Arc<Self> {
        let object = Arc::clone(keys.object());
        core.objects.find_or_make(kind.name, &object, |closed| {
            Arc::new_cyclic(|itself| LockLine {
                core: Arc::clone(core),
                kind,
                keys,
                next: next.into(),
                token: token.map(Arc::from),
                driver: Driver::default(),
                state: Mutex::new(State {
                    queue: VecDeque::new(),
                    waiting: Waiting::default(),
                    timer: Timer::default(),
                    asking: Vec::new(),
                    held: None,
                    round_trip: Duration::ZERO,
                    doubtful: false,
                    fenced_until: None,
                    busy: false,
                    closed,
                }),
                itself: itself.clone(),
            })
        })
    }

    fn name(&self) -> &str {
        self.keys.name()
    }

    /// What the owners of the client hold.
    fn holds(&self) -> &Holds {
        &self.core.holds
    }

    /// The lock's key.
    fn key(&self) -> &Arc<str> {
        self.keys.object()
    }

    fn lock(&self) -> Locked<'_> {
        Locked::new(self)
    }

    /// Takes the lock for `claim`, waiting for `wait` at the most; `None` waits without limit.
    ///
    /// Takes its place at the first poll. When the future is dropped after that, what it is granted is given back.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        claim: Claim,
        wait: Option<Duration>,
    ) -> Result<Option<Hold>> {
        self.keys.check()?;
        let outcome = if wait.is_some_and(|wait| wait.is_zero()) {
            self.enqueue_call(Step::Acquire(claim))?.outcome().await
        } else {
            // A wait that the clock cannot express has no end.
            let deadline = wait.and_then(|wait| Instant::now().checked_add(wait));
            self.join(claim, deadline)?.outcome().await
        };
        Ok(match outcome? {
            Outcome::Taken(hold) => Some(hold),
            _ => None,
        })
    }

    /// Gives one hold of `owner` back. Carried out even when the future is dropped after the first poll.
    ///
    /// With `hold`, that one and no other.
    pub(crate) async fn release(
        self: &Arc<Self>,
        owner: &Arc<str>,
        hold: Option<HoldId>,
    ) -> Result<()> {
        self.keys.check()?;
        let seat = self.enqueue_call(Step::Release(Arc::clone(owner), hold))?;
        seat.outcome().await.map(drop)
    }

    /// The same with nobody waiting for it.
    pub(crate) fn release_detached(self: &Arc<Self>, owner: &Arc<str>, hold: Option<HoldId>) {
        let call = Call {
            step: Step::Release(Arc::clone(owner), hold),
            reply: None,
            since: Instant::now(),
        };
        match self.enqueue(Queued::Call(call)) {
            Ok(()) => drive::kick(self),
            Err(error) => tracing::error!(%error, %owner, "not unlocked"),
        }
    }

    /// Takes the lock away from whoever holds it.
    pub(crate) async fn force(self: &Arc<Self>) -> Result<bool> {
        self.keys.check()?;
        let outcome = self.enqueue_call(Step::Force)?.outcome().await?;
        Ok(matches!(outcome, Outcome::Forced(true)))
    }

    /// What is known of `owner`'s holds.
    pub(crate) fn lease(&self, owner: &str) -> Lease {
        let known = self.holds().lease(self.key(), owner);
        known.unwrap_or_else(Lease::ended)
    }

    /// The error for an `owner` who does not hold the lock.
    fn not_held(&self, owner: &str) -> Error {
        Error::NotHeld {
            name: self.name().to_owned(),
            owner: owner.to_owned(),
        }
    }

    fn enqueue_call(self: &Arc<Self>, step: Step) -> Result<Seat> {
        let (reply, answer) = oneshot::channel();
        let owner = match &step {
            Step::Acquire(claim) => Some(Arc::clone(&claim.owner)),
            _ => None,
        };
        if owner.is_some() {
            self.lock().note_wish(Instant::now());
        }
        self.enqueue(Queued::Call(Call {
            step,
            reply: Some(reply),
            since: Instant::now(),
        }))?;
        Ok(Seat::new(self, owner, answer, None))
    }

    /// Joins those who wait.
    fn join(self: &Arc<Self>, claim: Claim, deadline: Option<Instant>) -> Result<Seat> {
        let (reply, answer) = oneshot::channel();
        let owner = Arc::clone(&claim.owner);
        let mut state = self.lock();
        if state.closed {
            return Err(self.shut_down());
        }
        let now = Instant::now();
        // Who holds the lock already does not wait for it.
        let count = self.holds().count(self.key(), &owner);
        let holds = matches!(count, Count::Held(1..));
        let first = state.waiting.is_empty();
        state.note_wish(now);
        let held = state.held.as_ref().filter(|held| now < held.fresh_until);
        let held = held
            .filter(|_| !holds)
            .map(|held| (held.ends, held.confirmed));
        let asks = held.is_none();
        let (whom, why) = ((reply, deadline), (holds, asks));
        let ticket = state.waiting.join(claim, whom, why, now);
        if first && !state.waiting.wants_to_ask(now) {
            let heard = state.waiting.listening.is_confirmed();
            self.listen_as_needed(&mut state, held.map_or(heard, |(_, heard)| heard));
            match held {
                Some((ends, _)) => state.waiting.look_at = Some(ends),
                None => state.waiting.look_when_others_had_it(now),
            }
        }
        self.note_busy(&mut state);
        drop(state);
        Ok(Seat::new(self, Some(owner), answer, Some(ticket)))
    }

    fn enqueue(&self, queued: Queued) -> Result<()> {
        let mut state = self.lock();
        // What guards owe is carried out as long as there is a connection.
        let owed = matches!(&queued, Queued::Call(call) if call.reply.is_none());
        if state.closed && (!owed || self.core.is_finished()) {
            return Err(self.shut_down());
        }
        state.queue.push_back(queued);
        self.note_busy(&mut state);
        Ok(())
    }

    /// Sees to what has been queued.
    fn drive(self: &Arc<Self>) -> Option<Inline<LockLine>> {
        answer::drive(self, &self.core.runtime)
    }

    fn shut_down(&self) -> Error {
        Error::ShutDown {
            name: self.name().to_owned(),
        }
    }

    fn note_busy(&self, state: &mut State) {
        self.core.note_busy(&mut state.busy);
    }
}

impl Commands for LockLine {
    fn core(&self) -> &Core {
        &self.core
    }

    fn keys(&self) -> &Keys {
        &self.keys
    }

    async fn command(self: &Arc<Self>, operation: &'static str, request: Request) -> Result<Value> {
        let (command, mut answer) = Command::new(operation, request);
        self.enqueue(Queued::Command(command))?;
        let answer = answer_of(&mut self.drive(), &mut answer).await;
        answer.unwrap_or_else(|| Err(self.shut_down()))
    }
}

impl Shared for LockLine {
    fn waiting(&self) -> usize {
        self.lock().waiting.waiters.len()
    }

    fn close(self: Arc<Self>) {
        let (asking, waiters): (Vec<_>, Vec<_>) = {
            let mut state = self.lock();
            state.closed = true;
            let asking = std::mem::take(&mut state.asking).into_iter();
            let asking = asking.filter_map(|ticket| state.waiting.take(ticket));
            (asking.collect(), state.waiting.waiters.take_all())
        };
        // What they may be granted still is given back.
        self.tell_unknown(asking, CLIENT_CLOSED);
        self.tell_all(waiters, &self.shut_down(), CLIENT_CLOSED);
        drive::kick(&self);
    }
}

impl Drop for LockLine {
    fn drop(&mut self) {
        self.state.lock().timer.end();
        self.core.objects.forget(self.kind.name, self.keys.object());
    }
}

impl std::fmt::Debug for LockLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LockLine")
            .field("keys", &self.keys)
            .finish_non_exhaustive()
    }
}
