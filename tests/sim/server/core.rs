//! Everything of a server but its scripts: its connections, its keys, its faults and its time.

use std::collections::BTreeMap;

use super::cluster::Membership;
use super::command::{self, Command, Run};
use super::connection::{Connection, ConnectionId};
use super::context::Context;
use super::faults::Faults;
use super::keyspace::Keyspace;
use super::replication::Replica;
use super::reply::{Outcome, Refusal};
use super::value::Bytes;

#[derive(Debug, Default)]
pub struct Core {
    /// In microseconds since 1970.
    pub now: u64,
    pub keys: Keyspace,
    pub connections: BTreeMap<ConnectionId, Connection>,
    pub faults: Faults,
    pub replica: Replica,
    /// The script that is being carried out.
    pub script: Option<Script>,
    /// The server's part in a cluster, if the server is a node.
    pub cluster: Option<Membership>,
    /// The messages that were published here, and are to be passed on to the other nodes.
    pub bus: Vec<(Bytes, Bytes)>,
}

/// The state that all commands of a script share.
#[derive(Debug)]
pub struct Script {
    pub connection: ConnectionId,
    /// Whether the script has sent a command that writes. From then on no state of the server stops the script.
    pub has_written: bool,
}

impl Core {
    /// A server that has just started.
    pub fn new(now: u64) -> Core {
        Core {
            now,
            ..Core::default()
        }
    }

    /// In milliseconds since 1970.
    pub fn millis(&self) -> i64 {
        i64::try_from(self.now / 1000).expect("a time of these days")
    }

    pub fn connection(&mut self, id: ConnectionId) -> &mut Connection {
        self.connections.get_mut(&id).expect("it is connected")
    }

    /// Finds the command, and checks whether it may be carried out now.
    pub fn admit(
        &mut self,
        id: ConnectionId,
        words: &[&[u8]],
    ) -> Result<&'static Command, Refusal> {
        let command = command::find(words)?;
        let connection = &self.connections[&id];
        self.admit_to_slot(id, command, words)?;
        self.faults.admit(command)?;
        if connection.is_subscribed() && !command.while_subscribed() {
            return Err(format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET \
                 are allowed in this context",
                command.name
            )
            .into());
        }
        Ok(command)
    }

    /// Carries out a connection's command about data.
    pub fn carry_out(
        &mut self,
        id: ConnectionId,
        run: fn(&mut Context<'_>, &[&[u8]]) -> Outcome,
        words: &[&[u8]],
    ) -> Outcome {
        let mut context = Context {
            connection: id,
            core: self,
        };
        let outcome = run(&mut context, words);
        self.keys.commit();
        outcome
    }

    /// Carries out a command of the script that runs. An error begins with its code.
    pub fn carry_out_in_script(&mut self, words: &[&[u8]]) -> Outcome {
        let script = self.script.as_ref().expect("a script runs");
        let connection = script.connection;
        let command = command::find_in_script(words)?;
        let may_fail = !script.has_written;
        self.faults.admit_in_script(command, may_fail)?;
        if command.writes() {
            self.script.as_mut().expect("a script runs").has_written = true;
        }
        self.admit_to_slot_in_script(connection, command, words)?;
        let Run::Data(run) = command.run else {
            unreachable!("kept out of scripts");
        };
        let mut context = Context {
            connection,
            core: self,
        };
        run(&mut context, words)
    }
}
