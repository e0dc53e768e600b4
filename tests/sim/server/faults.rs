//! What can be wrong with a server, in its operator's hands, and what it refuses then.
//!
//! Redis asks these questions in one order before a command, and in another before each command of a script; from a
//! script's first write on it does not ask about its state any more, as a script can't be stopped half-way.

use std::collections::BTreeSet;

use super::command::Command;
use super::connection::Connection;
use super::reply::Refusal;

/// What is wrong; by default nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    /// `NOPERM`: the commands that nobody may use who is not exempt, in small letters, with their subcommand (`pubsub|numsub`).
    pub forbidden: BTreeSet<String>,
    /// `NOREPLICAS`: too few replicas are in step; nothing may be changed.
    pub too_few_replicas: bool,
    /// `READONLY`: it is a replica; it leaves expired keys to its primary, but does not show them.
    pub replica: bool,
}

const NO_REPLICAS: &str = "NOREPLICAS Not enough good replicas to write.";
const READ_ONLY: &str = "READONLY You can't write against a read only replica.";
const FORBIDDEN_IN_SCRIPT: &str =
    "ERR The user executing the script can't run this command or subcommand";

fn refuse_if(so: bool, why: &str) -> Result<(), Refusal> {
    if so { Err(why.into()) } else { Ok(()) }
}

impl Faults {
    fn has_few_replicas(&self) -> bool {
        self.too_few_replicas && !self.replica
    }

    fn forbids(&self, command: &Command, connection: &Connection) -> bool {
        !connection.exempt && self.forbidden.contains(command.name)
    }

    /// The questions before it is looked at whether the keys are here.
    pub fn admit_user(&self, command: &Command, connection: &Connection) -> Result<(), Refusal> {
        if self.forbids(command, connection) {
            let text = format!(
                "NOPERM this user has no permissions to run the '{}' command",
                command.name
            );
            return Err(text.into());
        }
        Ok(())
    }

    /// Those after that.
    pub fn admit(&self, command: &Command) -> Result<(), Refusal> {
        refuse_if(self.has_few_replicas() && command.writes(), NO_REPLICAS)?;
        refuse_if(self.replica && command.writes(), READ_ONLY)
    }

    /// The questions before a command of a script that `connection` has sent; `may_fail` until it has written.
    pub fn admit_in_script(
        &self,
        command: &Command,
        connection: &Connection,
        may_fail: bool,
    ) -> Result<(), Refusal> {
        refuse_if(self.forbids(command, connection), FORBIDDEN_IN_SCRIPT)?;
        if may_fail && command.writes() {
            refuse_if(self.replica, READ_ONLY)?;
            refuse_if(self.has_few_replicas(), NO_REPLICAS)?;
        }
        Ok(())
    }
}
