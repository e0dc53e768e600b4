//! The calls on a lock, as steps of `lua/lock/steps.lua`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::Core;
use crate::engine::request::Arg;
use crate::queue::{self, Outcome, Ticket, Want, taking};

/// The kind of a claim: for a lock, for one that gives a token, or for a side of a read-write lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Plain,
    Fenced,
    Fair,
    Read,
    Write,
}

impl Kind {
    pub(super) fn is_shared(self) -> bool {
        matches!(self, Kind::Read | Kind::Write)
    }

    /// Of its entries in the queue.
    fn letter(self) -> &'static str {
        match self {
            Kind::Plain | Kind::Fair => "g",
            Kind::Fenced => "f",
            Kind::Read => "r",
            Kind::Write => "w",
        }
    }

    /// Behind an owner in the lock's hash.
    pub(super) fn tail(self) -> &'static str {
        match self {
            Kind::Write => ":write",
            _ => "",
        }
    }
}

/// The owner with this number, by what it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Who {
    pub(super) number: u64,
    pub(super) kind: Kind,
}

impl Who {
    /// The field that stands for it in the lock's hash.
    pub(super) fn field(self, core: &Core) -> Arc<str> {
        format!("{}:{self}", core.id()).into()
    }
}

/// Behind the client's id.
impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.number, self.kind.tail())
    }
}

/// An owner that takes the lock, and how. The owner comes first in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Claim {
    /// The owner's number.
    pub(super) owner: u64,
    pub(super) kind: Kind,
    /// It is renewed for as long as it is held.
    pub(super) watched: bool,
    /// The time to live that is set, in milliseconds.
    pub(super) lease: u64,
    /// Of a fair lock: a waiter's share of the queue's time, in milliseconds; negative where it does not queue.
    pub(super) share: Option<i64>,
}

impl Claim {
    pub(super) fn who(self) -> Who {
        Who {
            number: self.owner,
            kind: self.kind,
        }
    }

    pub(super) fn lease(self) -> Duration {
        Duration::from_millis(self.lease)
    }
}

impl Want for Claim {
    fn kind(self) -> &'static str {
        self.kind.letter()
    }

    fn amount(self) -> u64 {
        self.owner
    }

    fn is_leased(self) -> bool {
        true
    }

    fn tail(self, _: &str) -> String {
        format!(":{}", self.lease)
    }

    fn read(kind: &str, owner: u64, lease: &str) -> Option<Self> {
        Some(Claim {
            owner,
            kind: match kind {
                "f" => Kind::Fenced,
                "r" => Kind::Read,
                "w" => Kind::Write,
                _ => Kind::Plain,
            },
            watched: false,
            lease: lease.parse().ok()?,
            share: None,
        })
    }

    /// A reader may hold it already, by another entry.
    fn count_of_grant(self) -> u32 {
        u32::from(self.kind != Kind::Read)
    }

    /// A reader does not get in as a writer.
    fn lets_in(self, other: Self) -> bool {
        self.owner == other.owner && (self.kind, other.kind) != (Kind::Read, Kind::Write)
    }
}

/// A call but waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Take(Claim),
    /// One hold of an owner: this one and no other, or the latest.
    Release(Who, Option<u64>),
    /// Takes it away from every owner; of a read-write lock, where it is held so.
    Force(Kind),
    /// An owner waits for a fair lock no more. Behind it stands its share of the queue's time.
    Leave(u64, u64),
}

/// The note of a call that departs.
#[derive(Default)]
pub(super) struct Note {
    /// The hold that is given back.
    pub(super) hold: Option<u64>,
    /// It has been lost, or given back already.
    pub(super) gone: bool,
    /// How often its owner holds it.
    pub(super) count: usize,
}

/// An owner's number, which may be larger than an argument's.
fn number(owner: u64) -> Arg {
    Arg::Text(owner.to_string().into())
}

impl queue::Call for Call {
    type Want = Claim;
    type Note = Note;

    fn name(&self) -> &'static str {
        match self {
            Call::Take(_) => "lock",
            Call::Release(..) => "unlock",
            Call::Force(_) => "force_unlock",
            Call::Leave(..) => "leave_queue",
        }
    }

    fn is_deferred(&self) -> bool {
        matches!(self, Call::Release(..) | Call::Leave(..))
    }

    fn takes(&self) -> Option<Claim> {
        match self {
            Call::Take(claim) => Some(*claim),
            _ => None,
        }
    }

    fn concerns(&self, want: Claim) -> bool {
        match *self {
            Call::Take(claim) => claim.lets_in(want),
            Call::Release(who, _) => who.number == want.owner,
            Call::Leave(owner, _) => owner == want.owner,
            Call::Force(_) => true,
        }
    }

    fn write(&self, _: usize, _: Ticket, note: &Note, args: &mut Vec<Arg>) {
        match self {
            Call::Take(claim) => args.extend([
                Arg::Word("take"),
                number(claim.owner),
                Arg::number(claim.lease),
                claim.share.map_or(Arg::Word(claim.kind()), |share| {
                    Arg::Text(share.to_string().into())
                }),
            ]),
            Call::Release(who, _) => args.extend([
                Arg::Word("release"),
                match note.gone {
                    true => Arg::Word("nobody"),
                    false => Arg::Text(who.to_string().into()),
                },
                Arg::number(note.count),
            ]),
            Call::Force(kind) => {
                let side = match kind {
                    Kind::Read => "read",
                    Kind::Write => "write",
                    Kind::Plain | Kind::Fenced | Kind::Fair => "all",
                };
                args.extend([Arg::Word("force"), Arg::Word(side), Arg::Number(0)]);
            }
            Call::Leave(owner, share) => {
                args.extend([Arg::Word("leave"), number(*owner), Arg::number(*share)]);
            }
        }
    }

    fn read(&self, _: &str, word: &str, _: usize) -> Option<queue::Result<Claim>> {
        Some(Ok(match self {
            // In how many milliseconds something ends.
            Call::Take(claim) if claim.share.is_some() && !word.contains(':') => {
                Outcome::Number(word.parse().ok()?)
            }
            Call::Take(_) => taking(word)?,
            Call::Release(..) | Call::Force(_) | Call::Leave(..) => {
                Outcome::Number(word.parse().ok()?)
            }
        }))
    }
}

/// As a call, for the log.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = queue::Call::name(self);
        match self {
            Call::Take(claim) => write!(f, "{name}({})", claim.who()),
            Call::Release(who, _) => write!(f, "{name}({who})"),
            Call::Leave(owner, _) => write!(f, "{name}({owner})"),
            Call::Force(_) => write!(f, "{name}()"),
        }
    }
}
