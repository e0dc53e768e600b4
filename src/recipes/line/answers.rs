//! Who is told what: when a batch has been answered or refused, and while it is not.

use tokio::time::Instant;

use super::super::answer::Outcome;
use super::super::batch::{Batch, Call, Operation};
use super::waiting::Done;
use super::{Line, tell_all};
use crate::api::{Held, Holder};
use crate::engine::once::{Patience, Trouble};
use crate::error::Error;
use crate::transport::Refusal;

impl Line {
    /// Tells the callers of a batch what has become of their calls.
    pub(super) fn arrive(&self, batch: Batch, outcome: Outcome, sent: Instant, confirmed: bool) {
        let ids: Vec<_> = batch.ids().collect();
        let lease = self.settings.lease();
        let until = lease.and_then(|lease| sent.checked_add(lease));
        let granted = outcome.served + outcome.tried;
        // First those who waited, then those who tried, without a gap between them.
        let mut served = ids
            .into_iter()
            .take(granted)
            .enumerate()
            .map(|(place, id)| Held {
                id,
                slot: outcome.slots.get(place).copied(),
                until,
            });

        let waiters = {
            let mut state = self.lock();
            state.locked = None;
            let waiters = state
                .waiters
                .serve(&batch.claim, outcome.served, outcome.now);
            if batch.alone.is_none() {
                let named = batch.claim.len();
                state.in_line = batch.claim.waiting > outcome.served;
                state.look |= outcome.more;
                state.look |= outcome.served == named && !state.waiters.is_empty();
                if !state.waiters.is_empty() {
                    self.set_alarm(&mut state, self.next_look(outcome.first_end));
                }
            }
            state.look |= outcome.cleared > 0;
            self.listen_if_needed(&mut state, confirmed);
            waiters
        };

        let mut surplus = Vec::new();
        for (waiter, held) in waiters.into_iter().zip(&mut served) {
            let id = held.id.clone();
            let done = Ok(Done::Held(Some(held)));
            if waiter.is_none_or(|waiter| waiter.reply.send(done).is_err()) {
                surplus.push(id);
            }
        }

        let failure = outcome.failure.as_ref();
        let failure = failure.map(|failure| match failure.strip_prefix("unreadable ") {
            Some(found) => Error::NotANumber {
                name: self.names.keys[2].to_string(),
                found: found.to_owned(),
            },
            None => self.refused(&Refusal::from_text(failure)),
        });
        let mut again = Vec::new();
        for call in batch.tries {
            let Some(held) = served.next() else {
                if failure.is_none() && outcome.more {
                    again.push(call);
                } else {
                    answer(call, failure.clone().map_or(Ok(Done::Held(None)), Err));
                }
                continue;
            };
            let id = held.id.clone();
            let done = Ok(Done::Held(Some(held)));
            if call.reply.is_none_or(|reply| reply.send(done).is_err()) {
                surplus.push(id);
            }
        }
        for (call, was) in batch.releases.into_iter().zip(outcome.released) {
            answer(call, Ok(Done::Was(was)));
        }
        for (call, was) in batch.refreshes.into_iter().zip(outcome.refreshed) {
            if let Operation::Refresh(id, Some(lease)) = &call.operation {
                self.refreshed(id, lease, was, until);
            }
            answer(call, Ok(Done::Was(was)));
        }
        if let Some(call) = batch.alone {
            answer(call, Ok(Done::Count(outcome.cleared)));
        }
        self.give_back(surplus, again);
        if let Some(error) = failure {
            let mut state = self.lock();
            let waiters = state.waiters.take_all();
            self.leave_if_unneeded(&mut state);
            drop(state);
            tell_all(waiters, &error);
        }
    }

    pub(super) fn arrive_holders(&self, batch: Batch, holders: Vec<Holder>) {
        self.lock().locked = None;
        if let Some(call) = batch.alone {
            answer(call, Ok(Done::Holders(holders)));
        }
    }

    /// Queues the release of what was granted to callers who have gone, and calls that are made once more.
    fn give_back(&self, surplus: Vec<std::sync::Arc<str>>, again: Vec<Call>) {
        if surplus.is_empty() && again.is_empty() {
            return;
        }
        let since = Instant::now();
        let mut state = self.lock();
        for call in again.into_iter().rev() {
            state.queue.push_front(call);
        }
        for id in surplus {
            state.queue.push_back(Call {
                operation: Operation::Release(id),
                reply: None,
                since,
            });
        }
        self.note_busy(&mut state);
    }

    /// Nothing of `batch` has taken effect, because of `error`.
    pub(super) fn fail(&self, batch: Batch, error: &Error) {
        let waiters = {
            let mut state = self.lock();
            state.refreshing &= batch.refreshes.is_empty();
            // What stops the first ones stops all.
            let stopped = batch.claim.len() > 0;
            let waiters = stopped.then(|| state.waiters.take_all());
            // There is nobody of ours in the line, or he could not be put there.
            state.in_line &= !state.waiters.is_empty();
            self.leave_if_unneeded(&mut state);
            waiters
        };
        tell_all(waiters.unwrap_or_default(), error);
        for call in batch.into_calls() {
            answer(call, Err(error.clone()));
        }
    }

    /// Tells those callers whose retry window has passed; says how long the others wait for `batch`.
    pub(super) fn tell_impatient(&self, trouble: &Trouble<'_>, batch: &mut Batch) -> Patience {
        let window = self.core.config.retry_window;
        let now = trouble.now;
        let mut owed = false;
        let mut told = false;
        let mut next: Option<Instant> = None;
        let mut later = |due: Instant| next = Some(next.map_or(due, |next| next.min(due)));
        batch.retain_calls(|call| {
            let due = call.since + window;
            call.forget_caller_who_has_gone();
            match &call.reply {
                Some(_) if trouble.is_over(due) => {
                    self.tell_trouble(call, trouble);
                    told = true;
                    // What was never sent must not happen after this; the rest is a matter of its answer.
                    return trouble.doubtful;
                }
                Some(_) => later(due),
                None => match &call.operation {
                    Operation::Release(_) => owed = true,
                    Operation::Refresh(_, Some(lease)) if !lease.is_lost() => owed = true,
                    Operation::Refresh(_, Some(_)) => {
                        self.lock().refreshing = false;
                        told = true;
                        return trouble.doubtful;
                    }
                    _ => {}
                },
            }
            true
        });
        let (overdue, due) = self.lock().waiters.take_overdue(now, window);
        let untouched = trouble.untouched();
        for (ticket, waiter) in overdue {
            let Some(since) = waiter.asked else { continue };
            let asked = batch.claim.tickets().any(|named| named == ticket);
            let trouble = if asked { trouble } else { &untouched };
            let _ = waiter
                .reply
                .send(Err(trouble.error(self.name(), "acquire", since)));
        }
        if let Some(due) = due {
            later(due);
        }
        self.tell_queued(trouble);
        if told && !trouble.doubtful {
            return Patience::Nobody;
        }
        let waiting = batch.claim.len() > 0 && !self.lock().waiters.is_empty();
        match next {
            Some(next) => Patience::Until(next),
            None if owed || waiting => Patience::Forever,
            None => Patience::Nobody,
        }
    }

    /// The same for those who wait behind: their calls have not been sent at all.
    fn tell_queued(&self, trouble: &Trouble<'_>) {
        let window = self.core.config.retry_window;
        let untouched = trouble.untouched();
        let mut over = Vec::new();
        {
            let mut state = self.lock();
            for mut call in std::mem::take(&mut state.queue) {
                call.forget_caller_who_has_gone();
                // A release that its caller has been told did not happen must not happen.
                if call.since + window <= trouble.now && call.reply.is_some() {
                    over.push(call);
                } else {
                    state.queue.push_back(call);
                }
            }
        }
        for mut call in over {
            self.tell_trouble(&mut call, &untouched);
        }
    }

    pub(super) fn tell_trouble(&self, call: &mut Call, trouble: &Trouble<'_>) {
        let error = trouble.error(self.name(), call.operation.name(), call.since);
        if let Some(reply) = call.reply.take() {
            let _ = reply.send(Err(error));
        }
    }
}

fn answer(call: Call, done: Result<Done, Error>) {
    match (call.reply, done) {
        (Some(reply), done) => {
            let _ = reply.send(done);
        }
        (None, Err(error)) => {
            tracing::error!(%error, call = %call.operation, "not carried out");
        }
        (None, Ok(_)) => {}
    }
}
