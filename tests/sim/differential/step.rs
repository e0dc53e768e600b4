//! The steps that both servers take, one after another.

use std::fmt;

use fastrand::Rng;

use super::commands;
use super::scripts::{self, SUBJECTS, Subject};
use crate::sim::scripts::name_of;

pub const CONNECTIONS: usize = 4;
/// The connections from this one on listen most of the time.
pub const LISTENERS: usize = 2;

pub type Words = Vec<Vec<u8>>;

#[derive(Clone, PartialEq, Eq)]
pub enum Step {
    /// A connection sends a command.
    Command(usize, Words),
    /// The clock steps by this many microseconds.
    Clock(i64),
    /// A fault of the servers begins or ends.
    Fault(Fault, bool),
    /// A connection is closed, and another one opened.
    Reconnect(usize),
}

/// A fault that begins and ends at once at a real server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    TooFewReplicas,
    Replica,
}

impl Step {
    /// The first steps of a sequence of this mood.
    pub fn first(mood: &Mood) -> Vec<Step> {
        let mut steps = Vec::new();
        if mood.calm {
            steps.push(Step::Command(LISTENERS, commands::all_channels()));
        }
        steps
    }

    pub fn random(rng: &mut Rng, mood: &mut Mood) -> Step {
        let kind = rng.u32(..100);
        let script = rng.usize(..LISTENERS);
        if mood.calm {
            return match kind {
                0..12 => Step::Clock(clock_step(rng)),
                12..14 => {
                    Step::Command(rng.usize(LISTENERS..CONNECTIONS), commands::listening(rng))
                }
                14..32 => {
                    let subject = mood.subject(rng);
                    Step::Command(0, scripts::tending(rng, subject))
                }
                32..35 => Step::Fault(mood.trouble, rng.bool()),
                _ => Step::Command(script, scripts::random(rng, mood)),
            };
        }
        match kind {
            0..8 => Step::Clock(clock_step(rng)),
            8..10 => Step::Fault(fault(rng), rng.u32(..3) == 0),
            10 => Step::Reconnect(rng.usize(..CONNECTIONS)),
            11..15 => Step::Command(rng.usize(LISTENERS..CONNECTIONS), commands::listening(rng)),
            15..45 => Step::Command(script, scripts::random(rng, mood)),
            45 => Step::Command(LISTENERS, commands::random(rng)),
            _ => Step::Command(script, commands::random(rng)),
        }
    }
}

/// The character of a sequence of steps.
pub struct Mood {
    /// Whether most steps are the crate's scripts, as the crate calls them. Otherwise the steps are anything.
    pub calm: bool,
    /// The object that most script calls are about.
    subject: usize,
    /// The fault that begins and ends now and then in a calm sequence.
    trouble: Fault,
    /// The last sequence number that was given out.
    sequence: u32,
    /// Some of the last calls that take effect once, however often they are sent, and how many keys each has.
    sent: Vec<(Words, usize)>,
}

impl Mood {
    pub fn random(rng: &mut Rng) -> Mood {
        Mood {
            calm: rng.u32(..3) > 0,
            subject: rng.usize(..SUBJECTS.len()),
            trouble: fault(rng),
            sequence: 0,
            sent: Vec::new(),
        }
    }

    /// The object whose script is called next.
    pub fn subject(&self, rng: &mut Rng) -> &'static Subject {
        match rng.u32(..10) {
            0 => &SUBJECTS[rng.usize(..SUBJECTS.len())],
            _ => &SUBJECTS[self.subject],
        }
    }

    /// A sequence number: mostly the next one, now and then a used one.
    pub fn sequence(&mut self, rng: &mut Rng) -> u32 {
        if rng.u32(..8) == 0 {
            return self.sequence.saturating_sub(rng.u32(..3));
        }
        self.sequence += 1;
        self.sequence
    }

    /// A sequence number that may be in a record now, or was before.
    pub fn recent(&self, rng: &mut Rng) -> u32 {
        self.sequence.saturating_sub(rng.u32(..16))
    }

    pub fn remember(&mut self, call: &Words, keys: usize) {
        const MOST: usize = 4;
        if self.sent.len() == MOST {
            self.sent.remove(0);
        }
        self.sent.push((call.clone(), keys));
    }

    /// One of the calls that were sent before.
    pub fn earlier(&self, rng: &mut Rng) -> Option<(Words, usize)> {
        let count = self.sent.len();
        (count > 0).then(|| self.sent[rng.usize(..count)].clone())
    }
}

fn clock_step(rng: &mut Rng) -> i64 {
    const STEPS: [i64; 11] = [
        1, 499, 1000, 1001, 5000, 20_000, 100_000, 999_999, 1_000_000, 10_000_000, 61_000_000,
    ];
    // A short step mostly does not end a lease.
    const SHORT: usize = 7;
    let all = rng.u32(..4) == 0;
    let step = STEPS[rng.usize(..if all { STEPS.len() } else { SHORT })];
    match rng.u32(..10) {
        0 => -step.min(2_000_000),
        _ => step,
    }
}

fn fault(rng: &mut Rng) -> Fault {
    match rng.bool() {
        true => Fault::TooFewReplicas,
        false => Fault::Replica,
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Command(connection, words) => {
                write!(f, "{connection}:")?;
                for word in words {
                    match name_of(word) {
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
