//! What callers do.

use std::time::Duration;

use crate::judge::Object;

/// A caller.
#[derive(Debug, Clone)]
pub struct Call {
    pub object: Object,
    pub permits: u32,
    pub ask: Ask,
    /// It takes a guard.
    pub guard: bool,
    pub hold: Duration,
    pub give: Give,
    /// When the future is dropped, if it has not ended.
    pub patience: Option<Duration>,
    /// After when, and for how long, it is not polled.
    pub stall: Option<(Duration, Duration)>,
    /// A lock's lease.
    pub lease: Option<Duration>,
    /// It takes the lock a second time while it holds it, with this lease, and which of both goes first.
    pub nested: Option<(Option<Duration>, bool)>,
    /// It is the same owner each time.
    pub one_owner: bool,
    /// It takes the side for readers of a read-write lock.
    pub reads: bool,
    /// Of permits with ids several are tried for at once. A lock that is taken a second time is taken a third time.
    pub several: bool,
    /// It comes again so often, after a pause.
    pub rounds: u32,
    pub pause: Duration,
}

impl Call {
    /// Takes one if it is there, and gives it back.
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

    /// Waits for one, and keeps it for so long.
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
    /// How long it waits at the most.
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
    /// Waits for the answer.
    Call,
    /// The guard is dropped, or the future of the release is as soon as it was polled.
    Drop,
    /// It is kept until the end.
    Keep,
}

/// A call that changes an object once and holds nothing.
#[derive(Debug, Clone)]
pub struct Admin {
    pub what: AdminCall,
    /// When the future is dropped, if it has not ended.
    pub patience: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminCall {
    /// Adds to a semaphore that nobody takes from: a power of two that no other call adds.
    Release(u32),
    /// Renames it, where it is not there.
    Rename,
    /// Closes the latch, if it is open.
    Close,
    CountDown,
}
