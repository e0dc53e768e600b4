//! Who is told what: when a batch has been answered or refused, and while it is not.

use tokio::time::Instant;

use super::super::answer::{Outcome, Page};
use super::super::batch::{Batch, Call, Operation};
use super::waiting::{Claim, Done, Waiter};
use super::{Line, State, tell_all};
use crate::api::Held;
use crate::clock::Moment;
use crate::engine::once::{Patience, Trouble};
use crate::error::Error;

impl Line {
    /// Tells the callers of a batch what has become of their calls.
    pub(super) fn arrive(
        &self,
        batch: Batch,
        outcome: Outcome,
        failure: Option<Error>,
        sent: Moment,
        confirmed: bool,
    ) {
        let until = |lasts| {
            let lease = self.settings.sure_lease(lasts)?;
            sent.checked_add(lease)
        };
        let granted = outcome.served + outcome.tried;
        let ids: Vec<_> = batch.ids().zip(batch.times(outcome.served)).collect();
        // First those who waited, then those who tried, without a gap between them.
        let mut served = ids
            .into_iter()
            .take(granted)
            .enumerate()
            .map(|(place, (id, lasts))| Held {
                id,
                slot: outcome.slots.get(place).copied(),
                until: until(lasts),
            });

        // A try waits for a peer's lock as long as those who wait do for the next look.
        let check = self.settings.check_interval;
        let patient = |call: &Call| sent.timer().saturating_duration_since(call.since) < check;
        let trying = match outcome.locked {
            Some(_) if self.settings.lock.is_some() => {
                batch.tries.iter().filter(|call| patient(call)).count()
            }
            _ => 0,
        };
        let (waiters, in_vain) = {
            let mut state = self.lock();
            let told = self.serve(&mut state, &batch.claim, &outcome);
            state.round_trip = sent.timer().elapsed().max(state.round_trip * 7 / 8);
            self.look_again(&mut state, &batch, &outcome, trying);
            self.listen_if_needed(&mut state, confirmed);
            told
        };
        for waiter in in_vain {
            let _ = waiter.reply.send(Ok(Done::Held(None)));
        }

        let mut surplus = Vec::new();
        for (waiter, held) in waiters.into_iter().zip(&mut served) {
            let id = held.id.clone();
            let done = Ok(Done::Held(Some(held)));
            if waiter.is_none_or(|waiter| waiter.reply.send(done).is_err()) {
                surplus.push(id);
            }
        }

        let mut again = Vec::new();
        for call in batch.tries {
            let Some(held) = served.next() else {
                if failure.is_none() && (outcome.more || trying > 0 && patient(&call)) {
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
            if let Some(id) = call.operation.released() {
                self.is_gone(id, "released while it was kept");
            }
            answer(call, Ok(Done::Was(was)));
        }
        for (call, was) in batch.refreshes.into_iter().zip(outcome.refreshed) {
            if let Operation::Refresh(id, lasts, _) = &call.operation {
                self.refreshed(id, was, until(*lasts));
            }
            answer(call, Ok(Done::Was(was)));
        }
        if let Some(call) = batch.alone {
            self.all_are_gone();
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

    /// Takes those out of the line who have been granted a permit, and those who have not for whom it was the last
    /// question.
    fn serve(
        &self,
        state: &mut State,
        claim: &Claim,
        outcome: &Outcome,
    ) -> (Vec<Option<Waiter>>, Vec<Waiter>) {
        let mut in_vain = Vec::new();
        let served = state.waiters.serve(claim, outcome.served, outcome.now);
        state.in_line = claim.waiting > outcome.served;
        let all_named_served = outcome.served == claim.len();
        if outcome.more || all_named_served {
            // There may be something left for those behind.
            state.look |= outcome.more || !state.waiters.is_empty();
        } else if outcome.failure.is_none() {
            in_vain = state.waiters.take_ended(claim);
        }
        (served, in_vain)
    }

    /// Sees to the next look of those who go on waiting.
    fn look_again(&self, state: &mut State, batch: &Batch, outcome: &Outcome, trying: usize) {
        state.alarm.tend = (outcome.again).and_then(|pause| Instant::now().checked_add(pause));
        if batch.claim.waiting > 0 || !batch.tries.is_empty() {
            let for_lock = self.note_lock(state, outcome, trying);
            if batch.claim.waiting > outcome.served {
                state.rank = outcome.rank;
                let (from, left) = (batch.ends_from, outcome.first_end);
                state.look |= state.ends.note(&self.settings, from, left);
            }
            if for_lock.is_some() || !state.waiters.is_empty() {
                let usual = self.usual_look(state);
                state.alarm.look = Some(for_lock.map_or(usual, |lock| lock.min(usual)));
            }
        }
        self.set_timer(state);
    }

    pub(super) fn arrive_holders(&self, batch: Batch, page: Page) {
        if let Some(call) = batch.alone {
            answer(call, Ok(Done::Holders(page)));
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
            if !call.is_wanted() {
                told = true;
                return trouble.doubtful;
            }
            match call.reply {
                Some(_) if trouble.is_over(due) => {
                    self.tell_trouble(call, trouble);
                    told = true;
                    // What was never sent must not happen after this; the rest is a matter of its answer.
                    return trouble.doubtful;
                }
                Some(_) => later(due),
                None => owed = true,
            }
            true
        });
        let (overdue, due) = {
            let mut state = self.lock();
            let (overdue, due) = state.waiters.take_overdue(now, window);
            // Nor for those who have gone, or are told now.
            told |= (batch.claim.tickets()).any(|ticket| !state.waiters.contains(ticket));
            (overdue, due)
        };
        for (ticket, waiter) in overdue {
            let Some(since) = waiter.asked else { continue };
            let named = batch.claim.tickets().any(|named| named == ticket);
            let trouble = Trouble {
                doubtful: named && trouble.doubtful || waiter.doubtful,
                ..*trouble
            };
            let error = trouble.error(self.name(), "acquire", since);
            let _ = waiter.reply.send(Err(error));
        }
        if let Some(due) = due {
            later(due);
        }
        if let Some(due) = self.tell_queued(trouble) {
            later(due);
        }
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

    /// The same for those who wait behind: their calls have not been sent at all. When the next one's time is up.
    fn tell_queued(&self, trouble: &Trouble<'_>) -> Option<Instant> {
        let window = self.core.config.retry_window;
        let untouched = trouble.untouched();
        let mut over = Vec::new();
        let mut forgotten = Vec::new();
        let next = {
            let mut state = self.lock();
            for mut call in std::mem::take(&mut state.queue) {
                if !call.is_wanted() {
                    forgotten.push(call);
                } else if call.since + window <= trouble.now && call.reply.is_some() {
                    // A release that its caller has been told did not happen must not happen.
                    over.push(call);
                } else {
                    state.queue.push_back(call);
                }
            }
            let with_caller = state.queue.iter().filter(|call| call.reply.is_some());
            with_caller.map(|call| call.since + window).min()
        };
        self.forget(forgotten);
        for mut call in over {
            self.tell_trouble(&mut call, &untouched);
        }
        next
    }

    /// Tells `waiters` that a question that names them was sent and not answered.
    pub(super) fn tell_unknown(&self, waiters: Vec<Waiter>, detail: &str) {
        let trouble = Trouble::unknown(detail);
        for waiter in waiters {
            let since = waiter.asked.unwrap_or(trouble.now);
            let error = trouble.error(self.name(), "acquire", since);
            let _ = waiter.reply.send(Err(error));
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
