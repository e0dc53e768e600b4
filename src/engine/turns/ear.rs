//! What a client hears of turns.

use std::sync::Weak;

use crate::engine::line::Line;
use crate::engine::wakeups::{Listener, Wake};

/// Hears one of the two channels of turns for a line.
pub(crate) struct Ear {
    line: Weak<Line>,
    hears: Call,
}

/// What a message says.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Call {
    /// The turn of this client has come.
    Turn,
    /// A line begins: whoever waits is to come. Or permits are free that nobody in line can use: some may look.
    NewLine,
}

impl Ear {
    pub(crate) fn new(line: Weak<Line>, hears: Call) -> Self {
        Ear { line, hears }
    }
}

impl Listener for Ear {
    fn wake(&self, wake: &Wake) {
        let Some(line) = self.line.upgrade() else {
            return;
        };
        match (self.hears, wake) {
            (Call::Turn, Wake::Message) => drop(line.has_its_turn()),
            // What was said before has not been heard.
            (Call::NewLine, Wake::Message | Wake::Confirmed | Wake::ConfirmedAgain) => {
                line.is_to_come(true);
            }
            (Call::NewLine, Wake::MessageForOthers) => line.is_to_come(false),
            // Who can't be told can't take part.
            (_, Wake::Refused(_)) => line.without_turns(),
            _ => {}
        }
    }
}
