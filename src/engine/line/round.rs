//! One round: what it takes along, and how that is carried out.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::time::Instant;

use super::alone::Alone;
use super::answers::Sent;
use super::{Line, Queue, Queued, State, Task};
use crate::engine::answer;
use crate::engine::batch::{Answer, Batch, Call, MOST_CALLS, StepResult};
use crate::engine::claim::Claim;
use crate::engine::coalesce::Outcome;
use crate::engine::command::Command;
use crate::engine::drive::{Driver, Round, Rounds};
use crate::engine::in_hand::InHand;
use crate::engine::log;
use crate::engine::once::{Ending, MOST_DISOWNED, Trouble, refused, unexpected_answer};
use crate::error::Error;
use crate::transport::{Reason, Refusal, Value};

impl Line {
    /// Takes what the next round carries out. Calls that give back what was lost meanwhile are not carried out: they are put
    /// into `lost`.
    fn depart(&self, state: &mut State, lost: &mut Vec<Call>) -> Option<Task> {
        let now = Instant::now();
        if matches!(state.queue.front(), Some(Queued::Command(_))) {
            let Some(Queued::Command(command)) = state.queue.pop_front() else {
                unreachable!("looked at just now");
            };
            return Some(Task::Command(command));
        }
        let live = state.live();
        let mut calls = VecDeque::new();
        while let Some(Queued::Call(_)) = state.queue.front() {
            if calls.len() == MOST_CALLS {
                break;
            }
            if let Some(Queued::Call(call)) = state.queue.pop_front() {
                match call.operation.off_record() {
                    Some((_, life)) if live != Some(life) => lost.push(call),
                    _ => calls.push_back(call),
                }
            }
        }
        let adds = calls.iter().any(|call: &Call| call.operation.adds());
        if adds && !state.waiters.is_empty() {
            state.look = true;
        }
        let answered = state.waiters.somebody_was_answered();
        let reports = state.turns.wants_report(now, answered);
        let tends = std::mem::take(&mut state.tends) && reports || state.is_awaited_in_vain();
        let mut claim = Claim::default();
        if state.look && !state.waiters.is_empty() {
            let free = state.free.take();
            claim = state.waiters.claim(now, free);
            state.look = false;
            state.looking_unprompted = std::mem::take(&mut state.unprompted);
        }
        state.asking = claim.last_in_line();
        state.sent_before = self.core.sent.count();
        state.coming = reports && state.asking.is_some();
        state.waiters.name_ending(&mut claim);
        let own = u64::from(self.is_counted(state));
        let report = reports.then(|| state.turns.report(state.waiters.report(&claim, now), own));
        let mut batch = Batch::form(&mut calls, claim, report, now);
        if batch.is_recorded() {
            batch.entry = Some(self.entry(state));
        }
        state.queue.put_back(calls.into_iter());
        (batch.len() > 0 || tends).then_some(Task::Batch(batch))
    }

    async fn carry_out_batch(&self, batch: Batch) {
        let mut batch = InHand::new(self, batch);
        let (doubtful, confirmed) = {
            let state = self.lock();
            (state.doubtful, state.listening.is_confirmed())
        };
        let at = Instant::now();
        let mut first = None;
        let lone_call = batch.lone_call().filter(|_| !doubtful);
        if let Some(permits) = lone_call {
            match self.carry_out_alone(&mut batch, permits).await {
                Alone::Answered(outcome) => {
                    self.arrive_alone(batch.take(), outcome, at, confirmed);
                    return;
                }
                Alone::NotDone => {}
                Alone::Settled => {
                    self.put_back(batch.take());
                    return;
                }
                Alone::Failed(failure) => first = Some(Err(failure)),
                Alone::Ended(ending) => first = Some(Ok(ending)),
            }
        }
        let mut request = batch.request(&self.keys, self.core.config.record_life(), doubtful);
        request.number(self.core.next_sequence());
        let (mut unanswered, mut disowned) = (false, 0);
        let ending = loop {
            let callers = |trouble: &Trouble<'_>| {
                unanswered |= trouble.doubtful;
                self.tell_impatient(trouble, &mut batch)
            };
            let ending = match first.take() {
                None => self.core.carry_out(&mut request, callers).await,
                Some(Err(failure)) => {
                    Box::pin(self.core.carry_on(&mut request, failure, callers)).await
                }
                Some(Ok(ending)) => ending,
            };
            let stale = match &ending {
                Ending::Answer(value) => Answer::read(value, &batch) == Some(Answer::Stale),
                _ => false,
            };
            if !stale || unanswered || disowned == MOST_DISOWNED {
                break ending;
            }
            self.core.disown_record(self.name(), &mut request);
            disowned += 1;
        };
        let answer = match ending {
            Ending::Answer(value) => match self.read(&value, &batch, doubtful) {
                Some(Answer::Done {
                    listeners,
                    available,
                    results,
                    verdict,
                    held,
                }) => {
                    self.lock().seen = Some(at);
                    let sent = Sent {
                        at,
                        confirmed,
                        verdict,
                        held,
                    };
                    self.arrive(batch.take(), &results, available, listeners, sent);
                    return;
                }
                Some(Answer::NotDone) => {
                    self.put_back(batch.take());
                    return;
                }
                Some(Answer::Gone) => {
                    let batch = batch.take();
                    if let Some(entry) = &batch.entry {
                        self.is_gone(entry.life);
                    }
                    self.put_back(batch);
                    return;
                }
                Some(Answer::Unreadable(found)) => Error::NotANumber {
                    name: self.name().to_owned(),
                    found,
                },
                Some(Answer::Refused(error)) => refused(self.name(), &Refusal::from_text(&error)),
                Some(Answer::Stale) | None => {
                    unexpected_answer(self.name(), &value, unanswered.then(|| at.elapsed()))
                }
            },
            Ending::Refused(refusal) => {
                // What one call needs may be forbidden while the others' needs are not.
                if refusal.reason == Reason::Permission && batch.parts() > 1 {
                    for single in batch.take().split() {
                        Box::pin(self.carry_out_batch(single)).await;
                    }
                    return;
                }
                refused(self.name(), &refusal)
            }
            Ending::ShutDown => self.shut_down(),
            Ending::NotSent => {
                self.put_back(batch.take());
                return;
            }
            Ending::Unknown => {
                let batch = batch.take();
                log::unknown(self.name(), &batch.changes());
                let calls: Vec<_> = batch.operations().collect();
                let mut state = self.lock();
                state.spend(&calls);
                state.waiters.note_doubt(&batch.claim);
                state.look = true;
                state.doubtful = true;
                return;
            }
        };
        let answer = Box::pin(self.core.explain(answer, || self.keys.typed())).await;
        self.fail(batch.take(), &answer);
    }

    /// Nothing of `batch` has been done: who still waits travels with the next one.
    fn put_back(&self, batch: Batch) {
        let mut state = self.lock();
        let calls: Vec<Call> = batch.into_steps().flat_map(|step| step.calls).collect();
        state.queue.put_back(calls.into_iter());
        state.look = true;
    }

    /// Reads the answer to `batch`, which was sent while an earlier one was `doubtful`.
    fn read(&self, value: &Value, batch: &Batch, doubtful: bool) -> Option<Answer> {
        let answer = Answer::read(value, batch);
        if doubtful && !matches!(answer, None | Some(Answer::Stale)) {
            // It is on record: nothing that was sent before can do harm any more.
            self.lock().doubtful = false;
        }
        answer
    }

    /// A lone call has been answered.
    fn arrive_alone(&self, batch: Batch, outcome: Outcome, at: Instant, confirmed: bool) {
        self.lock().seen = outcome.available.map(|_| at);
        let sent = Sent {
            at,
            confirmed,
            verdict: None,
            held: None,
        };
        let result = [StepResult::Number(outcome.done.into())];
        // Where it is not known, any number of permits may be free.
        let available = outcome.available.unwrap_or(i64::MAX);
        self.arrive(batch, &result, available, outcome.listeners, sent);
    }

    async fn carry_out_command(&self, command: Command) {
        let began = Instant::now();
        let others = |trouble: &Trouble<'_>| self.tell_queued(trouble, began);
        if !self
            .core
            .carry_out_command(&self.keys, command, others)
            .await
        {
            self.lock().doubtful = true;
        }
    }
}

impl Rounds for Line {
    fn round(self: Arc<Self>) -> Round {
        let runtime = self.core.runtime.clone();
        let round = async move {
            let mut lost = Vec::new();
            let task = self.depart(&mut self.lock(), &mut lost);
            Line::answer_lost(lost);
            match task {
                Some(Task::Batch(batch)) => self.carry_out_batch(batch).await,
                Some(Task::Command(command)) => Box::pin(self.carry_out_command(command)).await,
                None => {}
            }
        };
        answer::within(runtime, Box::pin(round))
    }

    fn has_work(&self) -> bool {
        let mut state = self.lock();
        (state.asking, state.coming) = (None, false);
        if let Some(life) = &mut state.life {
            life.under_way = false;
        }
        if state.has_work() {
            self.note_busy(&mut state);
            return true;
        }
        if state.closed && state.turns.look_at().is_some() {
            return false;
        }
        // Callers that wait for permits are not owed anything.
        self.core.note_idle(&mut state.busy);
        false
    }

    fn abandon(&self) {
        let (mut queue, waiters) = {
            let mut state = self.lock();
            state.closed = true;
            state.turns.looks_no_more();
            self.keep_as_needed(&mut state);
            self.core.note_idle(&mut state.busy);
            (
                std::mem::replace(&mut state.queue, Queue::new()),
                state.waiters.take_all(),
            )
        };
        log::abandoned(self.name(), &queue.owed());
        // Dropping the replies tells the callers.
        drop((queue, waiters));
    }

    fn driver(&self) -> &Driver {
        &self.driver
    }

    fn spawn(&self, task: Round) {
        self.core.runtime.spawn(task);
    }
}
