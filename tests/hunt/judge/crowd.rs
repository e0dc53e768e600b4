//! A crowd: what a grant costs the server, and whether all wait about as long.

use std::time::Duration;

use super::Judge;

/// Scripts for each grant.
const MOST_SCRIPTS: f64 = 12.0;
/// Clients that are told that it is their turn, for each grant.
const MOST_TURNS: f64 = 1.25;
/// Messages for each grant, to each client: all of them may be told that there is something, and that there is a line.
const MOST_MESSAGES: f64 = 2.0;
/// Nobody waits for so many times as long as half of all do.
const MOST_TIMES: u32 = 4;
/// Whatever the others wait.
const ANYWAY: Duration = Duration::from_millis(500);

#[derive(Default)]
pub(super) struct Crowd {
    pub(super) scripts: u64,
    /// What clients have been told, and how often that it was their turn.
    pub(super) messages: u64,
    pub(super) turns: u64,
    pub(super) waits: Vec<Duration>,
}

impl Judge {
    /// Nobody waits any more.
    pub fn are_all_served(&mut self) {
        let (scripts, turns) = (self.crowd.scripts, self.crowd.turns);
        let granted = self.granted;
        self.note(format_args!(
            "all have been served: {granted} grants, {scripts} scripts, {turns} turns"
        ));
    }

    /// Everybody in a crowd has been served.
    pub fn judge_crowd(&mut self) {
        let mut waits = std::mem::take(&mut self.crowd.waits);
        waits.sort_unstable();
        let (Some(longest), median) = (waits.last().copied(), waits.get(waits.len() / 2)) else {
            return;
        };
        let median = median.copied().unwrap_or_default();
        let each = |count: u64| count as f64 / waits.len() as f64;
        let (scripts, turns) = (each(self.crowd.scripts), each(self.crowd.turns));
        let messages = each(self.crowd.messages);
        self.note(format_args!(
            "{} grants, {scripts:.1} scripts, {messages:.1} messages and {turns:.1} turns each, waits of {median:?}, {longest:?} at the most",
            waits.len()
        ));
        if scripts > MOST_SCRIPTS {
            self.accuse("cost", format!("{scripts:.1} scripts for each grant"));
        }
        if turns > MOST_TURNS {
            self.accuse("cost", format!("{turns:.1} turns are told for each grant"));
        }
        if messages > MOST_MESSAGES * self.rules.clients as f64 + turns {
            let detail = format!("{messages:.1} messages are sent for each grant");
            self.accuse("cost", detail);
        }
        if longest > median * MOST_TIMES + ANYWAY {
            let detail = format!("somebody has waited for {longest:?}, half of all for {median:?}");
            self.accuse("fairness", detail);
        }
    }
}
