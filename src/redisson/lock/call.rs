//! The calls on a lock, as steps of `lua/lock/steps.lua`.

use std::fmt;
use std::sync::LazyLock;
use std::time::Duration;

use super::held::Holds;
use super::times::Term;
use crate::engine::request::{Arg, Script};
use crate::lua;
use crate::queue::{self, Grant, Outcome, Primitive, Ticket, Want, taking};

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(lua::LOCK));
static FAIR: LazyLock<Script> = LazyLock::new(|| Script::new(lua::FAIR_LOCK));

/// The lock as a primitive of the queue.
pub(super) struct Locks;

/// An owner that takes the lock, and how. The owner comes first in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Claim {
    /// The owner's number.
    pub(super) owner: u64,
    /// It is given a fencing token.
    pub(super) fenced: bool,
    /// It is renewed for as long as it is held.
    pub(super) watched: bool,
    /// The time to live that is set, in milliseconds.
    pub(super) lease: u64,
    /// Of a fair lock: its share of the queue's time, in milliseconds; 0 where it does not queue.
    pub(super) share: Option<u64>,
}

impl Claim {
    pub(super) fn lease(self) -> Duration {
        Duration::from_millis(self.lease)
    }

    pub(super) fn term(self) -> Term {
        match self.watched {
            true => Term::Watched,
            false => Term::Limited(self.lease()),
        }
    }
}

impl Want for Claim {
    fn kind(self) -> &'static str {
        if self.fenced { "f" } else { "g" }
    }

    fn amount(self) -> u64 {
        self.owner
    }

    fn is_leased(self) -> bool {
        true
    }

    fn life(self, millis: u64) -> Arg {
        Arg::Text(format!("{millis}:{}", self.lease).into())
    }

    fn tail(self, _: &str) -> String {
        format!(":{}", self.lease)
    }

    fn read(kind: &str, owner: u64, lease: &str) -> Option<Self> {
        Some(Claim {
            owner,
            fenced: kind == "f",
            watched: false,
            lease: lease.parse().ok()?,
            share: None,
        })
    }

    fn lets_in(self, other: Self) -> bool {
        self.owner == other.owner
    }
}

/// A call but waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Take(Claim),
    /// One hold of an owner: this one and no other, or the latest.
    Release(u64, Option<u64>),
    /// Takes it away from every owner.
    Force,
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
    /// The time to live of those that are left.
    pub(super) lease: Duration,
}

impl Primitive for Locks {
    const KIND: &'static str = "lock";
    const WAIT: &'static str = "lock";
    const MOST_ASKED: usize = 64;
    /// One of them is enough.
    const TELLS_AGAIN: bool = false;
    type Want = Claim;
    type Call = Call;
    type Held = Holds;

    fn script(holds: &Holds) -> &'static LazyLock<Script> {
        if holds.is_fair() { &FAIR } else { &SCRIPT }
    }

    fn give_back(grant: Grant<Claim>) -> Call {
        Call::Release(grant.want.owner, Some(grant.ticket))
    }
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
            Call::Force => "force_unlock",
            Call::Leave(..) => "leave_queue",
        }
    }

    fn is_owed(&self) -> bool {
        matches!(self, Call::Release(..) | Call::Leave(..))
    }

    fn is_owed_anew(&self) -> bool {
        self.is_owed()
    }

    fn adds_up(&self) -> bool {
        false
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
            Call::Release(owner, _) | Call::Leave(owner, _) => owner == want.owner,
            Call::Force => true,
        }
    }

    fn adds(&self) -> bool {
        !matches!(self, Call::Take(_))
    }

    fn write(&self, _: usize, _: Ticket, note: &Note, args: &mut Vec<Arg>) {
        match self {
            Call::Take(claim) => args.extend([
                Arg::Word("take"),
                number(claim.owner),
                Arg::number(claim.lease),
                claim.share.map_or(Arg::Word(claim.kind()), Arg::number),
            ]),
            Call::Release(owner, _) => args.extend([
                Arg::Word("release"),
                if note.gone {
                    Arg::Word("nobody")
                } else {
                    number(*owner)
                },
                Arg::millis(note.lease),
            ]),
            Call::Force => args.extend([Arg::Word("force"), Arg::Number(0), Arg::Number(0)]),
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
            Call::Release(..) | Call::Force | Call::Leave(..) => {
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
            Call::Take(Claim { owner, .. }) | Call::Release(owner, _) | Call::Leave(owner, _) => {
                write!(f, "{name}({owner})")
            }
            Call::Force => write!(f, "{name}()"),
        }
    }
}
