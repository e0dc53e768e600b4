//! Who is told what: when a batch has been answered or refused, and while it is not.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::calls::{Call, Claim, Known, Outcome, Reply, Step, StepAnswer, Term};
use super::round::Batch;
use super::waiting::{Turn, Waiter};
use super::{Held, LockLine, Queued, State};
use crate::api::{Hold, HoldId};
use crate::clock::Moment;
use crate::engine::holds::Count;
use crate::engine::in_hand::Carries;
use crate::engine::log;
use crate::engine::once::{Patience, RUNTIME_ENDED, Trouble, refused, refused_in_doubt};
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
            busy |= matches!(answer, StepAnswer::Busy(_));
            is_taken = matches!(answer, StepAnswer::Taken(..) | StepAnswer::Busy(_));
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
            if let StepAnswer::Busy(ttl) = answer {
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
                StepAnswer::Busy(_) if !turn.last => self.holds().lost(self.key(), &claim.owner),
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
        state.waiting.answered(sent.timer());
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
            self.look_when_others_had_it(&mut state);
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
            self.set_alarm(&mut state, ends);
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
            (Step::Release(owner, _), StepAnswer::NotHeld) => {
                holds.lost(key, owner);
                Err(self.not_held(owner))
            }
            (Step::Force, StepAnswer::Forced(forced)) => {
                holds.all_lost(key);
                Ok(Outcome::Forced(forced))
            }
            (Step::Acquire(claim), StepAnswer::Busy(_)) => {
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
        let renewal = self.kind.renewal;
        let (lease, id) = self.holds().taken(self.key(), owner, term, until, renewal);
        if count == 1 {
            let window = self.core.config.local_hand_over;
            state.waiting.sharing.granted(Instant::now(), window);
        }
        state.waiting.bring_forward(owner);
        if term == Term::Watched
            && let Some(line) = self.itself.upgrade()
        {
            line.core.renew();
        }
        let token = claim.fenced.then_some(token);
        Hold { lease, id, token }
    }

    fn tell(&self, reply: Option<Reply>, outcome: Result<Outcome>, step: Step) {
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

    /// The last sending of `batch` has not taken effect, because of `error`, for the sake of `detail`. An earlier one that has
    /// been `unanswered` for so long may have: locks have no record.
    pub(super) fn fail(
        &self,
        batch: Batch,
        error: &Error,
        detail: &str,
        unanswered: Option<Duration>,
    ) {
        if !batch.turns.is_empty() {
            // What stops the first one stops all.
            let mut state = self.lock();
            let mut waiters = state.waiting.take_all();
            self.listen_as_needed(&mut state, true);
            drop(state);
            for waiter in &mut waiters {
                let named = |turn: &Turn| turn.ticket == waiter.ticket();
                waiter.in_doubt |= unanswered.is_some() && batch.turns.iter().any(named);
            }
            self.tell_all(waiters, error, detail);
        }
        for call in batch.calls {
            let error = match unanswered {
                None => error.clone(),
                Some(waited) => refused_in_doubt(self.name(), detail, waited),
            };
            self.tell(call.reply, Err(error), call.step);
        }
    }

    /// Tells those callers whose retry window has passed; says how long the others wait for `batch`, which has been
    /// under way since `began`.
    pub(super) fn tell_impatient(
        &self,
        trouble: &Trouble<'_>,
        began: Instant,
        batch: &mut Batch,
    ) -> Patience {
        let window = self.core.config.retry_window;
        let (mut owed, mut told) = (false, false);
        let mut next: Option<Instant> = None;
        let mut later = |due: Instant| next = Some(next.map_or(due, |next| next.min(due)));
        let doubtful = trouble.doubtful;
        batch.calls.retain_mut(|call| {
            let due = call.since + window;
            if call.is_pointless() {
                told |= !doubtful;
                return doubtful;
            }
            match &call.reply {
                Some(_) if trouble.is_over(due) => {
                    let error = trouble.error(self.name(), call.step.name(), call.since);
                    if let Some(reply) = call.reply.take() {
                        let _ = reply.send(Err(error));
                    }
                    told = true;
                    // What was never sent must not happen after this; the rest is a matter of its answer, which has
                    // a place for every step.
                    return doubtful;
                }
                Some(_) => later(due),
                None => owed = true,
            }
            true
        });
        let due = self.tell_waiting(trouble, began, &batch.turns);
        due.into_iter()
            .chain(self.tell_queued(trouble))
            .for_each(later);
        let (left, waiting) = {
            let state = self.lock();
            let left = |turn: &Turn| !state.waiting.has(turn.ticket);
            (batch.turns.iter().any(left), !state.waiting.is_empty())
        };
        if (told || left) && !doubtful {
            return Patience::Nobody;
        }
        match next {
            Some(next) => Patience::Until(next),
            None if owed || (waiting && !batch.turns.is_empty()) => Patience::Forever,
            None => Patience::Nobody,
        }
    }

    /// The same for those who wait, of whom `turns` are part of the question under way; says when the next one's time
    /// is up.
    pub(super) fn tell_waiting(
        &self,
        trouble: &Trouble<'_>,
        began: Instant,
        turns: &[Turn],
    ) -> Option<Instant> {
        let window = self.core.config.retry_window;
        let mut state = self.lock();
        let (overdue, due) = state.waiting.take_overdue(began, trouble.now, window);
        if state.waiting.is_empty() {
            self.listen_as_needed(&mut state, true);
        }
        drop(state);
        for (waiter, since) in overdue {
            let named = turns.iter().any(|turn| turn.ticket == waiter.ticket());
            let trouble = Trouble {
                doubtful: waiter.in_doubt || (named && trouble.doubtful),
                ..*trouble
            };
            let error = trouble.error(self.name(), "lock", since);
            let _ = waiter.reply.send(Err(error));
        }
        due
    }

    /// Ends the waiting of `waiters` with `error`, which says that nothing has happened: those whose question may have been
    /// carried out are told so, for the sake of `detail`.
    pub(super) fn tell_all(&self, waiters: Vec<Waiter>, error: &Error, detail: &str) {
        let (in_doubt, others): (Vec<_>, Vec<_>) =
            waiters.into_iter().partition(|waiter| waiter.in_doubt);
        self.tell_unknown(in_doubt, detail);
        for waiter in others {
            let _ = waiter.reply.send(Err(error.clone()));
        }
    }

    /// Tells waiters that were named in a question whose answer they will not see.
    pub(super) fn tell_unknown(&self, waiters: Vec<Waiter>, detail: &str) {
        let trouble = Trouble::unknown(detail);
        for waiter in waiters {
            let since = waiter.unanswered.unwrap_or(trouble.now);
            let error = trouble.error(self.name(), "lock", since);
            let _ = waiter.reply.send(Err(error));
        }
    }

    /// The same for those whose calls are queued behind: they have not been sent at all.
    pub(super) fn tell_queued(&self, trouble: &Trouble<'_>) -> Option<Instant> {
        let window = self.core.config.retry_window;
        let overdue = |since: Instant| since + window <= trouble.now;
        let untouched = trouble.untouched();
        let mut over = Vec::new();
        {
            let mut state = self.lock();
            for mut queued in std::mem::take(&mut state.queue) {
                let is_over = match &mut queued {
                    // An unlock that its caller has been told did not happen must not happen.
                    Queued::Call(call) => {
                        call.forget_caller_who_has_gone();
                        overdue(call.since) && call.reply.is_some()
                    }
                    Queued::Command(command) => overdue(command.since()),
                };
                if is_over {
                    over.push(queued);
                } else {
                    state.queue.push_back(queued);
                }
            }
        }
        for queued in over {
            match queued {
                Queued::Call(call) => {
                    let error = untouched.error(self.keys.name(), call.step.name(), call.since);
                    if let Some(reply) = call.reply {
                        let _ = reply.send(Err(error));
                    }
                }
                Queued::Command(mut command) => command.give_up(self.keys.name(), &untouched),
            }
        }
        let due = |queued: &Queued| match queued {
            Queued::Call(call) => call.reply.as_ref().map(|_| call.since + window),
            Queued::Command(command) => Some(command.since() + window),
        };
        self.lock().queue.iter().filter_map(due).min()
    }
}

impl Carries for LockLine {
    type Batch = Batch;

    fn lose(&self, batch: Batch) {
        let calls = batch.calls.iter().map(|call| (call.step.clone(), 1));
        let turns = batch.turns.iter();
        let turns = turns.map(|turn| (Step::Acquire(turn.claim.clone()), 1));
        log::lost(self.name(), &log::list_of(calls.chain(turns)));
        let waiters: Vec<_> = {
            let mut state = self.lock();
            let turns = batch.turns.iter();
            turns
                .filter_map(|turn| state.waiting.take(turn.ticket))
                .collect()
        };
        self.tell_unknown(waiters, RUNTIME_ENDED);
        let trouble = Trouble::unknown(RUNTIME_ENDED);
        for call in batch.calls {
            let error = trouble.error(self.name(), call.step.name(), call.since);
            if let Some(reply) = call.reply {
                let _ = reply.send(Err(error));
            }
        }
    }
}
