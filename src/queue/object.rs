//! One object of one client: callers come and go, messages arrive, the client is shut down.

use std::sync::{Arc, LazyLock, Weak};

use tokio::time::Instant;

use super::outcome::Ticket;
use super::primitive::{Held, Primitive};
use super::state::State;
use super::waiters::Id;
use crate::engine::Core;
use crate::engine::drive::{self, Driver};
use crate::engine::keys::Keys;
use crate::engine::once::{CLIENT_CLOSED, refused};
use crate::engine::registry::Shared;
use crate::engine::request::Script;
use crate::engine::timer::{Rings, Timer};
use crate::engine::wakeups::{Listener, Subscription, Wake};
use crate::error::Error;
use crate::lease::Lease;
use crate::sync::{Mutex, MutexGuard};

/// Begins a message of this crate to JVMs, where a client of ours listens, too. Java takes it for the sign of a number.
const OURS: u8 = b'+';

/// Where the queue of an object stands.
#[derive(Debug, Clone)]
pub(crate) struct QueueKeys {
    pub(crate) queue: Arc<str>,
    /// A further key of the primitive: the grants, or the last fencing token.
    pub(crate) beside: Arc<str>,
    pub(crate) notes: Arc<str>,
    /// Where this client is notified.
    pub(crate) own_channel: Arc<str>,
    /// This client's id.
    pub(crate) client: Arc<str>,
}

impl QueueKeys {
    /// Those of `client`, which is notified at a channel that is called like the queue.
    pub(crate) fn new(queue: String, beside: String, notes: String, client: &str) -> Self {
        QueueKeys {
            own_channel: format!("{queue}:{client}").into(),
            queue: queue.into(),
            beside: beside.into(),
            notes: notes.into(),
            client: client.into(),
        }
    }
}

/// One object of one client.
pub(crate) struct Object<P: Primitive> {
    pub(super) core: Arc<Core>,
    pub(super) keys: Keys,
    pub(super) queue: QueueKeys,
    pub(super) driver: Driver,
    pub(super) script: &'static LazyLock<Script>,
    /// Where the client finds it again.
    place: Arc<str>,
    inner: Mutex<Inner<P>>,
    itself: Weak<Object<P>>,
}

pub(super) struct Inner<P: Primitive> {
    pub(super) state: State<P>,
    timer: Timer,
    /// Counted as busy in the core.
    pub(super) busy: bool,
    /// While there is something to be done though the last handle may have gone.
    pub(super) kept: Option<Arc<Object<P>>>,
    /// For notifications to this client; and for messages to JVMs.
    own: Option<Subscription>,
    jvms: Option<Subscription>,
}

impl<P: Primitive> Object<P> {
    /// The client's one of the object with these names, whose calls `script` carries out; `held` makes what it holds of it.
    pub(crate) fn of(
        core: &Arc<Core>,
        names: (Keys, QueueKeys),
        script: &'static LazyLock<Script>,
        held: impl FnOnce(&Arc<Core>, &Keys, &QueueKeys) -> P::Held,
    ) -> Arc<Self> {
        let place = Arc::clone(names.0.object());
        Self::at(core, place, names, script, held)
    }

    /// The same where the client may have several of one object.
    pub(crate) fn at(
        core: &Arc<Core>,
        place: Arc<str>,
        (keys, queue): (Keys, QueueKeys),
        script: &'static LazyLock<Script>,
        held: impl FnOnce(&Arc<Core>, &Keys, &QueueKeys) -> P::Held,
    ) -> Arc<Self> {
        core.objects
            .find_or_make(P::KIND, &Arc::clone(&place), |closed| {
                let keys = keys.in_cluster(core.connection.is_cluster());
                let held = held(core, &keys, &queue);
                let state = State::new(core, keys.name(), held, closed);
                Arc::new_cyclic(|itself| Object {
                    script,
                    place,
                    core: Arc::clone(core),
                    keys,
                    queue,
                    driver: Driver::default(),
                    inner: Mutex::new(Inner {
                        state,
                        timer: Timer::default(),
                        busy: false,
                        kept: None,
                        own: None,
                        jvms: None,
                    }),
                    itself: itself.clone(),
                })
            })
    }

    pub(crate) fn client(&self) -> &Arc<Core> {
        &self.core
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }

    /// The key beside the object.
    pub(crate) fn beside(&self) -> &Arc<str> {
        &self.queue.beside
    }

    /// The channel of the waiters to notify, as the object has the name of these keys from now on.
    pub(crate) fn announced_at<'a>(&self, keys: &'a Keys) -> Option<&'a Arc<str>> {
        P::TELLS_AGAIN.then(|| keys.channel())
    }

    pub(super) fn name(&self) -> &str {
        self.keys.name()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner<P>> {
        self.inner.lock()
    }

    /// Carries `call` out without a caller.
    pub(crate) fn defer(self: &Arc<Self>, call: P::Call) {
        let mut inner = self.lock();
        let now = Instant::now();
        if inner.state.hand_off(&call, now) {
            return self.finish(inner);
        }
        if inner.state.closed && self.core.is_finished() {
            let (error, call) = (self.gone(), call.to_string());
            drop(inner);
            tracing::error!(%error, call, "not carried out");
            return;
        }
        inner.state.call(call, None, now);
        self.finish(inner);
    }

    /// The lease of what is held under `ticket`.
    pub(crate) fn lease(&self, ticket: Ticket) -> Option<Lease> {
        self.lock().state.held.lease(ticket)
    }

    /// Reads or changes what is held.
    pub(crate) fn with_held<T>(&self, change: impl FnOnce(&mut P::Held) -> T) -> T {
        let mut inner = self.lock();
        let changed = change(&mut inner.state.held);
        self.unlock(inner);
        changed
    }

    /// A waiter has gone.
    pub(super) fn leave(self: &Arc<Self>, waiter: Id) {
        let mut inner = self.lock();
        inner.state.leave(waiter, Instant::now());
        self.finish(inner);
    }

    /// The error for a call, as the client has ended.
    pub(super) fn gone(&self) -> Error {
        self.core.gone(self.name())
    }

    /// Ends a change: starts the work that is left, and answers callers.
    pub(super) fn finish(&self, mut inner: MutexGuard<'_, Inner<P>>) {
        self.listen(&mut inner);
        let work = inner.state.has_work();
        if work {
            self.core.note_busy(&mut inner.busy);
        }
        let replies = std::mem::take(&mut inner.state.replies);
        self.unlock_listening(inner);
        let somebody = !replies.is_empty();
        let unclaimed = replies.send();
        if let Some(object) = self.itself.upgrade() {
            if work {
                drive::kick(&object);
            } else if somebody {
                // A caller that carries a batch out may have its answer.
                drive::let_caller_go(&object);
            }
            for grant in unclaimed {
                object.defer(P::give_back(grant));
            }
        }
    }

    /// Ends a change: subscriptions and the timer are as it asks for.
    pub(super) fn unlock(&self, mut inner: MutexGuard<'_, Inner<P>>) {
        self.listen(&mut inner);
        self.unlock_listening(inner);
    }

    fn unlock_listening(&self, mut inner: MutexGuard<'_, Inner<P>>) {
        let (alarm, waits) = (inner.state.alarm(), inner.state.waiting() > 0);
        inner.kept = if inner.state.stays() {
            self.itself.upgrade()
        } else {
            None
        };
        let task = inner.timer.set(alarm, waits, &self.itself);
        drop(inner);
        if let Some(task) = task {
            self.core.runtime.spawn(task);
        }
    }

    /// The channels are subscribed as long as the state listens. That of JVMs goes first: a client with that subscription alone is taken for
    /// a JVM.
    fn listen(&self, inner: &mut Inner<P>) {
        let listens = inner.state.update_listening();
        let watches = listens && inner.state.listens_to_jvms;
        let missed = self.subscribe(&mut inner.jvms, watches, self.keys.channel())
            | self.subscribe(&mut inner.own, listens, &self.queue.own_channel);
        if missed {
            inner.state.may_have_missed();
            inner.state.serve_waiters();
        }
        inner.state.hears = !listens || inner.own.as_ref().is_some_and(Subscription::is_confirmed);
        if !listens {
            inner.state.watch_no_more();
        }
    }

    /// Subscribes to what is wanted, and to nothing else. Returns whether messages may have been missed.
    fn subscribe(&self, held: &mut Option<Subscription>, wanted: bool, channel: &str) -> bool {
        if !wanted {
            *held = None;
        } else if held.is_none() {
            let listener: Weak<dyn Listener> = self.itself.clone();
            let (subscription, missed) = self.core.wakeups.subscribe(channel, &listener);
            *held = Some(subscription);
            return missed;
        }
        false
    }

    fn heard(&self, channel: &str, wake: &Wake) {
        let now = Instant::now();
        let mut inner = self.lock();
        if *channel == *self.queue.own_channel {
            match wake {
                Wake::Message(message) => {
                    inner.state.notified(&String::from_utf8_lossy(message), now);
                }
                Wake::Confirmed => inner.state.may_have_missed(),
                Wake::Check => inner.state.slow_check(now),
                Wake::Lost => inner.state.deaf(),
                Wake::Refused(refusal) => {
                    inner.own = None;
                    let error = refused(self.name(), refusal);
                    inner.state.cannot_listen(error, now);
                }
            }
        } else {
            match wake {
                Wake::Message(message) if message.first() != Some(&OURS) => {
                    inner.state.jvm_released();
                }
                Wake::Confirmed => inner.state.serve_waiters(),
                Wake::Refused(_) => {
                    inner.jvms = None;
                    inner.state.watch_no_more();
                }
                Wake::Message(_) | Wake::Check | Wake::Lost => {}
            }
        }
        self.finish(inner);
    }
}

impl<P: Primitive> Listener for Object<P> {
    fn wake(&self, channel: &str, wake: &Wake) {
        // A lock is not held when the last handle goes.
        let _object = self.itself.upgrade();
        self.heard(channel, wake);
    }
}

impl<P: Primitive> Rings for Object<P> {
    fn ring(&self) -> Option<Instant> {
        let mut inner = self.lock();
        inner.state.tick(Instant::now());
        let (alarm, waits) = (inner.state.alarm(), inner.state.waiting() > 0);
        let next = inner.timer.next(alarm, waits);
        self.finish(inner);
        next
    }
}

impl<P: Primitive> Shared for Object<P> {
    fn waiting(&self) -> usize {
        self.lock().state.waiting()
    }

    fn close(self: Arc<Self>) {
        let mut inner = self.lock();
        let now = Instant::now();
        inner.state.close(CLIENT_CLOSED, now);
        self.finish(inner);
    }
}

impl<P: Primitive> Drop for Object<P> {
    fn drop(&mut self) {
        let mut inner = self.lock();
        inner.timer.end();
        self.core.note_idle(&mut inner.busy);
        drop(inner);
        self.core.objects.forget(P::KIND, &self.place);
    }
}

impl<P: Primitive> std::fmt::Debug for Object<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Object")
            .field("keys", &self.keys)
            .finish_non_exhaustive()
    }
}
