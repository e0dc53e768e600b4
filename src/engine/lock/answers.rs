//! Who is told what: when a batch has been answered or refused, and while it is not.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::calls::{Call, Claim, Known, Outcome, Reply, Step, StepAnswer, Term};
use super::round::Batch;
use super::{LockLine, Queued, State, waiting};
use crate::api::{Hold, HoldId};
use crate::clock::Moment;
use crate::engine::holds::Count;
use crate::engine::once::{Patience, Trouble, refused};
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
        } = answered;
        let mut replies: Vec<(Option<Reply>, Result<Outcome>, Step)> = Vec::new();
        let mut again = Vec::new();
        // When the lock comes to its end, if nobody renews it or gives it back.
        let mut ends = None;
        let mut state = self.lock();
        if let Some(listeners) = listeners {
            let own = u64::from(state.waiting.listening.is_confirmed());
            state.waiting.others = listeners > own;
        }
        let forced = |(answer, _): &(StepAnswer, _)| matches!(answer, StepAnswer::Forced(true));
        if doubtful || answers.iter().any(forced) {
            // It has left a fence: nothing that was sent before can do harm any more.
            state.doubtful = false;
            state.fenced_until = Instant::now().checked_add(self.core.config.record_life());
        }
        let mut answers = answers.into_iter();
        for (call, (answer, known)) in batch.calls.into_iter().zip(&mut answers) {
            if let (Step::Acquire(claim), StepAnswer::Lost) = (&call.step, &answer) {
                self.holds().lost(self.key(), &claim.owner);
                again.push(call);
                continue;
            }
            ends = end_of(&answer, known.lease).or(ends);
            let outcome = self.settle(&mut state, &call.step, answer, known, sent, doubtful);
            replies.push((call.reply, outcome, call.step));
        }
        for call in again.into_iter().rev() {
            state.queue.push_front(Queued::Call(call));
        }
        if let (Some((ticket, claim)), Some((answer, known))) = (batch.turn, answers.next()) {
            match answer {
                StepAnswer::Lost => {
                    self.holds().lost(self.key(), &claim.owner);
                    state.waiting.look_anew();
                }
                StepAnswer::Busy(ttl) => {
                    self.holds().lost(self.key(), &claim.owner);
                    state.waiting.not_kept();
                    if let Some(first) = state.waiting.first() {
                        first.asked = None;
                    }
                    ends = ttl;
                }
                answer => {
                    ends = end_of(&answer, known.lease).or(ends);
                    let step = Step::Acquire(claim);
                    let outcome = self.settle(&mut state, &step, answer, known, sent, doubtful);
                    let reply = state.waiting.take_served(ticket);
                    replies.push((reply, outcome, step));
                }
            }
        }
        if let Some(ends) = ends
            && !state.waiting.is_empty()
        {
            // A millisecond that Redis rounds off, and the way there.
            let grace = Duration::from_millis(1);
            self.set_alarm(&mut state, Instant::now() + ends + grace);
        }
        if !self.holds().is_held(self.key()) {
            state.waiting.not_kept();
        }
        self.listen_as_needed(&mut state, confirmed);
        drop(state);

        for (reply, outcome, step) in replies {
            self.tell(reply, outcome, step);
        }
    }

    /// Notes what an answer means for the holds; the sending that was answered was made at `sent` or later.
    fn settle(
        &self,
        state: &mut State,
        step: &Step,
        answer: StepAnswer,
        known: Known,
        sent: Moment,
        doubtful: bool,
    ) -> Result<Outcome> {
        let (holds, key, until) = (self.holds(), self.key(), sent + known.lease);
        match (step, answer) {
            (Step::Acquire(claim), StepAnswer::Taken(_, token)) => {
                Ok(Outcome::Taken(self.taken(state, claim, token, until)))
            }
            (Step::Release(owner, _), StepAnswer::Released(left)) => {
                if left == 0 {
                    state.waiting.look_anew();
                }
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
                state.waiting.look_anew();
                Ok(Outcome::Forced(forced))
            }
            (Step::Acquire(claim), StepAnswer::Busy(_)) => {
                holds.lost(key, &claim.owner);
                Ok(Outcome::Busy)
            }
            (step, StepAnswer::Refused(error)) => {
                self.note_refusal(step, &known);
                Err(refused(self.name(), &Refusal::from_text(&error)))
            }
            (step, answer) => Err(Error::Server {
                name: self.name().to_owned(),
                detail: format!("unexpected answer {answer:?} to {}", step.name()),
            }),
        }
    }

    /// Notes that `claim`'s owner has taken the lock, which ends at `until` for the time being.
    fn taken(&self, state: &mut State, claim: &Claim, token: i64, until: Moment) -> Hold {
        let (owner, term) = (&claim.owner, claim.term);
        let renewal = self.kind.renewal;
        let (lease, id) = self.holds().taken(self.key(), owner, term, until, renewal);
        state.waiting.kept(Instant::now());
        state.waiting.bring_forward(owner);
        if term == Term::Watched
            && let Some(line) = self.itself.upgrade()
        {
            line.core.renew();
        }
        let token = claim.fenced.then(|| token.unsigned_abs());
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
                        tracing::error!(%error, operation = step.name(), "not carried out");
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

    /// Nothing of `batch` has taken effect, because of `error`.
    pub(super) fn fail(&self, batch: Batch, error: &Error) {
        let waiters = if batch.turn.is_some() {
            // What stops the first one stops all.
            let mut state = self.lock();
            let waiters = state.waiting.take_all();
            self.listen_as_needed(&mut state, true);
            waiters
        } else {
            Vec::new()
        };
        waiting::tell_all(waiters, error);
        for call in batch.calls {
            self.tell(call.reply, Err(error.clone()), call.step);
        }
    }

    /// Tells those callers whose retry window has passed; says how long the others wait for `batch`.
    pub(super) fn tell_impatient(&self, trouble: &Trouble<'_>, batch: &mut Batch) -> Patience {
        let window = self.core.config.retry_window;
        let now = trouble.now;
        let (mut owed, mut told) = (false, false);
        let mut next: Option<Instant> = None;
        let mut later = |due: Instant| next = Some(next.map_or(due, |next| next.min(due)));
        let doubtful = trouble.doubtful;
        batch.calls.retain_mut(|call| {
            let due = call.since + window;
            call.forget_caller_who_has_gone();
            match &call.reply {
                Some(_) if due <= now => {
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
                // An acquisition is owed to nobody; an unlock is.
                None if matches!(call.step, Step::Acquire(_)) => {
                    told |= !doubtful;
                    return doubtful;
                }
                None => owed = true,
            }
            true
        });
        let (overdue, due) = self.lock().waiting.take_overdue(now, window);
        let turn = batch.turn.as_ref().map(|(ticket, _)| *ticket);
        let untouched = trouble.untouched();
        for waiter in overdue {
            let Some(since) = waiter.asked else { continue };
            let asked = turn == Some(waiter.ticket());
            let trouble = if asked { trouble } else { &untouched };
            let error = trouble.error(self.name(), "lock", since);
            let _ = waiter.reply.send(Err(error));
        }
        if let Some(due) = due {
            later(due);
        }
        self.tell_queued(trouble);
        let left = turn.is_some_and(|ticket| !self.lock().waiting.has(ticket));
        if (told || left) && !trouble.doubtful {
            return Patience::Nobody;
        }
        let waiting = batch.turn.is_some() && !self.lock().waiting.is_empty();
        match next {
            Some(next) => Patience::Until(next),
            None if owed || waiting => Patience::Forever,
            None => Patience::Nobody,
        }
    }

    /// The same for those who wait behind: their calls have not been sent at all.
    pub(super) fn tell_queued(&self, trouble: &Trouble<'_>) {
        let window = self.core.config.retry_window;
        let overdue = |since: Instant| since + window <= trouble.now;
        let untouched = trouble.untouched();
        self.lock().queue.retain_mut(|queued| match queued {
            Queued::Call(call) if overdue(call.since) => {
                call.forget_caller_who_has_gone();
                let Some(reply) = call.reply.take() else {
                    return true;
                };
                let error = untouched.error(self.keys.name(), call.step.name(), call.since);
                let _ = reply.send(Err(error));
                // An unlock that its caller has been told did not happen must not happen.
                false
            }
            Queued::Command(command) if overdue(command.since()) => {
                command.give_up(self.keys.name(), &untouched);
                false
            }
            _ => true,
        });
    }
}
