//! [`Mutex`]: the one kind of mutex that this crate uses; and [`Followed`].

mod followed;

use std::sync::PoisonError;

pub(crate) use self::followed::{Followed, Follower};

pub(crate) use std::sync::MutexGuard;

/// A mutex that no panic makes unusable.
///
/// What it guards must make sense between any two steps, so that whoever comes next can go on with it; nothing that
/// others have written (wakers, loggers, name mappers) is called while it is locked.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Mutex(std::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
