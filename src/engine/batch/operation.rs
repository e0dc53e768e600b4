//! What a caller asks for.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use crate::engine::request::Arg;
use crate::engine::waiters::Reply;

/// What a caller asks for; amounts are not zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Release(u32),
    ReleaseIfExists(u32),
    TryAcquire(u32),
    Add(i32),
    Drain,
    TrySet(u32, Option<Duration>),
    Available,
    /// As `TryAcquire`, for a guard: what it takes is on record.
    TryTake(u32),
    /// Gives back what is on record under the life with this number; where that is over, nothing.
    GiveBack(u32, u64),
    /// Takes it off the record, and leaves the counter as it is.
    Forget(u32, u64),
}

impl Operation {
    /// The name for error texts.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::Release(_) | Operation::GiveBack(..) => "release",
            Operation::ReleaseIfExists(_) => "release_if_exists",
            Operation::TryAcquire(_) | Operation::TryTake(_) => "try_acquire",
            Operation::Forget(..) => "forget",
            Operation::Add(_) => "add_permits",
            Operation::Drain => "drain_permits",
            Operation::TrySet(..) => "try_set_permits",
            Operation::Available => "available_permits",
        }
    }

    /// Whether it can leave more permits than there were.
    pub(crate) fn adds(self) -> bool {
        match self {
            Operation::Release(_)
            | Operation::ReleaseIfExists(_)
            | Operation::GiveBack(..)
            | Operation::TrySet(..) => true,
            Operation::Add(delta) => delta > 0,
            // From a negative counter to zero: nobody can acquire that.
            Operation::Drain
            | Operation::TryAcquire(_)
            | Operation::TryTake(_)
            | Operation::Forget(..)
            | Operation::Available => false,
        }
    }

    /// Whether it must happen, however late, when its caller has gone: others wait for the permits.
    pub(crate) fn is_owed(self) -> bool {
        matches!(
            self,
            Operation::Release(_)
                | Operation::ReleaseIfExists(_)
                | Operation::GiveBack(..)
                | Operation::Forget(..)
        )
    }

    /// What gives `permits` back that were granted by the answer `granted` (see [`Reply`]).
    pub(crate) fn undoing(permits: u32, granted: i64, recorded: bool) -> Self {
        if recorded {
            Operation::GiveBack(permits, granted.cast_unsigned())
        } else {
            Operation::Release(permits)
        }
    }

    /// The permits that leave the record by it, and of which life.
    pub(crate) fn off_record(self) -> Option<(u32, u64)> {
        match self {
            Operation::GiveBack(permits, life) | Operation::Forget(permits, life) => {
                Some((permits, life))
            }
            _ => None,
        }
    }

    /// Whether it is about permits on record.
    pub(crate) fn is_recorded(self) -> bool {
        matches!(self, Operation::TryTake(_)) || self.off_record().is_some()
    }

    /// The step's word, amount and, where it is no count of calls, third argument.
    pub(super) fn step(self) -> (&'static str, i64, Option<Arg>) {
        match self {
            Operation::Release(permits) => ("release", permits.into(), None),
            Operation::ReleaseIfExists(permits) => ("release_if_exists", permits.into(), None),
            Operation::TryAcquire(permits) => ("acquire", permits.into(), None),
            Operation::Add(delta) => ("add", delta.into(), Some(Arg::Number(1))),
            Operation::Drain => ("drain", 0, Some(Arg::Number(1))),
            Operation::TrySet(permits, ttl) => {
                let ttl = ttl.map_or(Arg::Number(0), Arg::millis);
                ("try_set", permits.into(), Some(ttl))
            }
            Operation::Available => ("available", 0, Some(Arg::Number(1))),
            Operation::TryTake(permits) => ("*acquire", permits.into(), None),
            Operation::GiveBack(permits, _) => ("*release", permits.into(), None),
            Operation::Forget(permits, _) => ("*forget", permits.into(), None),
        }
    }

    pub(super) fn can_be_merged(self) -> bool {
        self.is_owed() || matches!(self, Operation::TryAcquire(_) | Operation::TryTake(_))
    }
}

/// As a call: what the log says where nobody else can be told.
impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name();
        match self {
            Operation::Drain | Operation::Available => write!(f, "{name}()"),
            _ => write!(f, "{name}({})", self.step().1),
        }
    }
}

/// One call and its caller.
pub(crate) struct Call {
    pub(crate) operation: Operation,
    /// `None` once the caller has been answered, or where there is none.
    pub(crate) reply: Option<Reply>,
    /// When it was made.
    pub(crate) since: Instant,
}

impl Call {
    /// Whether nobody waits for it any more, and it is not owed: then it must not be sent.
    pub(crate) fn is_pointless(&mut self) -> bool {
        if self.reply.as_ref().is_some_and(Reply::is_closed) {
            self.reply = None;
        }
        self.reply.is_none() && !self.operation.is_owed()
    }
}
