//! What is refreshed in the background: permits with guards. One task a line, as long as there are any.
//!
//! Every third of the time that a permit lasts, all of them are refreshed, with one script call for every
//! [`MOST_CALLS`](super::super::batch::MOST_CALLS). What the server says is gone is told as lost; what could not
//! be refreshed in time is lost by its lease's own clock.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::super::batch::{Call, Operation};
use super::{Line, State};
use crate::api::Held;
use crate::engine::drive;
use crate::lease::Lease;

/// What is refreshed in the background by one call.
#[derive(Debug, Clone)]
pub(in crate::recipes) struct Kept {
    /// To which the answer is told.
    pub(in crate::recipes) lease: Lease,
    /// Shared by those that are refreshed together, as long as one of them is queued or under way.
    _together: Arc<()>,
}

impl State {
    /// Whether `call` is a refresh of something that has been given back or forgotten since it was queued.
    pub(super) fn keeps_no_more(&self, call: &Call) -> bool {
        match &call.operation {
            Operation::Refresh(id, Some(_)) => !self.kept.contains_key(id),
            _ => false,
        }
    }
}

impl Line {
    /// Refreshes what is held from now on, until it is released.
    pub(in crate::recipes) fn keep(&self, held: &Held) -> Lease {
        let lease = Lease::until(held.until);
        if let Some(lasts) = self.settings.lease() {
            let mut state = self.lock();
            state.kept.insert(Arc::clone(&held.id), lease.clone());
            if !std::mem::replace(&mut state.keeping, true) {
                let pause = lasts / 3;
                self.core.runtime.spawn(refresh(self.itself.clone(), pause));
            }
        }
        lease
    }

    /// Refreshes it no more.
    pub(in crate::recipes) fn unkeep(&self, id: &str) {
        self.lock().kept.remove(id);
    }

    /// The answer to the refresh of something that is kept.
    pub(super) fn refreshed(
        &self,
        id: &Arc<str>,
        lease: &Lease,
        held: bool,
        until: Option<Instant>,
    ) {
        if held {
            lease.extend(until);
        } else if self.lock().kept.remove(id).is_some() {
            tracing::warn!(name = self.name(), id = &**id, "lost");
            lease.lose();
        }
    }

    /// Queues the refreshes; `false` if there is nothing to refresh any more.
    fn queue_refreshes(&self) -> bool {
        let mut state = self.lock();
        // What has run out by its own clock is lost; it is not held on to.
        state.kept.retain(|_, lease| !lease.is_lost());
        if state.kept.is_empty() || self.core.is_finished() {
            state.keeping = false;
            return false;
        }
        // While the server does not answer, one refresh of each is enough.
        if state.refreshing.strong_count() == 0 {
            let since = Instant::now();
            let together = Arc::new(());
            state.refreshing = Arc::downgrade(&together);
            let calls: Vec<Call> = state
                .kept
                .iter()
                .map(|(id, lease)| {
                    let kept = Kept {
                        lease: lease.clone(),
                        _together: Arc::clone(&together),
                    };
                    Call {
                        operation: Operation::Refresh(Arc::clone(id), Some(kept)),
                        reply: None,
                        since,
                    }
                })
                .collect();
            state.queue.extend(calls);
            self.note_busy(&mut state);
        }
        true
    }
}

async fn refresh(line: Weak<Line>, pause: Duration) {
    loop {
        tokio::time::sleep(pause).await;
        let Some(line) = line.upgrade() else { return };
        if !line.queue_refreshes() {
            return;
        }
        drive::kick(&line);
    }
}
