//! One round: what it takes along, and how that is carried out.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::time::Instant;

use super::super::answer::Answer;
use super::super::batch::{Batch, Call, Operation};
use super::{Line, State};
use crate::engine::answer;
use crate::engine::drive::{Driver, Round, Rounds};
use crate::engine::log;
use crate::engine::once::{Ending, MOST_DISOWNED, Trouble, refused, unexpected_answer};
use crate::error::Error;
use crate::transport::{Reason, Refusal};

impl Line {
    /// Takes what the next round carries out.
    fn depart(&self, state: &mut State) -> Option<Batch> {
        if state.waits_for_lock() {
            return None;
        }
        let mut batch = Batch::new(state.waiters.claim(self.settings.limit));
        let mut left = VecDeque::new();
        while let Some(call) = state.queue.pop_front() {
            if let Err(call) = batch.add(call) {
                left.push_back(call);
                break;
            }
        }
        left.append(&mut state.queue);
        state.queue = left;
        let waiting = !state.waiters.is_empty();
        let needed = batch.calls().next().is_some() || state.look && waiting;
        // A place in the line that nobody stands in holds others up.
        if !needed && (waiting || !state.in_line) {
            return None;
        }
        state.look = false;
        if batch.alone.is_some() {
            // Those who wait are named with the next one.
            state.look = !state.waiters.is_empty();
            batch.claim = Default::default();
        }
        Some(batch)
    }

    async fn carry_out(&self, mut batch: Batch) {
        let (doubtful, confirmed) = {
            let state = self.lock();
            (state.doubtful, state.listening.is_confirmed())
        };
        let record_life = self.core.config.record_life();
        let mut request = batch.request(&self.settings, &self.names, record_life, doubtful);
        request.number(self.core.next_sequence());
        let sent = Instant::now();
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
            // Nothing of the batch was done, because of a record that nobody of ours has written.
            tracing::warn!(
                name = self.name(),
                "somebody else has written to this client's record"
            );
            request.disown_record(self.core.next_sequence());
            disowned += 1;
        };
        let error = match ending {
            Ending::Answer(value) => match Answer::read(&value, &batch) {
                Some(Answer::Done(outcome)) => {
                    self.arrive(batch, outcome, sent, confirmed);
                    return;
                }
                Some(Answer::Holders(holders)) => {
                    self.arrive_holders(batch, holders);
                    return;
                }
                Some(Answer::Locked(left)) => {
                    self.wait_for_lock(batch, left, confirmed);
                    return;
                }
                Some(Answer::Units(found)) => Error::WrongUnits {
                    name: self.name().to_owned(),
                    units: self.settings.units,
                    found,
                },
                Some(Answer::Refused(error)) => self.refused(&Refusal::from_text(&error)),
                Some(Answer::Stale) | None => {
                    unexpected_answer(self.name(), &value, unanswered.then(|| sent.elapsed()))
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

    pub(super) fn refused(&self, refusal: &Refusal) -> Error {
        if refusal.reason == Reason::Other && refusal.detail.starts_with("CROSSSLOT") {
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

    /// Nobody knows what became of `batch`, and it is not asked for any more. What it may have taken is released.
    fn give_up(&self, batch: Batch) {
        let acquired = batch.ids().map(|id| (format!("acquired({id})"), 1));
        let calls = batch.calls().map(|call| (call.operation.to_string(), 1));
        log::unknown(self.name(), &log::list_of(calls.chain(acquired)));
        let since = Instant::now();
        let ids: Vec<_> = batch.ids().collect();
        let mut state = self.lock();
        state.look = true;
        state.doubtful = true;
        state.refreshing = false;
        let release = |id| Call {
            operation: Operation::Release(id),
            reply: None,
            since,
        };
        state.queue.extend(ids.into_iter().map(release));
        self.note_busy(&mut state);
    }
}

impl Rounds for Line {
    fn round(self: Arc<Self>) -> Round {
        let runtime = self.core.runtime.clone();
        let round = async move {
            let batch = self.depart(&mut self.lock());
            if let Some(batch) = batch {
                self.carry_out(batch).await;
            }
        };
        answer::within(runtime, Box::pin(round))
    }

    fn has_work(&self) -> bool {
        let mut state = self.lock();
        let waiting = !state.waiters.is_empty();
        // A place in the line that nobody stands in holds others up.
        let tidy = state.in_line && !waiting;
        if !state.queue.is_empty() || tidy || state.look && waiting {
            self.note_busy(&mut state);
            // The alarm calls again.
            return !state.waits_for_lock();
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
        let owed = queue.iter_mut().filter_map(|call| {
            call.forget_caller_who_has_gone();
            call.reply.is_none().then_some((&call.operation, 1))
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
