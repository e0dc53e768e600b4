//! What callers of a semaphore with ids ask for, and what they are told.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::ids::{self, Id};
use crate::api::{Held, Holder, RemainingTtl, whole_millis};
use crate::clock::Moment;
use crate::engine::call::Dropped;
use crate::engine::few::Few;

/// How long smaller requests may pass a larger one that does not fit, before the line stops for it.
const PASSING_LIMIT: Duration = Duration::from_secs(5);

pub(super) enum Call {
    /// Each on its own.
    Release(Few<Id>),
    /// All of them or none.
    ReleaseTogether(Vec<Id>),
    /// `None`: it does not end.
    Prolong(Id, Option<Duration>),
    Remaining(Id),
    Count(Counted),
    TrySet(u32),
    Set(u32),
    Add(i32),
    /// Takes so many at the most away from those who hold them.
    Clear(u64),
    /// A page of those who hold, behind this one.
    List(Arc<str>),
    /// What the line of all clients needs: this client's place is left where nobody waits, and those are seen to who have
    /// been told that it is their turn.
    Tend,
}

/// What can be counted.
#[derive(Clone, Copy)]
pub(super) enum Counted {
    Available,
    Acquired,
    Total,
}

impl Call {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Call::Release(_) => "release",
            Call::ReleaseTogether(_) => "release_many",
            Call::Prolong(..) => "update_lease_time",
            Call::Remaining(_) => "lease_time",
            Call::Count(Counted::Available) => "available_permits",
            Call::Count(Counted::Acquired) => "acquired_permits",
            Call::Count(Counted::Total) => "permits",
            Call::TrySet(_) => "try_set_permits",
            Call::Set(_) => "set_permits",
            Call::Add(_) => "add_permits",
            Call::Clear(_) => "release_all",
            Call::List(_) => "holders",
            Call::Tend => "tend",
        }
    }

    /// What becomes of it when its caller goes.
    pub(super) fn dropped(&self) -> Dropped {
        match self {
            Call::Release(_) | Call::ReleaseTogether(_) | Call::Tend => Dropped::CarriedOut,
            Call::Remaining(_) | Call::Count(_) | Call::List(_) => Dropped::Harmless,
            Call::Prolong(..) | Call::TrySet(_) | Call::Set(_) | Call::Add(_) | Call::Clear(_) => {
                Dropped::Withdrawn
            }
        }
    }

    /// How many ids it brings along.
    pub(super) fn ids(&self) -> usize {
        match self {
            Call::Release(ids) => ids.len(),
            Call::ReleaseTogether(ids) => ids.len(),
            _ => 0,
        }
    }

    /// What gives back all `ids`, which stand one behind the other.
    pub(super) fn release_all(ids: &[u8]) -> Call {
        Call::Release(ids::split(ids).collect())
    }

    /// What gives one back.
    pub(super) fn release(id: Id) -> Call {
        Call::Release(Few::one(id))
    }
}

/// What a call has come to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Done(bool),
    /// The id was given by a Redisson that keeps ids in another form.
    OldForm,
    /// None of these were given back, because of the one at this place; and whether that is of the old form.
    NotAll(Vec<Id>, usize, bool),
    Count(i64),
    /// The counter would leave its range: what it is.
    OutOfRange(i64),
    Remaining(RemainingTtl),
    /// How many were taken away, and how many are left.
    Cleared(u64, u64),
    Page(Page),
}

/// Some of those who hold.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) holders: Vec<Holder>,
    /// Where the next page begins.
    pub(super) next: Option<Arc<str>>,
}

/// What a caller waits for: permits with these ids.
#[derive(Clone)]
pub(super) struct Want {
    /// One behind the other.
    pub(super) ids: Id,
    pub(super) lease: Option<Duration>,
    pub(super) since: Instant,
}

impl Want {
    pub(super) fn new(permits: usize, lease: Option<Duration>) -> Self {
        Want {
            ids: ids::make(permits),
            lease,
            since: Instant::now(),
        }
    }

    /// Whether others have passed it for long enough.
    pub(super) fn is_passed(&self, now: Moment) -> bool {
        now.timer() >= self.since + PASSING_LIMIT
    }

    pub(super) fn permits(&self) -> usize {
        self.ids.len() / ids::BYTES
    }
}

/// The permits that were granted.
#[derive(Debug)]
pub(super) struct Grant {
    pub(super) ids: Id,
    pub(super) until: Option<Moment>,
}

impl Grant {
    pub(super) fn of_nothing() -> Self {
        Grant {
            ids: ids::make(0),
            until: None,
        }
    }

    /// As it is told to a caller who has asked for one.
    pub(super) fn one(self) -> Held {
        self.held(&self.ids)
    }

    /// The same for one who has asked for any number.
    pub(super) fn all(self) -> Vec<Held> {
        let each = self.ids.chunks(ids::BYTES);
        each.map(|id| self.held(id)).collect()
    }

    fn held(&self, id: &[u8]) -> Held {
        Held {
            id: ids::to_hex(id),
            slot: None,
            until: self.until,
        }
    }
}

/// A lease as the script reads it.
pub(super) fn millis(lease: Option<Duration>) -> i64 {
    lease.map_or(-1, whole_millis)
}
