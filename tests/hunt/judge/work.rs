//! How much the server is asked.

use std::time::Duration;

use tokio::time::Instant;

use super::Judge;

/// Commands within a second, at the most.
const MOST_COMMANDS: u64 = 6_000;

/// Within a second, while nothing else happens; besides what each client renews, and looks after, by itself.
const MOST_SCRIPTS: u32 = 150;

impl Judge {
    /// A command has been carried out. `calls`: it is none of those that ask whether the server is there.
    pub fn count_command(&mut self, calls: bool) {
        self.commands += 1;
        self.work += u64::from(calls);
        let second = self.trace.now().as_secs();
        if self.window.0 != second {
            self.window = (second, 0);
        }
        self.window.1 += 1;
        if self.window.1 > MOST_COMMANDS {
            self.accuse(
                "scripts",
                format!("more than {MOST_COMMANDS} commands in a second"),
            );
        }
    }

    /// A client has been told that it is its turn.
    pub fn turn_is_told(&mut self) {
        self.crowd.turns += 1;
    }

    /// A script has been carried out.
    pub fn script(&mut self) {
        self.crowd.scripts += 1;
        let most = MOST_SCRIPTS + (self.rules.clients as f64 * self.rules.looks) as u32;
        let (since, count) = &mut self.vain;
        if since.elapsed() > Duration::from_secs(1) {
            self.vain = (Instant::now(), 0);
            return;
        }
        *count += 1;
        if *count > most {
            self.accuse(
                "storm",
                format!("{most} scripts within a second, and nothing else"),
            );
        }
    }

    /// Scripts are not in vain.
    pub fn something_happens(&mut self) {
        self.vain = (Instant::now(), 0);
    }
}
