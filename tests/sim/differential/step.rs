//! What happens to both servers, one thing after another.

use std::fmt;

use fastrand::Rng;

use super::script_calls::{Call, Subject};
use super::{commands, contents, script_calls};
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
    /// A command that may not be used.
    Forbidden(&'static str),
}

pub const FORBIDDEN: [&str; 10] = [
    "set",
    "publish",
    "evalsha",
    "pexpire",
    "zadd",
    "zrem",
    "hset",
    "hdel",
    "incrby",
    "pubsub|numsub",
];

impl Step {
    /// What a sequence of this mood begins with.
    pub fn first(mood: &Mood) -> Vec<Step> {
        let mut steps = Vec::new();
        if mood.calm {
            steps.push(Step::Command(LISTENERS, commands::all_channels()));
        }
        if mood.stranger {
            let words = ["SUBSCRIBE", "ch:s", "news"];
            steps.push(Step::Command(LISTENERS + 1, words.map(Into::into).into()));
        }
        steps
    }

    pub fn random(rng: &mut Rng, mood: &mut Mood) -> Step {
        let kind = rng.u32(..100);
        if mood.calm {
            return match kind {
                0..=11 => Step::Clock(clock_step(rng, mood.hasty)),
                12..=13 => {
                    Step::Command(rng.usize(LISTENERS..CONNECTIONS), commands::listening(rng))
                }
                14..=15 => {
                    let subject = mood.subject(rng);
                    Step::Command(0, contents::spoiling(rng, subject))
                }
                16..=28 => {
                    let subject = mood.subject(rng);
                    Step::Command(0, contents::tending(rng, subject))
                }
                kind => match mood.trouble.filter(|_| kind < 31) {
                    Some(trouble) => Step::Fault(trouble, rng.bool()),
                    None => Step::Command(rng.usize(..LISTENERS), script_calls::random(rng, mood)),
                },
            };
        }
        match kind {
            0..=7 => Step::Clock(clock_step(rng, mood.hasty)),
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
    /// Of whose scripts most are; none: any.
    subject: Option<Subject>,
    /// Much time goes by.
    hasty: bool,
    /// Somebody listens who takes no turns.
    stranger: bool,
    /// Is wrong now and then, where it is calm.
    trouble: Option<Fault>,
    /// The last sequence number that was given out.
    sequence: u32,
    /// Some of the last calls that are carried out once, however often they are sent.
    sent: Vec<Call>,
}

impl Mood {
    pub fn random(rng: &mut Rng) -> Mood {
        Mood {
            calm: rng.bool(),
            subject: (rng.u32(..4) > 0).then(|| Subject::random(rng)),
            hasty: rng.u32(..3) == 0,
            stranger: rng.bool(),
            trouble: (rng.u32(..3) == 0).then(|| match rng.bool() {
                true => forbidden(rng),
                false => fault(rng),
            }),
            sequence: 0,
            sent: Vec::new(),
        }
    }

    /// Whose script is called next.
    pub fn subject(&self, rng: &mut Rng) -> Subject {
        let usual = self.subject.filter(|_| rng.u32(..10) > 0);
        usual.unwrap_or_else(|| Subject::random(rng))
    }

    /// A sequence number: mostly the next one, now and then one that was used.
    pub fn sequence(&mut self, rng: &mut Rng) -> u32 {
        if rng.u32(..8) == 0 {
            return self.sequence.saturating_sub(rng.u32(..3));
        }
        self.sequence += 1;
        self.sequence
    }

    /// A sequence number that may stand in a record now, or did before.
    pub fn recent(&self, rng: &mut Rng) -> u32 {
        self.sequence.saturating_sub(rng.u32(..16))
    }

    pub fn remember(&mut self, call: &Call) {
        const MOST: usize = 4;
        if self.sent.len() == MOST {
            self.sent.remove(0);
        }
        self.sent.push(call.clone());
    }

    /// One of those that were sent before.
    pub fn earlier(&self, rng: &mut Rng) -> Option<Call> {
        let count = self.sent.len();
        (count > 0).then(|| self.sent[rng.usize(..count)].clone())
    }
}

fn connection(rng: &mut Rng) -> usize {
    if rng.u32(..50) == 0 {
        LISTENERS
    } else {
        rng.usize(..LISTENERS)
    }
}

fn clock_step(rng: &mut Rng, hasty: bool) -> i64 {
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
    // What is short does not end a lease, mostly.
    const SHORT: usize = 7;
    let all = hasty || rng.u32(..6) == 0;
    let step = STEPS[rng.usize(..if all { STEPS.len() } else { SHORT })];
    if rng.u32(..10) == 0 {
        -step.min(2_000_000)
    } else {
        step
    }
}

fn fault(rng: &mut Rng) -> Fault {
    match rng.u32(..7) {
        0..=1 => Fault::OutOfMemory,
        2 => Fault::TooFewReplicas,
        3 => Fault::Replica,
        4 => Fault::CannotSave,
        _ => forbidden(rng),
    }
}

fn forbidden(rng: &mut Rng) -> Fault {
    Fault::Forbidden(FORBIDDEN[rng.usize(..FORBIDDEN.len())])
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
