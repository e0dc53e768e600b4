//! What is put aside: nobody waits for it, nothing else brings it back, and its user was not allowed to do it.

use std::time::Duration;

use tokio::time::Instant;

use super::state::{Item, MOST_COMPARED, State};
use super::{Primitive, Queued};
use crate::error::Error;

/// Behind this it is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// It is given up when it has been owed for so long.
const LONGEST: Duration = Duration::from_secs(300);

/// What is tried again then, all of it.
pub(super) struct Aside<P: Primitive> {
    pub(super) until: Instant,
    calls: Vec<Queued<P>>,
}

impl<P: Primitive> State<P> {
    /// Puts `queued` aside, which was refused because of this `error`, if it is to be tried again.
    #[must_use]
    pub(super) fn set_aside(
        &mut self,
        mut queued: Queued<P>,
        error: &Error,
        now: Instant,
    ) -> Option<Queued<P>> {
        let forbidden = matches!(
            error,
            Error::PermissionDenied { .. } | Error::Authentication { .. }
        );
        let lasts = P::outlasts_refusals(&queued.call) && now < queued.since + LONGEST;
        if !forbidden || !lasts || self.closed || queued.has_caller() {
            return Some(queued);
        }
        if now < queued.since + PAUSE {
            tracing::warn!(%error, call = P::name(&queued.call), "refused; it is tried again for five minutes");
        }
        queued.reply = None;
        let aside = self.aside.get_or_insert_with(|| Aside {
            until: now + PAUSE,
            calls: Vec::new(),
        });
        let mut earlier = aside.calls.iter_mut().rev().take(MOST_COMPARED);
        let is_added = earlier.any(|earlier| {
            earlier.takes_back == queued.takes_back && P::add_up(&mut earlier.call, &queued.call)
        });
        if !is_added {
            aside.calls.push(queued);
        }
        None
    }

    /// What is put aside until `now` is queued; or all of it.
    pub(super) fn try_again(&mut self, now: Option<Instant>) {
        let due = |aside: &mut Aside<P>| now.is_none_or(|now| aside.until <= now);
        if let Some(aside) = self.aside.take_if(due) {
            aside
                .calls
                .into_iter()
                .for_each(|queued| self.push(Item::Call(queued)));
        }
    }
}
