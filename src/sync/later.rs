//! Work that is done as soon as its thread holds no mutex.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use crate::outside;

type Deed = Box<dyn FnOnce()>;

thread_local! {
    /// How many of this crate's mutexes the thread has locked.
    static LOCKED: Cell<u32> = const { Cell::new(0) };
    /// Whether there is something to be done behind that.
    static WAITS: Cell<bool> = const { Cell::new(false) };
    static DEEDS: RefCell<VecDeque<Deed>> = const { RefCell::new(VecDeque::new()) };
}

/// Does `deed`, which may call what others have written (wakers, loggers, whatever spawns): now, or when this thread has unlocked
/// the last of this crate's mutexes.
pub(crate) fn unlocked(deed: impl FnOnce() + 'static) {
    if LOCKED.get() == 0 {
        return deed();
    }
    let deed: Deed = Box::new(deed);
    // A thread that ends has no place for it any more: it is left undone, as is what its tasks were about.
    if DEEDS
        .try_with(|deeds| deeds.borrow_mut().push_back(deed))
        .is_ok()
    {
        WAITS.set(true);
    }
}

/// As long as there is one, something is locked: the mutex of which this is a part, or another one.
#[derive(Debug)]
pub(crate) struct Locking(());

impl Locking {
    #[inline]
    pub(crate) fn begin() -> Self {
        LOCKED.set(LOCKED.get() + 1);
        Locking(())
    }
}

impl Drop for Locking {
    #[inline]
    fn drop(&mut self) {
        let locked = LOCKED.get() - 1;
        LOCKED.set(locked);
        if locked == 0 {
            if WAITS.get() {
                do_all();
            }
            outside::unlocked();
        }
    }
}

/// One after the other: behind one that panics the others wait for the next time.
#[cold]
fn do_all() {
    let next = || DEEDS.try_with(|deeds| deeds.borrow_mut().pop_front());
    while let Ok(Some(deed)) = next() {
        deed();
    }
    WAITS.set(false);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::unlocked;
    use crate::sync::Mutex;

    #[test]
    fn what_locks_the_same_again_waits_until_it_is_open() {
        let outer = Arc::new(Mutex::new(0));
        let inner = Mutex::new(());
        let add = || {
            let outer = Arc::clone(&outer);
            unlocked(move || *outer.lock() += 1);
        };
        add();
        let locked = outer.lock();
        assert_eq!(*locked, 1);
        {
            let _inner = inner.lock();
            add();
            add();
        }
        assert_eq!(*locked, 1);
        drop(locked);
        assert_eq!(*outer.lock(), 3);
    }

    #[test]
    fn what_waits_behind_a_panic_is_done_the_next_time() {
        let done = Arc::new(Mutex::new(0));
        let first = std::panic::catch_unwind(|| {
            let other = Mutex::new(());
            let _other = other.lock();
            unlocked(|| panic!("on purpose"));
            let done = Arc::clone(&done);
            unlocked(move || *done.lock() += 1);
        });
        assert!(first.is_err());
        drop(Mutex::new(()).lock());
        assert_eq!(*done.lock(), 1);
    }
}
