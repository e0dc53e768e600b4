//! Who is told what: when a batch has been answered or refused, and while it is not.

use tokio::time::Instant;

use super::{Line, Queued, tell_all};
use crate::engine::batch::{Batch, Call, Operation, Step, StepResult};
use crate::engine::nudge;
use crate::engine::once::{Patience, Trouble};
use crate::engine::turns::Verdict;
use crate::error::Error;

/// How things stood when a batch was sent, and what the server said to its report.
pub(super) struct Sent {
    pub(super) at: Instant,
    /// Messages were heard.
    pub(super) confirmed: bool,
    pub(super) verdict: Option<Verdict>,
}

impl Line {
    /// Tells the callers of a batch what has become of their calls.
    pub(super) fn arrive(
        &self,
        mut batch: Batch,
        results: &[StepResult],
        available: i64,
        listeners: Option<u64>,
        sent: Sent,
    ) {
        let claim = std::mem::take(&mut batch.claim);
        let claimed = batch.before.len()..batch.before.len() + claim.runs.len();
        let served: Vec<usize> = results[claimed.clone()]
            .iter()
            .map(|result| match result {
                StepResult::Number(count) => usize::try_from(*count).unwrap_or(0),
                StepResult::OutOfRange(..) | StepResult::Missing => 0,
            })
            .collect();
        let adds = batch.adds();
        let now = Instant::now();

        let (granted, nudge, unheard) = {
            let mut state = self.lock();
            let before = std::mem::replace(&mut state.available, available);
            let found = std::mem::take(&mut state.looking_unprompted) && available > before;
            let granted = state.waiters.serve(&claim, &served, now);
            let held = sent.verdict.is_some_and(|verdict| verdict.pause.is_some());
            if !held && !claim.is_empty() && !state.waiters.is_empty() {
                if claim.is_satisfied(&served) {
                    state.look = true;
                } else if !state.look && state.waiters.somebody_fits(available, now) {
                    // A message that came meanwhile would be a reason to ask without this knowledge.
                    state.look = true;
                    state.free = Some(available);
                }
            }
            self.listen_if_needed(&mut state, sent.confirmed);
            let own = u64::from(state.listening.is_confirmed());
            let others = listeners.map(|listeners| listeners.saturating_sub(own));
            if let Some(others) = others {
                state.turns.seen(others, now);
            }
            if let Some(report) = batch.report {
                let taken: u64 = granted.iter().map(|(permits, _)| u64::from(*permits)).sum();
                let waiting = report.want > taken;
                let asked = !claim.is_empty();
                let held = state
                    .turns
                    .answered(sent.verdict, asked, waiting, sent.at, now);
                if let Some(until) = held {
                    self.look_again_at(until);
                }
            }
            let left = available > 0 && (adds || found);
            let unheard = left && !found && others == Some(0);
            let known = (available < i64::MAX).then_some(available);
            // An answer out of the record does not know how many listen.
            let asleep = left && !unheard;
            let nudge = asleep && state.leavings.leave(known, found);
            if asleep && !nudge {
                self.left_more.notify_one();
            }
            (granted, nudge, unheard)
        };

        let mut surplus: Vec<u32> = Vec::new();
        for (permits, waiter) in granted {
            let taken = waiter.is_some_and(|waiter| waiter.reply.send(Ok(1)).is_ok());
            if !taken {
                surplus.push(permits);
            }
        }
        let results = results[..claimed.start]
            .iter()
            .chain(&results[claimed.end..]);
        for (step, result) in batch.into_steps().zip(results) {
            self.answer(step, *result, &mut surplus);
        }
        self.give_back(&surplus);
        if unheard {
            self.core.nobody_has_heard(&self.keys);
        }
        if nudge && let Some(line) = self.itself.upgrade() {
            nudge::start(&line, line.next_series());
        }
    }

    fn answer(&self, step: Step, result: StepResult, surplus: &mut Vec<u32>) {
        for (call, answer) in step.answers(self.name(), result) {
            let acquired = match (call.operation, &answer) {
                (Operation::TryAcquire(permits), Ok(1)) => Some(permits),
                _ => None,
            };
            match call.reply {
                Some(reply) => {
                    if reply.send(answer).is_err() {
                        surplus.extend(acquired);
                    }
                }
                None => {
                    surplus.extend(acquired);
                    if let Err(error) = answer {
                        tracing::error!(%error, operation = call.operation.name(), "not carried out");
                    }
                }
            }
        }
    }

    /// Queues the release of permits that were granted to callers who have gone. It comes before all that is
    /// queued: to those callers it is as if the permits had not been taken.
    fn give_back(&self, surplus: &[u32]) {
        if surplus.is_empty() {
            return;
        }
        let since = Instant::now();
        let mut state = self.lock();
        state.queue.put_back(surplus.iter().map(|permits| Call {
            operation: Operation::Release(*permits),
            reply: None,
            since,
        }));
        self.note_busy(&mut state);
    }

    /// Nothing of `batch` has taken effect, because of `error`.
    pub(super) fn fail(&self, batch: Batch, error: &Error) {
        let mut waiters = Vec::new();
        if !batch.claim.is_empty() {
            // What stops the first ones stops all.
            let mut state = self.lock();
            waiters = state.waiters.take_all();
            self.leave_if_unneeded(&mut state);
        }
        tell_all(waiters, error);
        for call in batch.into_steps().flat_map(|step| step.calls) {
            match call.reply {
                Some(reply) => {
                    let _ = reply.send(Err(error.clone()));
                }
                None => {
                    tracing::error!(%error, operation = call.operation.name(), "not carried out");
                }
            }
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
                Some(_) if due <= now => {
                    let error = trouble.error(self.name(), call.operation.name(), call.since);
                    if let Some(reply) = call.reply.take() {
                        let _ = reply.send(Err(error));
                    }
                    told = true;
                    // What was never sent must not happen after this; the rest is a matter of its answer.
                    return trouble.doubtful;
                }
                Some(_) => later(due),
                // An acquisition is owed to nobody; a release is.
                None => owed |= !matches!(call.operation, Operation::TryAcquire(_)),
            }
            true
        });
        let (overdue, due) = self.lock().waiters.take_overdue(now, window);
        let untouched = trouble.untouched();
        for (ticket, waiter) in overdue {
            let since = waiter.since;
            let asked = batch.claim.may_include(ticket);
            let trouble = if asked { trouble } else { &untouched };
            let error = trouble.error(self.name(), "acquire", since);
            let _ = waiter.reply.send(Err(error));
        }
        if let Some(due) = due {
            later(due);
        }
        self.tell_queued(trouble);
        if told && !trouble.doubtful {
            return Patience::Nobody;
        }
        let waiting = !batch.claim.is_empty() && !self.lock().waiters.is_empty();
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
        let mut state = self.lock();
        state.queue.sweep(|queued| match queued {
            Queued::Call(call) if overdue(call.since) => {
                let error = untouched.error(self.keys.name(), call.operation.name(), call.since);
                // A release that its caller has been told did not happen must not happen.
                match call.reply.take() {
                    Some(reply) => drop(reply.send(Err(error))),
                    None if call.operation.is_owed() => return true,
                    None => {
                        tracing::error!(%error, operation = call.operation.name(), "not carried out");
                    }
                }
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
