//! What happens to both servers, one thing after another.

use std::fmt;

use fastrand::Rng;

use super::{commands, script_calls};
use crate::sim::scripts;

pub const CONNECTIONS: usize = 4;
/// From this one on they listen most of the time.
pub const LISTENERS: usize = 2;

pub type Words = Vec<Vec<u8>>;

#[derive(Clone, PartialEq, Eq)]
pub enum Step {
    /// A connection sends a command.
    Command(usize, Words),
    /// The clock steps by so many microseconds.
    Clock(i64),
    /// Something begins to be wrong with the servers, or ends to.
    Fault(Fault, bool),
    /// A connection is closed, and another made.
    Reconnect(usize),
}

/// What can be wrong with a real server in an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    OutOfMemory,
    TooFewReplicas,
    Replica,
    CannotSave,
    Password,
    /// A command that may not be used.
    Forbidden(&'static str),
}

pub const FORBIDDEN: [&str; 6] = [
    "set",
    "publish",
    "evalsha",
    "pexpire",
    "zadd",
    "pubsub|numsub",
];

impl Step {
    /// What a sequence of this mood begins with.
    pub fn first(mood: &Mood) -> Vec<Step> {
        if mood.calm {
            vec![Step::Command(LISTENERS, commands::all_channels())]
        } else {
            Vec::new()
        }
    }

    pub fn random(rng: &mut Rng, mood: &mut Mood) -> Step {
        let kind = rng.u32(..100);
        if mood.calm {
            return match kind {
                0..=14 => Step::Clock(clock_step(rng)),
                15..=17 => {
                    Step::Command(rng.usize(LISTENERS..CONNECTIONS), commands::listening(rng))
                }
                18..=29 => Step::Command(0, commands::tending(rng)),
                _ => Step::Command(rng.usize(..LISTENERS), script_calls::random(rng, mood)),
            };
        }
        match kind {
            0..=7 => Step::Clock(clock_step(rng)),
            8..=9 => Step::Fault(fault(rng), rng.u32(..3) == 0),
            10 => Step::Reconnect(rng.usize(..CONNECTIONS)),
            11..=14 => Step::Command(rng.usize(LISTENERS..CONNECTIONS), commands::listening(rng)),
            15..=44 => Step::Command(connection(rng), script_calls::random(rng, mood)),
            _ => Step::Command(connection(rng), commands::random(rng)),
        }
    }
}

/// What a sequence of steps is like.
pub struct Mood {
    /// Mostly the crate's scripts, as it calls them; otherwise anything.
    pub calm: bool,
    /// The last sequence number that was given out.
    sequence: u32,
}

impl Mood {
    pub fn random(rng: &mut Rng) -> Mood {
        Mood {
            calm: rng.bool(),
            sequence: 0,
        }
    }

    /// A sequence number: mostly the next one, now and then one that was used.
    pub fn sequence(&mut self, rng: &mut Rng) -> u32 {
        if rng.u32(..8) == 0 {
            return self.sequence.saturating_sub(rng.u32(..3));
        }
        self.sequence += 1;
        self.sequence
    }
}

fn connection(rng: &mut Rng) -> usize {
    if rng.u32(..50) == 0 {
        LISTENERS
    } else {
        rng.usize(..LISTENERS)
    }
}

fn clock_step(rng: &mut Rng) -> i64 {
    const STEPS: [i64; 12] = [
        1,
        499,
        1000,
        1001,
        5000,
        20_000,
        100_000,
        999_999,
        1_000_000,
        10_000_000,
        61_000_000,
        4_000_000_000,
    ];
    let step = STEPS[rng.usize(..STEPS.len())];
    if rng.u32(..10) == 0 {
        -step.min(2_000_000)
    } else {
        step
    }
}

fn fault(rng: &mut Rng) -> Fault {
    match rng.u32(..8) {
        0..=1 => Fault::OutOfMemory,
        2 => Fault::TooFewReplicas,
        3 => Fault::Replica,
        4 => Fault::CannotSave,
        5 => Fault::Password,
        _ => Fault::Forbidden(FORBIDDEN[rng.usize(..FORBIDDEN.len())]),
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Command(connection, words) => {
                write!(f, "{connection}:")?;
                for word in words {
                    match scripts::name_of(word) {
                        Some(name) => write!(f, " {name}")?,
                        None => write!(f, " \"{}\"", word.escape_ascii())?,
                    }
                }
                Ok(())
            }
            Step::Clock(micros) => write!(f, "clock {micros:+}"),
            Step::Fault(fault, on) => write!(f, "fault {fault:?} {on}"),
            Step::Reconnect(connection) => write!(f, "{connection} reconnects"),
        }
    }
}
