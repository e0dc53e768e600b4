//! The calls on a semaphore, as steps of `lua/semaphore/steps.lua`.

use std::fmt;
use std::sync::LazyLock;
use std::time::Duration;

use crate::engine::request::{Arg, Script};
use crate::error::Error;
use crate::lua;
use crate::queue::{self, Amount, Grant, Leases, Outcome, Primitive, Taken, Ticket};

pub(super) static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(lua::SEMAPHORE));

/// The semaphore as a primitive of the queue.
pub(super) struct Permits;

/// A call but waiting; amounts are not zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Release(u32),
    ReleaseIfExists(u32),
    Try(Amount),
    /// Gives back so much of what a guard holds.
    GiveBack(u32, Ticket),
    /// The permits of a guard stay taken, and have no holder from now on.
    Forget(u32, Ticket),
    Add(i32),
    Drain,
    TrySet(u32, Option<Duration>),
    /// So many with what guards hold.
    Set(u32),
    /// Looks whose grants have run out.
    Reclaim,
}

impl Primitive for Permits {
    const KIND: &'static str = "semaphore";
    const WAIT: &'static str = "acquire";
    const TELLS_AGAIN: bool = true;
    type Want = Amount;
    type Call = Call;
    type Held = Leases<Self>;

    fn give_back(grant: Grant<Amount>) -> Call {
        match grant.want.leased {
            true => Call::GiveBack(grant.want.amount, grant.ticket),
            false => Call::ReleaseIfExists(grant.want.amount),
        }
    }
}

fn grant(amount: u32, ticket: Option<Ticket>) -> Grant<Amount> {
    let leased = ticket.is_some();
    Grant::new(Amount { amount, leased }, ticket.unwrap_or(0))
}

impl Call {
    /// Its amount, or change.
    fn amount(self) -> i64 {
        match self {
            Call::Release(permits) | Call::ReleaseIfExists(permits) => permits.into(),
            Call::GiveBack(permits, _) | Call::Forget(permits, _) => permits.into(),
            Call::Try(want) => want.amount.into(),
            Call::TrySet(permits, _) | Call::Set(permits) => permits.into(),
            Call::Add(delta) => delta.into(),
            Call::Drain | Call::Reclaim => 0,
        }
    }
}

impl queue::Call for Call {
    type Want = Amount;
    /// For a release: how the entry reads until then.
    type Note = Option<String>;

    fn name(&self) -> &'static str {
        match self {
            Call::Release(_) | Call::GiveBack(..) => "release",
            Call::ReleaseIfExists(_) => "release_if_exists",
            Call::Try(_) => "try_acquire",
            Call::Forget(..) => "forget",
            Call::Add(_) => "add_permits",
            Call::Drain => "drain_permits",
            Call::TrySet(..) => "try_set_permits",
            Call::Set(_) => "set_permits",
            Call::Reclaim => "reclaim",
        }
    }

    fn is_deferred(&self) -> bool {
        matches!(
            self,
            Call::Release(_) | Call::ReleaseIfExists(_) | Call::GiveBack(..) | Call::Forget(..)
        )
    }

    fn adds_up(&self) -> bool {
        match self {
            Call::Release(_) | Call::ReleaseIfExists(_) => true,
            Call::Try(want) => !want.leased,
            _ => false,
        }
    }

    fn takes(&self) -> Option<Amount> {
        match self {
            Call::Try(want) => Some(*want),
            _ => None,
        }
    }

    fn frees(&self) -> Option<Grant<Amount>> {
        match *self {
            Call::Release(permits) => Some(grant(permits, None)),
            Call::GiveBack(permits, ticket) => Some(grant(permits, Some(ticket))),
            _ => None,
        }
    }

    fn ends(&self) -> Option<Grant<Amount>> {
        match *self {
            Call::GiveBack(permits, ticket) | Call::Forget(permits, ticket) => {
                Some(grant(permits, Some(ticket)))
            }
            _ => None,
        }
    }

    fn adds(&self) -> bool {
        match self {
            Call::Release(_) | Call::ReleaseIfExists(_) | Call::GiveBack(..) => true,
            Call::TrySet(..) | Call::Set(_) => true,
            // The answer alone says whose those were.
            Call::Reclaim => true,
            Call::Add(delta) => *delta > 0,
            Call::Try(_) | Call::Forget(..) | Call::Drain => false,
        }
    }

    fn write(&self, count: usize, ticket: Ticket, entry: &Option<String>, args: &mut Vec<Arg>) {
        let text = || Arg::Text(entry.as_deref().unwrap_or("nothing").into());
        let amount = Arg::Number(self.amount());
        let count = Arg::number(count);
        let (word, second, third) = match self {
            Call::GiveBack(..) => ("leave", text(), amount),
            Call::Forget(..) => ("forget", text(), amount),
            Call::Try(want) if want.leased => ("take", amount, count),
            Call::Try(_) => ("try", amount, count),
            Call::Add(_) => ("add", amount, count),
            Call::TrySet(_, ttl) => {
                let ttl = ttl.map_or(Arg::Number(0), Arg::millis);
                ("try_set", amount, ttl)
            }
            Call::Set(_) => ("set", amount, count),
            Call::Drain => ("drain", amount, count),
            Call::Reclaim => ("reclaim", amount, count),
            Call::ReleaseIfExists(_) => ("release_if_exists", amount, count),
            Call::Release(_) => ("release", amount, count),
        };
        args.extend([Arg::Word(word), second, third]);
        if word == "take" {
            args.push(Arg::number(ticket));
        }
    }

    fn read(&self, name: &str, word: &str, index: usize) -> Option<queue::Result<Amount>> {
        if *self == Call::Reclaim {
            return Some(Ok(Outcome::Text(word.to_owned())));
        }
        if word == "missing" {
            return Some(Ok(Outcome::Number(0)));
        }
        let (done, counter) = match word.split_once(':') {
            Some((done, counter)) => (done.parse().ok()?, Some(counter.parse().ok()?)),
            None => (word.parse::<i64>().ok()?, None),
        };
        let is_done = i64::try_from(index).is_ok_and(|index| index < done);
        Some(match (self, counter) {
            (Call::Drain, _) => Ok(Outcome::Number(done)),
            (_, Some(available)) if !is_done => Err(Error::OutOfRange {
                name: name.to_owned(),
                available,
                delta: self.amount(),
            }),
            (Call::Try(_), _) if is_done => Ok(Outcome::Taken(Taken::default())),
            _ => Ok(Outcome::Number(is_done.into())),
        })
    }
}

/// The call, for log entries about calls without a caller.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = queue::Call::name(self);
        match self {
            Call::Drain | Call::Reclaim => write!(f, "{name}()"),
            _ => write!(f, "{name}({})", self.amount()),
        }
    }
}
