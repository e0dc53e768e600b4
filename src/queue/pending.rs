//! A caller's future.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;

use super::object::Object;
use super::outcome::Outcome;
use super::primitive::{Call, Primitive};
use super::waiters::Id;
use crate::engine::answer::poll_answer;
use crate::engine::drive::Inline;
use crate::error::{Effect, Result};

/// A call or a wait that was begun. Dropped before its outcome was read, it leaves the waiters, and its grant is released.
pub(super) struct Pending<'a, P: Primitive> {
    pub(super) object: &'a Arc<Object<P>>,
    pub(super) outcome: oneshot::Receiver<Result<Outcome<P::Want>>>,
    /// The place of one that waits.
    pub(super) waiter: Option<Id>,
    pub(super) call: Option<P::Call>,
    pub(super) inline: Option<Inline<Object<P>>>,
}

impl<P: Primitive> Future for Pending<'_, P> {
    type Output = Result<Outcome<P::Want>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let outcome = ready!(poll_answer(&mut this.inline, &mut this.outcome, cx));
        Poll::Ready(outcome.unwrap_or_else(|| Err(this.object.gone())))
    }
}

impl<P: Primitive> Drop for Pending<'_, P> {
    fn drop(&mut self) {
        if self.outcome.is_terminated() {
            return;
        }
        self.outcome.close();
        match (self.outcome.try_recv(), self.call.take(), self.waiter) {
            (Ok(Ok(Outcome::Granted(grant))), ..) => self.object.owe(P::give_back(grant)),
            // A refused release whose error had no reader is tried again.
            (Ok(Err(error)), Some(call), _)
                if call.is_owed_anew() && error.effect() == Effect::NotApplied =>
            {
                self.object.owe(call);
            }
            (_, _, Some(waiter)) => self.object.leave(waiter),
            _ => {}
        }
    }
}
