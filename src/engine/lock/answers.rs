//! Who is told what: when a batch has been answered or refused, and while it is not.

use std::sync::Arc;

use tokio::time::Instant;

use super::calls::{self, Call, Claim, Outcome, Reply, Step, StepAnswer};
use super::round::Batch;
use super::{LockLine, Queued, State, waiting};
use crate::api::Hold;
use crate::engine::once::{Patience, Trouble, refused};
use crate::error::{Error, Result};

impl LockLine {
    /// Tells the callers of a batch what has become of their calls. It was `sent` first at that time, and the answer
    /// may be that of a repetition if it is `doubtful`.
    pub(super) fn arrive(
        &self,
        batch: Batch,
        answers: Vec<StepAnswer>,
        listeners: Option<u64>,
        sent: Instant,
        confirmed: bool,
        doubtful: bool,
    ) {
        let mut replies: Vec<(Option<Reply>, Result<Outcome>, Step)> = Vec::new();
        let mut state = self.lock();
        if let Some(listeners) = listeners {
            let own = u64::from(state.waiting.listening.is_confirmed());
            state.waiting.others = listeners > own;
        }
        let mut answers = answers.into_iter();
        for (call, answer) in batch.calls.into_iter().zip(&mut answers) {
            let outcome = self.settle(&mut state, &call.step, answer, sent, doubtful);
            replies.push((call.reply, outcome, call.step));
        }
        if let (Some((ticket, claim)), Some(answer)) = (batch.turn, answers.next()) {
            if let StepAnswer::Busy(ttl) = answer {
                state.waiting.not_kept();
                if let Some(first) = state.waiting.first() {
                    first.asked = None;
                }
                if let Some(ttl) = ttl {
                    // A millisecond that Redis rounds off, and the way there.
                    let grace = std::time::Duration::from_millis(1);
                    self.set_alarm(&mut state, Instant::now() + ttl + grace);
                }
            } else {
                let step = Step::Acquire(claim);
                let outcome = self.settle(&mut state, &step, answer, sent, doubtful);
                let reply = state.waiting.take_served(ticket);
                replies.push((reply, outcome, step));
            }
        }
        if !state.holds.is_held() {
            state.waiting.not_kept();
        }
        self.listen_as_needed(&mut state, confirmed);
        drop(state);

        for (reply, outcome, step) in replies {
            self.tell(reply, outcome, step);
        }
    }

    /// Notes what an answer means for the holds.
    fn settle(
        &self,
        state: &mut State,
        step: &Step,
        answer: StepAnswer,
        sent: Instant,
        doubtful: bool,
    ) -> Result<Outcome> {
        match (step, answer) {
            (Step::Acquire(claim), StepAnswer::Taken(count, token)) => {
                Ok(Outcome::Taken(self.taken(state, claim, count, token, sent)))
            }
            (Step::Release(owner), StepAnswer::Released(left)) => {
                let lease = state.holds.term_below(owner);
                let lease = lease.map(|term| term.lease(self.core.config.lock_watchdog_timeout));
                let until = lease.and_then(|lease| sent.checked_add(lease));
                state.holds.released(owner, left, until);
                if left == 0 {
                    state.waiting.look_anew();
                }
                Ok(Outcome::Released)
            }
            // The first copy has done it.
            (Step::Release(owner), StepAnswer::NotHeld)
                if doubtful && state.holds.count(owner) == 1 =>
            {
                state.holds.released(owner, 0, None);
                Ok(Outcome::Released)
            }
            (Step::Release(owner), StepAnswer::NotHeld) => {
                self.core.renewals.forget(self.keys.object(), owner);
                state.holds.lost(owner);
                Err(Error::NotHeld {
                    name: self.name().to_owned(),
                    owner: owner.to_string(),
                })
            }
            (Step::Force, StepAnswer::Forced(forced)) => {
                for owner in state.holds.all_lost() {
                    self.core.renewals.forget(self.keys.object(), &owner);
                }
                state.waiting.look_anew();
                Ok(Outcome::Forced(forced))
            }
            (_, StepAnswer::Busy(_)) => Ok(Outcome::Busy),
            (_, StepAnswer::Refused(error)) => Err(refused(self.name(), &calls::refusal(&error))),
            (step, answer) => Err(Error::Server {
                name: self.name().to_owned(),
                detail: format!("unexpected answer {answer:?} to {}", step.name()),
            }),
        }
    }

    fn taken(
        &self,
        state: &mut State,
        claim: &Claim,
        count: u32,
        token: i64,
        sent: Instant,
    ) -> Hold {
        let lease = claim.term.lease(self.core.config.lock_watchdog_timeout);
        let until = sent.checked_add(lease);
        let lease = state.holds.taken(&claim.owner, count, claim.term, until);
        state.waiting.kept(Instant::now());
        let (key, owner) = (self.keys.object(), &claim.owner);
        if state.holds.is_watched(owner)
            && let Some(line) = self.itself.upgrade()
        {
            line.core.watch(self.kind.renewal, key, owner, &lease);
        }
        let token = claim.fenced.then(|| token.unsigned_abs());
        Hold { lease, token }
    }

    fn tell(&self, reply: Option<Reply>, outcome: Result<Outcome>, step: Step) {
        let granted = matches!(outcome, Ok(Outcome::Taken(_)));
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
            && granted
            && let Some(owner) = step.owner()
        {
            self.give_back(owner);
        }
    }

    /// Queues the release of a lock that was granted to a caller who has gone.
    fn give_back(&self, owner: &Arc<str>) {
        let mut state = self.lock();
        state.queue.push_back(Queued::Call(Call {
            step: Step::Release(Arc::clone(owner)),
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
                None => owed |= !matches!(call.step, Step::Acquire(_)),
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
        if told && !trouble.doubtful {
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
