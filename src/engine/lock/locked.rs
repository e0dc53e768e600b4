//! A line's state while it is locked.

use std::ops::{Deref, DerefMut};

use super::State;
use crate::engine::holds::Holds;
use crate::sync::MutexGuard;

/// A line's state while it is locked. Once it is not, what has been noted of leases meanwhile is told: the tasks that wait
/// for that may do anything when they are woken, and must find no lock taken.
pub(super) struct Locked<'a> {
    /// Taken by the drop alone.
    state: Option<MutexGuard<'a, State>>,
    holds: &'a Holds,
}

impl<'a> Locked<'a> {
    pub(super) fn new(state: MutexGuard<'a, State>, holds: &'a Holds) -> Self {
        let state = Some(state);
        Locked { state, holds }
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
        drop(self.state.take());
        self.holds.tell();
    }
}
