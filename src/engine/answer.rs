//! How a caller carries a round out while it waits for its answer.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::drive::{self, Inline, Rounds};

/// Waits for `answer`, carrying a round out first if that has fallen to this caller. `None`: nobody is
/// left to answer.
pub(crate) fn poll_answer<R: Rounds, T>(
    inline: &mut Option<Inline<R>>,
    answer: &mut oneshot::Receiver<T>,
    cx: &mut Context<'_>,
) -> Poll<Option<T>> {
    if let Some(round) = inline {
        // Without its waker in the channel, an answer that comes out of its own round does not wake the
        // caller for a second time. The round may go on behind the answer; a task sees to that.
        if Pin::new(round).poll(cx).is_pending() && answer.is_empty() && !answer.is_terminated() {
            return Poll::Pending;
        }
        *inline = None;
    }
    Pin::new(answer).poll(cx).map(Result::ok)
}

/// Sees to what has been queued: as part of the caller's own future, where that runs on the client's `runtime`;
/// what hangs on the client's timers must not be polled anywhere else.
pub(crate) fn drive<R: Rounds>(object: &Arc<R>, runtime: &Handle) -> Option<Inline<R>> {
    let here = Handle::try_current().is_ok_and(|here| here.id() == runtime.id());
    if here {
        return drive::drive(object);
    }
    drive::kick(object);
    None
}
