//! One round: what it takes along, and how that is carried out.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::answers::Answered;
use super::calls::{self, Call, Known, Reply, Step, Term, Usual};
use super::waiting::Turn;
use super::{LockLine, Queued, State};
use crate::clock::Moment;
use crate::engine::answer;
use crate::engine::command::{Command, Commands};
use crate::engine::drive::{Driver, Round, Rounds};
use crate::engine::holds::Count;
use crate::engine::in_hand::InHand;
use crate::engine::keys::Typed;
use crate::engine::log;
use crate::engine::once::{
    CLIENT_CLOSED, Ending, MOST_DISOWNED, Trouble, refused, unexpected_answer,
};
use crate::engine::request::Request;

/// Nobody is waited for longer than this.
const LONGEST_PATIENCE: Duration = Duration::from_secs(2);

/// A script call takes this many steps at the most.
const MOST_STEPS: usize = 64;

/// What travels together.
#[derive(Default)]
pub(crate) struct Batch {
    pub(super) calls: Vec<Call>,
    /// Those of the waiting who ask. They come after the calls.
    pub(super) turns: Vec<Turn>,
    /// If it frees the lock, this client hears of it.
    pub(super) echo: bool,
    /// The client has been passed for so long that it is to be next.
    passed: Option<Duration>,
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.turns.is_empty()
    }

    fn has_owner(&self, owner: &str) -> bool {
        let mut owners = self.calls.iter().filter_map(|call| call.step.owner());
        owners.any(|other| **other == *owner)
    }
}

/// What is known when a batch departs.
struct Departure {
    known: Vec<Known>,
    /// The short form, for a usual case.
    usual: Option<Request>,
    /// An earlier request may still be on its way.
    doubtful: bool,
    /// This client has been passed for so long that it is to be next, and the lock is left free for it for the second time.
    next: Option<(Duration, Duration)>,
    /// The channel was heard.
    confirmed: bool,
}

/// How long the lock is left free for a client to which everything takes so long: it hears of that, and asks.
fn patience(round_trip: Duration) -> Duration {
    (3 * round_trip + Duration::from_millis(20)).min(LONGEST_PATIENCE)
}

/// What a round carries out.
enum Task {
    Batch(Batch),
    Command(Command),
}

impl LockLine {
    /// Takes what the next round carries out.
    fn depart(&self) -> Option<Task> {
        let mut gone = Vec::new();
        let task = self.next_task(&mut self.lock(), &mut gone);
        for (reply, owner) in gone {
            let _ = reply.send(Err(self.not_held(&owner)));
        }
        task
    }

    /// The same, and who is to be told that the hold it gives back is `gone`.
    fn next_task(&self, state: &mut State, gone: &mut Vec<(Reply, Arc<str>)>) -> Option<Task> {
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
            // A hold that has been lost is not given back: another one may be there by now.
            if let Step::Release(owner, Some(id)) = &call.step
                && self.holds().is_gone(self.key(), owner, id.number())
            {
                let owner = Arc::clone(owner);
                if let Some(Queued::Call(call)) = state.queue.pop_front()
                    && let Some(reply) = call.reply
                {
                    gone.push((reply, owner));
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
            Step::Release(owner, _) => match self.holds().count(self.key(), owner) {
                Count::Held(count) => count <= 1,
                Count::Over => true,
            },
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
        let holder = self.holds().holder(self.key());
        let busy = |owner: &str| batch.has_owner(owner);
        batch.turns = waiting.ask(now, stays, most, holder.as_deref(), busy);
        batch.passed = waiting.passed(now).filter(|_| !batch.turns.is_empty());
        state.asking = batch.turns.iter().map(|turn| turn.ticket).collect();
    }

    /// What is known of the owner of `step`.
    fn known(&self, step: &Step) -> Known {
        let (holds, key) = (self.holds(), self.key());
        let watchdog_timeout = self.core.config.lock_watchdog_timeout;
        let lease = |term: Term| term.lease(watchdog_timeout);
        let number = match step {
            Step::Release(_, Some(id)) => Some(id.number()),
            Step::Release(owner, None) => holds.latest(key, owner),
            _ => None,
        };
        let lease = match step {
            // A hold that is renewed does not end by another one that is not.
            Step::Acquire(claim) if holds.is_watched(key, &claim.owner) => {
                lease(claim.term).max(watchdog_timeout)
            }
            Step::Acquire(claim) => lease(claim.term),
            Step::Release(owner, _) => holds
                .term_without(key, owner, number)
                .map_or(watchdog_timeout, lease),
            Step::Force => watchdog_timeout,
        };
        Known {
            holds: step
                .owner()
                .map_or(Count::Held(0), |owner| holds.count(key, owner)),
            lease,
            number,
        }
    }

    async fn carry_out_batch(&self, batch: Batch) {
        let mut batch = InHand::new(self, batch);
        let turns = batch.turns.iter();
        let turns = turns.map(|turn| Step::Acquire(turn.claim.clone()));
        let calls = batch.calls.iter().map(|call| call.step.clone());
        let steps: Vec<Step> = calls.chain(turns).collect();
        let began = Instant::now();
        let sent = Moment::now();
        let departure = self.prepare(&steps, batch.passed, began, sent);
        let mut answered = Answered {
            answers: Vec::new(),
            listeners: None,
            sent,
            confirmed: departure.confirmed,
            doubtful: departure.doubtful,
            unanswered: None,
        };
        let mut first = None;
        if let Some(usual) = &departure.usual {
            match self.core.try_for_callers(usual).await {
                Ok(value) => {
                    if let Some((listeners, answer)) = Usual::read(&value, &steps[0]) {
                        answered.listeners = listeners;
                        answered.answers.push((answer, departure.known[0]));
                        self.arrive(batch.take(), answered);
                        return;
                    }
                }
                // Its answer is not in the long form, in which it is asked for.
                Err(failure) => first = Some(failure.without_answer()),
            }
        }
        let mut request = self.request(&steps, &departure);
        let (mut doubted, mut disowned) = (false, 0);
        let ending = loop {
            let callers = |trouble: &Trouble<'_>| {
                doubted |= trouble.doubtful;
                // The answer, if one comes, will be that of a later sending.
                answered.sent = Moment::now();
                self.tell_impatient(trouble, began, &mut batch)
            };
            let ending = match first.take() {
                None => self.core.carry_out(&mut request, callers).await,
                Some(failure) => self.core.carry_on(&mut request, failure, callers).await,
            };
            let fence = match &ending {
                Ending::Answer(value) => calls::foreign_fence(value),
                _ => None,
            };
            match fence {
                Some(fence) if !doubted && disowned < MOST_DISOWNED => {
                    tracing::warn!(
                        name = self.name(),
                        "somebody else has written to this client's fence"
                    );
                    calls::disown(&mut request, fence, self.core.next_sequence());
                    disowned += 1;
                }
                _ => break ending,
            }
        };
        answered.doubtful |= doubted;
        answered.unanswered = doubted.then(|| began.elapsed());
        let unanswered = answered.unanswered;
        if batch.echo && !matches!(ending, Ending::Answer(_)) {
            self.lock().waiting.sharing.no_echo();
        }
        let (error, detail) = match ending {
            Ending::Answer(value) => match calls::read(&value, &steps) {
                Some((listeners, answers)) => {
                    answered.listeners = listeners;
                    answered.answers = answers.into_iter().zip(departure.known).collect();
                    self.arrive(batch.take(), answered);
                    return;
                }
                None => {
                    let detail = format!("unexpected answer {value:?}");
                    (unexpected_answer(self.name(), &value, None), detail)
                }
            },
            Ending::Refused(refusal) => (refused(self.name(), &refusal), refusal.detail),
            Ending::ShutDown => (self.shut_down(), CLIENT_CLOSED.to_owned()),
            Ending::NotSent => {
                for (step, known) in steps.iter().zip(&departure.known) {
                    self.note_refusal(step, known);
                }
                // Those who still wait travel with the next batch.
                let mut state = self.lock();
                for call in batch.take().calls.into_iter().rev() {
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
                for (step, known) in steps.iter().zip(&departure.known) {
                    self.note_silence(step, known);
                }
                let mut state = self.lock();
                state.waiting.doubt(&batch.take().turns);
                state.waiting.look_anew();
                state.doubtful = true;
                return;
            }
        };
        for (step, known) in steps.iter().zip(&departure.known) {
            match unanswered {
                None => self.note_refusal(step, known),
                Some(_) => self.note_silence(step, known),
            }
        }
        // A copy may still arrive.
        self.lock().doubtful |= unanswered.is_some();
        let error = Box::pin(self.core.explain(error, || self.typed_keys())).await;
        self.fail(batch.take(), &error, &detail, unanswered);
    }

    /// What is known of `steps` when they depart.
    fn prepare(
        &self,
        steps: &[Step],
        passed: Option<Duration>,
        now: Instant,
        sent: Moment,
    ) -> Departure {
        let known: Vec<Known> = steps.iter().map(|step| self.known(step)).collect();
        for (step, known) in steps.iter().zip(&known) {
            self.note_departure(step, known, sent + known.lease);
        }
        let state = self.lock();
        let fenced = state.doubtful || state.fenced_until.is_some_and(|until| now < until);
        let usual = match (&self.kind.usual, steps) {
            (Some(usual), [step]) if !fenced && passed.is_none() => {
                usual.request(&self.keys, &self.next, step, known[0])
            }
            _ => None,
        };
        Departure {
            known,
            usual,
            doubtful: state.doubtful,
            next: passed.map(|passed| (passed, patience(state.round_trip))),
            confirmed: state.waiting.listening.is_confirmed(),
        }
    }

    /// `step` is about to be sent, and what it leaves held ends at `until`.
    fn note_departure(&self, step: &Step, known: &Known, until: Moment) {
        let (holds, key) = (self.holds(), self.key());
        match step {
            Step::Acquire(claim) => holds.departs(key, &claim.owner, until),
            Step::Release(owner, _) => {
                holds.leaves(key, owner, known.number, true);
                if holds.term_without(key, owner, known.number).is_some() {
                    holds.departs(key, owner, until);
                }
            }
            Step::Force => {}
        }
    }

    /// It has not taken effect.
    pub(super) fn note_refusal(&self, step: &Step, known: &Known) {
        let (holds, key) = (self.holds(), self.key());
        let Some(owner) = step.owner() else { return };
        holds.stays(key, owner);
        // A guard is spent when its unlock has failed; nobody else would give that hold back.
        if let Step::Release(owner, None) = step {
            holds.leaves(key, owner, known.number, false);
        }
    }

    /// Nobody will know whether it has taken effect.
    pub(super) fn note_silence(&self, step: &Step, known: &Known) {
        if let Step::Release(owner, _) = step {
            self.holds().given_up(self.key(), owner, known.number);
        }
    }

    /// The request for any steps.
    fn request(&self, steps: &[Step], departure: &Departure) -> Request {
        let token = self.token.as_ref();
        let life = self.core.config.record_life();
        let known = &departure.known;
        let mut request =
            calls::request(self.kind, &self.keys, &self.next, token, life, steps, known);
        request.number(self.core.next_sequence());
        if departure.doubtful {
            request.doubt();
        }
        if let Some((passed, patience)) = departure.next {
            calls::come_next(&mut request, passed, patience);
        }
        request
    }

    fn typed_keys(&self) -> Vec<Typed> {
        let others = self.token.iter().chain([&self.next]);
        let others = others.map(|key| (Arc::clone(key), "string"));
        self.keys.typed().into_iter().chain(others).collect()
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
            let task = self.depart();
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
        state.asking.clear();
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
            (
                std::mem::take(&mut state.queue),
                state.waiting.waiters.take_all(),
            )
        };
        queue.retain_mut(|queued| !queued.is_pointless());
        let owed = queue.iter().filter_map(|queued| match queued {
            Queued::Call(call) if call.reply.is_none() => Some((&call.step, 1)),
            _ => None,
        });
        log::abandoned(self.name(), &log::list_of(owed));
        // Dropping the replies tells the callers.
        drop(queue);
        self.tell_all(waiters, &self.shut_down(), CLIENT_CLOSED);
    }

    fn driver(&self) -> &Driver {
        &self.driver
    }

    fn spawn(&self, task: Round) {
        self.core.runtime.spawn(task);
    }
}
