//! One round: what it takes along, and how that is carried out.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::time::Instant;

use super::super::answer::Answer;
use super::super::batch::{Batch, Call, Operation, Sending};
use super::{Line, State};
use crate::clock::Moment;
use crate::engine::answer;
use crate::engine::drive::{Driver, Round, Rounds};
use crate::engine::in_hand::{Carries, InHand};
use crate::engine::log;
use crate::engine::once::{
    Ending, MOST_DISOWNED, RUNTIME_ENDED, Trouble, refused, unexpected_answer,
};
use crate::error::Error;
use crate::transport::{Reason, Refusal, Value};

impl Line {
    /// Whether there is something for a round to carry out. Calls that are forgotten count: the round clears them away.
    fn is_due(&self, state: &State) -> bool {
        let waiting = !state.waiters.is_empty();
        // A place in the line that nobody stands in holds others up.
        if state.in_line && !waiting || state.tend {
            return true;
        }
        if state.lock_held_until().is_some() {
            // Who is new gets his place in the order, who is at his end his answer; and only acquisitions are made under the
            // lock.
            let mut queue = state.queue.iter();
            return waiting && state.look && state.waiters.somebody_cannot_wait()
                || queue.any(|call| !matches!(call.operation, Operation::Try(_)));
        }
        !state.queue.is_empty() || waiting && state.look
    }

    /// Takes what the next round carries out; calls that are not wanted any more go to `forgotten`.
    fn depart(&self, state: &mut State, forgotten: &mut Vec<Call>) -> Option<Batch> {
        if !self.is_due(state) {
            return None;
        }
        let mut batch = Batch::new(state.waiters.claim(self.settings.limit));
        batch.ends_from = state.ends.from();
        let held_up = state.lock_held_until().is_some();
        let mut left = VecDeque::new();
        while let Some(mut call) = state.queue.pop_front() {
            if held_up && matches!(call.operation, Operation::Try(_)) {
                left.push_back(call);
            } else if !call.is_wanted() || state.keeping.keeps_no_more(&call) {
                forgotten.push(call);
            } else if let Err(call) = batch.add(call) {
                left.push_back(call);
                break;
            }
        }
        left.append(&mut state.queue);
        state.queue = left;
        let waiting = !state.waiters.is_empty();
        let for_line = state.in_line && !waiting || state.tend;
        if batch.calls().next().is_none() && !(waiting && state.look) && !for_line {
            return None;
        }
        state.look = false;
        state.tend = false;
        if batch.is_list() {
            // Those who wait are named with the next one.
            state.look = waiting;
            batch.claim = Default::default();
        }
        state.under_way = batch.claim.tickets().collect();
        Some(batch)
    }

    async fn carry_out(&self, batch: Batch) {
        let sending = {
            let state = self.lock();
            Sending {
                record_life: self.core.config.record_life(),
                doubtful: state.doubtful,
                leaves: state.in_line && batch.claim.waiting == 0,
                patience: Line::patience(&state),
                listens: state.listening.is_confirmed(),
            }
        };
        let (doubtful, confirmed) = (sending.doubtful, sending.listens);
        let mut request = batch.request(&self.settings, &self.names, &sending);
        request.number(self.core.next_sequence());
        let sent = Moment::now();
        let mut batch = InHand::new(self, batch);
        let (mut unanswered, mut disowned) = (false, 0);
        let ending = loop {
            let callers = |trouble: &Trouble<'_>| {
                unanswered |= trouble.doubtful;
                self.tell_impatient(trouble, &mut batch)
            };
            let ending = self.core.carry_out(&mut request, callers).await;
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
        let batch = batch.take();
        let error = match ending {
            Ending::Answer(value) => match self.read(&value, &batch, doubtful) {
                Some(Answer::Done(outcome)) => {
                    let failure = match &outcome.failure {
                        Some(text) => Some(Box::pin(self.failure(text)).await),
                        None => None,
                    };
                    self.arrive(batch, outcome, failure, sent, confirmed);
                    return;
                }
                Some(Answer::Holders(page)) => {
                    self.arrive_holders(batch, page);
                    return;
                }
                Some(Answer::Units(found)) => Error::WrongUnits {
                    name: self.name().to_owned(),
                    units: self.settings.units,
                    found,
                },
                Some(Answer::Refused(error)) => self.refused(&Refusal::from_text(&error)),
                Some(Answer::Stale) | None => {
                    unexpected_answer(self.name(), &value, unanswered.then(|| sent.age()))
                }
            },
            Ending::Refused(refusal) => self.refused(&refusal),
            Ending::ShutDown => self.shut_down(),
            Ending::NotSent => {
                // Those who still wait travel with the next batch.
                self.put_back(batch);
                return;
            }
            Ending::Unknown => {
                self.give_up(batch);
                return;
            }
        };
        let typed = || self.names.typed(self.settings.layout);
        let error = Box::pin(self.core.explain(error, typed)).await;
        self.fail(batch, &error);
    }

    /// Why nothing could be granted.
    async fn failure(&self, text: &str) -> Error {
        if let Some(found) = text.strip_prefix("unreadable ") {
            return Error::NotANumber {
                name: self.names.keys[2].to_string(),
                found: found.to_owned(),
            };
        }
        // One of many slots, by its number.
        let slot = text.strip_prefix("notastring ");
        let slot = slot.and_then(|slot| slot.parse::<usize>().ok()?.checked_sub(1));
        if let Some(key) = slot.and_then(|slot| self.names.keys.get(slot)) {
            let error = Error::WrongType {
                name: self.name().to_owned(),
                key: key.to_string(),
                found: None,
            };
            return self
                .core
                .explain(error, || vec![(Arc::clone(key), "string")])
                .await;
        }
        self.refused(&Refusal::from_text(text))
    }

    /// Reads the answer to `batch`, which was sent while an earlier one was `doubtful`.
    fn read(&self, value: &Value, batch: &Batch, doubtful: bool) -> Option<Answer> {
        let answer = Answer::read(value, batch);
        let settled = !matches!(answer, None | Some(Answer::Stale));
        if doubtful && settled && Answer::is_on_record(value) {
            // Nothing that was sent before can do harm any more.
            self.lock().doubtful = false;
        }
        answer
    }

    /// Calls that nobody wants any more are not sent.
    pub(super) fn forget(&self, calls: Vec<Call>) {
        for call in calls {
            tracing::debug!(name = self.name(), call = %call.operation, "forgotten");
        }
    }

    pub(super) fn refused(&self, refusal: &Refusal) -> Error {
        if refusal.reason == Reason::CrossSlot {
            return Error::InvalidName {
                name: self.name().to_owned(),
                reason: "its keys fall into different slots of the cluster; a part of the name in braces, \
                         as in {name}, keeps them together",
            };
        }
        refused(self.name(), refusal)
    }

    /// Nothing of `batch` has been done: its calls are the first of the next one.
    pub(super) fn put_back(&self, batch: Batch) {
        let mut state = self.lock();
        let calls: Vec<Call> = batch.into_calls().collect();
        for call in calls.into_iter().rev() {
            state.queue.push_front(call);
        }
        state.look = true;
        // What is left there passes by itself.
        state.in_line &= !state.waiters.is_empty();
    }

    /// Nobody knows what became of `batch`, and it is not asked for any more. What it may have taken is released, and
    /// what it should have released is released again: no id is given out twice.
    fn give_up(&self, batch: Batch) {
        log::unknown(self.name(), &batch.changes());
        let since = Instant::now();
        let releases = batch.releases.iter();
        let owed = releases.filter_map(|call| call.operation.released().cloned());
        let ids: Vec<_> = batch.ids().chain(owed).collect();
        let mut state = self.lock();
        state.look = true;
        state.doubtful = true;
        state.waiters.doubt(&batch.claim);
        let release = |id| Call {
            operation: Operation::Release(id),
            reply: None,
            since,
        };
        state.queue.extend(ids.into_iter().map(release));
        self.note_busy(&mut state);
    }
}

impl Carries for Line {
    type Batch = Batch;

    fn lose(&self, batch: Batch) {
        log::lost(self.name(), &batch.changes());
        let named = self.lock().waiters.take(batch.claim.tickets().collect());
        self.tell_unknown(named, RUNTIME_ENDED);
        for mut call in batch.into_calls() {
            self.tell_trouble(&mut call, &Trouble::unknown(RUNTIME_ENDED));
        }
    }
}

impl Rounds for Line {
    fn round(self: Arc<Self>) -> Round {
        let runtime = self.core.runtime.clone();
        let round = async move {
            let mut forgotten = Vec::new();
            let batch = self.depart(&mut self.lock(), &mut forgotten);
            self.forget(forgotten);
            if let Some(batch) = batch {
                self.carry_out(batch).await;
                self.lock().under_way.clear();
            }
        };
        answer::within(runtime, Box::pin(round))
    }

    fn has_work(&self) -> bool {
        let mut state = self.lock();
        if !state.queue.is_empty() || self.is_due(&state) {
            self.note_busy(&mut state);
            // For what waits for a peer's lock the alarm calls again.
            return self.is_due(&state);
        }
        // Callers that wait for permits are not owed anything.
        self.core.note_idle(&mut state.busy);
        false
    }

    fn abandon(&self) {
        let (mut queue, waiters) = {
            let mut state = self.lock();
            state.closed = true;
            self.core.note_idle(&mut state.busy);
            (std::mem::take(&mut state.queue), state.waiters.take_all())
        };
        // Callers are told by the drop of their replies; what has none is owed.
        let owed = queue.iter_mut().filter_map(|call| {
            let has_caller = call.is_wanted() && call.reply.is_some();
            let released = call.operation.released().filter(|_| !has_caller);
            released.map(|_| (&call.operation, 1))
        });
        log::abandoned(self.name(), &log::list_of(owed));
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
