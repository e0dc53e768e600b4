//! What a client hears of turns.

use std::sync::Weak;

use crate::engine::line::Line;
use crate::engine::line::listening::FOR_OTHERS;
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
    fn wake(&self, _channel: &str, wake: &Wake) {
        let Some(line) = self.line.upgrade() else {
            return;
        };
        match (self.hears, wake) {
            (Call::Turn, Wake::Message(payload)) if payload == b"soon" => line.comes_near(),
            (Call::Turn, Wake::Message(_)) => line.has_its_turn(),
            (Call::NewLine, Wake::Message(payload)) => {
                line.is_to_come(!payload.starts_with(FOR_OTHERS));
            }
            // What was said before has not been heard.
            (Call::NewLine, Wake::Confirmed | Wake::ConfirmedAgain) => line.is_to_come(true),
            // Who can't be told can't take part.
            (_, Wake::Refused(_)) => line.without_turns(),
            _ => {}
        }
    }
}
