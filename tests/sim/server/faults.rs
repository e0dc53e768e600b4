//! What can be wrong with a server, in its operator's hands, and what it refuses then.
//!
//! Redis asks these questions in one order before a command, and in another before each command of a script; from a
//! script's first write on it does not ask about its state any more, as a script can't be stopped half-way.

use super::command::Command;
use super::reply::Refusal;

/// What is wrong; by default nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    /// `NOREPLICAS`: too few replicas are in step; nothing may be changed.
    pub too_few_replicas: bool,
    /// `READONLY`: it is a replica; it leaves expired keys to its primary, but does not show them.
    pub replica: bool,
}

const NO_REPLICAS: &str = "NOREPLICAS Not enough good replicas to write.";
const READ_ONLY: &str = "READONLY You can't write against a read only replica.";

fn refuse_if(so: bool, why: &str) -> Result<(), Refusal> {
    if so { Err(why.into()) } else { Ok(()) }
}

impl Faults {
    fn has_few_replicas(&self) -> bool {
        self.too_few_replicas && !self.replica
    }

    /// The questions once it is known that the keys are here.
    pub fn admit(&self, command: &Command) -> Result<(), Refusal> {
        refuse_if(self.has_few_replicas() && command.writes(), NO_REPLICAS)?;
        refuse_if(self.replica && command.writes(), READ_ONLY)
    }

    /// The questions before a command of a script; `may_fail` until it has written.
    pub fn admit_in_script(&self, command: &Command, may_fail: bool) -> Result<(), Refusal> {
        if may_fail && command.writes() {
            refuse_if(self.replica, READ_ONLY)?;
            refuse_if(self.has_few_replicas(), NO_REPLICAS)?;
        }
        Ok(())
    }
}
