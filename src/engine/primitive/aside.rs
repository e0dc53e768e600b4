//! What is put aside: its user was not allowed to do it, nobody has learned of that, and nothing else brings it back.

use std::time::Duration;

use tokio::time::Instant;

use super::endings::not_carried_out;
use super::state::{Item, MOST_COMPARED, State};
use super::{Primitive, Queued};
use crate::error::Error;
use crate::sync::unlocked;

/// Behind this it is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// It is given up when it has been owed for so long.
const LONGEST: Duration = Duration::from_secs(300);

/// What is tried again, one of it then; there is always one.
pub(super) struct Aside<P: Primitive> {
    pub(super) until: Instant,
    /// Why it was set aside.
    error: Error,
    calls: Vec<Queued<P>>,
}

impl<P: Primitive> State<P> {
    /// Puts `queued` aside, which was refused because of this `error`, as nobody has learned, if it is to be tried again.
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
        if !forbidden || !lasts || self.closed {
            return Some(queued);
        }
        let call = P::name(&queued.call);
        let (first, why) = (self.aside.is_none() && !queued.probes, error.clone());
        unlocked(move || {
            if first {
                tracing::warn!(error = %why, call, "refused; it is tried again for five minutes");
            } else {
                tracing::debug!(error = %why, call, "refused; it is tried again");
            }
        });
        queued.probes = false;
        let aside = self.aside.get_or_insert_with(|| Aside {
            until: now + PAUSE,
            error: error.clone(),
            calls: Vec::new(),
        });
        let mut earlier = aside.calls.iter_mut().rev().take(MOST_COMPARED);
        match earlier.find_map(|earlier| {
            P::add_up(&mut earlier.call, &queued.call).then_some(&mut earlier.since)
        }) {
            // It is owed as long as the latest.
            Some(since) => *since = queued.since.max(*since),
            None => aside.calls.push(queued),
        }
        None
    }

    /// The first of what is put aside until `now` is queued: it shows whether the others may be. What has been owed for too long is
    /// lost.
    pub(super) fn try_one_again(&mut self, now: Instant) {
        let Some(mut aside) = self.aside.take_if(|aside| aside.until <= now) else {
            return;
        };
        let mut first = aside.calls.remove(0);
        first.probes = true;
        self.push(Item::Call(first));
        let (over, rest): (Vec<_>, Vec<_>) =
            (aside.calls.into_iter()).partition(|queued| now >= queued.since + LONGEST);
        for queued in over {
            not_carried_out(&queued, &aside.error);
        }
        if !rest.is_empty() {
            (aside.until, aside.calls) = (now + PAUSE, rest);
            self.aside = Some(aside);
        }
    }

    /// All of that is queued.
    pub(super) fn try_all_again(&mut self) {
        let aside = self.aside.take().map(|aside| aside.calls);
        for queued in aside.into_iter().flatten() {
            self.push(Item::Call(queued));
        }
    }
}
