//! A caller's future.

use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::object::{Inner, Object};
use super::outcome::{Outcome, Reply};
use super::primitive::{Call, Primitive};
use super::waiters::Id;
use crate::engine::drive::{self, Inline};
use crate::engine::request::Request;
use crate::error::{Effect, Result};
use crate::transport::Value;

impl<P: Primitive> Object<P> {
    /// Carries `call` out. It is queued at the first poll.
    pub(crate) async fn call(self: &Arc<Self>, call: P::Call) -> Result<Outcome<P::Want>> {
        let due = self.core.due(Some(Duration::ZERO));
        self.call_by(call, due).await
    }

    /// The same as a part of a call that ends at `due` where it has no answer.
    pub(crate) async fn call_by(
        self: &Arc<Self>,
        call: P::Call,
        due: Option<Instant>,
    ) -> Result<Outcome<P::Want>> {
        let again = call.is_deferred().then(|| call.clone());
        let queue = |inner: &mut Inner<P>, reply, now| {
            if inner.state.hand_off(&call, now) {
                return ControlFlow::Break(());
            }
            inner.state.call(call, Some((reply, due)), now);
            ControlFlow::Continue(None)
        };
        self.begun(again, queue).await
    }

    /// Carries `request` out alone, in its turn.
    pub(crate) async fn request(
        self: &Arc<Self>,
        operation: &'static str,
        request: Request,
    ) -> Result<Value> {
        let queue = |inner: &mut Inner<P>, reply, now| {
            inner.state.request(operation, request, reply, now);
            ControlFlow::Continue(None)
        };
        match self.begun(None, queue).await? {
            Outcome::Value(value) => Ok(value),
            _ => Err(self.gone()),
        }
    }

    /// Waits for `want`, for `wait` at the most; `None`: without limit.
    pub(crate) async fn wait(
        self: &Arc<Self>,
        want: P::Want,
        wait: Option<Duration>,
    ) -> Result<Outcome<P::Want>> {
        let queue = |inner: &mut Inner<P>, reply, now| {
            ControlFlow::Continue(Some(inner.state.join(want, reply, wait, now)))
        };
        self.begun(None, queue).await
    }

    /// Queues something by `queue`, and waits for its outcome. `Continue` has the place of a waiter; `Break`: it was done without Redis.
    async fn begun(
        self: &Arc<Self>,
        release: Option<P::Call>,
        queue: impl FnOnce(&mut Inner<P>, Reply<P::Want>, Instant) -> ControlFlow<(), Option<Id>>,
    ) -> Result<Outcome<P::Want>> {
        self.keys.check()?;
        let (reply, outcome) = oneshot::channel();
        let waiter = {
            let mut inner = self.lock();
            if inner.state.closed {
                return Err(self.gone());
            }
            match queue(&mut inner, reply, Instant::now()) {
                ControlFlow::Continue(waiter) => {
                    self.core.note_busy(&mut inner.busy);
                    self.unlock(inner);
                    waiter
                }
                ControlFlow::Break(()) => {
                    self.finish(inner);
                    return Ok(Outcome::Number(1));
                }
            }
        };
        let pending = Pending {
            object: self,
            outcome,
            waiter,
            release,
            inline: self.drive(),
        };
        pending.await
    }

    /// Sees to what has been queued: as part of the caller's own future, where that runs on the client's runtime; its timers must not be polled
    /// anywhere else.
    fn drive(self: &Arc<Self>) -> Option<Inline<Self>> {
        let here = Handle::try_current().is_ok_and(|here| here.id() == self.core.runtime.id());
        if here {
            return drive::drive(self);
        }
        drive::kick(self);
        None
    }
}

/// A call or a wait that was begun. Dropped before its outcome was read, it leaves the waiters, and its grant is released.
pub(super) struct Pending<'a, P: Primitive> {
    pub(super) object: &'a Arc<Object<P>>,
    pub(super) outcome: oneshot::Receiver<Result<Outcome<P::Want>>>,
    /// The place of one that waits.
    pub(super) waiter: Option<Id>,
    pub(super) release: Option<P::Call>,
    pub(super) inline: Option<Inline<Object<P>>>,
}

impl<P: Primitive> Future for Pending<'_, P> {
    type Output = Result<Outcome<P::Want>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Some(round) = &mut this.inline {
            let outcome = &this.outcome;
            // Without its waker in the channel, an answer that comes out of its own round does not wake the caller for a second time. The round
            // may go on behind the answer; a task sees to that.
            if Pin::new(round).poll(cx).is_pending()
                && outcome.is_empty()
                && !outcome.is_terminated()
            {
                return Poll::Pending;
            }
            this.inline = None;
        }
        let outcome = Pin::new(&mut this.outcome).poll(cx);
        outcome.map(|outcome| outcome.unwrap_or_else(|_| Err(this.object.gone())))
    }
}

impl<P: Primitive> Drop for Pending<'_, P> {
    fn drop(&mut self) {
        if self.outcome.is_terminated() {
            return;
        }
        self.outcome.close();
        match (self.outcome.try_recv(), self.release.take(), self.waiter) {
            (Ok(Ok(Outcome::Granted(grant))), ..) => self.object.defer(P::give_back(grant)),
            // A refused release whose error had no reader is carried out without a caller, once.
            (Ok(Err(error)), Some(release), _) if error.effect() == Effect::NotApplied => {
                self.object.defer(release);
            }
            (_, _, Some(waiter)) => self.object.leave(waiter),
            _ => {}
        }
    }
}
