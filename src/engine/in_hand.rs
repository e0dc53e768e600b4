//! A batch that is being carried out: if its round is dropped, with its runtime, nobody will learn what became of it, and its
//! callers are told so.

use std::ops::{Deref, DerefMut};

/// Who carries batches out.
pub(crate) trait Carries {
    type Batch: Default;

    /// The runtime has ended while `batch` was carried out; an empty one is none.
    fn lose(&self, batch: Self::Batch);
}

/// The batch that is under way, until it is taken.
pub(crate) struct InHand<'a, L: Carries> {
    line: &'a L,
    batch: L::Batch,
}

impl<'a, L: Carries> InHand<'a, L> {
    pub(crate) fn new(line: &'a L, batch: L::Batch) -> Self {
        InHand { line, batch }
    }

    /// From now on it is seen to.
    pub(crate) fn take(&mut self) -> L::Batch {
        std::mem::take(&mut self.batch)
    }
}

impl<L: Carries> Deref for InHand<'_, L> {
    type Target = L::Batch;

    fn deref(&self) -> &L::Batch {
        &self.batch
    }
}

impl<L: Carries> DerefMut for InHand<'_, L> {
    fn deref_mut(&mut self) -> &mut L::Batch {
        &mut self.batch
    }
}

impl<L: Carries> Drop for InHand<'_, L> {
    fn drop(&mut self) {
        self.line.lose(std::mem::take(&mut self.batch));
    }
}
