//! What callers want, and what they are told.

use tokio::sync::oneshot;

use crate::error::Result;

/// The number of an entry or of what a guard holds; it rises within a client.
pub(crate) type Ticket = u64;

/// What a waiter wants. A grant suits each waiter that wants the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Want {
    pub(crate) amount: u32,
    /// It is held under a lease that the client renews.
    pub(crate) leased: bool,
}

impl Want {
    /// The kind of its entries in `lua/queue/queue.lua`.
    pub(super) fn kind(self) -> &'static str {
        if self.leased { "g" } else { "a" }
    }
}

/// What a caller has been granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) want: Want,
    /// Under which it is held, where it is leased.
    pub(crate) ticket: Ticket,
}

/// What a call or a wait has come to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// 1 for done, 0 for not, or what was asked for.
    Number(i64),
    /// What the script has found.
    Text(String),
    Granted(Grant),
    /// The time was over.
    InVain,
}

pub(super) type Reply = oneshot::Sender<Result<Outcome>>;

/// What callers are told as soon as nothing is locked: their wakers may do anything.
#[derive(Default)]
#[must_use]
pub(super) struct Told(Vec<(Reply, Result<Outcome>)>);

impl Told {
    pub(super) fn add(&mut self, reply: Reply, outcome: Result<Outcome>) {
        self.0.push((reply, outcome));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn append(&mut self, mut more: Told) {
        self.0.append(&mut more.0);
    }

    /// Tells them. The grants of callers that have gone.
    pub(super) fn tell(self) -> Vec<Grant> {
        let mut unclaimed = Vec::new();
        for (reply, outcome) in self.0 {
            if let Err(Ok(Outcome::Granted(grant))) = reply.send(outcome) {
                unclaimed.push(grant);
            }
        }
        unclaimed
    }
}
