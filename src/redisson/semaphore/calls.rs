//! What callers of a semaphore ask for, and what they are told.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use crate::api::MAX_PERMITS;

/// What a caller asks for; amounts are not zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
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
    /// What the line of all clients needs: this client's place is left where nobody waits, and those are seen to who have
    /// been told that it is their turn.
    Tend,
}

impl Call {
    /// The name for error texts.
    pub(super) fn name(self) -> &'static str {
        match self {
            Call::Release(_) | Call::GiveBack(..) => "release",
            Call::ReleaseIfExists(_) => "release_if_exists",
            Call::TryAcquire(_) | Call::TryTake(_) => "try_acquire",
            Call::Forget(..) => "forget",
            Call::Add(_) => "add_permits",
            Call::Drain => "drain_permits",
            Call::TrySet(..) => "try_set_permits",
            Call::Available => "available_permits",
            Call::Tend => "tend",
        }
    }

    /// Whether it can leave more permits than there were.
    pub(super) fn adds(self) -> bool {
        match self {
            Call::Release(_) | Call::ReleaseIfExists(_) | Call::GiveBack(..) | Call::TrySet(..) => {
                true
            }
            Call::Add(delta) => delta > 0,
            // From a negative counter to zero: nobody can acquire that.
            Call::Drain => false,
            Call::TryAcquire(_) | Call::TryTake(_) => false,
            Call::Forget(..) | Call::Available | Call::Tend => false,
        }
    }

    /// Whether it must happen, however late, when its caller has gone: others wait for the permits.
    pub(super) fn is_owed(self) -> bool {
        match self {
            Call::Release(_) | Call::ReleaseIfExists(_) | Call::Tend => true,
            _ => self.off_record().is_some(),
        }
    }

    /// Whether it takes permits, and does not wait for them.
    pub(super) fn tries(self) -> bool {
        matches!(self, Call::TryAcquire(_) | Call::TryTake(_))
    }

    /// The permits that leave the record by it, and of which life.
    pub(super) fn off_record(self) -> Option<(u32, u64)> {
        match self {
            Call::GiveBack(permits, life) | Call::Forget(permits, life) => Some((permits, life)),
            _ => None,
        }
    }

    /// Whether it is about permits on record.
    pub(super) fn is_recorded(self) -> bool {
        matches!(self, Call::TryTake(_)) || self.off_record().is_some()
    }

    /// Adds a call that nobody waits for to an earlier one of the same kind; whether that was possible.
    pub(super) fn add_up(&mut self, call: Call) -> bool {
        let (sum, more) = match (self, call) {
            (Call::Release(sum), Call::Release(more))
            | (Call::ReleaseIfExists(sum), Call::ReleaseIfExists(more)) => (sum, more),
            (Call::GiveBack(sum, life), Call::GiveBack(more, same)) if *life == same => (sum, more),
            (earlier, call) => return *earlier == Call::Tend && call == Call::Tend,
        };
        let total = sum.checked_add(more);
        let total = total.filter(|total| *total <= MAX_PERMITS);
        *sum = total.unwrap_or(*sum);
        total.is_some()
    }

    /// Its amount, or change.
    pub(super) fn amount(self) -> i64 {
        match self {
            Call::Release(permits) | Call::ReleaseIfExists(permits) | Call::TryAcquire(permits) => {
                permits.into()
            }
            Call::TryTake(permits) | Call::GiveBack(permits, _) | Call::Forget(permits, _) => {
                permits.into()
            }
            Call::TrySet(permits, _) => permits.into(),
            Call::Add(delta) => delta.into(),
            Call::Drain | Call::Available | Call::Tend => 0,
        }
    }
}

/// As a call: what the log says where nobody else can be told.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name();
        match self {
            Call::Drain | Call::Available => write!(f, "{name}()"),
            _ => write!(f, "{name}({})", self.amount()),
        }
    }
}

/// What a caller waits for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Want {
    pub(super) permits: u32,
    /// What it takes is on record.
    pub(super) recorded: bool,
    /// When it came.
    pub(super) since: Instant,
}

impl Want {
    pub(super) fn new(permits: u32, recorded: bool) -> Self {
        Want {
            permits,
            recorded,
            since: Instant::now(),
        }
    }

    /// Whether another one wants the same.
    pub(super) fn is_alike(&self, other: &Want) -> bool {
        self.permits == other.permits && self.recorded == other.recorded
    }
}

/// The permits that were granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) permits: u32,
    /// The number of the life that they are on record under, where they are.
    pub(super) life: Option<u64>,
}

impl Grant {
    /// What gives them back.
    pub(super) fn release(self) -> Call {
        match self.life {
            Some(life) => Call::GiveBack(self.permits, life),
            None => Call::Release(self.permits),
        }
    }
}

/// What a call has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    /// 1 for done, or what was asked for.
    Number(i64),
    Granted(Grant),
}
