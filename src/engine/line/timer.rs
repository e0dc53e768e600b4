//! What is due though nothing happens: the ends of waits, and looks at whether others have come.

use tokio::time::Instant;

use super::{Line, State};
use crate::engine::primitive::timer::Rings;
use crate::sync::MutexGuard;

impl State {
    /// When something is to be done though nothing happens.
    pub(super) fn alarm(&self) -> Option<Instant> {
        let looks = self
            .turns
            .look_at()
            .into_iter()
            .chain(self.turns.late_look());
        looks.chain(self.waiters.first_deadline()).min()
    }
}

impl Line {
    /// Ends a change after which something may be due earlier than before.
    pub(super) fn unlock(&self, mut state: MutexGuard<'_, State>) {
        self.keep_as_needed(&mut state);
        let alarm = state.alarm();
        let task = state.timer.set(alarm, &self.itself);
        drop(state);
        // Where the runtime has ended, the task is dropped here, and takes the lock.
        if let Some(task) = task {
            self.core.runtime.spawn(task);
        }
    }

    /// Nobody else may look whether others have come: it is done though the last handle may have gone. Whoever calls holds the
    /// line, too.
    pub(super) fn keep_as_needed(&self, state: &mut State) {
        if state.turns.look_at().is_none() {
            state.kept = None;
        } else if state.kept.is_none() {
            state.kept = self.itself.upgrade();
        }
    }
}

impl Rings for Line {
    fn ring(&self) -> (Option<Instant>, bool) {
        let now = Instant::now();
        let mut state = self.lock();
        if state.waiters.end_overdue(now) {
            self.way_is_free(&mut state);
        }
        state.look |= state.turns.is_late_look(now);
        if state.turns.is_due(now) {
            // Where nobody waits here, Redis is asked for their sake alone.
            state.tends = state.waiters.is_empty();
            state.look |= !state.tends;
        }
        self.keep_as_needed(&mut state);
        let next = state.alarm();
        state.timer.sleeps(next);
        let work = state.has_work();
        if work {
            self.note_busy(&mut state);
        }
        (next, work)
    }
}
