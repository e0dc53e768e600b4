//! Small numbers that tell the lines of one client on one semaphore apart, in the names of their records.
//!
//! Handles with different settings have lines of their own, which come and go. A number is given out again when its line
//! has gone: so there are as many records as lines at the same time, not as handles that there ever were. What the
//! former line has sent is settled by then, and its batches have lower sequence numbers than those of the next.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::engine::Core;
use crate::engine::registry::Shared;
use crate::sync::{Mutex, MutexGuard};

/// The kind under which a client finds them again.
const KIND: &str = "recipe numbers";

/// The numbers of the lines of one client on one semaphore.
pub(super) struct Numbers {
    core: Arc<Core>,
    base: Arc<str>,
    taken: Mutex<BTreeSet<u64>>,
}

/// One that is taken until this is dropped.
pub(super) struct Number {
    numbers: Arc<Numbers>,
    value: u64,
}

impl Numbers {
    /// Those for the semaphore `base`.
    pub(super) fn of(core: &Arc<Core>, base: &Arc<str>) -> Arc<Self> {
        core.objects.find_or_make(KIND, base, |_| {
            Arc::new(Numbers {
                core: Arc::clone(core),
                base: Arc::clone(base),
                taken: Mutex::default(),
            })
        })
    }

    /// The lowest that is free.
    pub(super) fn take(self: &Arc<Self>) -> Number {
        let mut taken = self.lock();
        let value = lowest_free(&taken);
        taken.insert(value);
        Number {
            numbers: Arc::clone(self),
            value,
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.taken.lock()
    }
}

fn lowest_free(taken: &BTreeSet<u64>) -> u64 {
    let mut free = 1;
    for number in taken {
        if *number != free {
            break;
        }
        free += 1;
    }
    free
}

impl Number {
    pub(super) fn value(&self) -> u64 {
        self.value
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        self.numbers.lock().remove(&self.value);
    }
}

impl Shared for Numbers {
    fn close(self: Arc<Self>) {}
}

impl Drop for Numbers {
    fn drop(&mut self) {
        self.core.objects.forget(KIND, &self.base);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_given_out_again() {
        let lowest = |taken: &[u64]| lowest_free(&taken.iter().copied().collect());
        assert_eq!(lowest(&[]), 1);
        assert_eq!(lowest(&[1, 2]), 3);
        assert_eq!(lowest(&[2, 3]), 1);
        assert_eq!(lowest(&[1, 3, 4]), 2);
    }
}
