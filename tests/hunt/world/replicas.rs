//! The replica of a single server: when it has a write, which connections wait for that, and which writes are lost when it takes over.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::nodes::ALONE;
use super::{Happening, World};
use crate::judge::{Host, Object};
use crate::sim::scripts;
use crate::sim::server::{ConnectionId, Reply};

#[derive(Default)]
pub(super) struct Replica {
    /// It gets all further writes.
    linked: bool,
    /// How often it has gone away. Messages from before do not arrive.
    cuts: u64,
    /// The last write that is known.
    seen: u64,
    /// Writes that it may not have.
    writes: BTreeMap<u64, Write>,
}

/// The author of a write, and the objects, or records (`None`), whose leases were renewed with it or since. No caller waits for a renewal.
#[derive(Clone)]
struct Write {
    host: Option<Host>,
    renews: Vec<Option<Object>>,
}

/// A message on its way to a replica, or from it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// All writes up to this one arrive.
    Written(u64),
    /// The server learns that the replica has them.
    Confirmed(u64),
    /// The replica is there again.
    Rejoins,
}

/// The server that was replaced follows its successor after this many milliseconds, at most.
const FOLLOWS: u64 = 4000;

impl World {
    /// The server has a replica from now on.
    pub(super) fn replica_follows(&mut self) {
        if self.settings.replication.is_some() {
            let server = &mut self.nodes.node(ALONE).server;
            server.follow();
            let seen = server.written();
            (self.replica.linked, self.replica.seen) = (true, seen);
        }
    }

    fn lag(&mut self) -> Duration {
        let lag = self.settings.replication.unwrap_or_default();
        lag.mul_f64(0.5 + self.rng.f64() / 2.0)
    }

    fn replica_steps(&mut self, step: Step, after: Duration) {
        let at = Instant::now() + after;
        self.happens(at, Happening::Replica(self.replica.cuts, step));
    }

    /// Something may have been written, by this client or by the operator (`None`).
    pub(super) fn has_written(&mut self, host: Option<Host>, words: &[&[u8]]) {
        if self.settings.replication.is_none() {
            return;
        }
        let renews = self.renewed(words);
        let written = self.nodes.node(ALONE).server.written();
        let replica = &mut self.replica;
        // At a replica that lacks one of these writes, the renewal may have had nothing to renew.
        for write in replica.writes.values_mut() {
            write.renews.extend(renews.clone());
        }
        if written == replica.seen {
            return;
        }
        for number in replica.seen + 1..=written {
            let renews = renews.clone();
            replica.writes.insert(number, Write { host, renews });
        }
        replica.seen = written;
        if replica.linked {
            let lag = self.lag();
            self.replica_steps(Step::Written(written), lag);
        }
    }

    /// Returns the objects, or records (`None`), whose leases a command renews.
    fn renewed(&self, words: &[&[u8]]) -> Vec<Option<Object>> {
        let script = words.get(1).and_then(|word| scripts::name_of(word));
        match script {
            Some("RENEW") if words.contains(&&b"grants"[..]) => vec![None],
            Some("RENEW") => {
                let all = self.named_in(words).into_iter();
                all.map(Some).collect()
            }
            _ => Vec::new(),
        }
    }

    pub(super) fn replica_does(&mut self, cut: u64, step: Step) {
        if self.replica.cuts != cut {
            return;
        }
        let server = &mut self.nodes.node(ALONE).server;
        match step {
            Step::Written(number) => {
                server.replicate(number);
                self.replica.writes = self.replica.writes.split_off(&(number + 1));
                let lag = self.lag();
                self.replica_steps(Step::Confirmed(number), lag);
            }
            Step::Confirmed(number) => {
                for (connection, reply) in server.confirm(number) {
                    self.ends_wait(connection, &reply);
                }
            }
            Step::Rejoins => {
                let written = server.written();
                self.replica.linked = true;
                self.judge().note(format_args!("the replica is back"));
                let lag = self.lag();
                self.replica_steps(Step::Written(written), lag);
                self.all_unwell(Duration::ZERO);
            }
        }
    }

    /// The replica is away for this time.
    pub(super) fn parts(&mut self, time: Duration) {
        if self.settings.replication.is_some() {
            self.judge()
                .note(format_args!("the replica is away for {time:?}"));
            self.nodes.node(ALONE).server.part();
            self.replica.cuts += 1;
            self.replica.linked = false;
            self.all_unwell(time);
            self.replica_steps(Step::Rejoins, time);
        }
    }

    /// The server that was replaced follows its successor, some time after this.
    pub(super) fn rejoins(&mut self, after: Duration) {
        let later = Duration::from_millis(self.rng.u64(0..FOLLOWS));
        self.parts(after + later);
    }

    /// The replica comes back, if there is one.
    pub(super) fn replica_is_back(&mut self) {
        if self.settings.replication.is_some() && !self.replica.linked {
            self.replica_steps(Step::Rejoins, Duration::ZERO);
        }
    }

    /// Loses the writes that the replica does not have, one after the other.
    pub(super) fn loses_the_rest(&mut self) {
        self.has_written(None, &[]);
        let mut lost = 0;
        self.judge().is_undone(true);
        while let Some(number) = self.nodes.node(ALONE).server.lose_last() {
            lost += 1;
            let write = self.replica.writes.remove(&number);
            let host = write.as_ref().and_then(|write| write.host);
            self.look_at_counters(host);
            if host.is_none() {
                self.permits_are_forgotten();
            }
            for renewed in write.into_iter().flat_map(|write| write.renews) {
                match renewed {
                    Some(object) => self.is_robbed(object),
                    None => self.judge().robs_records(),
                }
            }
        }
        self.judge().is_undone(false);
        self.judge()
            .note(format_args!("the replica lacks the last {lost} writes"));
        self.judge().look_at_what_is_left();
        self.look_at_locks();
        self.look_at_recipes();
        self.look_at_records();
    }
}

impl World {
    /// A connection may have asked for replicas, and waits for them then.
    pub(super) fn waits(&mut self, number: usize) {
        if let Some(patience) = self.patience(number) {
            self.wires[number].waits += 1;
            let wait = self.wires[number].waits;
            self.happens(Instant::now() + patience, Happening::WaitEnds(number, wait));
        }
    }

    fn patience(&mut self, number: usize) -> Option<Duration> {
        let conn = &self.wires[number];
        let (node, connection) = (conn.node, conn.connection?);
        self.nodes.node(node).server.waits(connection)
    }

    /// Whether the connection waits for replicas. Its further requests are not carried out before that has ended.
    pub(super) fn is_waiting(&mut self, number: usize) -> bool {
        self.patience(number).is_some()
    }

    /// The wait of a connection has timed out.
    pub(super) fn wait_ends(&mut self, number: usize, wait: u64) {
        let conn = &self.wires[number];
        if let Some(connection) = conn.connection.filter(|_| conn.waits == wait)
            && let Some(reply) = self.nodes.node(ALONE).server.end_wait(connection)
        {
            self.ends_wait(connection, &reply);
        }
    }

    fn ends_wait(&mut self, connection: ConnectionId, reply: &Reply) {
        if let Some(number) = self.by_connection.get(&connection).copied() {
            let host = self.wires[number].host;
            self.judge().note(format_args!(
                "c{host}/{number} has waited -> {}",
                super::serving::shown(reply)
            ));
            self.reply(number, reply);
            self.serve(number);
        }
    }

    /// The server has become a replica itself, which ends all waits.
    pub(super) fn ends_waits(&mut self, node: usize) {
        for (connection, reply) in self.nodes.node(node).server.end_waits() {
            if let Some(number) = self.by_connection.get(&connection).copied() {
                self.reply(number, &reply);
                self.close_server_side(number);
                self.answer(number, None);
            }
        }
    }
}
