//! The calls of callers.

use std::time::Duration;

use crate::judge::Object;

/// A caller: its calls, and what it does with its grants.
#[derive(Debug, Clone)]
pub struct Call {
    pub object: Object,
    pub permits: u32,
    pub ask: Ask,
    /// The caller takes a guard.
    pub guard: bool,
    pub hold: Duration,
    pub give: Give,
    /// When the future is dropped, if it has not ended by then.
    pub patience: Option<Duration>,
    /// From when on, and for how long, the future is not polled.
    pub stall: Option<(Duration, Duration)>,
    /// The lease of a lock.
    pub lease: Option<Duration>,
    /// The caller takes the lock a second time while it holds it, with this lease. `true`: the first hold is released first.
    pub nested: Option<(Option<Duration>, bool)>,
    /// All calls have the same owner.
    pub one_owner: bool,
    /// The caller takes the read lock of a read-write lock.
    pub reads: bool,
    /// At permits with ids, the caller tries for several at once. At a lock with `nested`, it takes the lock a third time.
    pub several: bool,
    /// How often the caller comes, with a pause in between.
    pub rounds: u32,
    pub pause: Duration,
}

impl Call {
    /// Takes one permit or lock if it is free, and releases it.
    pub fn looking_in(object: Object) -> Call {
        Call {
            object,
            permits: 1,
            ask: Ask::Try,
            guard: true,
            hold: Duration::ZERO,
            give: Give::Call,
            patience: None,
            stall: None,
            lease: None,
            nested: None,
            one_owner: false,
            reads: false,
            several: false,
            rounds: 1,
            pause: Duration::ZERO,
        }
    }

    /// Waits for one permit or lock, and keeps it for this long.
    pub fn keeping(object: Object, hold: Duration) -> Call {
        Call {
            ask: Ask::Wait,
            hold,
            ..Call::looking_in(object)
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    Wait,
    Try,
    For(Duration),
}

impl Ask {
    /// How long the call waits at most.
    pub fn limit(self) -> Option<Duration> {
        match self {
            Ask::Wait => None,
            Ask::Try => Some(Duration::ZERO),
            Ask::For(wait) => Some(wait),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Give {
    /// The caller waits for the reply to its release.
    Call,
    /// The caller drops its guard, or the future of its release once that was polled.
    Drop,
    /// The caller keeps the permits to the end.
    Keep,
}

/// A call that changes an object once and holds nothing.
#[derive(Debug, Clone)]
pub struct Admin {
    pub what: AdminCall,
    /// When the future is dropped, if it has not ended by then.
    pub patience: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminCall {
    /// Adds to a semaphore from which no call takes. No other call adds the same power of two.
    Release(u32),
    /// Closes the latch, if it is open.
    Close,
    CountDown,
}
