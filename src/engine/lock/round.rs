//! One round: what it takes along, and how that is carried out.

use std::sync::Arc;

use tokio::time::Instant;

use super::calls::{self, Call, Claim, Known, Step, Term};
use super::{LockLine, Queued, State, waiting};
use crate::engine::command::{Command, Commands};
use crate::engine::drive::{Driver, Round, Rounds};
use crate::engine::once::{Ending, Trouble, refused};
use crate::error::Error;

/// A script call takes this many steps at the most.
const MOST_STEPS: usize = 64;

/// What travels together.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) calls: Vec<Call>,
    /// The first of those who wait: its ticket and what it asks for. Comes after the calls.
    pub(super) turn: Option<(u64, Claim)>,
}

impl Batch {
    fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.turn.is_none()
    }

    fn has_owner(&self, owner: &str) -> bool {
        let mut owners = self.calls.iter().filter_map(|call| call.step.owner());
        owners.any(|other| **other == *owner)
    }
}

/// What a round carries out.
enum Task {
    Batch(Batch),
    Command(Command),
}

impl LockLine {
    /// Takes what the next round carries out.
    fn depart(&self, state: &mut State) -> Option<Task> {
        if matches!(state.queue.front(), Some(Queued::Command(_))) {
            let Some(Queued::Command(command)) = state.queue.pop_front() else {
                unreachable!("looked at just now");
            };
            return Some(Task::Command(command));
        }
        let mut batch = Batch::default();
        while let Some(Queued::Call(call)) = state.queue.front() {
            // What a repeated step goes by is its owner's count before it: one step an owner.
            let second = call
                .step
                .owner()
                .is_some_and(|owner| batch.has_owner(owner));
            let forces = matches!(call.step, Step::Force);
            if batch.calls.len() == MOST_STEPS || second || (forces && !batch.is_empty()) {
                break;
            }
            if let Some(Queued::Call(call)) = state.queue.pop_front() {
                batch.calls.push(call);
            }
            if forces {
                break;
            }
        }
        self.take_turn(state, &mut batch);
        (!batch.is_empty()).then_some(Task::Batch(batch))
    }

    /// Lets the first of those who wait travel along, if there is reason to ask.
    fn take_turn(&self, state: &mut State, batch: &mut Batch) {
        let now = Instant::now();
        let frees = batch.calls.iter().any(|call| match &call.step {
            Step::Release(owner) => state.holds.count(owner) <= 1,
            Step::Force => true,
            Step::Acquire(_) => false,
        });
        if frees && !state.waiting.is_empty() {
            state.waiting.look_anew();
            let window = self.core.config.local_hand_over;
            if let Err(until) = state.waiting.may_keep(now, window) {
                self.set_alarm(state, until);
                return;
            }
        }
        let owner = state.waiting.first().map(|w| Arc::clone(&w.claim.owner));
        let second = owner.is_some_and(|owner| batch.has_owner(&owner));
        if !second && state.waiting.wants_to_ask(now) {
            batch.turn = state.waiting.ask(now);
        }
    }

    /// What is known of the owner of `step`.
    fn known(&self, state: &State, step: &Step) -> Known {
        let watchdog_timeout = self.core.config.lock_watchdog_timeout;
        let term = match step {
            Step::Acquire(claim) => Some(claim.term),
            Step::Release(owner) => state.holds.term_below(owner),
            Step::Force => None,
        };
        Known {
            holds: step.owner().map_or(0, |owner| state.holds.count(owner)),
            lease: term.unwrap_or(Term::Watched).lease(watchdog_timeout),
        }
    }

    async fn carry_out_batch(&self, mut batch: Batch) {
        let turn = batch
            .turn
            .as_ref()
            .map(|(_, claim)| Step::Acquire(claim.clone()));
        let (mut request, steps, confirmed) = {
            let state = self.lock();
            let steps: Vec<Step> = batch.calls.iter().map(|call| call.step.clone()).collect();
            let steps: Vec<Step> = steps.into_iter().chain(turn).collect();
            let known: Vec<_> = steps
                .iter()
                .map(|step| (step, self.known(&state, step)))
                .collect();
            for step in &steps {
                // What is about to be given back is not renewed any more.
                if let Step::Release(owner) = step
                    && state.holds.count(owner) == 1
                {
                    self.core.renewals.forget(self.keys.object(), owner);
                }
            }
            let request = calls::request(
                self.kind,
                &self.keys,
                self.token.as_ref(),
                self.core.config.record_life(),
                state.doubtful,
                &known,
            );
            let confirmed = state.waiting.listening.is_confirmed();
            (request, steps, confirmed)
        };
        request.number(self.core.next_sequence());
        let sent = Instant::now();
        let mut doubtful = false;
        let callers = |trouble: &Trouble<'_>| {
            doubtful |= trouble.doubtful;
            self.tell_impatient(trouble, &mut batch)
        };
        let error = match self.core.carry_out(&mut request, callers).await {
            Ending::Answer(value) => {
                let steps: Vec<&Step> = steps.iter().collect();
                match calls::read(&value, &steps) {
                    Some((listeners, answers)) => {
                        self.arrive(batch, answers, listeners, sent, confirmed, doubtful);
                        return;
                    }
                    None => Error::Server {
                        name: self.name().to_owned(),
                        detail: format!("unexpected answer {value:?}"),
                    },
                }
            }
            Ending::Refused(refusal) => refused(self.name(), &refusal),
            Ending::NotSent => {
                // Those who still wait travel with the next batch.
                let mut state = self.lock();
                for call in batch.calls.into_iter().rev() {
                    state.queue.push_front(Queued::Call(call));
                }
                state.waiting.look_anew();
                return;
            }
            Ending::Unknown => {
                tracing::error!(name = self.name(), "the outcome of a call stays unknown");
                let mut state = self.lock();
                state.waiting.look_anew();
                state.doubtful = true;
                return;
            }
        };
        self.fail(batch, &error);
    }

    async fn carry_out_command(&self, command: Command) {
        let others = |trouble: &Trouble<'_>| self.tell_queued(trouble);
        let done = self.core.carry_out_command(self.name(), command, others);
        if !done.await {
            self.lock().doubtful = true;
        }
    }
}

impl Rounds for LockLine {
    fn round(self: Arc<Self>) -> Round {
        let runtime = self.core().runtime.clone();
        let mut round = Box::pin(async move {
            let task = self.depart(&mut self.lock());
            match task {
                Some(Task::Batch(batch)) => self.carry_out_batch(batch).await,
                Some(Task::Command(command)) => self.carry_out_command(command).await,
                None => {}
            }
        });
        // Its timers are the client's, whichever runtime a caller polls it on.
        Box::pin(std::future::poll_fn(move |cx| {
            let _runtime = runtime.enter();
            round.as_mut().poll(cx)
        }))
    }

    fn has_work(&self) -> bool {
        let mut state = self.lock();
        if !state.queue.is_empty() || state.waiting.wants_to_ask(Instant::now()) {
            self.note_busy(&mut state);
            return true;
        }
        // Callers that wait for the lock are not owed anything.
        if state.busy {
            state.busy = false;
            self.core.became_idle();
        }
        false
    }

    fn abandon(&self) {
        let (queue, waiters) = {
            let mut state = self.lock();
            state.closed = true;
            if state.busy {
                state.busy = false;
                self.core.became_idle();
            }
            (std::mem::take(&mut state.queue), state.waiting.take_all())
        };
        // Dropping the replies tells the callers.
        drop(queue);
        waiting::tell_all(waiters, &self.shut_down());
    }

    fn driver(&self) -> &Driver {
        &self.driver
    }

    fn spawn(&self, task: Round) {
        self.core.runtime.spawn(task);
    }
}
