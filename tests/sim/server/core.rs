//! Everything of a server but its scripts: who is connected, what is stored, what is wrong with it, what time it is.

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

/// Redis has one object for each of these integers, from zero on, whatever keys hold it.
pub const SHARED_INTEGERS: u16 = 10_000;

#[derive(Debug, Default)]
pub struct Core {
    /// In microseconds since 1970.
    pub now: u64,
    pub keys: Keyspace,
    /// When each shared integer was last read, by whichever key; setting a key to it does not count.
    pub shared_uses: Vec<u32>,
    pub connections: BTreeMap<ConnectionId, Connection>,
    pub faults: Faults,
    pub replica: Replica,
    /// The script that is being carried out.
    pub script: Option<Script>,
    /// Which change of the last script was refused as this is a replica: the first one.
    pub refused_as_replica: Option<&'static str>,
    /// As a node of a cluster.
    pub cluster: Option<Membership>,
    /// What was published here, and is to be passed on to the other nodes.
    pub bus: Vec<(Bytes, Bytes)>,
}

/// What a script's commands have in common.
#[derive(Debug)]
pub struct Script {
    pub connection: ConnectionId,
    pub database: usize,
    /// Whether it has sent a command that writes: from then on no state of the server stops it.
    pub has_written: bool,
}

/// The seconds of a last use have so many bits.
const CLOCK_BITS: u32 = 24;
/// The highest of them.
pub const LAST_CLOCK: u32 = (1 << CLOCK_BITS) - 1;

impl Core {
    /// A server that has just started.
    pub fn new(now: u64) -> Core {
        let mut core = Core {
            now,
            ..Core::default()
        };
        core.renew_shared();
        core
    }

    /// As a start of the server does.
    pub fn renew_shared(&mut self) {
        self.shared_uses = vec![self.clock(); usize::from(SHARED_INTEGERS)];
    }

    /// The clock of last uses: seconds, as far as they have room.
    pub fn clock(&self) -> u32 {
        let seconds = self.now / 1_000_000;
        u32::try_from(seconds % (1 << CLOCK_BITS)).expect("fits in its bits")
    }

    /// In milliseconds since 1970.
    pub fn millis(&self) -> i64 {
        i64::try_from(self.now / 1000).expect("a time of these days")
    }

    pub fn connection(&mut self, id: ConnectionId) -> &mut Connection {
        self.connections.get_mut(&id).expect("it is connected")
    }

    /// Finds the command, and whether it may be carried out now.
    pub fn admit(
        &mut self,
        id: ConnectionId,
        words: &[&[u8]],
    ) -> Result<&'static Command, Refusal> {
        let command = command::find(words)?;
        let connection = &self.connections[&id];
        self.faults.admit_user(command, connection)?;
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
        self.faults.admit_late(command)?;
        Ok(command)
    }

    /// Carries out a command of a connection that is about data.
    pub fn carry_out(
        &mut self,
        id: ConnectionId,
        run: fn(&mut Context<'_>, &[&[u8]]) -> Outcome,
        words: &[&[u8]],
    ) -> Outcome {
        let database = self.connection(id).database;
        let mut context = Context {
            connection: id,
            database,
            core: self,
        };
        let outcome = run(&mut context, words);
        let database = context.database;
        // It may have been disconnected by its own command.
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.database = database;
        }
        self.keys.commit();
        outcome
    }

    /// Carries out a command of the script that runs. Its error is told with its code.
    pub fn carry_out_in_script(&mut self, words: &[&[u8]]) -> Outcome {
        let script = self.script.as_ref().expect("a script runs");
        let (connection, database) = (script.connection, script.database);
        let command = command::find_in_script(words)?;
        let may_fail = !script.has_written;
        self.faults
            .admit_in_script(command, &self.connections[&connection], may_fail)
            .inspect_err(|refusal| {
                if refusal.0.starts_with(b"READONLY ") {
                    self.refused_as_replica.get_or_insert(command.name);
                }
            })?;
        if command.writes() {
            self.script.as_mut().expect("a script runs").has_written = true;
        }
        self.admit_to_slot_in_script(connection, command, words)?;
        let Run::Data(run) = command.run else {
            unreachable!("kept out of scripts");
        };
        let mut context = Context {
            connection,
            database,
            core: self,
        };
        let outcome = run(&mut context, words);
        let database = context.database;
        let script = self.script.as_mut().expect("a script runs");
        script.database = database;
        outcome
    }
}
