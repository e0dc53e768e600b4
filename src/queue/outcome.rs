//! The wants of callers, and their outcomes.

use std::fmt::Debug;

use tokio::sync::oneshot;

use crate::clock::Moment;
use crate::error::Result;
use crate::transport::Value;

/// The number of an entry or of what a caller holds; it rises within a client.
pub(crate) type Ticket = u64;

/// The want of a waiter. A grant suits each waiter that wants the same.
pub(crate) trait Want: Copy + Ord + Debug + Send + Sync + Unpin + 'static {
    /// The kind of its entries in `lua/queue/queue.lua`.
    fn kind(self) -> &'static str;

    /// How many permits it is for. In its place stands for a lock the number of the owner, for a recipe the limit of the handle.
    fn amount(self) -> u64;

    /// It is held under a lease.
    fn is_leased(self) -> bool;

    /// Its caller goes on as soon as a fresh notification arrives, before the grant is confirmed.
    fn is_used_at_once(self) -> bool {
        self.is_leased()
    }

    /// How often its owner holds what is granted to an entry; 0 where that is not known.
    fn count_of_grant(self) -> u32 {
        1
    }

    /// One step stands for several waiters that want the same.
    fn adds_up(self) -> bool {
        true
    }

    /// The text behind the life in its entries, which may end with the script's argument about what is held: to the entries of a `wait` the
    /// script adds that itself.
    fn tail(self, header: &str) -> String;

    /// From an entry: its kind, its amount, and what stands behind the life.
    fn read(kind: &str, amount: u64, tail: &str) -> Option<Self>;

    /// Whether a waiter for `other` need not wait any more when this has been granted.
    fn lets_in(self, _other: Self) -> bool {
        false
    }
}

/// So many permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Amount {
    pub(crate) amount: u32,
    pub(crate) leased: bool,
}

impl Want for Amount {
    fn kind(self) -> &'static str {
        if self.leased { "g" } else { "a" }
    }

    fn amount(self) -> u64 {
        self.amount.into()
    }

    fn is_leased(self) -> bool {
        self.leased
    }

    fn tail(self, suffix: &str) -> String {
        if self.leased { suffix } else { "" }.to_owned()
    }

    fn read(kind: &str, amount: u64, _: &str) -> Option<Self> {
        Some(Amount {
            amount: u32::try_from(amount).ok()?,
            leased: kind == "g",
        })
    }
}

/// The script's details about a grant; zeros where the primitive has none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// The fencing token.
    pub(crate) token: u64,
    /// How often its owner has it now.
    pub(crate) count: u32,
}

/// The grant of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grant<W> {
    pub(crate) want: W,
    /// Under which it is held.
    pub(crate) ticket: Ticket,
    pub(crate) taken: Taken,
    /// When its lease ends for the time being.
    pub(crate) until: Option<Moment>,
}

impl<W> Grant<W> {
    pub(crate) fn new(want: W, ticket: Ticket) -> Self {
        let taken = Taken::default();
        Grant {
            want,
            ticket,
            taken,
            until: None,
        }
    }
}

/// The outcome of a call or a wait.
#[derive(Debug, PartialEq)]
pub(crate) enum Outcome<W> {
    /// 1 for done, 0 for not, or what was asked for.
    Number(i64),
    /// The text that the script has found.
    Text(String),
    /// The call has taken what it wanted.
    Taken(Taken),
    Granted(Grant<W>),
    /// The answer to a request.
    Value(Value),
    /// The time was over.
    TimedOut,
}

pub(super) type Reply<W> = oneshot::Sender<Result<Outcome<W>>>;

/// Outcomes for callers, sent when no mutex is held: their wakers may do anything.
#[must_use]
pub(super) struct Replies<W>(Vec<(Reply<W>, Result<Outcome<W>>)>);

impl<W> Default for Replies<W> {
    fn default() -> Self {
        Replies(Vec::new())
    }
}

impl<W> Replies<W> {
    pub(super) fn add(&mut self, reply: Reply<W>, outcome: Result<Outcome<W>>) {
        self.0.push((reply, outcome));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sends them. Returns the grants of callers that have gone.
    pub(super) fn send(self) -> Vec<Grant<W>> {
        let mut unclaimed = Vec::new();
        for (reply, outcome) in self.0 {
            if let Err(Ok(Outcome::Granted(grant))) = reply.send(outcome) {
                unclaimed.push(grant);
            }
        }
        unclaimed
    }
}
