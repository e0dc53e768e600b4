//! The server, or the nodes of a cluster, and which node has which keys.

use std::time::Duration;

use tokio::time::Instant;

use crate::sim::server::{ConnectionId, Faults, Membership, Port, Reply, Server, key_of, slot};

/// The number of a single server.
pub const ALONE: usize = 0;
/// The port of a single server.
pub const ITS_PORT: Port = 6379;
/// The port of the first node of a cluster.
const FIRST: Port = 7000;
/// How much higher the port of a replica is than that of the master from which it takes over.
const REPLICA: Port = 100;
/// Connections of different nodes have different numbers.
const CONNECTIONS: u64 = 1_000_000;

/// The servers, and the true state of the cluster.
pub struct Nodes {
    all: Vec<Node>,
    /// The node that has each slot, in a cluster.
    homes: Vec<usize>,
    epoch: u64,
}

pub struct Node {
    pub server: Server,
    /// Carries out commands for keys of any slot.
    pub operator: ConnectionId,
    /// Hears all messages, if the operator has subscribed to them.
    pub listener: Option<ConnectionId>,
    pub port: Port,
    /// Until then, no client reaches the node.
    pub down_until: Instant,
    /// Another node has taken over its slots.
    pub replaced: bool,
    /// The other nodes can't reach it, and it does not know that.
    pub cut_off: bool,
    /// Another node is about to take its place.
    pub falling: bool,
}

impl Nodes {
    /// Returns the ports of a cluster's nodes at first.
    pub fn ports(masters: usize) -> Vec<Port> {
        (FIRST..).take(masters).collect()
    }

    /// Returns this many nodes of a cluster, or a single server (0).
    pub fn new(micros: u64, masters: usize) -> Nodes {
        let ports = Nodes::ports(masters);
        let mut nodes = Nodes {
            all: Vec::new(),
            homes: Vec::new(),
            epoch: 1,
        };
        if ports.is_empty() {
            nodes.add(Server::new(micros), ITS_PORT);
            return nodes;
        }
        for port in &ports {
            let mut member = Membership::new(*port, &ports);
            member.replicas = Some(REPLICA);
            nodes.join(micros, member);
        }
        let owners = nodes.all[0]
            .server
            .member(|member| member.owners().to_vec());
        let place = |port: &Port| ports.iter().position(|known| known == port);
        let homes = owners.iter().map(|port| place(port).expect("a master"));
        nodes.homes = homes.collect();
        nodes
    }

    fn join(&mut self, micros: u64, membership: Membership) -> usize {
        let port = membership.myself;
        let first = CONNECTIONS * (self.all.len() as u64 + 1);
        self.add(Server::node(micros, membership, first), port)
    }

    fn add(&mut self, mut server: Server, port: Port) -> usize {
        self.all.push(Node {
            operator: server.connect_obeyed(),
            listener: None,
            server,
            port,
            down_until: Instant::now(),
            replaced: false,
            cut_off: false,
            falling: false,
        });
        self.all.len() - 1
    }

    pub fn is_cluster(&self) -> bool {
        !self.homes.is_empty()
    }

    pub fn node(&mut self, number: usize) -> &mut Node {
        &mut self.all[number]
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn at_port(&self, port: Port) -> Option<usize> {
        self.all.iter().position(|node| node.port == port)
    }

    /// Returns the nodes that have slots: all those that have not been replaced.
    pub fn masters(&self) -> impl Iterator<Item = usize> {
        (0..self.all.len()).filter(|number| !self.all[*number].replaced)
    }

    /// Returns the node that has a slot.
    pub fn home_of_slot(&self, number: u16) -> usize {
        self.homes.get(usize::from(number)).copied().unwrap_or(0)
    }

    /// Returns the node that has a key. While its slot moves, that is the target if the key is already there.
    pub fn home(&mut self, key: &[u8]) -> usize {
        if !self.is_cluster() {
            return 0;
        }
        let number = slot(key);
        let home = self.home_of_slot(number);
        let target = self.all[home]
            .server
            .member(|member| member.migrating.get(&number).copied());
        let target = target.and_then(|port| self.at_port(port));
        match target {
            Some(target) if self.all[target].server.stores(key) => target,
            _ => home,
        }
    }

    /// Sets the time of all servers.
    pub fn at(&mut self, micros: u64) {
        for node in &mut self.all {
            node.server.at(micros);
        }
    }

    pub fn now(&self) -> u64 {
        self.all[0].server.now()
    }

    pub fn counter(&mut self, key: &[u8]) -> Option<i64> {
        let home = self.home(key);
        self.all[home].server.counter(key)
    }

    /// Returns the node that has the key of a command. A message is sent from the node of the object that it is about.
    fn home_of(&mut self, words: &[&[u8]]) -> usize {
        let channel = || (words[0] == b"PUBLISH").then(|| words[1]);
        match key_of(words).or_else(channel) {
            Some(name) => self.home(name),
            None => 0,
        }
    }

    /// Sends a command to the node that has the key. The node's faults apply.
    pub fn execute(&mut self, words: &[&[u8]]) -> Option<Reply> {
        let home = self.home_of(words);
        let Node {
            server, operator, ..
        } = &mut self.all[home];
        server.execute(*operator, words)
    }

    /// The same, without the node's faults.
    pub fn ask(&mut self, words: &[&[u8]]) -> Option<Reply> {
        let home = self.home_of(words);
        self.all[home].ask(words)
    }

    /// Returns all keys that match, each from the node that it belongs to.
    pub fn keys(&mut self, pattern: &str) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        for number in 0..self.all.len() {
            let node = &mut self.all[number];
            let Some(Reply::Array(keys)) = node.ask(&[b"KEYS", pattern.as_bytes()]) else {
                panic!("KEYS is answered by an array");
            };
            for key in keys {
                if let Reply::Bulk(key) = key
                    && self.home(&key) == number
                {
                    all.push(key);
                }
            }
        }
        all.sort();
        all
    }

    /// Closes a connection of this node.
    pub fn disconnect(&mut self, node: usize, connection: ConnectionId) {
        self.all[node].server.disconnect(connection);
    }

    /// Ends all faults. Nodes that are being replaced stay unreachable for their time.
    pub fn heal(&mut self) {
        for node in &mut self.all {
            node.server.faults(|faults| *faults = Faults::default());
            if !node.falling {
                node.down_until = Instant::now();
            }
        }
    }

    /// Puts the current state of all nodes on disk.
    pub fn save(&mut self) {
        for node in &mut self.all {
            node.server.save();
        }
    }

    /// Passes published messages on between the nodes that can reach each other.
    pub fn pass_messages_on(&mut self) {
        for from in 0..self.all.len() {
            for (channel, payload) in self.all[from].server.published() {
                for to in 0..self.all.len() {
                    let apart = self.all[from].cut_off || self.all[to].cut_off;
                    if to != from && !apart {
                        self.all[to].server.hear(&channel, &payload);
                    }
                }
            }
        }
    }

    /// Whether any node goes on without hearing of the others.
    pub fn is_anybody_cut_off(&self) -> bool {
        self.all.iter().any(|node| node.cut_off)
    }

    /// Whether any slot of this node is moving, from it or to it.
    pub fn is_moving(&mut self, number: usize) -> bool {
        let of = |member: &mut Membership| member.migrating.len() + member.importing.len();
        self.all[number].server.member(of) > 0
    }

    pub fn is_on_its_way(&mut self, number: u16) -> bool {
        let home = self.home_of_slot(number);
        let on_its_way = |member: &mut Membership| member.migrating.contains_key(&number);
        self.all[home].server.member(on_its_way)
    }

    /// A slot begins to move.
    pub fn opens(&mut self, number: u16, to: usize) {
        let from = self.home_of_slot(number);
        let (source, target) = (self.all[from].port, self.all[to].port);
        self.all[to].server.member(|member| {
            member.importing.insert(number, source);
        });
        self.all[from].server.member(|member| {
            member.migrating.insert(number, target);
        });
    }

    /// Moves one more key of a moving slot. Returns whether there was any.
    pub fn hands_over(&mut self, number: u16, to: usize) -> bool {
        let from = self.home_of_slot(number);
        let Some(key) = self.all[from].server.keys_in(number).into_iter().next() else {
            return false;
        };
        let [source, target] = self.all.get_disjoint_mut([from, to]).expect("two of them");
        source.server.hand_over(&key, &mut target.server);
        true
    }

    /// The target of a moving slot learns that it has the slot now. Returns the former node.
    pub fn arrives(&mut self, number: u16, to: usize) -> usize {
        self.epoch += 1;
        let (port, epoch) = (self.all[to].port, self.epoch);
        self.all[to].server.member(|member| {
            member.assign(number, port);
            member.epoch = epoch;
        });
        std::mem::replace(&mut self.homes[usize::from(number)], to)
    }

    /// A node learns the current state of the cluster.
    pub fn learns(&mut self, number: usize) {
        if self.all[number].cut_off {
            return;
        }
        let owners: Vec<Port> = self.homes.iter().map(|home| self.all[*home].port).collect();
        let epoch = self.epoch;
        let lost = self.all[number]
            .server
            .member(|member| member.learn(&owners, epoch));
        for slot in lost {
            self.all[number].server.drop_channels(slot);
        }
    }

    /// All reachable nodes consider the cluster failed, or well again.
    pub fn is_down(&mut self, down: bool) {
        for node in &mut self.all {
            if !node.cut_off {
                node.server.member(|member| member.down = down);
            }
        }
    }

    /// A replica of a node takes over, without the last `lag` writes. Returns its number.
    pub fn takes_over(&mut self, number: usize, lag: usize) -> usize {
        self.epoch += 1;
        let now = self.now();
        let former = &mut self.all[number];
        let port = former.port + REPLICA;
        former.replaced = true;
        let snapshot = former.server.snapshot();
        let mut member = former.server.member(|member| member.clone());
        (member.myself, member.down) = (port, false);
        let taker = self.join(now, member);
        let node = &mut self.all[taker];
        node.server.restore(&snapshot);
        node.restart(lag);
        for home in self.homes.iter_mut().filter(|home| **home == number) {
            *home = taker;
        }
        self.learns(taker);
        taker
    }
}

impl Node {
    /// Sends a command to the node. The node's faults do not apply.
    pub fn ask(&mut self, words: &[&[u8]]) -> Option<Reply> {
        let faults = self.server.faults(std::mem::take);
        let reply = self.server.execute(self.operator, words);
        self.server.faults(|now| *now = faults);
        reply
    }

    /// Starts again without the last `lost` writes, and without any connections.
    pub fn restart(&mut self, lost: usize) {
        self.server.restart(lost);
        self.operator = self.server.connect_obeyed();
        self.listener = None;
    }

    /// A listener hears all messages from now on.
    pub fn eavesdrop(&mut self) {
        let listener = *self.listener.get_or_insert_with(|| self.server.connect());
        self.server.execute(listener, &[b"PSUBSCRIBE", b"*"]);
    }

    /// Returns how many messages of a channel the listener to all channels has got since the last time.
    pub fn overheard(&mut self, channel: &[u8]) -> usize {
        let Some(listener) = self.listener else {
            return 0;
        };
        let all = self.server.pushed(listener).into_iter();
        let of_channel = |reply: &Reply| match reply {
            Reply::Array(parts) => parts.get(2) == Some(&Reply::Bulk(channel.to_vec())),
            _ => false,
        };
        all.filter(of_channel).count()
    }

    /// Returns how many connections listen to a channel by its name.
    pub fn listening(&mut self, channel: &[u8]) -> i64 {
        let Some(Reply::Array(parts)) = self.ask(&[b"PUBSUB", b"NUMSUB", channel]) else {
            panic!("NUMSUB is answered by an array");
        };
        let [_, Reply::Int(count)] = parts[..] else {
            panic!("NUMSUB tells a channel and a count");
        };
        count
    }

    pub fn is_down(&mut self, time: Duration) {
        self.down_until = self.down_until.max(Instant::now() + time);
    }
}
