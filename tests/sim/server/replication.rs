//! A replica as its primary knows it: the writes that it has, and the connections that wait for it (`WAIT`). The caller decides
//! when the replica gets writes ([`Server::replicate`], [`Server::confirm`]).

use std::time::Duration;

use super::Server;
use super::connection::ConnectionId;
use super::core::Core;
use super::number;
use super::reply::{Refusal, Reply};

#[derive(Debug, Default)]
pub struct Replica {
    /// Whether the replica is in touch with its primary.
    connected: bool,
    /// The number of the last write that the primary knows its replica to have.
    confirmed: u64,
}

/// The wait of a connection that has sent `WAIT`.
#[derive(Debug, Clone, Copy)]
pub struct Wait {
    replicas: i64,
    patience: Duration,
}

const ON_A_REPLICA: &str = "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a \
     replica is configured to be writable (which is not the default) writes to replicas are just local and are not propagated.";
const NO_TIMEOUT: &str = "ERR timeout is not an integer or out of range";
const UNBLOCKED: &str =
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";

/// Carries out `WAIT`. Returns `None` if too few replicas have the writes. The connection waits then.
pub fn wait(core: &mut Core, id: ConnectionId, words: &[&[u8]]) -> Result<Option<Reply>, Refusal> {
    if core.faults.replica {
        return Err(ON_A_REPLICA.into());
    }
    let replicas = number::check_integer(words[1])?;
    let millis = number::integer(words[2]).ok_or_else(|| Refusal::from(NO_TIMEOUT))?;
    let millis = u64::try_from(millis).map_err(|_| "ERR timeout is negative")?;
    let count = core.confirmed(id);
    if count >= replicas {
        return Ok(Some(Reply::Int(count)));
    }
    let patience = match millis {
        0 => Duration::MAX,
        millis => Duration::from_millis(millis),
    };
    core.connection(id).waits = Some(Wait { replicas, patience });
    Ok(None)
}

impl Core {
    /// How many replicas are known to have all that this connection has written.
    fn confirmed(&self, id: ConnectionId) -> i64 {
        let replica = &self.replica;
        i64::from(replica.connected && replica.confirmed >= self.connections[&id].written)
    }
}

impl Server {
    /// Adds a replica, which has everything.
    pub fn follow(&mut self) {
        let mut core = self.core.borrow_mut();
        let written = core.keys.written();
        core.keys.replicate(written);
        core.replica = Replica {
            connected: true,
            confirmed: written,
        };
    }

    /// The number of the last write.
    pub fn written(&self) -> u64 {
        self.core.borrow().keys.written()
    }

    /// Records that the replica has all writes up to this one.
    pub fn replicate(&mut self, number: u64) {
        self.core.borrow_mut().keys.replicate(number);
    }

    /// The replica is in touch, and confirms all writes up to this one. Returns the connections that wait no longer, with their answers.
    pub fn confirm(&mut self, number: u64) -> Vec<(ConnectionId, Reply)> {
        let mut core = self.core.borrow_mut();
        core.replica.connected = true;
        core.replica.confirmed = core.replica.confirmed.max(number);
        let waits = |id: &ConnectionId| {
            let wait = core.connections[id].waits;
            wait.is_some_and(|wait| core.confirmed(*id) >= wait.replicas)
        };
        let done: Vec<ConnectionId> = core.connections.keys().copied().filter(waits).collect();
        drop(core);
        let answered = done
            .into_iter()
            .filter_map(|id| Some((id, self.end_wait(id)?)));
        answered.collect()
    }

    /// The replica is not in touch any more.
    pub fn part(&mut self) {
        self.core.borrow_mut().replica.connected = false;
    }

    /// For how long a connection waits for replicas, if it waits.
    pub fn waits(&self, connection: ConnectionId) -> Option<Duration> {
        let core = self.core.borrow();
        let wait = core.connections.get(&connection)?.waits?;
        Some(wait.patience)
    }

    /// Ends the time of a connection that waits. Returns its answer.
    pub fn end_wait(&mut self, connection: ConnectionId) -> Option<Reply> {
        let mut core = self.core.borrow_mut();
        core.connections.get_mut(&connection)?.waits.take()?;
        Some(Reply::Int(core.confirmed(connection)))
    }

    /// Ends all waits with an error, as the server has become a replica itself. The caller disconnects these connections then.
    pub fn end_waits(&mut self) -> Vec<(ConnectionId, Reply)> {
        let mut core = self.core.borrow_mut();
        let waiting = core.connections.iter_mut();
        let ended = waiting.filter_map(|(id, connection)| connection.waits.take().map(|_| *id));
        let error = || Reply::Error(UNBLOCKED.into());
        ended.map(|id| (id, error())).collect()
    }

    /// Undoes the last write if the replica does not have it. Returns its number.
    pub fn lose_last(&mut self) -> Option<u64> {
        self.core.borrow_mut().keys.lose_last()
    }
}
