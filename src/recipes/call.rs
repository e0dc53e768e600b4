//! The calls on a semaphore or lock of the recipes, as steps of `lua/recipes/steps.lua`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::request::Arg;
use crate::queue::{self, Outcome, Ticket, Want as _, taking};

/// A permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Want {
    pub(super) kind: Kind,
    /// So many may be held for it to be granted, less one.
    pub(super) limit: u32,
    /// How long it lasts without a refresh, in milliseconds.
    pub(super) lasts: u64,
}

/// How permits differ; the word stands in the entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Timed,
    /// It has a number of its own.
    Slot,
    Endless,
}

impl queue::Want for Want {
    fn kind(self) -> &'static str {
        match self.kind {
            Kind::Timed => "p",
            Kind::Slot => "n",
            Kind::Endless => "e",
        }
    }

    fn amount(self) -> u64 {
        self.limit.into()
    }

    fn is_leased(self) -> bool {
        self.kind != Kind::Endless
    }

    /// Callers have ids, and not leases that could be said to be lost.
    fn is_used_at_once(self) -> bool {
        false
    }

    /// The answer names each slot.
    fn adds_up(self) -> bool {
        self.kind != Kind::Slot
    }

    fn tail(self, _: &str) -> String {
        format!(":{}", self.lasts)
    }

    fn read(kind: &str, limit: u64, lasts: &str) -> Option<Self> {
        Some(Want {
            kind: match kind {
                "p" => Kind::Timed,
                "n" => Kind::Slot,
                "e" => Kind::Endless,
                _ => return None,
            },
            limit: u32::try_from(limit).ok()?,
            lasts: lasts.parse().ok()?,
        })
    }
}

/// A call but waiting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Call {
    Try(Want),
    Release(Arc<str>),
    /// It lasts for so long from now on.
    Refresh(Arc<str>, Duration),
    /// The permit that was taken under a ticket.
    GiveBack(Ticket),
    /// A page of the holders, behind where the one before has ended.
    List(Arc<str>),
    Clear,
}

impl queue::Call for Call {
    type Want = Want;
    type Note = ();

    fn name(&self) -> &'static str {
        match self {
            Call::Try(_) => "try_acquire",
            Call::Release(_) | Call::GiveBack(_) => "release",
            Call::Refresh(..) => "refresh",
            Call::List(_) => "holders",
            Call::Clear => "release_all",
        }
    }

    fn is_deferred(&self) -> bool {
        matches!(self, Call::Release(_) | Call::GiveBack(_))
    }

    fn is_plain(&self) -> bool {
        matches!(self, Call::List(_))
    }

    fn takes(&self) -> Option<Want> {
        match self {
            Call::Try(want) => Some(*want),
            _ => None,
        }
    }

    fn write(&self, _: usize, ticket: Ticket, (): &(), args: &mut Vec<Arg>) {
        let nothing = Arg::Number(0);
        args.extend(match self {
            Call::Try(want) => vec![
                Arg::Word("take"),
                Arg::number(ticket),
                Arg::Word(want.kind()),
                Arg::Number(want.limit.into()),
                Arg::number(want.lasts),
            ],
            Call::Release(id) => vec![Arg::Word("release"), Arg::Text(Arc::clone(id)), nothing],
            Call::Refresh(id, lasts) => vec![
                Arg::Word("refresh"),
                Arg::Text(Arc::clone(id)),
                Arg::millis(*lasts),
            ],
            Call::GiveBack(ticket) => vec![Arg::Word("back"), Arg::number(*ticket), nothing],
            Call::List(from) => vec![Arg::Word("list"), Arg::Text(Arc::clone(from)), nothing],
            Call::Clear => vec![Arg::Word("clear"), Arg::Number(0), nothing],
        });
    }

    fn read(&self, _: &str, word: &str, _: usize) -> Option<queue::Result<Want>> {
        Some(Ok(match self {
            Call::Try(_) if word == "locked" => Outcome::Text(word.to_owned()),
            Call::Try(_) => taking(word)?,
            Call::List(_) => Outcome::Text(word.to_owned()),
            _ => Outcome::Number(word.parse().ok()?),
        }))
    }
}

/// The call, for log entries about calls without a caller.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = queue::Call::name(self);
        match self {
            Call::Release(id) | Call::Refresh(id, _) => write!(f, "{name}({id})"),
            Call::GiveBack(ticket) => write!(f, "{name}(#{ticket})"),
            Call::Try(_) | Call::List(_) | Call::Clear => write!(f, "{name}()"),
        }
    }
}
