//! The calls on a latch, as steps of `lua/latch/steps.lua`. Nobody stands in a queue: all waiters of a client ask together.

use std::fmt;
use std::sync::LazyLock;

use crate::engine::request::{Arg, Script};
use crate::lua;
use crate::queue::{self, Amount, Grant, Nothing, Outcome, Primitive, Ticket};

pub(super) static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(lua::LATCH));

/// The latch as a primitive of the queue.
pub(super) struct Latch;

/// The want of all waiters. It takes nothing.
pub(super) const OPEN: Amount = Amount {
    amount: 0,
    leased: false,
};

/// A call but waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    TrySet(u32),
    CountDown(u32),
    Delete,
    /// Whether it is open.
    Look,
}

impl Primitive for Latch {
    const KIND: &'static str = "count_down_latch";
    const WAIT: &'static str = "wait";
    const MOST_ASKED: usize = usize::MAX;
    const QUEUES: bool = false;
    type Want = Amount;
    type Call = Call;
    type Held = Nothing;

    /// Nothing was taken. Nobody waits for this call, so it is not sent.
    fn give_back(_: Grant<Amount>) -> Call {
        Call::Look
    }
}

impl queue::Call for Call {
    type Want = Amount;
    type Note = ();

    fn name(&self) -> &'static str {
        match self {
            Call::TrySet(_) => "try_set_count",
            Call::CountDown(_) => "count_down",
            Call::Delete => "delete",
            Call::Look => "wait",
        }
    }

    fn is_deferred(&self) -> bool {
        matches!(self, Call::CountDown(_))
    }

    fn is_plain(&self) -> bool {
        *self == Call::Look
    }

    fn adds_up(&self) -> bool {
        matches!(self, Call::CountDown(_) | Call::Look)
    }

    fn write(&self, count: usize, _: Ticket, (): &(), args: &mut Vec<Arg>) {
        let (word, number) = match self {
            Call::TrySet(count) => ("set", *count),
            Call::CountDown(times) => ("down", *times),
            Call::Delete => ("delete", 0),
            Call::Look => ("look", 0),
        };
        args.extend([
            Arg::Word(word),
            Arg::Number(number.into()),
            Arg::number(count),
        ]);
    }

    fn read(&self, _: &str, word: &str, _: usize) -> Option<queue::Result<Amount>> {
        Some(Ok(Outcome::Number(word.parse().ok()?)))
    }
}

/// The call, for log entries about calls without a caller.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = queue::Call::name(self);
        match self {
            Call::CountDown(times) => write!(f, "{name}({times})"),
            _ => write!(f, "{name}()"),
        }
    }
}
