//! What is refreshed in the background: permits with guards. A task for all of one line that last equally long, as long
//! as there are any.
//!
//! Every third of the time that a permit lasts, all of them are refreshed, with one script call for every
//! [`MOST_REFRESHED`]. What could not be refreshed is tried again soon. What the server says is gone is told as lost; what
//! could not be refreshed in time is lost by its lease's own clock.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::recipe::Recipe;
use super::refresh::{MOST_REFRESHED, Refreshing};
use super::settings::Settings;
use crate::api::Held;
use crate::clock::Moment;
use crate::engine::command::Commands;
use crate::engine::primitive::Line;
use crate::engine::renewal::soon;
use crate::lease::Lease;
use crate::sync::{Mutex, MutexGuard};

/// So many ends are remembered before those that have passed are forgotten.
const MANY: usize = 64;

/// What a line keeps, and what it knows of permits that it does not keep.
pub(super) struct Keeping {
    settings: Settings,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By their ids, in an order that a seed repeats.
    kept: BTreeMap<Arc<str>, Entry>,
    /// For those that last so long there is a task.
    refreshing: HashSet<Duration>,
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
        // Another handle's time may be a shorter one, which takes nothing away.
        let known = self.by_id.entry(Arc::clone(id)).or_insert(end);
        *known = known.later(end);
    }
}

impl Keeping {
    pub(super) fn new(settings: Settings) -> Arc<Self> {
        Arc::new(Keeping {
            settings,
            state: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Refreshes what is held from now on, to last for `lasts` each time, until it is released.
    pub(super) fn keep(
        self: &Arc<Self>,
        line: &Arc<Line<Recipe>>,
        held: &Held,
        lasts: Duration,
    ) -> Lease {
        let mut state = self.lock();
        if let Some(entry) = state.kept.get(&held.id)
            && !entry.lease.is_lost()
        {
            return entry.lease.clone();
        }
        let refreshed = state.ends.by_id.remove(&held.id);
        let ends = held.until.into_iter().chain(refreshed);
        let lease = Lease::until(ends.reduce(Moment::later));
        if lease.is_lost() {
            return lease;
        }
        let entry = Entry {
            lease: lease.clone(),
            lasts,
        };
        state.kept.insert(Arc::clone(&held.id), entry);
        let new = state.refreshing.insert(lasts);
        drop(state);
        let runtime = &line.client().runtime;
        if new {
            runtime.spawn(Arc::clone(self).refresh(Arc::downgrade(line), lasts));
        }
        // The next round may be a whole pause away.
        if lease.remaining().is_some_and(|left| left < lasts / 3 * 2) {
            let one = Arc::clone(self).refresh_one(Arc::clone(line), Arc::clone(&held.id), lasts);
            runtime.spawn(one);
        }
        lease
    }

    /// Refreshes it no more.
    pub(super) fn unkeep(&self, id: &str) {
        let state = &mut *self.lock();
        if let Some((id, entry)) = state.kept.remove_entry(id) {
            let left = entry.lease.remaining().unwrap_or_default();
            if let Some(end) = Moment::now().checked_add(left) {
                state.ends.note(&id, end);
            }
        }
    }

    /// The answer to a refresh: whether it is held, and then until when.
    pub(super) fn refreshed(&self, id: &Arc<str>, held: bool, until: Option<Moment>) {
        if !held {
            self.is_gone(id, "lost");
            return;
        }
        let Some(until) = until else { return };
        let lease = {
            let mut state = self.lock();
            match state.kept.get(id) {
                Some(entry) => entry.lease.clone(),
                None => return state.ends.note(id, until),
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
            let mut state = self.lock();
            state.ends.by_id.remove(id);
            state.kept.remove(id)
        };
        if let Some(entry) = entry {
            tracing::warn!(id, "{what}");
            entry.lease.lose();
        }
    }

    /// What is kept now.
    pub(super) fn kept_now(&self) -> Vec<Arc<str>> {
        self.lock().kept.keys().cloned().collect()
    }

    /// Nobody holds what was `kept` any more.
    pub(super) fn all_are_gone(&self, kept: &[Arc<str>]) {
        let gone: Vec<_> = {
            let mut state = self.lock();
            state.ends = Ends::default();
            kept.iter().filter_map(|id| state.kept.remove(id)).collect()
        };
        for entry in gone {
            entry.lease.lose();
        }
    }

    /// Those that last for `lasts`; empty if there is nothing to refresh any more, and the task has to end.
    fn alike(&self, lasts: Duration) -> Vec<Arc<str>> {
        let mut state = self.lock();
        // What has run out by its own clock is lost; it is not held on to.
        state.kept.retain(|_, entry| !entry.lease.is_lost());
        let alike = state.kept.iter().filter(|(_, entry)| entry.lasts == lasts);
        let alike: Vec<_> = alike.map(|(id, _)| Arc::clone(id)).collect();
        if alike.is_empty() {
            state.refreshing.remove(&lasts);
        }
        alike
    }

    /// Whether it is still to be refreshed.
    fn keeps(&self, id: &str) -> bool {
        let state = self.lock();
        let entry = state.kept.get(id);
        entry.is_some_and(|entry| !entry.lease.is_lost())
    }

    /// At once, and until it is answered, or the next round does it.
    async fn refresh_one(self: Arc<Self>, line: Arc<Line<Recipe>>, id: Arc<str>, lasts: Duration) {
        let (ids, period) = ([id], lasts / 3);
        let next_round = Instant::now() + period;
        while self.keeps(&ids[0]) && !self.refresh_now(&line, &ids, lasts).await {
            if line.client().is_finished() || Instant::now() >= next_round {
                return;
            }
            tokio::time::sleep(soon(period)).await;
        }
    }

    async fn refresh(self: Arc<Self>, line: Weak<Line<Recipe>>, lasts: Duration) {
        let period = lasts / 3;
        let mut pause = period;
        loop {
            tokio::time::sleep(pause).await;
            let Some(line) = line.upgrade() else {
                if !self.alike(lasts).is_empty() {
                    tracing::warn!(
                        "a lock is left to its time, as nobody is there any more who could unlock it"
                    );
                }
                return;
            };
            if line.client().is_finished() {
                // They last for as long as they do.
                self.lock().kept.clear();
                return;
            }
            let ids = self.alike(lasts);
            if ids.is_empty() {
                return;
            }
            let together = ids.chunks(MOST_REFRESHED);
            let calls = together.map(|ids| self.refresh_now(&line, ids, lasts));
            let done = futures::future::join_all(calls).await;
            let done = done.into_iter().all(|done| done);
            pause = if done { period } else { soon(period) };
        }
    }

    /// Whether it was answered.
    async fn refresh_now(
        &self,
        line: &Arc<Line<Recipe>>,
        ids: &[Arc<str>],
        lasts: Duration,
    ) -> bool {
        let (core, keys) = (line.client(), line.keys());
        let refreshing = Refreshing::new(core, keys, &self.settings);
        match refreshing.once(ids, lasts).await {
            Ok(refreshed) => {
                for (id, held) in ids.iter().zip(refreshed.held) {
                    self.refreshed(id, held, refreshed.until);
                }
                true
            }
            Err(why) => {
                if core.not_renewed.is_due() {
                    tracing::warn!(name = keys.name(), %why, "not refreshed; it will be tried again");
                }
                false
            }
        }
    }
}
