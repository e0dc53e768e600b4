//! What callers do.

use std::time::Duration;

use fastrand::Rng;

use super::chance::{chance, millis, up_to};
use super::settings::Settings;
use crate::judge::Object;

/// A caller.
#[derive(Debug, Clone)]
pub struct Call {
    pub object: Object,
    pub permits: u32,
    pub ask: Ask,
    /// It takes a guard.
    pub guard: bool,
    pub hold: Duration,
    pub give: Give,
    /// When the future is dropped, if it has not ended.
    pub patience: Option<Duration>,
    /// After when, and for how long, it is not polled.
    pub stall: Option<(Duration, Duration)>,
    /// A lock's lease.
    pub lease: Option<Duration>,
    /// It takes the lock a second time while it holds it, with this lease, and which of both goes first.
    pub nested: Option<(Option<Duration>, bool)>,
    /// It is the same owner each time.
    pub one_owner: bool,
    /// It takes the side for readers of a read-write lock.
    pub reads: bool,
    /// One of several permits is split off the guard, and comes back to it in the end, or goes its own way. Of permits with ids
    /// several are tried for at once. A lock that is taken a second time is taken a third time.
    pub split: Option<End>,
    /// It comes again so often, after a pause.
    pub rounds: u32,
    pub pause: Duration,
}

impl Call {
    /// Takes one if it is there, and gives it back.
    pub fn looking_in(object: Object) -> Call {
        Call {
            object,
            permits: 1,
            ask: Ask::Try,
            guard: true,
            hold: Duration::ZERO,
            give: Give::Call,
            patience: None,
            stall: None,
            lease: None,
            nested: None,
            one_owner: false,
            reads: false,
            split: None,
            rounds: 1,
            pause: Duration::ZERO,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    Wait,
    Try,
    For(Duration),
}

impl Ask {
    /// How long it waits at the most.
    pub fn limit(self) -> Option<Duration> {
        match self {
            Ask::Wait => None,
            Ask::Try => Some(Duration::ZERO),
            Ask::For(wait) => Some(wait),
        }
    }
}

/// Of a part that was split off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Apart,
    Merged,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Give {
    /// Waits for the answer.
    Call,
    /// The guard is dropped, or the future of the release is as soon as it was polled.
    Drop,
    /// It is kept until the end.
    Keep,
}

/// What such a call is about: each is there for them alone, but for the latch, for which others wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    Semaphore,
    Latch,
    /// A semaphore whose permits have ids.
    Expirable,
}

/// A call that changes an object without holding anything.
#[derive(Debug, Clone)]
pub struct Admin {
    pub subject: Subject,
    pub what: AdminCall,
    /// When the future is dropped, if it has not ended.
    pub patience: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminCall {
    Set(u32),
    /// For so long.
    SetFor(u32, Duration),
    /// Whatever there was.
    Put(u32),
    Add(i32),
    Drain,
    Release(u32),
    ReleaseIfExists(u32),
    Delete,
    Look,
    Expire(Duration),
    ClearExpire,
    /// It takes another name.
    Rename,
    /// The same, where nothing has that name.
    RenameNx,
    /// What has that name takes its own again.
    RenameBack,
    /// A copy gets that name, where nothing has it, or in any case.
    Copy(bool),
    /// Of permits with ids: one is taken, or given back that was taken before.
    Take,
    Give,
    /// Of a latch.
    CountDown,
}

pub(super) fn admin(rng: &mut Rng, drops: u32) -> Admin {
    let what = match rng.u32(..8) {
        0 | 1 => AdminCall::Set(rng.u32(..5)),
        2 => AdminCall::Add(rng.i32(-3..5)),
        3 => AdminCall::Drain,
        4 => AdminCall::Release(rng.u32(1..4)),
        5 => AdminCall::ReleaseIfExists(rng.u32(1..4)),
        6 => AdminCall::Delete,
        _ => AdminCall::Look,
    };
    asked(rng, drops, Subject::Semaphore, what)
}

/// Mostly about how long an object is there, and under which name.
pub(super) fn handling(rng: &mut Rng, drops: u32, subject: Subject, calm: bool) -> Admin {
    let with_ids = subject == Subject::Expirable;
    // Of what a caller is granted who may have gone nobody could tell.
    let takes = with_ids && calm;
    let drops = if takes { 0 } else { drops };
    let life = up_to(rng, &[30, 500, 4000]) + Duration::from_millis(1);
    let what = match rng.u32(..20) {
        16 | 17 if takes => AdminCall::Take,
        18 | 19 if takes => AdminCall::Give,
        0 | 1 => AdminCall::Set(rng.u32(1..5)),
        2 if !with_ids => AdminCall::SetFor(rng.u32(1..5), life),
        2 | 3 => AdminCall::Add(rng.i32(1..4)),
        4 if !with_ids => AdminCall::Release(rng.u32(1..4)),
        4 | 5 if with_ids => AdminCall::Put(rng.u32(1..5)),
        4 | 5 => AdminCall::Drain,
        6 => AdminCall::Look,
        7 => AdminCall::Delete,
        8 | 9 => AdminCall::Expire(life),
        10 => AdminCall::ClearExpire,
        11 => AdminCall::RenameNx,
        12 => AdminCall::Rename,
        13 | 14 => AdminCall::RenameBack,
        _ if with_ids => AdminCall::ClearExpire,
        _ => AdminCall::Copy(rng.bool()),
    };
    asked(rng, drops, subject, what)
}

fn asked(rng: &mut Rng, drops: u32, subject: Subject, what: AdminCall) -> Admin {
    Admin {
        subject,
        what,
        patience: chance(rng, drops).then(|| up_to(rng, &[2, 20, 500])),
    }
}

/// A call about the latch.
pub(super) fn party(rng: &mut Rng, drops: u32) -> Admin {
    let what = match rng.u32(..12) {
        0..3 => AdminCall::Set(rng.u32(1..6)),
        3..11 => AdminCall::CountDown,
        _ => AdminCall::Delete,
    };
    asked(rng, drops, Subject::Latch, what)
}

/// Under which name the latch is there.
pub(super) fn naming(rng: &mut Rng, drops: u32) -> Admin {
    let what = match rng.u32(..8) {
        0 | 1 => AdminCall::Rename,
        2..5 => AdminCall::RenameBack,
        _ => AdminCall::Copy(rng.bool()),
    };
    asked(rng, drops, Subject::Latch, what)
}

pub(super) const CROWD_ROUNDS: u32 = 150;

/// One of many who want the same again and again.
pub(super) fn crowding(rng: &mut Rng, object: Object, settings: &Settings) -> Call {
    let most = match object {
        Object::Semaphore(number) if chance(rng, 20) => settings.permits[number],
        _ => 1,
    };
    Call {
        permits: u32::try_from(rng.i64(1..=most)).expect("a few"),
        ask: Ask::Wait,
        hold: millis(rng, 0..3),
        rounds: match object {
            // Long enough for those who are passed to be next.
            Object::Lock(_) => 4 * CROWD_ROUNDS,
            _ => CROWD_ROUNDS,
        },
        ..Call::looking_in(object)
    }
}
