//! What is refreshed in the background: permits with guards. A task for all of one line that last equally long, as long
//! as there are any.
//!
//! Every third of the time that a permit lasts, all of them are refreshed, with one script call for every
//! [`MOST_CALLS`](super::super::batch::MOST_CALLS). What the server says is gone is told as lost; what could not
//! be refreshed in time is lost by its lease's own clock.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::super::batch::{Call, Operation};
use super::Line;
use crate::api::Held;
use crate::clock::Moment;
use crate::engine::drive;
use crate::lease::Lease;

/// So many ends are remembered before those that have passed are forgotten.
const MANY: usize = 64;

/// What is refreshed in the background by one call.
#[derive(Debug, Clone)]
pub(in crate::recipes) struct Kept {
    /// To which the answer is told.
    pub(in crate::recipes) lease: Lease,
    /// Shared by those that are refreshed together, as long as one of them is queued or under way.
    _together: Arc<()>,
}

/// What a line keeps, and what it knows of permits that it does not keep.
#[derive(Default)]
pub(super) struct Keeping {
    kept: HashMap<Arc<str>, Entry>,
    /// By how long they last: alive as long as refreshes of these are queued or on their way.
    refreshing: HashMap<Duration, Weak<()>>,
    /// When those end that this client has refreshed without keeping them.
    ends: Ends,
}

struct Entry {
    lease: Lease,
    lasts: Duration,
}

#[derive(Default)]
struct Ends {
    by_id: HashMap<Arc<str>, Moment>,
    forget_at: usize,
}

impl Ends {
    fn note(&mut self, id: &Arc<str>, end: Moment) {
        if self.by_id.len() >= self.forget_at.max(MANY) {
            self.by_id.retain(|_, end| !end.has_come());
            self.forget_at = 2 * self.by_id.len();
        }
        self.by_id.insert(Arc::clone(id), end);
    }
}

impl Keeping {
    /// Whether `call` is a refresh of something that has been given back or forgotten since it was queued.
    pub(super) fn keeps_no_more(&self, call: &Call) -> bool {
        match &call.operation {
            Operation::Refresh(id, _, Some(_)) => !self.kept.contains_key(id),
            _ => false,
        }
    }

    fn unkeep(&mut self, id: &str) {
        let Some((id, entry)) = self.kept.remove_entry(id) else {
            return;
        };
        let left = entry.lease.remaining().unwrap_or_default();
        if let Some(end) = Moment::now().checked_add(left) {
            self.ends.note(&id, end);
        }
    }
}

impl Entry {
    fn refresh(&self, id: &Arc<str>, together: &Arc<()>) -> Call {
        let kept = Kept {
            lease: self.lease.clone(),
            _together: Arc::clone(together),
        };
        Call {
            operation: Operation::Refresh(Arc::clone(id), self.lasts, Some(kept)),
            reply: None,
            since: Instant::now(),
        }
    }
}

impl Line {
    /// Refreshes what is held from now on, to last for `lasts` each time, until it is released.
    pub(in crate::recipes) fn keep(self: &Arc<Self>, held: &Held, lasts: Duration) -> Lease {
        if self.settings.lease().is_none() {
            return Lease::until(held.until);
        }
        let mut state = self.lock();
        if let Some(entry) = state.keeping.kept.get(&held.id)
            && !entry.lease.is_lost()
        {
            return entry.lease.clone();
        }
        let refreshed = state.keeping.ends.by_id.remove(&held.id);
        let entry = Entry {
            lease: Lease::until(refreshed.or(held.until)),
            lasts,
        };
        let lease = entry.lease.clone();
        if lease.is_lost() {
            return lease;
        }
        let pause = lasts / 3;
        // The next round may be a whole pause away.
        let late = lease.remaining().is_some_and(|left| left < pause * 2);
        if late {
            let call = entry.refresh(&held.id, &Arc::default());
            state.queue.push_back(call);
            self.note_busy(&mut state);
        }
        state.keeping.kept.insert(Arc::clone(&held.id), entry);
        let former = state.keeping.refreshing.insert(lasts, Weak::new());
        match former {
            None => drop(self.core.runtime.spawn(refresh(self.itself.clone(), lasts))),
            Some(former) => drop(state.keeping.refreshing.insert(lasts, former)),
        }
        drop(state);
        if late {
            drive::kick(self);
        }
        lease
    }

    /// Refreshes it no more.
    pub(in crate::recipes) fn unkeep(&self, id: &str) {
        self.lock().keeping.unkeep(id);
    }

    /// The answer to a refresh: whether it is held, and then until when.
    pub(super) fn refreshed(&self, id: &Arc<str>, held: bool, until: Option<Moment>) {
        if !held {
            self.is_gone(id, "lost");
            return;
        }
        let Some(until) = until else { return };
        let lease = {
            let keeping = &mut self.lock().keeping;
            match keeping.kept.get(id) {
                Some(entry) => entry.lease.clone(),
                None => return keeping.ends.note(id, until),
            }
        };
        // Another handle's time may be a shorter one, which takes nothing away.
        if lease.remaining() < Some(until.remaining()) {
            lease.extend(Some(until));
        }
    }

    /// Nobody holds `id` any more. Who keeps it is told: a guard that gives it back has ended that before.
    pub(super) fn is_gone(&self, id: &str, what: &'static str) {
        let entry = {
            let keeping = &mut self.lock().keeping;
            keeping.ends.by_id.remove(id);
            keeping.kept.remove(id)
        };
        if let Some(entry) = entry {
            tracing::warn!(name = self.name(), id, "{what}");
            entry.lease.lose();
        }
    }

    /// Nobody holds anything any more.
    pub(super) fn all_are_gone(&self) {
        let kept = {
            let keeping = &mut self.lock().keeping;
            keeping.ends = Ends::default();
            std::mem::take(&mut keeping.kept)
        };
        for entry in kept.into_values() {
            entry.lease.lose();
        }
    }

    /// Queues the refreshes of those that last for `lasts`; `false` if there is nothing to refresh any more.
    fn queue_refreshes(&self, lasts: Duration) -> bool {
        let mut state = self.lock();
        let keeping = &mut state.keeping;
        // What has run out by its own clock is lost; it is not held on to.
        keeping.kept.retain(|_, entry| !entry.lease.is_lost());
        let alike = |(_, entry): &(&Arc<str>, &Entry)| entry.lasts == lasts;
        if self.core.is_finished() || !keeping.kept.iter().any(|entry| alike(&entry)) {
            keeping.refreshing.remove(&lasts);
            return false;
        }
        // While the server does not answer, one refresh of each is enough.
        let refreshing = keeping.refreshing.entry(lasts).or_default();
        if refreshing.strong_count() == 0 {
            let together = Arc::new(());
            *refreshing = Arc::downgrade(&together);
            let alike = keeping.kept.iter().filter(alike);
            let calls: Vec<Call> = alike
                .map(|(id, entry)| entry.refresh(id, &together))
                .collect();
            state.queue.extend(calls);
            self.note_busy(&mut state);
        }
        true
    }
}

async fn refresh(line: Weak<Line>, lasts: Duration) {
    loop {
        tokio::time::sleep(lasts / 3).await;
        let Some(line) = line.upgrade() else { return };
        if !line.queue_refreshes(lasts) {
            return;
        }
        drive::kick(&line);
    }
}
