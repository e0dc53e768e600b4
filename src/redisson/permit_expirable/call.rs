//! The calls on a semaphore whose permits have ids, as steps of `lua/permit_expirable/steps.lua`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::ids::{self, Id};
use crate::api::whole_millis;
use crate::engine::request::Arg;
use crate::error::Error;
use crate::queue::{self, Outcome, Ticket, Want, taking};

/// So many permits for so long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Permits {
    pub(super) amount: u32,
    /// A guard has it, which learns where it is lost.
    pub(super) guard: bool,
    /// In milliseconds; 0: without end.
    pub(super) lease: u64,
}

impl Want for Permits {
    fn kind(self) -> &'static str {
        if self.guard { "g" } else { "a" }
    }

    fn amount(self) -> u64 {
        self.amount.into()
    }

    fn is_leased(self) -> bool {
        true
    }

    fn is_used_at_once(self) -> bool {
        self.guard
    }

    fn tail(self, secret: &str) -> String {
        match secret {
            "" => format!(":{}", self.lease),
            _ => format!(":{}:{secret}", self.lease),
        }
    }

    fn read(kind: &str, amount: u64, lease: &str) -> Option<Self> {
        Some(Permits {
            amount: u32::try_from(amount).ok()?,
            guard: kind == "g",
            lease: lease.parse().ok()?,
        })
    }
}

/// In milliseconds, as scripts read it.
pub(super) fn millis(lease: Option<Duration>) -> u64 {
    lease.map_or(0, |lease| whole_millis(lease).unsigned_abs())
}

/// A call but waiting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Call {
    Take(Permits),
    Release(Id),
    /// All of them or none.
    Together(Arc<[Id]>),
    /// The permits that were granted under this ticket.
    GiveBack(Ticket, Permits),
    /// For so many milliseconds from now on; 0: without end.
    Prolong(Id, u64),
    Remaining(Id),
    Count(Counted),
    TrySet(u32),
    Set(u32),
    Add(i32),
    /// Takes all away from their holders.
    Clear,
}

/// The numbers that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counted {
    Available,
    Acquired,
    Total,
}

impl queue::Call for Call {
    type Want = Permits;
    type Note = ();

    fn name(&self) -> &'static str {
        match self {
            Call::Take(_) => "acquire",
            Call::Release(_) | Call::GiveBack(..) => "release",
            Call::Together(_) => "release_many",
            Call::Prolong(..) => "update_lease_time",
            Call::Remaining(_) => "lease_time",
            Call::Count(Counted::Available) => "available_permits",
            Call::Count(Counted::Acquired) => "acquired_permits",
            Call::Count(Counted::Total) => "permits",
            Call::TrySet(_) => "try_set_permits",
            Call::Set(_) => "set_permits",
            Call::Add(_) => "add_permits",
            Call::Clear => "release_all",
        }
    }

    fn is_deferred(&self) -> bool {
        matches!(
            self,
            Call::Release(_) | Call::Together(_) | Call::GiveBack(..)
        )
    }

    fn is_plain(&self) -> bool {
        matches!(self, Call::Remaining(_) | Call::Count(_))
    }

    fn size(&self) -> usize {
        match self {
            Call::Together(ids) => ids.len(),
            Call::Take(permits) | Call::GiveBack(_, permits) => permits.amount as usize,
            _ => 1,
        }
    }

    fn takes(&self) -> Option<Permits> {
        match self {
            Call::Take(permits) => Some(*permits),
            _ => None,
        }
    }

    fn adds(&self) -> bool {
        match self {
            Call::Add(permits) => *permits > 0,
            Call::TrySet(_) | Call::Set(_) | Call::Clear => true,
            call => call.is_deferred(),
        }
    }

    fn write(&self, _: usize, ticket: Ticket, (): &(), args: &mut Vec<Arg>) {
        let (word, first, second) = match self {
            Call::Take(permits) => ("take", Arg::number(permits.amount), permits.lease),
            Call::Release(id) => ("release", ids::arg(id), 0),
            Call::Together(ids) => {
                args.extend([Arg::Word("together"), Arg::number(ids.len())]);
                return args.extend(ids.iter().map(|id| ids::arg(id)));
            }
            Call::GiveBack(ticket, permits) => {
                ("back", Arg::number(*ticket), permits.amount.into())
            }
            Call::Prolong(id, lease) => ("prolong", ids::arg(id), *lease),
            Call::Remaining(id) => ("remaining", ids::arg(id), 0),
            Call::Count(Counted::Available) => ("available", Arg::Number(0), 0),
            Call::Count(Counted::Acquired) => ("acquired", Arg::Number(0), 0),
            Call::Count(Counted::Total) => ("total", Arg::Number(0), 0),
            Call::TrySet(permits) => ("try_set", Arg::number(*permits), 0),
            Call::Set(permits) => ("set", Arg::number(*permits), 0),
            Call::Add(permits) => ("add", Arg::Number((*permits).into()), 0),
            Call::Clear => ("clear", Arg::Number(0), 0),
        };
        args.extend([Arg::Word(word), first, Arg::number(second)]);
        if word == "take" {
            args.push(Arg::number(ticket));
        }
    }

    /// Together: how many; or which one is not held, from -1 downwards.
    fn read(&self, name: &str, word: &str, _: usize) -> Option<queue::Result<Permits>> {
        let old = |id: &Id| Error::InvalidPermitId {
            name: name.to_owned(),
            id: id.to_string(),
            reason: "it was given by Redisson 3.16.8 or an earlier one",
        };
        let out_of_range = |delta: i64, available: &str| {
            Some(Error::OutOfRange {
                name: name.to_owned(),
                available: available.parse().ok()?,
                delta,
            })
        };
        let number = || Some(Outcome::Number(word.parse().ok()?));
        Some(match (self, word.split_once(':')) {
            (Call::Take(_), _) => Ok(taking(word)?),
            (Call::Release(id) | Call::Prolong(id, _) | Call::Remaining(id), _) if word == "o" => {
                Err(old(id))
            }
            (Call::Together(ids), Some((form, place))) => {
                let place: usize = place.parse().ok()?;
                match form {
                    "o" => Err(old(ids.get(place)?)),
                    _ => Ok(Outcome::Number(-1 - i64::try_from(place).ok()?)),
                }
            }
            (Call::Add(delta), Some((_, available))) => {
                Err(out_of_range((*delta).into(), available)?)
            }
            (Call::Set(permits), Some((_, available))) => {
                Err(out_of_range((*permits).into(), available)?)
            }
            _ => Ok(number()?),
        })
    }
}

/// The call, for log entries about calls without a caller.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = queue::Call::name(self);
        match self {
            Call::Release(id) => write!(f, "{name}({id})"),
            Call::Together(ids) => {
                write!(f, "{name}({})", ids.join(", "))
            }
            Call::GiveBack(_, permits) => write!(f, "{name}({})", permits.amount),
            _ => f.write_str(name),
        }
    }
}
