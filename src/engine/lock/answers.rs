//! Who is told what when a batch has been answered.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::calls::{Call, Claim, Known, Outcome, Reply, Step, StepAnswer, Term};
use super::round::Batch;
use super::{Held, LockLine, Queued, State};
use crate::api::{Hold, HoldId};
use crate::clock::Moment;
use crate::engine::holds::{Count, Renewing};
use crate::engine::once::{refused, refused_in_doubt};
use crate::engine::request::Arg;
use crate::error::{Error, Result};
use crate::transport::Refusal;

/// In what time a lock ends whose owner has been answered so; `lease` is what was set.
fn end_of(answer: &StepAnswer, lease: Duration) -> Option<Duration> {
    match answer {
        StepAnswer::Taken(..) => Some(lease),
        StepAnswer::Released(left) if *left > 0 => Some(lease),
        _ => None,
    }
}

/// What the server has answered to a batch.
pub(super) struct Answered {
    /// The answer to each step, and what was known when that departed.
    pub(super) answers: Vec<(StepAnswer, Known)>,
    /// How many hear the channel, where that was learned.
    pub(super) listeners: Option<u64>,
    /// The sending that was answered was made at this time or later.
    pub(super) sent: Moment,
    /// Whether the channel was heard then.
    pub(super) confirmed: bool,
    /// It was not the first one.
    pub(super) doubtful: bool,
    /// For how long an earlier sending of the same steps has been without an answer.
    pub(super) unanswered: Option<Duration>,
}

/// What is known of the sending that an answer belongs to; see [`Answered`].
#[derive(Clone, Copy)]
struct Sending {
    sent: Moment,
    doubtful: bool,
    unanswered: Option<Duration>,
}

/// One script call renews so many locks at the most, as Redisson's does.
const MOST_RENEWED: usize = 100;

impl LockLine {
    /// Tells the callers of a batch what has become of their calls.
    pub(super) fn arrive(&self, batch: Batch, answered: Answered) {
        let Answered {
            answers,
            listeners,
            sent,
            confirmed,
            doubtful,
            unanswered,
        } = answered;
        let sending = Sending {
            sent,
            doubtful,
            unanswered,
        };
        let window = self.core.config.local_hand_over;
        let mut replies: Vec<(Option<Reply>, Result<Outcome>, Step)> = Vec::new();
        let mut again = Vec::new();
        // When the lock comes to its end, if nobody renews it or gives it back.
        let mut ends = None;
        let mut state = self.lock();
        state.round_trip = sent.timer().elapsed();
        if let Some(listeners) = listeners {
            let own = u64::from(state.waiting.listening.is_confirmed());
            state.waiting.sharing.told(listeners.saturating_sub(own));
        }
        let forced = |(answer, _): &(StepAnswer, _)| matches!(answer, StepAnswer::Forced(true));
        if doubtful || answers.iter().any(forced) {
            // It has left a fence: nothing that was sent before can do harm any more.
            state.doubtful = false;
            state.fenced_until = Instant::now().checked_add(self.core.config.record_life());
        }
        let forced = answers.iter().any(forced);
        let (mut freed, mut lost, mut busy) = (forced, false, false);
        // The last of the calls found the lock taken, or took it.
        let mut is_taken = false;
        let mut answers = answers.into_iter();
        for (call, (answer, known)) in batch.calls.into_iter().zip(&mut answers) {
            if let (Step::Acquire(claim), StepAnswer::Lost) = (&call.step, &answer) {
                self.holds().lost(self.key(), &claim.owner);
                again.push(call);
                continue;
            }
            // What was done in front of it is done; alone it is tried again until the server can.
            if answer.is_not_now() {
                self.note_refusal(&call.step, &known);
                again.push(call);
                continue;
            }
            ends = end_of(&answer, known.lease).or(ends);
            freed |= matches!(answer, StepAnswer::Released(0));
            lost |= matches!(answer, StepAnswer::NotHeld);
            let others_have_it = matches!(answer, StepAnswer::Busy { .. });
            busy |= others_have_it;
            is_taken = others_have_it || matches!(answer, StepAnswer::Taken(..));
            let outcome = self.settle(&mut state, &call.step, answer, known, sending);
            replies.push((call.reply, outcome, call.step));
        }
        if is_taken && again.is_empty() {
            let too_late = self.take_too_late(&mut state, sent.timer());
            replies.extend(
                too_late
                    .into_iter()
                    .map(|call| (call.reply, Ok(Outcome::Busy), call.step)),
            );
        }
        for call in again.into_iter().rev() {
            state.queue.push_front(Queued::Call(call));
        }
        for (turn, (answer, known)) in batch.turns.into_iter().zip(answers) {
            let claim = turn.claim;
            let others = state.waiting.sharing.others();
            match answer {
                StepAnswer::Busy { next, .. } => state.waiting.herd.lost(others, next),
                StepAnswer::Taken(..) => state.waiting.herd.won(),
                _ => {}
            }
            if let StepAnswer::Busy { ttl, .. } = answer {
                busy = true;
                ends = ttl;
            }
            match answer {
                StepAnswer::Lost => {
                    self.holds().lost(self.key(), &claim.owner);
                    state.waiting.look_anew();
                }
                answer if answer.is_not_now() => {
                    self.note_refusal(&Step::Acquire(claim), &known);
                    state.waiting.look_anew();
                }
                StepAnswer::Busy { .. } if !turn.last => {
                    self.holds().lost(self.key(), &claim.owner);
                }
                answer => {
                    let waiter = state.waiting.take(turn.ticket);
                    ends = end_of(&answer, known.lease).or(ends);
                    let step = Step::Acquire(claim);
                    let outcome = self.settle(&mut state, &step, answer, known, sending);
                    if outcome.is_err() {
                        // It said nothing about the lock itself.
                        state.waiting.look_anew();
                    }
                    replies.push((waiter.map(|waiter| waiter.reply), outcome, step));
                }
            }
        }
        state.waiting.waiters.answered(sent.timer());
        let held = self.holds().is_held(self.key());
        if batch.echo && !forced && (held || !freed) {
            state.waiting.sharing.no_echo();
        }
        if busy && !held {
            state.waiting.sharing.others_have_it();
        } else if (freed || lost) && !held {
            // Nobody who waits was part of the batch.
            state.waiting.look_anew();
            if freed {
                state.waiting.sharing.freed(Instant::now(), window);
            }
            state.waiting.look_when_others_had_it(Instant::now());
        }
        // A millisecond that Redis rounds off, and the way there.
        let ends = ends.map(|ends| Instant::now() + ends + Duration::from_millis(1));
        state.held = ends.filter(|_| held).map(|ends| Held {
            fresh_until: Instant::now() + window,
            ends,
            confirmed,
        });
        if let Some(ends) = ends
            && !state.waiting.is_empty()
        {
            state.waiting.look_at = Some(ends);
        }
        self.listen_as_needed(&mut state, confirmed);
        drop(state);

        for (reply, outcome, step) in replies {
            self.tell(reply, outcome, step);
        }
    }

    /// Takes the calls out that would acquire the lock behind a call that has it or found it taken, and were there when that
    /// one was `sent`: there was no room for them in its batch, and their answer is known.
    fn take_too_late(&self, state: &mut State, sent: Instant) -> Vec<Call> {
        let mut calls = Vec::new();
        while let Some(Queued::Call(call)) = state.queue.front()
            && call.since <= sent
            && let Step::Acquire(claim) = &call.step
            && self.holds().count(self.key(), &claim.owner) == Count::Held(0)
        {
            if let Some(Queued::Call(call)) = state.queue.pop_front() {
                calls.push(call);
            }
        }
        calls
    }

    /// Notes what an answer means for the holds; the sending that was answered was made at `sent` or later.
    fn settle(
        &self,
        state: &mut State,
        step: &Step,
        answer: StepAnswer,
        known: Known,
        sending: Sending,
    ) -> Result<Outcome> {
        let doubtful = sending.doubtful;
        let (holds, key, until) = (self.holds(), self.key(), sending.sent + known.lease);
        match (step, answer) {
            (Step::Acquire(claim), StepAnswer::Taken(count, token)) => Ok(Outcome::Taken(
                self.taken(state, claim, count, token, until),
            )),
            (Step::Release(owner, _), StepAnswer::Released(left)) => {
                holds.released(key, owner, known.number, (left > 0).then_some(until));
                Ok(Outcome::Released)
            }
            // The first copy has done it.
            (Step::Release(owner, _), StepAnswer::NotHeld)
                if doubtful && known.holds == Count::Held(1) =>
            {
                holds.released(key, owner, known.number, None);
                Ok(Outcome::Released)
            }
            // The first copy may have done it, and what was left has been lost since.
            (Step::Release(owner, _), StepAnswer::NotHeld)
                if doubtful && matches!(known.holds, Count::Held(2..)) =>
            {
                holds.lost(key, owner);
                Ok(Outcome::Released)
            }
            (Step::Release(owner, _), StepAnswer::NotHeld) => {
                holds.lost(key, owner);
                Err(self.not_held(owner))
            }
            (Step::Force, StepAnswer::Forced(forced)) => {
                holds.all_lost(key);
                Ok(Outcome::Forced(forced))
            }
            (Step::Acquire(claim), StepAnswer::Busy { .. }) => {
                holds.lost(key, &claim.owner);
                Ok(Outcome::Busy)
            }
            (step, StepAnswer::Refused(error)) => {
                match sending.unanswered {
                    None => self.note_refusal(step, &known),
                    Some(_) => self.note_silence(step, &known),
                }
                Err(self.refused(&Refusal::from_text(&error), sending.unanswered))
            }
            (step, answer) => Err(Error::Server {
                name: self.name().to_owned(),
                detail: format!("unexpected answer {answer:?} to {}", step.name()),
            }),
        }
    }

    /// The error for a refusal, behind a sending that has been `unanswered` for so long: locks have no record, so it says
    /// nothing about that one.
    pub(super) fn refused(&self, refusal: &Refusal, unanswered: Option<Duration>) -> Error {
        match unanswered {
            None => refused(self.name(), refusal),
            Some(waited) => refused_in_doubt(self.name(), &refusal.detail, waited),
        }
    }

    /// Notes that `claim`'s owner has taken the lock, which ends at `until` for the time being.
    fn taken(
        &self,
        state: &mut State,
        claim: &Claim,
        count: u32,
        token: u64,
        until: Moment,
    ) -> Hold {
        let (owner, term) = (&claim.owner, claim.term);
        let lasts = self.core.config.lock_watchdog_timeout;
        let renewing = Renewing {
            script: self.kind.renewal,
            several: false,
            owner: |owner| Arg::Text(Arc::clone(owner)),
            most: MOST_RENEWED,
            lease: lasts,
        };
        let (lease, id) = self.holds().taken(self.key(), owner, term, until, renewing);
        if count == 1 {
            let window = self.core.config.local_hand_over;
            state.waiting.sharing.granted(Instant::now(), window);
            state.waiting.served(Instant::now());
        }
        state.waiting.look_for(owner);
        if term == Term::Watched
            && let Some(line) = self.itself.upgrade()
        {
            line.core.renew(lasts);
        }
        let token = claim.fenced.then_some(token);
        Hold { lease, id, token }
    }

    pub(super) fn tell(&self, reply: Option<Reply>, outcome: Result<Outcome>, step: Step) {
        let granted = match &outcome {
            Ok(Outcome::Taken(hold)) => Some(hold.id.clone()),
            _ => None,
        };
        let gone = match reply {
            Some(reply) => reply.send(outcome).is_err(),
            None => {
                match outcome {
                    Err(error @ Error::NotHeld { .. }) => {
                        tracing::debug!(%error, "lost before it was unlocked");
                    }
                    Err(error) => {
                        tracing::error!(%error, call = %step, "not carried out");
                    }
                    Ok(_) => {}
                }
                true
            }
        };
        if gone
            && let Some(id) = granted
            && let Some(owner) = step.owner()
        {
            self.give_back(owner, id);
        }
    }

    /// Queues the release of a lock that was granted to a caller who has gone.
    fn give_back(&self, owner: &Arc<str>, id: HoldId) {
        let mut state = self.lock();
        state.queue.push_back(Queued::Call(Call {
            step: Step::Release(Arc::clone(owner), Some(id)),
            reply: None,
            since: Instant::now(),
        }));
        self.note_busy(&mut state);
    }
}
