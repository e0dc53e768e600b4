//! Who is told what: when a batch has been answered or refused, and while it is not.

use tokio::time::Instant;

use super::{Line, Queued, tell_all};
use crate::engine::batch::{Batch, Call, Operation, Step, StepResult};
use crate::engine::claim::Claim;
use crate::engine::in_hand::Carries;
use crate::engine::once::{Patience, RUNTIME_ENDED, Trouble};
use crate::engine::turns::Verdict;
use crate::engine::waiters::{Served, Waiter};
use crate::engine::{log, nudge};
use crate::error::{Error, Result};
use crate::transport::Reason;

/// How things stood when a batch was sent, and what the server said to its report.
pub(super) struct Sent {
    pub(super) at: Instant,
    /// Messages were heard.
    pub(super) confirmed: bool,
    pub(super) verdict: Option<Verdict>,
    /// So many permits are on record, where calls were about such.
    pub(super) held: Option<u64>,
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
        let claimed = batch.before.len()..batch.before.len() + claim.len();
        let served: Vec<usize> = results[claimed.clone()]
            .iter()
            .map(|result| match result {
                StepResult::Number(count) => usize::try_from(*count).unwrap_or(0),
                StepResult::OutOfRange(..) | StepResult::Missing => 0,
            })
            .collect();
        let adds = batch.adds();
        let now = Instant::now();
        let entry = batch.entry.take();
        let granted_as = |recorded: bool| match &entry {
            Some(entry) if recorded => entry.life.cast_signed(),
            _ => 1,
        };
        let of_steps = || (results[..claimed.start].iter()).chain(&results[claimed.end..]);

        let (Served { granted, refused }, nudge, unheard, mut recorded) = {
            let mut state = self.lock();
            let before = std::mem::replace(&mut state.available, available);
            let found = std::mem::take(&mut state.looking_unprompted) && available > before;
            let served_now = (state.waiters).serve(&claim, &served, batch.departed, now);
            let recorded = entry.as_ref().map(|entry| {
                let (life, steps) = (entry.life, batch.steps().zip(of_steps()));
                self.balance(&mut state, life, sent.held, steps, &served_now.granted)
            });
            let turns = match sent.verdict {
                Some(Verdict::Seen(seen)) => Some(seen),
                _ => None,
            };
            let held = turns.is_some_and(|turns| turns.held);
            if !claim.runs.is_empty() && !state.waiters.is_empty() {
                let satisfied = claim.is_satisfied(&served);
                let fits = !satisfied && state.waiters.somebody_fits(available, now);
                if fits {
                    state.free = Some(available);
                }
                let more = satisfied || fits && !claim.is_in_vain(&served, available);
                state.look |= more && !held;
            }
            let own = u64::from(state.listening.is_confirmed());
            let others = listeners.map(|listeners| listeners.saturating_sub(own));
            if let Some(others) = others {
                state.turns.seen(others, now);
            }
            let reported = batch.report.is_some() || state.turns.knows_enough(now);
            self.listen_if_needed(&mut state, sent.confirmed && reported);
            if matches!(sent.verdict, Some(Verdict::Off)) {
                // Who does not take part is given what others like it get.
                self.leave_turns();
            }
            if let Some(report) = batch.report {
                let waiting = report.waiting > claim.served_in_line(&served);
                let asked = !claim.runs.is_empty();
                state
                    .turns
                    .answered(sent.verdict, asked, waiting, sent.at, now);
                state.look |= state.turns.is_called();
            }
            let left = available > 0 && (adds || found);
            // Clients of ours that wait take what is left: whoever else is to have it was not there.
            let no_strangers = turns.is_some_and(|turns| turns.strangers == 0);
            let unheard = left && !found && (others == Some(0) || no_strangers);
            let known = (available < i64::MAX).then_some(available);
            // An answer out of the record does not know how many listen.
            let asleep = left && !unheard && !no_strangers;
            let nudge = asleep && state.leavings.leave(known, found);
            if asleep && !nudge {
                self.left_more.notify_one();
            }
            self.unlock(state);
            (served_now, nudge, unheard, recorded)
        };

        // Before anybody gets something that has been lost.
        if let Some(recorded) = &mut recorded {
            recorded.tell();
        }
        let mut surplus: Vec<Operation> = Vec::new();
        surplus.extend(recorded.and_then(|recorded| recorded.excess));
        for (permits, recorded, waiter) in granted {
            let granted = granted_as(recorded);
            let taken = waiter.is_some_and(|waiter| waiter.reply.send(Ok(granted)).is_ok());
            if !taken {
                surplus.push(Operation::undoing(permits, granted, recorded));
            }
        }
        for waiter in refused {
            let answer = if waiter.in_doubt {
                Err(self.never_answered(&waiter, now))
            } else {
                Ok(0)
            };
            let _ = waiter.reply.send(answer);
        }
        for (step, result) in batch.into_steps().zip(of_steps()) {
            let granted = granted_as(step.operation.is_recorded());
            self.answer(step, *result, granted, &mut surplus);
        }
        self.give_back(&surplus);
        if unheard {
            self.core.nobody_has_heard(&self.keys);
        }
        if nudge && let Some(line) = self.itself.upgrade() {
            nudge::start(&line, line.next_series());
        }
    }

    /// Who gets permits is told `granted`.
    fn answer(&self, step: Step, result: StepResult, granted: i64, surplus: &mut Vec<Operation>) {
        for (call, answer) in step.answers(self.name(), result) {
            let (answer, acquired) = match (call.operation, answer) {
                (Operation::TryAcquire(permits), Ok(1)) => (Ok(granted), Some((permits, false))),
                (Operation::TryTake(permits), Ok(1)) => (Ok(granted), Some((permits, true))),
                (_, answer) => (answer, None),
            };
            if !tell(call, answer)
                && let Some((permits, recorded)) = acquired
            {
                surplus.push(Operation::undoing(permits, granted, recorded));
            }
        }
    }

    /// Queues the release of permits that were granted to callers who have gone. It comes before all that is
    /// queued: to those callers it is as if the permits had not been taken.
    fn give_back(&self, surplus: &[Operation]) {
        if surplus.is_empty() {
            return;
        }
        let since = Instant::now();
        let mut state = self.lock();
        state.queue.put_back(surplus.iter().map(|operation| Call {
            operation: *operation,
            reply: None,
            since,
        }));
        self.note_busy(&mut state);
    }

    /// Nothing of `batch` has taken effect, because of `error`.
    pub(super) fn fail(&self, batch: Batch, error: &Error) {
        let mut waiters = Vec::new();
        if !batch.claim.is_empty() {
            let mut state = self.lock();
            waiters = state.waiters.take_failed(&batch.claim);
            self.leave_if_unneeded(&mut state);
        }
        tell_all(waiters, error);
        let spent: Vec<_> = batch.operations().collect();
        self.lock().spend(&spent);
        for call in batch.into_steps().flat_map(|step| step.calls) {
            tell(call, Err(error.clone()));
        }
    }

    /// Tells those callers whose retry window has passed; says how long the others wait for `batch`.
    pub(super) fn tell_impatient(&self, trouble: &Trouble<'_>, batch: &mut Batch) -> Patience {
        let window = self.core.config.retry_window;
        let mut owed = false;
        let mut told = false;
        let mut next: Option<Instant> = None;
        let mut later = |due: Instant| next = Some(next.map_or(due, |next| next.min(due)));
        let mut spent = Vec::new();
        batch.retain_calls(|call| {
            let due = call.since + window;
            if call.is_pointless() {
                told |= !trouble.doubtful;
                return trouble.doubtful;
            }
            match &call.reply {
                Some(_) if trouble.is_over(due) => {
                    let error = trouble.error(self.name(), call.operation.name(), call.since);
                    if let Some(reply) = call.reply.take() {
                        let _ = reply.send(Err(error));
                    }
                    told = true;
                    if !trouble.doubtful {
                        spent.push(call.operation);
                    }
                    // What was never sent must not happen after this; the rest is a matter of its answer.
                    return trouble.doubtful;
                }
                Some(_) => later(due),
                None => owed = true,
            }
            true
        });
        self.lock().spend(&spent);
        if let Some(due) = self.tell_waiters(trouble, &batch.claim, batch.departed) {
            later(due);
        }
        if let Some(due) = self.tell_calls(trouble) {
            later(due);
        }
        told |= self.lock().waiters.somebody_has_left(&batch.claim);
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

    /// The same for those who stand in line or are at the end of their wait, of whom `claim` names some; when the next
    /// one's time is up.
    fn tell_waiters(
        &self,
        trouble: &Trouble<'_>,
        claim: &Claim,
        began: Instant,
    ) -> Option<Instant> {
        let window = self.core.config.retry_window;
        let (overdue, due) = self.lock().waiters.take_overdue(began, trouble.now, window);
        for (ticket, waiter) in overdue {
            let known = Trouble {
                doubtful: waiter.in_doubt || trouble.doubtful && claim.names(ticket),
                ..*trouble
            };
            let error = known.error(self.name(), "acquire", waiter.want.since);
            let _ = waiter.reply.send(Err(error));
        }
        due
    }

    /// The same for all who wait behind: their calls have not been sent at all.
    pub(super) fn tell_queued(&self, trouble: &Trouble<'_>, began: Instant) {
        self.tell_waiters(trouble, &Claim::default(), began);
        self.tell_calls(trouble);
    }

    /// The server says no to a caller one of whose questions has never been answered.
    fn never_answered(&self, waiter: &Waiter, now: Instant) -> Error {
        let trouble = Trouble {
            doubtful: true,
            reason: Reason::Unreachable,
            last: false,
            detail: "an earlier question was never answered",
            now,
        };
        trouble.error(self.name(), "acquire", waiter.want.since)
    }

    /// The same for the calls that are queued. When the next one's time is up.
    fn tell_calls(&self, trouble: &Trouble<'_>) -> Option<Instant> {
        let window = self.core.config.retry_window;
        let untouched = trouble.untouched();
        let mut over = Vec::new();
        let mut next: Option<Instant> = None;
        self.lock().queue.sweep(|queued| {
            let since = match &queued {
                // A release that its caller has been told did not happen must not happen.
                Queued::Call(call) => call.reply.as_ref().map(|_| call.since),
                Queued::Command(command) => Some(command.since()),
            };
            if let Some(since) = since {
                if since + window <= trouble.now {
                    over.push(queued);
                    return None;
                }
                next = Some(next.map_or(since + window, |next| next.min(since + window)));
            }
            Some(queued)
        });
        for queued in over {
            match queued {
                Queued::Call(call) => {
                    self.lock().spend(&[call.operation]);
                    let operation = call.operation.name();
                    let error = untouched.error(self.keys.name(), operation, call.since);
                    if let Some(reply) = call.reply {
                        let _ = reply.send(Err(error));
                    }
                }
                Queued::Command(mut command) => command.give_up(self.keys.name(), &untouched),
            }
        }
        next
    }
}

impl Carries for Line {
    type Batch = Batch;

    fn lose(&self, mut batch: Batch) {
        let (name, calls) = (self.name(), batch.changes());
        log::lost(name, &calls);
        let trouble = Trouble::unknown(RUNTIME_ENDED);
        let claim = std::mem::take(&mut batch.claim);
        let waiters = self.lock().waiters.take_named(&claim);
        for waiter in waiters {
            let error = trouble.error(name, "acquire", waiter.want.since);
            let _ = waiter.reply.send(Err(error));
        }
        for call in batch.into_steps().flat_map(|step| step.calls) {
            let error = trouble.error(name, call.operation.name(), call.since);
            if let Some(reply) = call.reply {
                let _ = reply.send(Err(error));
            }
        }
    }
}

/// Tells the caller of `call`; where there is none, the log says what was not carried out. Whether it was told.
fn tell(call: Call, answer: Result<i64>) -> bool {
    let answer = match call.reply {
        Some(reply) => match reply.send(answer) {
            Ok(()) => return true,
            Err(answer) => answer,
        },
        None => answer,
    };
    if let Err(error) = answer
        && call.operation.is_owed()
    {
        tracing::error!(%error, call = %call.operation, "not carried out");
    }
    false
}
