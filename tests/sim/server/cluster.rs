//! A node's part in a cluster: the owner of each slot, the slots that are moving, and the redirections.
//!
//! Nodes are named by their ports, and do not say their hosts, as with `cluster-preferred-endpoint-type unknown-endpoint`.
//! The caller decides how nodes learn of each other.

use std::collections::BTreeMap;

use super::command::Command;
use super::connection::ConnectionId;
use super::context::Context;
use super::core::Core;
use super::reply::{Outcome, Refusal, Reply};

pub const SLOTS: u16 = 16384;

/// A node, by its port.
pub type Port = u16;

/// A node's knowledge of its cluster.
#[derive(Debug, Clone)]
pub struct Membership {
    pub myself: Port,
    /// The owner of each slot.
    owners: Vec<Port>,
    /// The node's own slots that are moving to other nodes.
    pub migrating: BTreeMap<u16, Port>,
    /// The slots of other nodes that are moving here.
    pub importing: BTreeMap<u16, Port>,
    /// The highest configuration epoch that the node has heard of.
    pub epoch: u64,
    /// Whether the node knows of slots without a server.
    pub down: bool,
    /// The distance from a master's port to the port of its replica, if masters have replicas.
    pub replicas: Option<Port>,
}

/// The place where a command is to be carried out.
enum Place {
    Here,
    Moved(u16, Port),
    Ask(u16, Port),
    /// Some of the command's keys are here, and others are on their way.
    Unstable,
    CrossSlot,
    Down,
}

impl Membership {
    /// A node of a cluster whose masters have equal shares of all slots.
    pub fn new(myself: Port, masters: &[Port]) -> Membership {
        let share = usize::from(SLOTS).div_ceil(masters.len());
        Membership {
            myself,
            owners: (0..usize::from(SLOTS))
                .map(|slot| masters[slot / share])
                .collect(),
            migrating: BTreeMap::new(),
            importing: BTreeMap::new(),
            epoch: 1,
            down: false,
            replicas: None,
        }
    }

    pub fn owner(&self, slot: u16) -> Port {
        self.owners[usize::from(slot)]
    }

    /// Assigns `slot` to the node at `port`. The slot is not moving any more.
    pub fn assign(&mut self, slot: u16, port: Port) {
        self.owners[usize::from(slot)] = port;
        self.migrating.remove(&slot);
        self.importing.remove(&slot);
    }

    /// The owners of all slots, in the order of the slots.
    pub fn owners(&self) -> &[Port] {
        &self.owners
    }

    /// Learns the owners of all slots. Returns the slots that this node has lost since.
    pub fn learn(&mut self, owners: &[Port], epoch: u64) -> Vec<u16> {
        let myself = self.myself;
        let both = self.owners.iter().zip(owners);
        let lost = (0..)
            .zip(both)
            .filter(|(_, (mine, now))| **mine == myself && **now != myself);
        let lost = lost.map(|(slot, _)| slot).collect();
        self.owners.copy_from_slice(owners);
        self.epoch = epoch;
        let is_mine = |slot: &u16| owners[usize::from(*slot)] == myself;
        self.migrating.retain(|slot, _| is_mine(slot));
        self.importing.retain(|slot, _| !is_mine(slot));
        lost
    }
}

/// The slot of a key.
pub fn slot(key: &[u8]) -> u16 {
    let tag = || {
        let open = key.iter().position(|byte| *byte == b'{')? + 1;
        let length = key[open..].iter().position(|byte| *byte == b'}')?;
        (length > 0).then(|| &key[open..open + length])
    };
    let mut crc: u16 = 0;
    for byte in tag().unwrap_or(key) {
        crc ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            let carry = crc & 0x8000 != 0;
            crc <<= 1;
            if carry {
                crc ^= 0x1021;
            }
        }
    }
    crc % SLOTS
}

impl Core {
    /// Checks whether a connection's command is carried out here, in a cluster.
    pub fn admit_to_slot(
        &self,
        id: ConnectionId,
        command: &Command,
        words: &[&[u8]],
    ) -> Result<(), Refusal> {
        match self.place(id, command, words) {
            Place::Here => Ok(()),
            Place::Moved(slot, port) => Err(format!("MOVED {slot} :{port}").into()),
            Place::Ask(slot, port) => Err(format!("ASK {slot} :{port}").into()),
            Place::Unstable => {
                Err("TRYAGAIN Multiple keys request during rehashing of slot".into())
            }
            Place::CrossSlot => Err("CROSSSLOT Keys in request don't hash to the same slot".into()),
            Place::Down => Err("CLUSTERDOWN The cluster is down".into()),
        }
    }

    /// Makes the same check for a command of a script. Each command may be about another slot of this node.
    pub fn admit_to_slot_in_script(
        &self,
        id: ConnectionId,
        command: &Command,
        words: &[&[u8]],
    ) -> Result<(), Refusal> {
        match self.place(id, command, words) {
            Place::Here => Ok(()),
            Place::Down => {
                Err("ERR Script attempted to execute a command while the cluster is down".into())
            }
            _ => Err("ERR Script attempted to access a non local key in a cluster node".into()),
        }
    }

    fn place(&self, id: ConnectionId, command: &Command, words: &[&[u8]]) -> Place {
        let connection = &self.connections[&id];
        let Some(cluster) = self.cluster.as_ref().filter(|_| !connection.obeyed) else {
            return Place::Here;
        };
        let keys: Vec<&[u8]> = command.keys(words).collect();
        let Some(first) = keys.first() else {
            return Place::Here;
        };
        let number = slot(first);
        if keys.iter().any(|key| slot(key) != number) {
            return Place::CrossSlot;
        }
        if cluster.down {
            return Place::Down;
        }
        let owner = cluster.owner(number);
        let is_mine = owner == cluster.myself;
        let target = cluster.migrating.get(&number).filter(|_| is_mine);
        let is_coming = !is_mine && cluster.importing.contains_key(&number);
        // Channels stay here until the slot has moved.
        let missing = |key: &&&[u8]| !command.is_about_channels() && !self.has(key);
        let missing = keys.iter().filter(missing).count();
        if let Some(target) = target
            && missing > 0
        {
            return match missing == keys.len() {
                true => Place::Ask(number, *target),
                false => Place::Unstable,
            };
        }
        if is_coming && connection.asking {
            let several = keys.iter().any(|key| key != first);
            return match several && missing > 0 {
                true => Place::Unstable,
                false => Place::Here,
            };
        }
        match is_mine {
            true => Place::Here,
            false => Place::Moved(number, owner),
        }
    }

    fn has(&self, key: &[u8]) -> bool {
        let entry = self.keys.get(key);
        entry.is_some_and(|entry| entry.expires.is_none_or(|end| self.millis() <= end))
    }

    /// Ends the subscriptions to channels of a slot that has gone, and notifies the listeners.
    pub fn drop_channels(&mut self, number: u16) {
        for connection in self.connections.values_mut() {
            let gone = connection.shard_channels.iter();
            let gone: Vec<_> = gone.filter(|name| slot(name) == number).cloned().collect();
            for name in gone {
                connection.shard_channels.remove(&name);
                let left = Reply::count(connection.shard_channels.len());
                let told = vec![Reply::bulk("sunsubscribe"), Reply::Bulk(name), left];
                connection.pushed.push_back(Reply::Array(told));
            }
        }
    }
}

fn member<'a>(context: &'a Context<'_>) -> Result<&'a Membership, Refusal> {
    let disabled = || "ERR This instance has cluster support disabled".into();
    context.core.cluster.as_ref().ok_or_else(disabled)
}

/// Only the fields that clients ask for.
pub fn info(context: &mut Context<'_>, _: &[&[u8]]) -> Outcome {
    let cluster = member(context)?;
    let state = if cluster.down { "fail" } else { "ok" };
    let epoch = cluster.epoch;
    Ok(Reply::bulk(format!(
        "cluster_state:{state}\r\ncluster_current_epoch:{epoch}\r\n"
    )))
}

/// Each master has one replica, or none.
pub fn slots(context: &mut Context<'_>, _: &[&[u8]]) -> Outcome {
    let cluster = member(context)?;
    let mut first = 0;
    let ranges = cluster.owners.chunk_by(|one, two| one == two).map(|range| {
        let from = first;
        first += range.len();
        let node = |port: Port| {
            Reply::Array(vec![
                Reply::Nil,
                Reply::Int(port.into()),
                Reply::bulk(format!("{port:040x}")),
                Reply::Array(Vec::new()),
            ])
        };
        let master = range[0];
        let mut words = vec![Reply::count(from), Reply::count(first - 1), node(master)];
        words.extend(cluster.replicas.map(|behind| node(master + behind)));
        Reply::Array(words)
    });
    Ok(Reply::Array(ranges.collect()))
}

/// Lets the next command be about a slot that is moving here.
pub fn asking(context: &mut Context<'_>, _: &[&[u8]]) -> Outcome {
    member(context)?;
    let connection = context.connection;
    context.core.connection(connection).asking = true;
    Ok(Reply::ok())
}
