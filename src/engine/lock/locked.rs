//! A line's state while it is locked.

use std::ops::{Deref, DerefMut};

use super::{LockLine, State};
use crate::sync::MutexGuard;

/// A line's state while it is locked. Once it is not, the line's timer is set to what comes next, and what has been noted of
/// leases meanwhile is told: the tasks that wait for that may do anything when they are woken, and must find no lock taken.
pub(super) struct Locked<'a> {
    /// Taken by the drop alone.
    state: Option<MutexGuard<'a, State>>,
    line: &'a LockLine,
}

impl<'a> Locked<'a> {
    pub(super) fn new(line: &'a LockLine) -> Self {
        let state = Some(line.state.lock());
        Locked { state, line }
    }
}

const TAKEN: &str = "taken by the drop alone";

impl Deref for Locked<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        self.state.as_ref().expect(TAKEN)
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut State {
        self.state.as_mut().expect(TAKEN)
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let Some(mut state) = self.state.take() else {
            return;
        };
        let alarm = state.waiting.alarm();
        let task = state.timer.set(alarm, &self.line.itself);
        drop(state);
        // Where the runtime has ended, the task is dropped here, and takes the lock.
        if let Some(task) = task {
            self.line.core.runtime.spawn(task);
        }
        self.line.holds().tell();
    }
}
