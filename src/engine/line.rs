//! The calls of one client on one object: queued, sent in rounds, answered one by one.
//!
//! A round takes what is queued, sends it as one script call, waits for the answer and tells the callers.
//! There is one round at a time, so the calls keep their order. Callers that wait for permits stand in
//! [`Waiters`] and are part of a round when there is reason to look: on their arrival, when this client
//! releases, when a message comes or may have been missed.
//!
//! Nothing is lost when a caller goes: a call that has been queued is carried out, and permits granted to
//! somebody who has gone are released with the next round.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::batch::{Answer, Batch, Call, Operation, Step, StepResult};
use super::core::Core;
use super::drive::{self, Driver, Inline, Round, Rounds};
use super::nudge;
use super::once::{Ending, Patience, Trouble, refused};
use super::request::Request;
use super::turns::Turns;
use super::waiters::{Waiter, Waiters};
use super::wakeups::{Listener, Wake};
use crate::error::{Error, Result};
use crate::redisson::names::Keys;
use crate::transport::{Reason, Refusal, Value};

/// One object of one client.
pub(crate) struct Line {
    core: Arc<Core>,
    keys: Keys,
    driver: Driver,
    state: Mutex<State>,
    /// Tells a nudge that is under way.
    released_again: Notify,
    itself: Weak<Line>,
}

struct State {
    queue: VecDeque<Queued>,
    waiters: Waiters,
    /// Permits may have become free since the waiters last asked.
    look: bool,
    /// What was free when that is known and not all of it could be used.
    free: Option<i64>,
    /// The counter behind the last batch.
    available: i64,
    /// When the last batch was sent that has been answered.
    seen: Option<Instant>,
    listening: Listening,
    turns: Turns,
    nudging: bool,
    /// A batch was given up whose copies may still reach the server.
    doubtful: bool,
    /// Counted as busy in the core.
    busy: bool,
    closed: bool,
}

/// How this line stands to its channel.
#[derive(Debug, Default)]
struct Listening {
    /// Asked for: there are waiters.
    wanted: bool,
    /// Messages are heard.
    confirmed: bool,
}

/// Something queued for the next round.
enum Queued {
    Call(Call),
    Command(Command),
}

/// A call that is no operation on the counter: a request of its own.
pub(crate) struct Command {
    pub(crate) operation: &'static str,
    pub(crate) request: Request,
    reply: Option<oneshot::Sender<Result<Value>>>,
    since: Instant,
}

/// What a round carries out.
enum Task {
    Batch(Batch),
    Command(Command),
}

impl Line {
    pub(crate) fn new(core: Arc<Core>, keys: Keys, closed: bool) -> Arc<Self> {
        Arc::new_cyclic(|itself| Line {
            core,
            keys,
            driver: Driver::default(),
            released_again: Notify::new(),
            itself: itself.clone(),
            state: Mutex::new(State {
                queue: VecDeque::new(),
                waiters: Waiters::new(),
                look: false,
                free: None,
                available: 0,
                seen: None,
                listening: Listening::default(),
                turns: Turns::default(),
                nudging: false,
                doubtful: false,
                busy: false,
                closed,
            }),
        })
    }

    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }

    fn name(&self) -> &str {
        self.keys.name()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic under this lock")
    }

    /// Carries `operation` out and returns its number. Queued at the first poll; carried out even when
    /// the future is dropped after that, and then its permits, if it took any, are given back.
    pub(crate) async fn call(self: &Arc<Self>, operation: Operation) -> Result<i64> {
        if let Operation::Release(permits) = operation
            && self.hand_over(permits)
        {
            return Ok(1);
        }
        let (reply, answer) = oneshot::channel();
        self.enqueue(Queued::Call(Call {
            operation,
            reply: Some(reply),
            since: Instant::now(),
        }))?;
        let permits = match operation {
            Operation::TryAcquire(permits) => permits,
            _ => 0,
        };
        Seat::new(self, permits, answer, None).served().await
    }

    /// Carries `operation` out with nobody waiting for it.
    pub(crate) fn call_detached(self: &Arc<Self>, operation: Operation) {
        if let Operation::Release(permits) = operation
            && self.hand_over(permits)
        {
            return;
        }
        let queued = self.enqueue(Queued::Call(Call {
            operation,
            reply: None,
            since: Instant::now(),
        }));
        match queued {
            Ok(()) => drive::kick(self),
            Err(error) => {
                tracing::error!(%error, operation = operation.name(), "not carried out");
            }
        }
    }

    /// Sends `request` in its turn.
    pub(crate) async fn command(
        self: &Arc<Self>,
        operation: &'static str,
        request: Request,
    ) -> Result<Value> {
        let (reply, answer) = oneshot::channel();
        self.enqueue(Queued::Command(Command {
            operation,
            request,
            reply: Some(reply),
            since: Instant::now(),
        }))?;
        let mut answer = answer;
        let answer = answer_of(&mut drive::drive(self), &mut answer).await;
        answer.unwrap_or_else(|| Err(self.shut_down()))
    }

    /// Lets a release serve waiting callers of this process without Redis; whether it did.
    ///
    /// It is as if the release and their acquisitions had run back to back, which leaves the counter as it
    /// is. That holds while the counter is not negative, so it must have been seen a moment ago: after
    /// `local_hand_over` the next release goes to Redis.
    fn hand_over(self: &Arc<Self>, permits: u32) -> bool {
        let window = self.core.config.local_hand_over;
        let mut state = self.lock();
        if state.closed || state.waiters.is_empty() || window.is_zero() || state.available < 0 {
            return false;
        }
        let now = Instant::now();
        let fresh = state.seen.is_some_and(|seen| now < seen + window);
        if !fresh || !state.turns.may_keep(now) {
            return false;
        }
        let served = state.waiters.serve_exactly(permits, now);
        self.leave_if_unneeded(&mut state);
        drop(state);
        let handed_over = !served.is_empty();
        for waiter in served {
            let permits = waiter.permits;
            if waiter.reply.send(Ok(1)).is_err() {
                self.call_detached(Operation::Release(permits));
            }
        }
        handed_over
    }

    /// Joins the line of those who wait for `permits` permits.
    pub(crate) fn join(self: &Arc<Self>, permits: u32) -> Result<Seat> {
        let (reply, answer) = oneshot::channel();
        let mut state = self.lock();
        if state.closed {
            return Err(self.shut_down());
        }
        // Behind others, and with nothing free that is known of, there is no reason to ask yet: whatever
        // wakes those in front looks for the newcomer, too.
        let wait_quietly = !state.waiters.is_empty()
            && state.listening.confirmed
            && i64::from(permits) > state.available;
        state.look |= !wait_quietly;
        let ticket = state.waiters.join(Waiter {
            permits,
            reply,
            asked: (!wait_quietly).then(Instant::now),
        });
        self.note_busy(&mut state);
        drop(state);
        Ok(Seat::new(self, permits, answer, Some(ticket)))
    }

    fn enqueue(&self, queued: Queued) -> Result<()> {
        let mut state = self.lock();
        if state.closed {
            return Err(self.shut_down());
        }
        state.queue.push_back(queued);
        self.note_busy(&mut state);
        Ok(())
    }

    fn shut_down(&self) -> Error {
        Error::ShutDown {
            name: self.name().to_owned(),
        }
    }

    /// Ends all waiting and refuses new calls; what is queued is carried out.
    pub(crate) fn close(self: &Arc<Self>) {
        let waiters = {
            let mut state = self.lock();
            state.closed = true;
            state.waiters.take_all()
        };
        for waiter in waiters {
            let _ = waiter.reply.send(Err(self.shut_down()));
        }
        drive::kick(self);
    }

    fn note_busy(&self, state: &mut State) {
        if !state.busy {
            state.busy = true;
            self.core.became_busy();
        }
    }

    /// Takes what the next round carries out.
    fn depart(&self, state: &mut State) -> Option<Task> {
        let now = Instant::now();
        if matches!(state.queue.front(), Some(Queued::Command(_))) {
            let Some(Queued::Command(command)) = state.queue.pop_front() else {
                unreachable!("looked at just now");
            };
            return Some(Task::Command(command));
        }
        let mut calls = VecDeque::new();
        while let Some(Queued::Call(_)) = state.queue.front() {
            if calls.len() == super::batch::MOST_CALLS {
                break;
            }
            if let Some(Queued::Call(call)) = state.queue.pop_front() {
                calls.push_back(call);
            }
        }
        let adds = calls.iter().any(|call: &Call| call.operation.adds());
        if adds && !state.waiters.is_empty() {
            state.look = true;
            state.free = None;
            if let Some(until) = state.turns.releasing(now) {
                self.look_again_at(until);
            }
        }
        let mut claim = Default::default();
        if state.look && !state.waiters.is_empty() && state.turns.may_claim(now) {
            claim = state.waiters.claim(now, state.free.take());
            state.look = false;
        }
        let batch = Batch::form(&mut calls, claim);
        for call in calls.into_iter().rev() {
            state.queue.push_front(Queued::Call(call));
        }
        (batch.len() > 0).then_some(Task::Batch(batch))
    }

    /// Looks for waiters at `instant`, when they have stood back for others.
    fn look_again_at(&self, instant: Instant) {
        let line = self.itself.clone();
        self.core.runtime.spawn(async move {
            tokio::time::sleep_until(instant).await;
            if let Some(line) = line.upgrade() {
                drive::kick(&line);
            }
        });
    }

    async fn carry_out_batch(&self, mut batch: Batch) {
        let (doubtful, confirmed) = {
            let state = self.lock();
            (state.doubtful, state.listening.confirmed)
        };
        let mut request = batch.request(&self.keys, self.core.config.record_life(), doubtful);
        let callers = |trouble: &Trouble<'_>| self.tell_impatient(trouble, &mut batch);
        request.number(self.core.next_sequence());
        let sent = Instant::now();
        let ending = self.core.carry_out(&mut request, callers).await;
        let answer = match ending {
            Ending::Answer(value) => match Answer::read(&value, batch.len()) {
                Some(Answer::Done {
                    listeners,
                    available,
                    results,
                }) => {
                    self.lock().seen = Some(sent);
                    self.arrive(batch, &results, available, listeners, confirmed);
                    return;
                }
                Some(Answer::Unreadable(found)) => Error::NotANumber {
                    name: self.name().to_owned(),
                    found,
                },
                Some(Answer::Refused(error)) => refused(self.name(), &Refusal::from_text(&error)),
                Some(Answer::Stale) | None => Error::Server {
                    name: self.name().to_owned(),
                    detail: format!("unexpected answer {value:?}"),
                },
            },
            Ending::Refused(refusal) => {
                // What one call needs may be forbidden while the others' needs are not.
                if refusal.reason == Reason::Permission && batch.len() > 1 {
                    for single in batch.split() {
                        Box::pin(self.carry_out_batch(single)).await;
                    }
                    return;
                }
                refused(self.name(), &refusal)
            }
            Ending::NotSent => {
                // Those who still wait travel with the next batch.
                let mut state = self.lock();
                let calls: Vec<Call> = batch.into_steps().flat_map(|step| step.calls).collect();
                for call in calls.into_iter().rev() {
                    state.queue.push_front(Queued::Call(call));
                }
                state.look = true;
                return;
            }
            Ending::Unknown => {
                tracing::error!(name = self.name(), "the outcome of a batch stays unknown");
                let mut state = self.lock();
                state.look = true;
                state.doubtful = true;
                return;
            }
        };
        self.fail(batch, &answer);
    }

    /// Tells the callers of a batch what has become of their calls.
    fn arrive(
        &self,
        mut batch: Batch,
        results: &[StepResult],
        available: i64,
        listeners: Option<u64>,
        confirmed: bool,
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

        let (granted, nudge) = {
            let mut state = self.lock();
            state.available = available;
            let granted = state.waiters.serve(&claim, &served, now);
            if !claim.is_empty() && !state.waiters.is_empty() {
                if claim.is_satisfied(&served) {
                    state.look = true;
                } else if !state.look && state.waiters.somebody_fits(available, now) {
                    // A message that came meanwhile would be a reason to ask without this knowledge.
                    state.look = true;
                    state.free = Some(available);
                }
            }
            self.listen_if_needed(&mut state, confirmed);
            let own = u64::from(state.listening.confirmed);
            let others = listeners.map(|listeners| listeners.saturating_sub(own));
            if let Some(others) = others {
                state.turns.seen(others);
            }
            // An answer out of the record does not know how many heard the announcement.
            let somebody = others.is_none_or(|others| others > 0);
            let asleep = adds && available > 0 && somebody;
            let nudge = asleep && !state.nudging;
            state.nudging |= nudge;
            if asleep && !nudge {
                self.released_again.notify_one();
            }
            (granted, nudge)
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
        if nudge && let Some(line) = self.itself.upgrade() {
            nudge::start(&line);
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

    /// Queues the release of permits that were granted to callers who have gone.
    fn give_back(&self, surplus: &[u32]) {
        if surplus.is_empty() {
            return;
        }
        let since = Instant::now();
        let mut state = self.lock();
        for permits in surplus {
            state.queue.push_back(Queued::Call(Call {
                operation: Operation::Release(*permits),
                reply: None,
                since,
            }));
        }
        self.note_busy(&mut state);
    }

    /// Nothing of `batch` has taken effect, because of `error`.
    fn fail(&self, batch: Batch, error: &Error) {
        let mut waiters = Vec::new();
        if !batch.claim.is_empty() {
            // What stops the first ones stops all.
            let mut state = self.lock();
            waiters = state.waiters.take_all();
            self.leave_if_unneeded(&mut state);
        }
        for waiter in waiters {
            let _ = waiter.reply.send(Err(error.clone()));
        }
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
    fn tell_impatient(&self, trouble: &Trouble<'_>, batch: &mut Batch) -> Patience {
        let window = self.core.config.retry_window;
        let now = trouble.now;
        let mut owed = false;
        let mut told = false;
        let mut next: Option<Instant> = None;
        let mut later = |due: Instant| next = Some(next.map_or(due, |next| next.min(due)));
        batch.retain_calls(|call| {
            let due = call.since + window;
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
        for waiter in overdue {
            let error = match waiter.asked {
                Some(since) => trouble.error(self.name(), "acquire", since),
                None => continue,
            };
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
    fn tell_queued(&self, trouble: &Trouble<'_>) {
        let window = self.core.config.retry_window;
        let overdue = |since: Instant| since + window <= trouble.now;
        let untouched = Trouble {
            doubtful: false,
            ..*trouble
        };
        let mut state = self.lock();
        state.queue.retain_mut(|queued| match queued {
            Queued::Call(call) if call.reply.is_some() && overdue(call.since) => {
                let error = untouched.error(self.keys.name(), call.operation.name(), call.since);
                if let Some(reply) = call.reply.take() {
                    let _ = reply.send(Err(error));
                }
                // A release that its caller has been told did not happen must not happen.
                false
            }
            Queued::Command(command) if overdue(command.since) => {
                let error = untouched.error(self.keys.name(), command.operation, command.since);
                if let Some(reply) = command.reply.take() {
                    let _ = reply.send(Err(error));
                }
                false
            }
            _ => true,
        });
    }

    async fn carry_out_command(&self, mut command: Command) {
        let window = self.core.config.retry_window;
        let Command {
            operation,
            ref mut request,
            ref mut reply,
            since,
        } = command;
        let callers = |trouble: &Trouble<'_>| {
            self.tell_queued(trouble);
            if since + window > trouble.now {
                return Patience::Until(since + window);
            }
            if let Some(reply) = reply.take() {
                let _ = reply.send(Err(trouble.error(self.name(), operation, since)));
            }
            Patience::Nobody
        };
        request.number(self.core.next_sequence());
        let answer = match self.core.carry_out(request, callers).await {
            Ending::Answer(value) => Ok(value),
            Ending::Refused(refusal) => Err(refused(self.name(), &refusal)),
            Ending::NotSent => return,
            Ending::Unknown => {
                self.lock().doubtful = true;
                return;
            }
        };
        if let Some(reply) = command.reply {
            let _ = reply.send(answer);
        }
    }

    /// With waiters left, the channel must be heard; `confirmed` says whether it was heard already when
    /// they asked last.
    fn listen_if_needed(&self, state: &mut State, confirmed: bool) {
        self.leave_if_unneeded(state);
        if state.listening.wanted || !state.waiters.somebody_was_answered() {
            return;
        }
        state.listening.wanted = true;
        let stands = self
            .core
            .wakeups
            .listen(self.keys.channel(), &self.listener());
        state.listening.confirmed = stands;
        // A message between their question and the subscription would have been missed.
        state.look |= stands && !confirmed;
    }

    fn listener(&self) -> Weak<dyn Listener> {
        self.itself.clone()
    }

    fn leave_if_unneeded(&self, state: &mut State) {
        if state.waiters.is_empty() && state.listening.wanted {
            state.listening.wanted = false;
            self.core
                .wakeups
                .leave(self.keys.channel(), &self.listener());
        }
    }

    /// How many of the channel's listeners are this client itself.
    pub(crate) fn own_subscriptions(&self) -> u64 {
        u64::from(self.lock().listening.confirmed)
    }

    /// Ends when a release has left permits while somebody else listens.
    pub(crate) async fn released_again(&self) {
        self.released_again.notified().await;
    }

    /// Whether there may still be permits for someone asleep; if not, nudging ends.
    pub(crate) fn wants_nudge(&self) -> bool {
        let mut state = self.lock();
        state.nudging = state.available > 0 && !state.closed;
        state.nudging
    }

    pub(crate) fn nudge_ended(&self) {
        self.lock().nudging = false;
    }
}

impl Rounds for Line {
    fn round(self: Arc<Self>) -> Round {
        let runtime = self.core.runtime.clone();
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
        let claims =
            state.look && !state.waiters.is_empty() && state.turns.may_claim(Instant::now());
        if !state.queue.is_empty() || claims {
            return true;
        }
        // Callers that wait for permits are not owed anything.
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
            (std::mem::take(&mut state.queue), state.waiters.take_all())
        };
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

impl Listener for Line {
    fn wake(&self, wake: &Wake) {
        let Some(line) = self.itself.upgrade() else {
            return;
        };
        let mut state = self.lock();
        match wake {
            Wake::Confirmed => state.listening.confirmed = true,
            Wake::Look => {}
            Wake::Lost => {
                state.listening.confirmed = false;
                return;
            }
            Wake::Ended => {
                // Somebody may have asked for it again in this very moment.
                state.listening.confirmed &= state.listening.wanted;
                return;
            }
            Wake::Refused(refusal) => {
                state.listening = Listening::default();
                let waiters = state.waiters.take_answered();
                drop(state);
                tell_all(waiters, &refused(self.name(), refusal));
                return;
            }
        }
        state.look = true;
        state.free = None;
        let waiting = !state.waiters.is_empty();
        if waiting {
            self.note_busy(&mut state);
        }
        drop(state);
        if waiting {
            drive::kick(&line);
        }
    }
}

fn tell_all(waiters: Vec<Waiter>, error: &Error) {
    for waiter in waiters {
        let _ = waiter.reply.send(Err(error.clone()));
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.core.forget(self.keys.object());
    }
}

/// Waits for `answer`, carrying a round out first if that has fallen to this caller. `None`: nobody is
/// left to answer.
async fn answer_of<T>(
    inline: &mut Option<Inline<Line>>,
    answer: &mut oneshot::Receiver<T>,
) -> Option<T> {
    std::future::poll_fn(|cx| {
        let Some(round) = inline else {
            return Poll::Ready(());
        };
        // Without its waker in the channel, an answer that comes out of its own round does not wake the
        // caller for a second time. The round may go on behind the answer; a task sees to that.
        if Pin::new(round).poll(cx).is_pending() && answer.is_empty() && !answer.is_terminated() {
            return Poll::Pending;
        }
        *inline = None;
        Poll::Ready(())
    })
    .await;
    answer.await.ok()
}

/// A caller's place: what it has asked for, and where the answer comes.
///
/// Dropped before the answer was read, it leaves the line and gives back what was granted meanwhile.
pub(crate) struct Seat {
    line: Arc<Line>,
    permits: u32,
    answer: oneshot::Receiver<Result<i64>>,
    ticket: Option<u64>,
    inline: Option<Inline<Line>>,
}

impl Seat {
    fn new(
        line: &Arc<Line>,
        permits: u32,
        answer: oneshot::Receiver<Result<i64>>,
        ticket: Option<u64>,
    ) -> Self {
        Seat {
            inline: drive::drive(line),
            line: Arc::clone(line),
            permits,
            answer,
            ticket,
        }
    }

    /// Waits for the answer.
    pub(crate) async fn served(&mut self) -> Result<i64> {
        let answer = answer_of(&mut self.inline, &mut self.answer).await;
        self.ticket = None;
        self.permits = 0;
        answer.unwrap_or_else(|| Err(self.line.shut_down()))
    }

    /// Waits for the answer until `deadline`, and then for the answer to one last try.
    pub(crate) async fn served_until(&mut self, deadline: Instant) -> Result<bool> {
        match tokio::time::timeout_at(deadline, self.served()).await {
            Ok(answer) => answer,
            Err(_) => {
                self.try_for_the_last_time();
                self.served().await
            }
        }
        .map(|granted| granted == 1)
    }

    fn try_for_the_last_time(&mut self) {
        let Some(ticket) = self.ticket.take() else {
            return;
        };
        let mut state = self.line.lock();
        // Not there any more: the answer is on its way.
        let Some(waiter) = state.waiters.leave(ticket) else {
            return;
        };
        // A large request that goes may have stood in the way of smaller ones.
        state.look = true;
        state.free = None;
        self.line.leave_if_unneeded(&mut state);
        state.queue.push_back(Queued::Call(Call {
            operation: Operation::TryAcquire(waiter.permits),
            reply: Some(waiter.reply),
            since: Instant::now(),
        }));
        self.line.note_busy(&mut state);
        drop(state);
        // The round that is under way, if it is this caller's own, must go on while it waits.
        if self.inline.is_none() {
            self.inline = drive::drive(&self.line);
        } else {
            drive::kick(&self.line);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.answer.close();
        if let Ok(Ok(1)) = self.answer.try_recv()
            && self.permits > 0
        {
            self.line.call_detached(Operation::Release(self.permits));
        } else if let Some(ticket) = self.ticket {
            let mut state = self.line.lock();
            if state.waiters.leave(ticket).is_some() {
                // A large request that has gone may have stood in the way of smaller ones.
                state.look = true;
                state.free = None;
                self.line.leave_if_unneeded(&mut state);
                let waiting = !state.waiters.is_empty();
                drop(state);
                if waiting {
                    drive::kick(&self.line);
                }
            }
        }
    }
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line")
            .field("keys", &self.keys)
            .finish_non_exhaustive()
    }
}

/// Retry windows and the like are far below the range of `Instant`.
pub(crate) fn deadline(wait: Duration) -> Option<Instant> {
    Instant::now().checked_add(wait)
}
