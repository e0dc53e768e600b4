//! What is done as soon as its thread has nothing locked any more.

use std::cell::{Cell, RefCell};

type Deed = Box<dyn FnOnce()>;

thread_local! {
    /// How many of this crate's mutexes the thread has locked.
    static LOCKED: Cell<u32> = const { Cell::new(0) };
    /// Whether there is something to be done behind that.
    static WAITS: Cell<bool> = const { Cell::new(false) };
    static DEEDS: RefCell<Vec<Deed>> = const { RefCell::new(Vec::new()) };
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
        .try_with(|deeds| deeds.borrow_mut().push(deed))
        .is_ok()
    {
        WAITS.set(true);
    }
}

/// The mutex of which this is a part is locked.
#[derive(Debug)]
pub(super) struct Counted(());

impl Counted {
    #[inline]
    pub(super) fn begin() -> Self {
        LOCKED.set(LOCKED.get() + 1);
        Counted(())
    }
}

impl Drop for Counted {
    #[inline]
    fn drop(&mut self) {
        let locked = LOCKED.get() - 1;
        LOCKED.set(locked);
        if locked == 0 && WAITS.get() {
            do_all();
        }
    }
}

#[cold]
fn do_all() {
    WAITS.set(false);
    let deeds = DEEDS.try_with(RefCell::take).unwrap_or_default();
    deeds.into_iter().for_each(|deed| deed());
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
}
