//! Who is told what while a batch is not answered, and when it will not be.

use std::time::Duration;

use tokio::time::Instant;

use super::calls::Step;
use super::round::Batch;
use super::waiting::{Turn, Waiter};
use super::{LockLine, Queued};
use crate::engine::in_hand::Carries;
use crate::engine::log;
use crate::engine::once::{Patience, RUNTIME_ENDED, Trouble, refused_in_doubt};
use crate::error::Error;

impl LockLine {
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
            if unanswered.is_some() {
                state.waiting.doubt(&batch.turns);
            }
            let waiters = state.waiting.waiters.take_all();
            self.listen_as_needed(&mut state, true);
            drop(state);
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
            let left = |turn: &Turn| state.waiting.waiters.get(turn.ticket).is_none();
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
        let (overdue, due) = state.waiting.waiters.overdue(began, trouble.now, window);
        let overdue = overdue.into_iter().filter_map(|(ticket, since)| {
            let named = turns.iter().any(|turn| turn.ticket == ticket);
            Some((state.waiting.waiters.remove(ticket)?, named, since))
        });
        let overdue: Vec<_> = overdue.collect();
        if state.waiting.is_empty() {
            self.listen_as_needed(&mut state, true);
        }
        drop(state);
        for (waiter, named, since) in overdue {
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
