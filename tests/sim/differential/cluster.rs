//! Two nodes of a real cluster, and two of the model's: the first has the slots below 8192.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::wire::Wire;
use super::world::Both;
use crate::sim::server::{ConnectionId, Membership, Reply, Server, slot};
use crate::support::server::RedisServer;
use crate::support::waiters::until;

const PATIENCE: Duration = Duration::from_secs(30);

pub struct TwoNodes {
    nodes: Vec<(RedisServer, Wire)>,
    models: Vec<(Server, ConnectionId)>,
    /// What is told to the real nodes, as an answer there would end what `ASKING` says.
    orders: Vec<Wire>,
}

impl TwoNodes {
    pub async fn start() -> TwoNodes {
        let node = || {
            let options = RedisServer::options().setting("cluster-enabled", "yes");
            let options = options.setting("cluster-preferred-endpoint-type", "unknown-endpoint");
            options.setting("cluster-node-timeout", "60000").start()
        };
        let nodes = [node().await, node().await];
        let ports: Vec<u16> = nodes.iter().map(RedisServer::port).collect();
        let mut orders: Vec<Wire> = ports.iter().map(|port| Wire::open(*port)).collect();
        for (number, slots) in [["0", "8191"], ["8192", "16383"]].into_iter().enumerate() {
            let epoch = (number + 1).to_string();
            orders[number].ask(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]);
            orders[number].ask(&["CLUSTER", "ADDSLOTSRANGE", slots[0], slots[1]]);
        }
        let other = ports[1].to_string();
        orders[0].ask(&["CLUSTER", "MEET", "127.0.0.1", &other]);
        for order in &mut orders {
            until("the cluster is well", PATIENCE, async || {
                let info = order.ask(&["CLUSTER", "INFO"]);
                let says = |text: &str| {
                    matches!(&info, Reply::Bulk(info) if String::from_utf8_lossy(info).contains(text))
                };
                says("cluster_state:ok") && says("cluster_size:2")
            })
            .await;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = u64::try_from(now.expect("after 1970").as_micros()).expect("these days");
        let model = |port: &u16| {
            let mut server = Server::node(now, Membership::new(*port, &ports), 1);
            let connection = server.connect();
            (server, connection)
        };
        TwoNodes {
            models: ports.iter().map(model).collect(),
            nodes: nodes
                .into_iter()
                .map(|node| {
                    let wire = Wire::open(node.port());
                    (node, wire)
                })
                .collect(),
            orders,
        }
    }

    /// Sends a command to both of a node.
    pub fn command(&mut self, node: usize, words: &[&[u8]]) -> Both {
        let (server, connection) = &mut self.models[node];
        let wire = &mut self.nodes[node].1;
        let reply = server.execute(*connection, words);
        let mut model = server.pushed(*connection);
        wire.send(words);
        let real = match &reply {
            Some(_) => vec![wire.receive()],
            None => model.iter().map(|_| wire.receive()).collect(),
        };
        model.extend(reply);
        Both { model, real }
    }

    fn id(&mut self, node: usize) -> String {
        match self.orders[node].ask(&["CLUSTER", "MYID"]) {
            Reply::Bulk(id) => String::from_utf8_lossy(&id).into_owned(),
            other => panic!("an id: {other:?}"),
        }
    }

    fn order(&mut self, node: usize, words: &[&str]) {
        let reply = self.orders[node].ask(words);
        assert!(!matches!(reply, Reply::Error(_)), "{words:?}: {reply:?}");
    }

    /// The slot of a key begins to move to the second node.
    pub fn opens(&mut self, key: &[u8]) -> Both {
        let number = slot(key);
        let (ids, text) = ([self.id(0), self.id(1)], number.to_string());
        self.order(1, &["CLUSTER", "SETSLOT", &text, "IMPORTING", &ids[0]]);
        self.order(0, &["CLUSTER", "SETSLOT", &text, "MIGRATING", &ids[1]]);
        let ports = [self.nodes[0].0.port(), self.nodes[1].0.port()];
        self.models[1]
            .0
            .member(|member| member.importing.insert(number, ports[0]));
        self.models[0]
            .0
            .member(|member| member.migrating.insert(number, ports[1]));
        self.pushed()
    }

    /// It has moved, with all its keys.
    pub fn has_moved(&mut self, key: &[u8]) -> Both {
        let number = slot(key);
        let (id, text) = (self.id(1), number.to_string());
        let port = self.nodes[1].0.port();
        let [(from, _), (to, _)] = &mut self.models[..] else {
            unreachable!("two of them")
        };
        let keys = from.keys_in(number);
        for key in keys {
            from.hand_over(&key, to);
            let key = String::from_utf8_lossy(&key).into_owned();
            let target = port.to_string();
            let moves = [
                "MIGRATE",
                "127.0.0.1",
                &target,
                &key,
                "0",
                "10000",
                "REPLACE",
            ];
            let reply = self.orders[0].ask(&moves);
            assert!(!matches!(reply, Reply::Error(_)), "{moves:?}: {reply:?}");
        }
        for node in [1, 0] {
            self.order(node, &["CLUSTER", "SETSLOT", &text, "NODE", &id]);
            let server = &mut self.models[node].0;
            server.member(|member| member.assign(number, port));
        }
        self.models[0].0.drop_channels(number);
        self.pushed()
    }

    /// What either has said by itself.
    fn pushed(&mut self) -> Both {
        let mut both = Both {
            model: Vec::new(),
            real: Vec::new(),
        };
        let all = self.models.iter_mut().zip(&mut self.nodes);
        for ((server, connection), (_, wire)) in all {
            both.model.extend(server.pushed(*connection));
            both.real.extend(wire.messages());
        }
        both
    }

    /// Who has which slot, as both nodes say; without the nodes' names.
    pub fn slots(&mut self) -> Both {
        let mut both = Both {
            model: Vec::new(),
            real: Vec::new(),
        };
        for node in 0..2 {
            let (server, _) = &mut self.models[node];
            let apart = server.connect();
            let model = server.execute(apart, &[b"CLUSTER", b"SLOTS"]);
            let real = self.orders[node].ask(&["CLUSTER", "SLOTS"]);
            both.model.extend(model.into_iter().map(plain));
            both.real.push(plain(real));
        }
        both
    }
}

/// In their order, without names.
fn plain(slots: Reply) -> Reply {
    let Reply::Array(mut ranges) = slots else {
        return slots;
    };
    for range in &mut ranges {
        if let Reply::Array(parts) = range
            && let Some(Reply::Array(node)) = parts.get_mut(2)
        {
            node.truncate(2);
        }
    }
    ranges.sort();
    Reply::Array(ranges)
}
