//! Replicas: when they have what was written, who waits for that, and what is lost when one takes over.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::{Happening, World};
use crate::judge::{Host, Object};
use crate::sim::scripts;
use crate::sim::server::{ConnectionId, Reply};

/// The replica of a node.
#[derive(Default)]
pub struct Replica {
    /// It gets what is written from now on. Since when it does not, else.
    linked: bool,
    parted: Option<Instant>,
    /// How often it has gone away: what was on its way then does not arrive.
    cuts: u64,
    /// The last write that is known.
    seen: u64,
    /// Those that it may not have.
    writes: BTreeMap<u64, Write>,
}

/// Who has written something.
#[derive(Clone)]
struct Write {
    host: Option<Host>,
    /// It has put off the ends of these, for which nobody waits.
    renews: Vec<Renewed>,
}

#[derive(Clone, Copy)]
enum Renewed {
    Object(Object),
    Records,
}

/// What is on its way to a replica, or from it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// All writes up to this one.
    Written(u64),
    /// The word that it has them.
    Confirmed(u64),
    /// It is there again.
    Rejoins,
}

/// After this all know that the replica is away.
const NOTICED: Duration = Duration::from_secs(1);
/// So much later the one that was replaced follows its successor, at the most.
const FOLLOWS: u64 = 4000;

impl World {
    /// All nodes have replicas from now on.
    pub(super) fn replicas_follow(&mut self) {
        if self.settings.replication.is_none() {
            return;
        }
        for number in 0..self.nodes.len() {
            let node = self.nodes.node(number);
            node.server.follow();
            node.replica.linked = true;
            node.replica.seen = node.server.written();
        }
    }

    fn lag(&mut self) -> Duration {
        let lag = (self.settings.replication.as_ref()).map_or(Duration::ZERO, |of| of.lag);
        lag.mul_f64(0.5 + self.rng.f64() / 2.0)
    }

    fn replica_steps(&mut self, node: usize, step: Step, after: Duration) {
        let cut = self.nodes.node(node).replica.cuts;
        let at = Instant::now() + after;
        self.happens(at, Happening::Replica(node, cut, step));
    }

    /// Something may have been written at a node, by this host or by somebody who works there.
    pub(super) fn has_written(&mut self, node: usize, host: Option<Host>, words: &[&[u8]]) {
        if self.settings.replication.is_none() {
            return;
        }
        let renews = self.renewed(words);
        let of = self.nodes.node(node);
        let written = of.server.written();
        let replica = &mut of.replica;
        if written == replica.seen {
            // It may have nothing to put off only for the last writes.
            if let Some(mut last) = replica.writes.last_entry() {
                last.get_mut().renews.extend(renews);
            }
            return;
        }
        for number in replica.seen + 1..=written {
            let renews = renews.clone();
            replica.writes.insert(number, Write { host, renews });
        }
        replica.seen = written;
        if replica.linked {
            let lag = self.lag();
            self.replica_steps(node, Step::Written(written), lag);
        }
    }

    /// Whose ends a command puts off.
    fn renewed(&self, words: &[&[u8]]) -> Vec<Renewed> {
        let script = words.get(1).and_then(|word| scripts::name_of(word));
        if !script.is_some_and(|name| name.starts_with("RENEW_")) {
            return Vec::new();
        }
        if script == Some("RENEW_GRANTS") {
            return vec![Renewed::Records];
        }
        let locks = (0..self.settings.locks).map(Object::Lock);
        let recipes = (0..self.settings.recipes.len()).map(Object::Recipe);
        let about = |object: &Object| {
            let key = object.key();
            let mut names = words.iter().map(|word| String::from_utf8_lossy(word));
            names.any(|name| name.contains(&key))
        };
        let all = locks.chain(recipes).filter(about);
        all.map(Renewed::Object).collect()
    }

    pub(super) fn replica_does(&mut self, node: usize, cut: u64, step: Step) {
        let of = self.nodes.node(node);
        if of.replica.cuts != cut || of.replaced {
            return;
        }
        match step {
            Step::Written(number) => {
                of.server.replicate(number);
                of.replica.writes = of.replica.writes.split_off(&(number + 1));
                let lag = self.lag();
                self.replica_steps(node, Step::Confirmed(number), lag);
            }
            Step::Confirmed(number) => {
                for (connection, reply) in of.server.confirm(number) {
                    self.ends_wait(connection, &reply);
                }
            }
            Step::Rejoins => {
                of.replica.linked = true;
                let written = of.server.written();
                self.judge()
                    .note(format_args!("the replica of node {node} is back"));
                let lag = self.lag();
                self.replica_steps(node, Step::Written(written), lag);
                self.all_unwell(Duration::ZERO);
            }
        }
    }

    /// The replica of a node is away, for so long or until it is [told otherwise](Self::rejoins).
    pub(super) fn parts(&mut self, node: usize, time: Option<Duration>) {
        if self.settings.replication.is_none() {
            return;
        }
        let of = self.nodes.node(node);
        of.server.part();
        let replica = &mut of.replica;
        replica.cuts += 1;
        if std::mem::take(&mut replica.linked) {
            replica.parted = Some(Instant::now());
        }
        if let Some(time) = time {
            self.all_unwell(time);
            self.replica_steps(node, Step::Rejoins, time);
        }
    }

    /// Somebody follows a node, some time after this.
    pub(super) fn rejoins(&mut self, node: usize, after: Duration) {
        if self.settings.replication.is_none() {
            return;
        }
        let later = Duration::from_millis(self.rng.u64(0..FOLLOWS));
        self.parts(node, Some(after + later));
    }

    /// All that are not about to be replaced have replicas.
    pub(super) fn all_rejoin(&mut self) {
        if self.settings.replication.is_none() {
            return;
        }
        for number in 0..self.nodes.len() {
            let node = self.nodes.node(number);
            if !node.falling && !node.replaced && !node.replica.linked {
                self.replica_steps(number, Step::Rejoins, Duration::ZERO);
            }
        }
    }

    /// Whether all know that the replica of a node is away.
    pub(super) fn has_no_replica(&mut self, node: usize) -> bool {
        let replica = &self.nodes.node(node).replica;
        let parted = replica.parted.filter(|_| !replica.linked);
        parted.is_some_and(|parted| parted.elapsed() > NOTICED)
    }

    /// What the replica does not have is lost at `node`, one write after the other.
    pub(super) fn loses_the_rest(&mut self, node: usize) {
        self.has_written(node, None, &[]);
        let mut lost = 0;
        self.judge().is_undone(true);
        while let Some(number) = self.nodes.node(node).server.lose_last() {
            lost += 1;
            let write = self.nodes.node(node).replica.writes.remove(&number);
            let host = write.as_ref().and_then(|write| write.host);
            self.look_at_counters(host);
            if host.is_none() {
                self.permits_are_forgotten();
            }
            for renewed in write.into_iter().flat_map(|write| write.renews) {
                match renewed {
                    Renewed::Object(Object::Lock(number)) => self.judge().robs(number),
                    Renewed::Object(Object::Recipe(number)) => {
                        let lasts = self.settings.recipes[number].lasts();
                        self.judge().robs_permits(number, lasts);
                    }
                    Renewed::Object(_) | Renewed::Records => self.judge().robs_records(),
                }
            }
        }
        self.judge().is_undone(false);
        self.judge()
            .note(format_args!("the replica lacks the last {lost} writes"));
        if !self.settings.all_wait_for_replicas() {
            self.locks_are_forgotten();
        }
        self.judge().look_at_what_is_left();
        self.look_at_locks();
        self.look_at_recipes();
        self.look_at_records();
    }

    /// What a node has written of late is known to the one that takes over from it.
    pub(super) fn hands_down(&mut self, from: usize, to: usize) {
        let Replica {
            seen, ref writes, ..
        } = self.nodes.node(from).replica;
        let writes = writes.clone();
        self.nodes.node(to).replica = Replica {
            seen,
            writes,
            ..Replica::default()
        };
    }
}

impl World {
    /// A connection has asked for replicas, and waits.
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

    /// Whether what it sends is not looked at before it has been answered.
    pub(super) fn is_waiting(&mut self, number: usize) -> bool {
        self.patience(number).is_some()
    }

    /// Its time is over.
    pub(super) fn wait_ends(&mut self, number: usize, wait: u64) {
        let conn = &self.wires[number];
        let node = conn.node;
        if let Some(connection) = conn.connection.filter(|_| conn.waits == wait)
            && let Some(reply) = self.nodes.node(node).server.end_wait(connection)
        {
            self.ends_wait(connection, &reply);
        }
    }

    fn ends_wait(&mut self, connection: ConnectionId, reply: &Reply) {
        let Some(number) = self.by_connection.get(&connection).copied() else {
            return;
        };
        let host = self.wires[number].host;
        self.judge().note(format_args!(
            "c{host}/{number} has waited -> {}",
            super::serving::shown(reply)
        ));
        self.reply(number, reply);
        self.serve(number);
    }

    /// A node has become a replica itself.
    pub(super) fn ends_waits(&mut self, node: usize) {
        for (connection, reply) in self.nodes.node(node).server.end_waits() {
            let Some(number) = self.by_connection.get(&connection).copied() else {
                continue;
            };
            self.reply(number, &reply);
            self.close_server_side(number);
            self.answer(number, None);
        }
    }
}
