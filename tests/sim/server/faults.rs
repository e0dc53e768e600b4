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
    /// `OOM`: memory is full; what could take more is refused.
    pub out_of_memory: bool,
    /// `MISCONF`: the last attempt to save failed; nothing may be changed.
    pub cannot_save: bool,
    /// `NOREPLICAS`: too few replicas are in step; nothing may be changed.
    pub too_few_replicas: bool,
    /// `READONLY`: it is a replica; it leaves expired keys to its primary, but does not show them.
    pub replica: bool,
    /// `LOADING`: it has just started.
    pub loading: bool,
    /// `BUSY`: somebody's script does not end.
    pub busy: bool,
}

const OOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";
const MISCONF: &str = "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to \
     disk. Commands that may modify the data set are disabled, because this instance is configured to report \
     errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis \
     logs for details about the RDB error.";
const NO_REPLICAS: &str = "NOREPLICAS Not enough good replicas to write.";
const READ_ONLY: &str = "READONLY You can't write against a read only replica.";
const LOADING: &str = "LOADING Redis is loading the dataset in memory";
const BUSY: &str =
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
const FORBIDDEN_IN_SCRIPT: &str =
    "ERR The user executing the script can't run this command or subcommand";

fn refuse_if(so: bool, why: &str) -> Result<(), Refusal> {
    if so { Err(why.into()) } else { Ok(()) }
}

impl Faults {
    /// A replica takes what its primary sends.
    fn has_no_memory(&self) -> bool {
        self.out_of_memory && !self.replica
    }

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

    /// Those before it is looked at whether the connection listens.
    pub fn admit(&self, command: &Command) -> Result<(), Refusal> {
        refuse_if(self.has_no_memory() && command.takes_memory(), OOM)?;
        // PING says so, too.
        refuse_if(
            self.cannot_save && (command.writes() || command.name == "ping"),
            MISCONF,
        )?;
        refuse_if(self.has_few_replicas() && command.writes(), NO_REPLICAS)?;
        refuse_if(self.replica && command.writes(), READ_ONLY)
    }

    /// The questions after that.
    pub fn admit_late(&self, command: &Command) -> Result<(), Refusal> {
        refuse_if(self.loading && !command.while_loading(), LOADING)?;
        refuse_if(self.busy, BUSY)
    }

    /// The questions before a command of a script that `connection` has sent; `may_fail` until it has written.
    pub fn admit_in_script(
        &self,
        command: &Command,
        connection: &Connection,
        may_fail: bool,
    ) -> Result<(), Refusal> {
        refuse_if(self.forbids(command, connection), FORBIDDEN_IN_SCRIPT)?;
        if !may_fail {
            return Ok(());
        }
        if command.writes() {
            refuse_if(self.replica, READ_ONLY)?;
            refuse_if(self.cannot_save, MISCONF)?;
            refuse_if(self.has_few_replicas(), NO_REPLICAS)?;
        }
        refuse_if(self.has_no_memory() && command.takes_memory(), OOM)
    }
}
