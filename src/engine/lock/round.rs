//! One round: what it takes along, and how that is carried out.

use std::sync::Arc;

use tokio::time::Instant;

use super::answers::Answered;
use super::calls::{self, Call, Known, Step, Term, Usual};
use super::holds::Holds;
use super::waiting::Turn;
use super::{LockLine, Queued, State, waiting};
use crate::engine::answer;
use crate::engine::command::{Command, Commands};
use crate::engine::drive::{Driver, Round, Rounds};
use crate::engine::log;
use crate::engine::once::{Ending, Trouble, refused};
use crate::engine::request::Request;
use crate::engine::wrong_type::Typed;
use crate::error::Error;

/// A script call takes this many steps at the most.
const MOST_STEPS: usize = 64;

/// What travels together.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) calls: Vec<Call>,
    /// Those of the waiting who ask. They come after the calls.
    pub(super) turns: Vec<Turn>,
    /// If it frees the lock, this client hears of it.
    pub(super) echo: bool,
}

impl Batch {
    fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.turns.is_empty()
    }

    fn has_owner(&self, owner: &str) -> bool {
        let mut owners = self.calls.iter().filter_map(|call| call.step.owner());
        owners.any(|other| **other == *owner)
    }
}

/// The owner, where `step` is to give a hold back that has been lost: another one may be there by now.
fn gone<'a>(holds: &Holds, step: &'a Step) -> Option<&'a Arc<str>> {
    let Step::Release(owner, Some(lease)) = step else {
        return None;
    };
    let current = holds.lease(owner);
    (!current.is_some_and(|current| current.is_same(lease))).then_some(owner)
}

/// What is known when a batch departs.
struct Departure {
    known: Vec<Known>,
    /// The short form, for a usual case.
    usual: Option<Request>,
    /// An earlier request may still be on its way.
    doubtful: bool,
    /// The channel was heard.
    confirmed: bool,
}

/// What a round carries out.
enum Task {
    Batch(Batch),
    Command(Command),
}

impl LockLine {
    /// Takes what the next round carries out.
    fn depart(&self, state: &mut State) -> Option<Task> {
        if matches!(state.next(), Some(Queued::Command(_))) {
            let Some(Queued::Command(command)) = state.queue.pop_front() else {
                unreachable!("looked at just now");
            };
            return Some(Task::Command(command));
        }
        let mut batch = Batch::default();
        while state.next().is_some()
            && let Some(Queued::Call(call)) = state.queue.front()
        {
            if let Some(owner) = gone(&state.holds, &call.step) {
                let outcome = Err(self.not_held(owner));
                if let Some(Queued::Call(call)) = state.queue.pop_front()
                    && let Some(reply) = call.reply
                {
                    let _ = reply.send(outcome);
                }
                continue;
            }
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
        self.take_turns(state, &mut batch);
        (!batch.is_empty()).then_some(Task::Batch(batch))
    }

    /// Lets those who wait travel along, if there is reason for them to ask.
    fn take_turns(&self, state: &mut State, batch: &mut Batch) {
        let now = Instant::now();
        let frees = batch.calls.iter().any(|call| match &call.step {
            Step::Release(owner, _) => state.holds.count(owner) <= 1,
            Step::Force => true,
            Step::Acquire(_) => false,
        });
        let window = self.core.config.local_hand_over;
        let waiting = &mut state.waiting;
        let stays = !frees || waiting.sharing.may_keep(now, window);
        if frees {
            waiting.look_anew();
            batch.echo = waiting.listening.is_confirmed();
        }
        if batch.echo {
            waiting.sharing.expect_echo();
        }
        // There is always room for one: no call waits for another round because of the waiting.
        let most = (MOST_STEPS - batch.calls.len()).max(1);
        batch.turns = waiting.ask(now, stays, most, |owner| batch.has_owner(owner));
    }

    /// What is known of the owner of `step`.
    fn known(&self, state: &State, step: &Step) -> Known {
        let watchdog_timeout = self.core.config.lock_watchdog_timeout;
        let lease = |term: Term| term.lease(watchdog_timeout);
        let lease = match step {
            // A hold that is renewed does not end by another one that is not.
            Step::Acquire(claim) if state.holds.is_watched(&claim.owner) => {
                lease(claim.term).max(watchdog_timeout)
            }
            Step::Acquire(claim) => lease(claim.term),
            Step::Release(owner, _) => state
                .holds
                .term_below(owner)
                .map_or(watchdog_timeout, lease),
            Step::Force => watchdog_timeout,
        };
        Known {
            holds: step.owner().map_or(0, |owner| state.holds.count(owner)),
            lease,
        }
    }

    async fn carry_out_batch(&self, mut batch: Batch) {
        let turns = batch.turns.iter();
        let turns = turns.map(|turn| Step::Acquire(turn.claim.clone()));
        let calls = batch.calls.iter().map(|call| call.step.clone());
        let steps: Vec<Step> = calls.chain(turns).collect();
        let began = Instant::now();
        let departure = self.prepare(&steps, began);
        let mut answered = Answered {
            answers: Vec::new(),
            listeners: None,
            sent: began,
            confirmed: departure.confirmed,
            doubtful: departure.doubtful,
        };
        let mut first = None;
        if let Some(usual) = &departure.usual {
            match self.core.try_once(usual).await {
                Ok(value) => {
                    if let Some((listeners, answer)) = Usual::read(&value, &steps[0]) {
                        answered.listeners = listeners;
                        answered.answers.push((answer, departure.known[0].lease));
                        self.arrive(batch, answered);
                        return;
                    }
                }
                Err(failure) => first = Some(failure),
            }
        }
        let mut request = self.request(&steps, &departure);
        let callers = |trouble: &Trouble<'_>| {
            answered.doubtful |= trouble.doubtful;
            // The answer, if one comes, will be that of a later sending.
            answered.sent = trouble.now;
            self.tell_impatient(trouble, began, &mut batch)
        };
        let ending = match first {
            None => self.core.carry_out(&mut request, callers).await,
            Some(failure) => self.core.carry_on(&mut request, failure, callers).await,
        };
        if batch.echo && !matches!(ending, Ending::Answer(_)) {
            self.lock().waiting.sharing.no_echo();
        }
        let error = match ending {
            Ending::Answer(value) => match calls::read(&value, &steps) {
                Some((listeners, answers)) => {
                    let leases = departure.known.iter().map(|known| known.lease);
                    answered.listeners = listeners;
                    answered.answers = answers.into_iter().zip(leases).collect();
                    self.arrive(batch, answered);
                    return;
                }
                None => Error::Server {
                    name: self.name().to_owned(),
                    detail: format!("unexpected answer {value:?}"),
                },
            },
            Ending::Refused(refusal) => refused(self.name(), &refusal),
            Ending::ShutDown => self.shut_down(),
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
                log::unknown(
                    self.name(),
                    &log::list_of(steps.iter().map(|step| (step, 1))),
                );
                let mut state = self.lock();
                for turn in batch.turns {
                    if let Some(waiter) = state.waiting.get(turn.ticket) {
                        waiter.in_doubt = true;
                    }
                }
                state.waiting.look_anew();
                state.doubtful = true;
                return;
            }
        };
        let error = Box::pin(self.core.explain(error, || self.typed_keys())).await;
        self.fail(batch, &error);
    }

    /// What is known of `steps` when they depart.
    fn prepare(&self, steps: &[Step], now: Instant) -> Departure {
        let state = self.lock();
        let known: Vec<Known> = steps.iter().map(|step| self.known(&state, step)).collect();
        for step in steps {
            // What is about to be given back is not renewed any more.
            if let Step::Release(owner, _) = step
                && state.holds.count(owner) > 0
                && state.holds.term_below(owner) != Some(Term::Watched)
            {
                self.core.renewals.forget(self.keys.object(), owner);
            }
        }
        let fenced = state.doubtful || state.fenced_until.is_some_and(|until| now < until);
        let usual = match (&self.kind.usual, steps) {
            (Some(usual), [step]) if !fenced => usual.request(&self.keys, step, known[0]),
            _ => None,
        };
        Departure {
            known,
            usual,
            doubtful: state.doubtful,
            confirmed: state.waiting.listening.is_confirmed(),
        }
    }

    /// The request for any steps.
    fn request(&self, steps: &[Step], departure: &Departure) -> Request {
        let token = self.token.as_ref();
        let life = self.core.config.record_life();
        let known = &departure.known;
        let mut request = calls::request(self.kind, &self.keys, token, life, steps, known);
        request.number(self.core.next_sequence());
        if departure.doubtful {
            request.doubt();
        }
        request
    }

    fn typed_keys(&self) -> Vec<Typed> {
        let token = self.token.iter().map(|key| (Arc::clone(key), "string"));
        self.keys.typed().into_iter().chain(token).collect()
    }

    async fn carry_out_command(&self, command: Command) {
        let began = Instant::now();
        let others = |trouble: &Trouble<'_>| {
            self.tell_waiting(trouble, began, &[]);
            self.tell_queued(trouble);
        };
        let done = self.core.carry_out_command(&self.keys, command, others);
        if !done.await {
            self.lock().doubtful = true;
        }
    }
}

impl Rounds for LockLine {
    fn round(self: Arc<Self>) -> Round {
        let runtime = self.core().runtime.clone();
        let round = async move {
            let task = self.depart(&mut self.lock());
            match task {
                Some(Task::Batch(batch)) => self.carry_out_batch(batch).await,
                Some(Task::Command(command)) => self.carry_out_command(command).await,
                None => {}
            }
        };
        answer::within(runtime, Box::pin(round))
    }

    fn has_work(&self) -> bool {
        let mut state = self.lock();
        if !state.queue.is_empty() || state.waiting.wants_to_ask(Instant::now()) {
            self.note_busy(&mut state);
            return true;
        }
        // Callers that wait for the lock are not owed anything.
        self.core.note_idle(&mut state.busy);
        false
    }

    fn abandon(&self) {
        let (mut queue, waiters) = {
            let mut state = self.lock();
            state.closed = true;
            self.core.note_idle(&mut state.busy);
            (std::mem::take(&mut state.queue), state.waiting.take_all())
        };
        queue.retain_mut(|queued| !queued.is_pointless());
        let owed = queue.iter().filter_map(|queued| match queued {
            Queued::Call(call) if call.reply.is_none() => Some((&call.step, 1)),
            _ => None,
        });
        log::abandoned(self.name(), &log::list_of(owed));
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
