//! The faults that a server can have, in its operator's hands, and the errors that follow from them.
//!
//! Redis makes these checks in one order before a command, and in another before each command of a script. From a
//! script's first write on it does not check its state any more, as a script can't be stopped half-way.

use super::command::Command;
use super::reply::Refusal;

/// The faults of a server; by default there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    /// `NOREPLICAS`: too few replicas are in step; nothing may be changed.
    pub too_few_replicas: bool,
    /// `READONLY`: the server is a replica. It leaves expired keys to its primary, but does not show them.
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

    /// The checks after the keys are known to be here.
    pub fn admit(&self, command: &Command) -> Result<(), Refusal> {
        refuse_if(self.has_few_replicas() && command.writes(), NO_REPLICAS)?;
        refuse_if(self.replica && command.writes(), READ_ONLY)
    }

    /// The checks before a command of a script. `may_fail` is true until the script has written.
    pub fn admit_in_script(&self, command: &Command, may_fail: bool) -> Result<(), Refusal> {
        if may_fail && command.writes() {
            refuse_if(self.replica, READ_ONLY)?;
            refuse_if(self.has_few_replicas(), NO_REPLICAS)?;
        }
        Ok(())
    }
}
