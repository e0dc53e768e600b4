//! The half of a line to which things happen: callers come and go, messages arrive, the client is shut down.

use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::channels::Channels;
use super::envelope::{self, Answer};
use super::locked::Locked;
use super::pending::Pending;
use super::state::{Item, State};
use super::{Outcome, Primitive, Ticket, Told, Unlearned};
use crate::engine::Core;
use crate::engine::answer::{self, answer_of};
use crate::engine::command::{Command, Commands};
use crate::engine::drive::{self, Driver, Inline};
use crate::engine::keys::Keys;
use crate::engine::once::{refused, shut_down, unexpected_answer};
use crate::engine::registry::Shared;
use crate::engine::request::{Arg, Request, Script};
use crate::engine::timer::{Rings, Timer};
use crate::engine::wakeups::{Listener, Wake};
use crate::error::{Error, Result};
use crate::sync::Mutex;
use crate::transport::{Refusal, Value};

/// One object of one client.
pub(crate) struct Line<P: Primitive> {
    pub(super) core: Arc<Core>,
    pub(super) keys: Keys,
    pub(super) script: &'static LazyLock<Script>,
    pub(super) driver: Driver,
    inner: Mutex<Inner<P>>,
    /// Where the client's registry has it.
    place: Arc<str>,
    itself: Weak<Line<P>>,
}

/// All that the lock guards.
pub(super) struct Inner<P: Primitive> {
    pub(super) state: State<P>,
    pub(super) channels: Channels,
    timer: Timer,
    /// Counted as busy in the core.
    pub(super) busy: bool,
    /// While a call is to be made later, or what is known of others counts: the last handle may have gone.
    kept: Option<Arc<Line<P>>>,
    /// The channels that were heard when the last batch departed that was answered.
    heard: Vec<String>,
    /// How many requests the client had sent before the last batch departed.
    pub(super) sent_before: u64,
}

impl<P: Primitive> Line<P> {
    /// The client's one line of the object with these names.
    pub(crate) fn of(
        core: &Arc<Core>,
        keys: Keys,
        script: &'static LazyLock<Script>,
        primitive: P,
    ) -> Arc<Self> {
        let object = Arc::clone(keys.object());
        let keys = keys.in_cluster(core.connection.is_cluster());
        Line::at(core, &object, || (keys, script, primitive))
    }

    /// The client's one line that is registered as `place`.
    pub(crate) fn at(
        core: &Arc<Core>,
        place: &Arc<str>,
        make: impl FnOnce() -> (Keys, &'static LazyLock<Script>, P),
    ) -> Arc<Self> {
        core.objects.find_or_make(P::KIND, place, |closed| {
            let (keys, script, primitive) = make();
            let mut state = State::new(primitive, closed);
            state.apart = core.config.replicas.is_some();
            Arc::new_cyclic(|itself| Line {
                place: Arc::clone(place),
                core: Arc::clone(core),
                keys,
                script,
                driver: Driver::default(),
                inner: Mutex::new(Inner {
                    state,
                    channels: Channels::default(),
                    timer: Timer::default(),
                    busy: false,
                    kept: None,
                    heard: Vec::new(),
                    sent_before: 0,
                }),
                itself: itself.clone(),
            })
        })
    }

    pub(super) fn name(&self) -> &str {
        self.keys.name()
    }

    pub(super) fn lock(&self) -> Locked<'_, P> {
        Locked::new(self.inner.lock(), self)
    }

    /// Carries `call` out. Queued at the first poll. When the future is dropped after that, what is
    /// [owed](Primitive::is_owed) is carried out all the same, anything else only if it has been sent.
    pub(crate) async fn call(self: &Arc<Self>, call: P::Call) -> Result<P::Reply> {
        self.keys.check()?;
        let (reply, outcome) = oneshot::channel();
        let now = Instant::now();
        self.add(self.lock(), |state| state.call(call, Some(reply), now))?;
        let inline = self.drive();
        match Pending::new(self, outcome, None, inline).await? {
            Outcome::Reply(reply) => Ok(reply),
            _ => unreachable!("a call does not wait, and what was refused is an error"),
        }
    }

    /// Waits for `want`, for `wait` at the most (`None`: without limit), and asks once more at the end of it; a wait of zero
    /// asks once. `None` when the time has run out. When the future is dropped, what it was granted is given back.
    pub(crate) async fn wait(
        self: &Arc<Self>,
        want: P::Want,
        wait: Option<Duration>,
    ) -> Result<Option<P::Grant>> {
        let (reply, outcome) = oneshot::channel();
        let (ticket, work) = self.begin(|state| {
            // Not before it has the lock: who came when a batch had departed is not told by its answer to wait.
            let now = Instant::now();
            // A wait that the clock cannot express has no end.
            let deadline = wait.and_then(|wait| now.checked_add(wait));
            let ticket = state.join(want, reply, deadline, now);
            (ticket, state.has_work())
        })?;
        let inline = if work {
            self.drive()
        } else {
            // Who carries a round out may leave it alone.
            drive::let_caller_go(self);
            None
        };
        match Pending::new(self, outcome, Some(ticket), inline).await? {
            Outcome::Granted(grant) => Ok(Some(grant)),
            Outcome::InVain => Ok(None),
            _ => unreachable!("a wait is no call, and what was refused is an error"),
        }
    }

    /// Queues `call` with nobody waiting for the answer. It is carried out as long as there is a connection.
    pub(crate) fn owe(self: &Arc<Self>, call: P::Call) {
        let mut inner = self.lock();
        if inner.state.closed && self.core.is_finished() {
            let (error, call) = (self.shut_down(), P::details(&call));
            drop(inner);
            tracing::error!(%error, call, "not carried out");
            return;
        }
        inner.state.owe([call], Instant::now());
        self.kick_if_needed(inner);
    }

    /// Changes how the primitive goes on.
    pub(crate) fn change(&self, change: impl FnOnce(&mut P)) {
        let mut inner = self.lock();
        change(&mut inner.state.primitive);
        self.listen_as_needed(&mut inner, &[]);
    }

    /// Carries an operation out that has a script of its own behind the envelope, once, in its turn: its words. `steps` are its
    /// arguments; its keys are the record, the object, the `channel`, the object's parts and `others`.
    pub(crate) async fn alone(
        self: &Arc<Self>,
        operation: &'static str,
        script: &'static LazyLock<Script>,
        channel: &Arc<str>,
        others: Vec<Arc<str>>,
        steps: Vec<Arg>,
    ) -> Result<String> {
        self.keys.check()?;
        let own = [self.keys.record(), self.keys.object(), channel];
        let mut keys: Vec<Arc<str>> = own.into_iter().chain(self.keys.parts()).cloned().collect();
        keys.extend(others);
        let life = self.core.config.record_life();
        let request = envelope::alone(script, keys, life, steps);
        let value = self.command(operation, request).await?;
        match Answer::read(&envelope::text(&value)) {
            Some(Answer::Done(words)) => Ok(words.to_owned()),
            Some(Answer::Refused(error)) => Err(refused(self.name(), &Refusal::from_text(error))),
            _ => Err(unexpected_answer(self.name(), &value, None)),
        }
    }

    pub(super) fn itself(&self) -> Option<Arc<Self>> {
        self.itself.upgrade()
    }

    /// The client that it belongs to.
    pub(crate) fn client(&self) -> &Arc<Core> {
        &self.core
    }

    /// Something new has come, unless the client has been shut down.
    fn begin<T>(&self, add: impl FnOnce(&mut State<P>) -> T) -> Result<T> {
        self.keys.check()?;
        self.add(self.lock(), add)
    }

    fn add<T>(&self, mut inner: Locked<'_, P>, add: impl FnOnce(&mut State<P>) -> T) -> Result<T> {
        if inner.state.closed {
            return Err(self.shut_down());
        }
        let added = add(&mut inner.state);
        if std::mem::take(&mut inner.state.waits_unasked) {
            let heard = std::mem::take(&mut inner.heard);
            self.listen_as_needed(&mut inner, &heard);
            inner.heard = heard;
        }
        if inner.state.has_work() {
            self.note_busy(&mut inner);
        }
        self.unlock(inner);
        Ok(added)
    }

    /// Sees to what has come.
    pub(super) fn drive(self: &Arc<Self>) -> Option<Inline<Self>> {
        answer::drive(self, &self.core.runtime)
    }

    /// A caller does not wait any more.
    pub(super) fn leave(self: &Arc<Self>, ticket: Ticket) {
        let mut inner = self.lock();
        inner.state.leave(ticket, Instant::now());
        self.listen_as_needed(&mut inner, &[]);
        self.kick_if_needed(inner);
    }

    /// Nobody has learned of this outcome.
    pub(super) fn nobody_learned(self: &Arc<Self>, outcome: Outcome<P>) {
        match outcome.unlearned() {
            Some(Unlearned::Owed(call)) => self.owe(call),
            Some(Unlearned::Refused(refused)) => {
                let mut inner = self.lock();
                inner.state.nobody_learned(refused, Instant::now());
                self.unlock(inner);
            }
            None => {}
        }
    }

    fn kick_if_needed(self: &Arc<Self>, mut inner: Locked<'_, P>) {
        if inner.state.has_work() {
            self.note_busy(&mut inner);
            drop(inner);
            drive::kick(self);
        }
    }

    /// Tells callers, and sees to what nobody has learned of.
    pub(super) fn tell(&self, told: Told<P>) {
        let unlearned = told.tell();
        if unlearned.is_empty() {
            return;
        }
        let mut inner = self.lock();
        inner.state.unlearned(unlearned, Instant::now());
        self.see_to_it(inner);
    }

    /// Ends a change after which there may be something to do, now or earlier than before.
    fn see_to_it(&self, mut inner: Locked<'_, P>) {
        let work = inner.state.has_work();
        if work {
            self.note_busy(&mut inner);
        }
        self.unlock(inner);
        if work && let Some(line) = self.itself() {
            drive::kick(&line);
        }
    }

    /// Ends a change after which something may be due earlier than before.
    pub(super) fn unlock(&self, mut inner: Locked<'_, P>) {
        if inner.state.waiters.is_empty() && !inner.state.stays() && inner.kept.is_none() {
            return;
        }
        self.keep_as_needed(&mut inner);
        let (alarm, waits) = (inner.state.alarm(), !inner.state.waiters.is_empty());
        let task = inner.timer.set(alarm, waits, &self.itself);
        drop(inner);
        // Where the runtime has ended, the task is dropped here, and takes the lock.
        if let Some(task) = task {
            self.core.runtime.spawn(task);
        }
    }

    /// Others may depend on a call that is to be made later; or on what is known of them. Whoever calls holds the line, too.
    pub(super) fn keep_as_needed(&self, inner: &mut Inner<P>) {
        inner.kept = match inner.state.stays() {
            true => self.itself.upgrade(),
            false => None,
        };
    }

    /// The channels are heard as long as somebody waits who has been told to; `heard` were when those asked last.
    pub(super) fn listen_as_needed(&self, inner: &mut Inner<P>, heard: &[String]) {
        let Inner {
            state, channels, ..
        } = inner;
        let wanted = if state.listens() {
            state
                .primitive
                .channels(self.keys.channel(), &state.waiters)
        } else {
            Vec::new()
        };
        if !wanted.is_empty() || channels.are_wanted() {
            let listener: Weak<dyn Listener> = self.itself.clone();
            state.look |= channels.set(&self.core.wakeups, &listener, wanted, heard);
        }
    }

    /// The same behind a batch which departed when `heard` were.
    pub(super) fn listen_behind(&self, inner: &mut Inner<P>, heard: Vec<String>) {
        self.listen_as_needed(inner, &heard);
        inner.heard = heard;
    }

    pub(super) fn shut_down(&self) -> Error {
        shut_down(self.name())
    }

    pub(super) fn note_busy(&self, inner: &mut Inner<P>) {
        self.core.note_busy(&mut inner.busy);
    }
}

impl<P: Primitive> Commands for Line<P> {
    fn core(&self) -> &Core {
        &self.core
    }

    fn keys(&self) -> &Keys {
        &self.keys
    }

    fn announced_at<'a>(&self, _: &'a Keys) -> Option<&'a Arc<str>> {
        None
    }

    async fn command(self: &Arc<Self>, operation: &'static str, request: Request) -> Result<Value> {
        let (command, mut answer) = Command::new(operation, request);
        self.begin(|state| state.push(Item::Command(Box::new(command))))?;
        let answer = answer_of(&mut self.drive(), &mut answer).await;
        answer.unwrap_or_else(|| Err(self.shut_down()))
    }
}

impl<P: Primitive> Listener for Line<P> {
    fn wake(&self, channel: &str, wake: &Wake) {
        let Some(line) = self.itself.upgrade() else {
            return;
        };
        let now = Instant::now();
        let mut inner = self.lock();
        let look = inner.channels.hear(channel, wake);
        match wake {
            Wake::Refused(_) if inner.state.primitive.does_without(channel) => {
                self.listen_as_needed(&mut inner, &[]);
                inner.state.look = true;
            }
            Wake::Refused(refusal) => {
                let error = refused(self.name(), refusal);
                let told = inner.state.cannot_listen(self.name(), &error, now);
                drop(inner);
                self.tell(told);
                drive::kick(&line);
                return;
            }
            _ => inner.state.heard(channel, wake, look, now),
        }
        self.see_to_it(inner);
    }
}

impl<P: Primitive> Rings for Line<P> {
    fn ring(&self) -> (Option<Instant>, bool) {
        let mut inner = self.lock();
        inner.state.ring(Instant::now());
        self.keep_as_needed(&mut inner);
        let (alarm, waits) = (inner.state.alarm(), !inner.state.waiters.is_empty());
        let next = inner.timer.next(alarm, waits);
        let work = inner.state.has_work();
        if work {
            self.note_busy(&mut inner);
        }
        (next, work)
    }
}

impl<P: Primitive> Shared for Line<P> {
    fn waiting(&self) -> usize {
        self.lock().state.waiters.len()
    }

    fn close(self: Arc<Self>) {
        let told = {
            let mut inner = self.lock();
            // Where nothing was sent since then, nothing was asked; nor will it be, as those have left whom it names.
            let key = Some(&**self.keys.object());
            let sent = self.core.sent.since(inner.sent_before, key);
            let told = inner.state.close(self.keys.name(), sent, Instant::now());
            self.listen_as_needed(&mut inner, &[]);
            self.keep_as_needed(&mut inner);
            if inner.state.has_plans() || inner.state.has_work() {
                self.note_busy(&mut inner);
            }
            told
        };
        self.tell(told);
        drive::kick(&self);
    }
}

impl<P: Primitive> Drop for Line<P> {
    fn drop(&mut self) {
        let mut inner = self.lock();
        inner.timer.end();
        // Whoever had come has gone before anything was carried out.
        self.core.note_idle(&mut inner.busy);
        drop(inner);
        self.core.objects.forget(P::KIND, &self.place);
    }
}

impl<P: Primitive> std::fmt::Debug for Line<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line")
            .field("keys", &self.keys)
            .finish_non_exhaustive()
    }
}
