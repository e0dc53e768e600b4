//! What callers ask of a semaphore with ids, and what they are answered.

use std::sync::Arc;
use std::time::Duration;

use crate::api::Holder;
use crate::engine::primitive::Batch;

use super::recipe::Recipe;

/// A batch takes this many calls at the most: it bounds the script's time.
pub(super) const MOST_CALLS: usize = 256;

/// A call that is answered by the next round.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Call {
    Release(Arc<str>),
    /// A page of the holders, behind where the one before has ended.
    List(Arc<str>),
    Clear,
    /// What the line of all clients needs: this client's place is left where nobody waits, and those are seen to who have
    /// been told that it is their turn.
    Tend,
}

/// The answer to a call.
#[derive(Debug, PartialEq)]
pub(super) enum Reply {
    /// Whether it was held.
    Released(bool),
    Holders(Page),
    Count(u64),
    Tended,
}

/// Some of the holders.
#[derive(Debug, PartialEq)]
pub(super) struct Page {
    pub(super) holders: Vec<Holder>,
    /// Where the next page goes on; `None`: it was the last.
    pub(super) next: Option<Arc<str>>,
}

/// What a caller waits for: a permit that lasts for so long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Want {
    pub(super) lasts: Duration,
    /// It takes only what is not due to those who wait, and does not wait itself but for a lock of peers.
    pub(super) tries: bool,
}

impl Call {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Call::Release(_) => "release",
            Call::List(_) => "holders",
            Call::Clear => "release_all",
            Call::Tend => "tend",
        }
    }

    fn travels_alone(&self) -> bool {
        matches!(self, Call::List(_) | Call::Clear)
    }

    /// Whether it may travel with `batch`, which is not empty.
    pub(super) fn fits(&self, batch: &Batch<Recipe>) -> bool {
        let first = batch.calls.first().map(|queued| &queued.call);
        let alone = first.is_some_and(Call::travels_alone);
        !alone && !self.travels_alone() && batch.calls.len() < MOST_CALLS
    }
}
