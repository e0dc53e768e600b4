//! A batch that is being carried out: if its round is dropped, with its runtime, its outcome stays unknown, and its
//! callers get that error.

use std::ops::{Deref, DerefMut};

/// The tasks and callers that carry batches out.
pub(crate) trait Carries {
    type Batch;

    /// The runtime has ended while `batch` was carried out.
    fn lose(&self, batch: Self::Batch);
}

/// The batch that is under way, until it is taken.
pub(crate) struct InHand<'a, L: Carries> {
    line: &'a L,
    batch: Option<L::Batch>,
}

const TAKEN: &str = "nobody asks for a batch that has been taken";

impl<'a, L: Carries> InHand<'a, L> {
    pub(crate) fn new(line: &'a L, batch: L::Batch) -> Self {
        let batch = Some(batch);
        InHand { line, batch }
    }

    /// From now on it is seen to.
    pub(crate) fn take(&mut self) -> L::Batch {
        self.batch.take().expect(TAKEN)
    }
}

impl<L: Carries> Deref for InHand<'_, L> {
    type Target = L::Batch;

    fn deref(&self) -> &L::Batch {
        self.batch.as_ref().expect(TAKEN)
    }
}

impl<L: Carries> DerefMut for InHand<'_, L> {
    fn deref_mut(&mut self) -> &mut L::Batch {
        self.batch.as_mut().expect(TAKEN)
    }
}

impl<L: Carries> Drop for InHand<'_, L> {
    fn drop(&mut self) {
        if let Some(batch) = self.batch.take() {
            self.line.lose(batch);
        }
    }
}
