//! A model of a Redis 7.0 server, in process, as the crate and its peers see a server.
//!
//! The model has no clock, no threads and no randomness of its own. [`Server::at`] sets its time, and everything else
//! follows from the calls. So the same calls always have the same answers, and a history of thousands of calls
//! takes milliseconds. The crate's scripts run unchanged, in Lua 5.1.
//!
//! `tests/models/sim_server.rs` sends the same commands to the model and to a real server, and compares each answer, each
//! message and at the end all keys. The model has only the commands of `command.rs`, with the options that the crate or its
//! peers send. Other commands are unknown to it, as to an old server. It has one database. It differs on purpose in this:
//! - time stands still during a call, so a script that calls `TIME` twice gets the same time;
//! - an expired key is removed when a command reads it, never by itself;
//! - the members of a set, and the fields of a large hash, come in an order of their own, which is always the same;
//! - the tables of the Lua libraries are not protected against scripts, only the globals are;
//! - the number -0 of a script is 0 to a command;
//! - `WAIT` is about the writes of its connection, as in later versions, not about all writes before it; a server
//!   has one replica at the most, whose data are not modelled;
//! - a node of a cluster knows of the others only through [`Server::member`], has replicas only in its reports, and
//!   names no hosts, as with `cluster-preferred-endpoint-type unknown-endpoint`;
//! - `INFO` and `ROLE` are short;
//! - the model speaks the second version of the protocol only, and has one user.

mod cluster;
mod command;
mod connection;
mod context;
mod core;
mod expiry;
mod faults;
mod glob;
mod hashes;
mod keys;
mod keyspace;
mod lists;
mod number;
mod pubsub;
mod replication;
mod reply;
mod scripts;
mod server_info;
mod sets;
mod strings;
mod struct_library;
mod value;
mod zset_ranges;
mod zsets;

use std::cell::RefCell;
use std::rc::Rc;

#[allow(unused_imports)]
pub use cluster::{Membership, Port, slot};
#[allow(unused_imports)]
pub use command::{descriptions, key_of};
pub use connection::ConnectionId;
pub use faults::Faults;
pub use reply::Reply;

use self::command::Run;
use self::connection::Connection;
use self::core::Core;
use self::keyspace::Keyspace;
use self::reply::Outcome;
use self::scripts::Scripts;
use self::value::Value;

/// A server. It carries out its commands at once, one after another.
pub struct Server {
    core: Rc<RefCell<Core>>,
    scripts: Scripts,
    next_connection: u64,
}

/// All keys at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot(Keyspace);

impl Server {
    /// An empty server that starts at this time, in microseconds since 1970.
    pub fn new(micros: u64) -> Server {
        let core = Rc::new(RefCell::new(Core::new(micros)));
        Server {
            scripts: Scripts::new(Rc::clone(&core)),
            core,
            next_connection: 1,
        }
    }

    /// A node of a cluster; its connections have numbers from `first` on.
    pub fn node(micros: u64, membership: Membership, first: u64) -> Server {
        let mut server = Server::new(micros);
        server.core.borrow_mut().cluster = Some(membership);
        server.next_connection = first;
        server
    }

    /// Sets the clock, in microseconds since 1970; it may step back.
    pub fn at(&mut self, micros: u64) {
        self.core.borrow_mut().now = micros;
    }

    /// The time of the server's clock.
    pub fn now(&self) -> u64 {
        self.core.borrow().now
    }

    /// Opens a connection.
    pub fn connect(&mut self) -> ConnectionId {
        let id = ConnectionId(self.next_connection);
        self.next_connection += 1;
        let mut core = self.core.borrow_mut();
        core.connections.insert(id, Connection::default());
        id
    }

    /// Opens a connection whose commands are carried out whatever slots this node has.
    pub fn connect_obeyed(&mut self) -> ConnectionId {
        let id = self.connect();
        self.core.borrow_mut().connection(id).obeyed = true;
        id
    }

    /// Closes a connection. Its subscriptions, and the messages that it has not taken yet, are gone.
    pub fn disconnect(&mut self, connection: ConnectionId) {
        self.core.borrow_mut().connections.remove(&connection);
    }

    /// Carries out a command of an open connection. Returns `None` if the answer is [pushed](Self::pushed), as for
    /// subscriptions, or if the connection [waits](Self::waits). A connection that waits sends no other command.
    pub fn execute(&mut self, connection: ConnectionId, words: &[&[u8]]) -> Option<Reply> {
        let asked = self.core.borrow_mut().connection(connection).asking;
        let written = self.written();
        let admitted = self.core.borrow_mut().admit(connection, words);
        let outcome: Outcome = match admitted {
            Err(refusal) => Err(refusal),
            Ok(command) => match command.run {
                Run::Data(run) => self.core.borrow_mut().carry_out(connection, run, words),
                Run::Script => self.scripts.execute(connection, command.name, words),
                Run::Subscription(run) => {
                    run(&mut self.core.borrow_mut(), connection, words);
                    return None;
                }
                Run::Wait => {
                    match replication::wait(&mut self.core.borrow_mut(), connection, words) {
                        Ok(Some(reply)) => Ok(reply),
                        Ok(None) => return None,
                        Err(refusal) => Err(refusal),
                    }
                }
            },
        };
        let mut core = self.core.borrow_mut();
        let now = core.keys.written();
        if now > written
            && let Some(connection) = core.connections.get_mut(&connection)
        {
            connection.written = now;
        }
        if asked && let Some(connection) = core.connections.get_mut(&connection) {
            connection.asking = false;
        }
        drop(core);
        Some(outcome.into())
    }

    /// Takes everything that the connection was sent besides the answers of its commands, in order: messages, and the
    /// confirmations of subscriptions.
    pub fn pushed(&mut self, connection: ConnectionId) -> Vec<Reply> {
        self.core
            .borrow_mut()
            .connection(connection)
            .pushed
            .drain(..)
            .collect()
    }

    /// Changes the faults of the server.
    pub fn faults<T>(&mut self, change: impl FnOnce(&mut Faults) -> T) -> T {
        change(&mut self.core.borrow_mut().faults)
    }

    /// The number that a key holds, read without a command.
    pub fn counter(&self, key: &[u8]) -> Option<i64> {
        let core = self.core.borrow();
        let entry = core.keys.get(key)?;
        if entry.expires.is_some_and(|expires| expires < core.millis()) {
            return None;
        }
        match &entry.value {
            Value::Text(text) => std::str::from_utf8(text).ok()?.parse().ok(),
            _ => None,
        }
    }

    /// All keys as they are now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.core.borrow().keys.clone())
    }

    /// Restores the keys of a snapshot.
    pub fn restore(&mut self, snapshot: &Snapshot) {
        self.core.borrow_mut().keys = snapshot.0.clone();
    }

    /// Reads or changes the node's knowledge of its cluster.
    pub fn member<T>(&mut self, change: impl FnOnce(&mut Membership) -> T) -> T {
        let mut core = self.core.borrow_mut();
        change(core.cluster.as_mut().expect("it is in a cluster"))
    }

    /// Ends the subscriptions to channels of a slot that has gone to another node, and notifies the listeners.
    pub fn drop_channels(&mut self, slot: u16) {
        self.core.borrow_mut().drop_channels(slot);
    }

    /// The messages that were published here since the last call, for the other nodes.
    pub fn published(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        std::mem::take(&mut self.core.borrow_mut().bus)
    }

    /// Delivers a message that was published at another node.
    pub fn hear(&mut self, channel: &[u8], payload: &[u8]) {
        pubsub::deliver(&mut self.core.borrow_mut(), channel, payload);
    }

    /// Whether the key is stored, expired or not.
    pub fn stores(&self, key: &[u8]) -> bool {
        self.core.borrow().keys.get(key).is_some()
    }

    /// The keys of a slot.
    pub fn keys_in(&self, number: u16) -> Vec<Vec<u8>> {
        let core = self.core.borrow();
        let keys = core.keys.iter().map(|(key, _)| key);
        keys.filter(|key| slot(key) == number).cloned().collect()
    }

    /// Moves a key to another node in one step, as `MIGRATE` does. Afterwards neither node can lose a write made so far.
    pub fn hand_over(&mut self, key: &[u8], to: &mut Server) {
        let mut core = self.core.borrow_mut();
        if let Some(entry) = core.keys.remove(key) {
            core.keys.commit();
            core.keys.save();
            let mut other = to.core.borrow_mut();
            other.keys.insert(key, entry);
            other.keys.commit();
            other.keys.save();
        }
    }

    /// Makes all writes so far safe from being lost: they are on disk, and on all replicas.
    pub fn save(&mut self) {
        self.core.borrow_mut().keys.save();
    }

    /// Restarts the server. Connections and scripts are gone, and so are the last `lost` writes (a thousand at the most).
    /// A script counts as one write.
    pub fn restart(&mut self, lost: usize) {
        self.scripts.flush();
        let mut core = self.core.borrow_mut();
        core.connections.clear();
        core.keys.lose(lost);
    }

    /// Evicts the keys that match, as a server short of memory does. Returns how many.
    pub fn evict(&mut self, pattern: &[u8]) -> usize {
        let mut core = self.core.borrow_mut();
        let keys = core.keys.iter().map(|(key, _)| key);
        let chosen = keys.filter(|key| glob::matches(pattern, key)).cloned();
        let chosen: Vec<_> = chosen.collect();
        for key in &chosen {
            core.keys.remove(key);
        }
        core.keys.commit();
        chosen.len()
    }
}
