//! A line while it is locked.

use std::ops::{Deref, DerefMut};

use super::Primitive;
use super::line::{Inner, Line};
use crate::sync::{MutexGuard, unlocked};

/// What a line's lock guards, while it is locked. Once it is not, it is done what is to be done [then](Primitive::after).
pub(super) struct Locked<'a, P: Primitive> {
    /// Taken by the drop alone.
    inner: Option<MutexGuard<'a, Inner<P>>>,
    line: &'a Line<P>,
}

impl<'a, P: Primitive> Locked<'a, P> {
    pub(super) fn new(inner: MutexGuard<'a, Inner<P>>, line: &'a Line<P>) -> Self {
        let inner = Some(inner);
        Locked { inner, line }
    }
}

const TAKEN: &str = "taken by the drop alone";

impl<P: Primitive> Deref for Locked<'_, P> {
    type Target = Inner<P>;

    fn deref(&self) -> &Inner<P> {
        self.inner.as_ref().expect(TAKEN)
    }
}

impl<P: Primitive> DerefMut for Locked<'_, P> {
    fn deref_mut(&mut self) -> &mut Inner<P> {
        self.inner.as_mut().expect(TAKEN)
    }
}

impl<P: Primitive> Drop for Locked<'_, P> {
    fn drop(&mut self) {
        let after = self.state.primitive.after();
        self.inner = None;
        if let Some(after) = after
            && let Some(line) = self.line.itself()
        {
            // Whoever asks may have locked something else, too.
            unlocked(move || after(&line));
        }
    }
}
