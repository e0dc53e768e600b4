//! A caller's future: where the outcome comes.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;

use super::{Line, Outcome, Primitive, Ticket};
use crate::engine::answer::poll_answer;
use crate::engine::drive::Inline;
use crate::error::Result;

/// A call or a wait that was begun.
///
/// Dropped before the outcome was read, it leaves its place, what was granted meanwhile is given back, and what was refused is taken for
/// a call that has no caller.
pub(super) struct Pending<'a, P: Primitive> {
    line: &'a Arc<Line<P>>,
    outcome: oneshot::Receiver<Result<Outcome<P>>>,
    /// The place of one that waits.
    ticket: Option<Ticket>,
    inline: Option<Inline<Line<P>>>,
}

impl<'a, P: Primitive> Pending<'a, P> {
    pub(super) fn new(
        line: &'a Arc<Line<P>>,
        outcome: oneshot::Receiver<Result<Outcome<P>>>,
        ticket: Option<Ticket>,
        inline: Option<Inline<Line<P>>>,
    ) -> Self {
        Pending {
            inline,
            line,
            outcome,
            ticket,
        }
    }
}

impl<P: Primitive> Future for Pending<'_, P> {
    type Output = Result<Outcome<P>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let outcome = ready!(poll_answer(&mut this.inline, &mut this.outcome, cx));
        let outcome = outcome.unwrap_or_else(|| Err(this.line.shut_down()));
        Poll::Ready(outcome.and_then(Outcome::or_refusal))
    }
}

impl<P: Primitive> Drop for Pending<'_, P> {
    fn drop(&mut self) {
        if self.outcome.is_terminated() {
            return;
        }
        self.outcome.close();
        if let Ok(Ok(outcome)) = self.outcome.try_recv() {
            self.line.nobody_learned(outcome);
        } else if let Some(ticket) = self.ticket {
            self.line.leave(ticket);
        }
    }
}
