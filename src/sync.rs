//! [`Mutex`]: the one kind of mutex that this crate uses; [`unlocked`], and [`Followed`].

mod followed;
mod later;

use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;

pub(crate) use self::followed::{Followed, Follower};
pub(crate) use self::later::{Locking, unlocked};

/// A mutex that no panic makes unusable.
///
/// Its value must make sense between any two steps, so that the next thread can go on with it after a panic. No foreign code
/// (wakers, loggers, name mappers) is called while it is locked; [`unlocked`] does that later.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Mutex(std::sync::Mutex::new(value))
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        let locking = Locking::begin();
        MutexGuard {
            guard: self.0.lock().unwrap_or_else(PoisonError::into_inner),
            _locking: locking,
        }
    }
}

/// A mutex that is locked as long as there is this.
#[derive(Debug)]
pub(crate) struct MutexGuard<'a, T> {
    guard: std::sync::MutexGuard<'a, T>,
    /// Dropped behind it: deferred work is done then, and a simulation may run another task.
    _locking: Locking,
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_under_the_lock_leaves_it_usable() {
        let mutex = Mutex::new(1);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut number = mutex.lock();
            *number = 2;
            panic!("under the lock");
        }));
        assert!(panicked.is_err());
        assert_eq!(*mutex.lock(), 2);
    }
}
