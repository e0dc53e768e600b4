//! Which node serves which slot, as a node of the cluster says it.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use crate::transport::address::Address;
use crate::transport::slot::SLOTS;
use crate::transport::{Refusal, Value};

/// The slots of each master.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Map {
    /// The highest number of a configuration that the sender of this map knew: every failover has a higher one than
    /// those before.
    pub(super) epoch: u64,
    pub(super) masters: Vec<Address>,
    /// Which of them has each slot; empty while nothing is known.
    pub(super) owners: Vec<Option<u16>>,
    /// The ids of the masters and their replicas: two maps without a common one are of different clusters.
    pub(super) nodes: BTreeSet<Box<str>>,
    /// The node that sent this map takes the cluster for fit to serve.
    pub(super) serves: bool,
}

/// Slots, and their masters.
struct Range {
    slots: RangeInclusive<u16>,
    /// None where the asked node does not know its address.
    master: Option<Address>,
    nodes: Vec<Box<str>>,
}

impl Map {
    /// Reads the answers to `CLUSTER SLOTS` and `CLUSTER INFO` of the node at `asked`.
    pub(super) fn read(slots: &Value, info: &Value, asked: &Address) -> Result<Self, Refusal> {
        let no_sense = || Refusal::unreachable(format!("{asked} tells slots that make no sense"));
        let mut map = Map {
            epoch: (line(info, "cluster_current_epoch:").and_then(|epoch| epoch.parse().ok()))
                .unwrap_or_default(),
            serves: line(info, "cluster_state:") == Some("ok"),
            ..Map::default()
        };
        let Value::Array(ranges) = slots else {
            return Err(no_sense());
        };
        let ranges = ranges.iter().map(|range| read_range(range, asked));
        let mut ranges: Vec<_> = ranges.collect::<Option<_>>().ok_or_else(no_sense)?;
        // Nodes tell them in different orders.
        ranges.sort_by_key(|range| *range.slots.start());
        for range in ranges {
            if let Some(master) = &range.master {
                map.assign(range.slots, master);
            }
            map.nodes.extend(range.nodes);
        }
        if map.masters.is_empty() {
            let detail = format!("{asked} knows of no node that serves anything");
            return Err(Refusal::unreachable(detail));
        }
        Ok(map)
    }

    /// Of two maps the one with the higher rank is believed: a map of a node that takes the cluster for fit to serve, then the one of the
    /// higher epoch, then the one with more slots.
    ///
    /// Nodes that are cut off from most of the masters take the cluster for unfit, and count one epoch after the other that no other
    /// node agrees to.
    pub(super) fn rank(&self) -> (bool, u64, usize) {
        (
            self.serves,
            self.epoch,
            self.owners.iter().flatten().count(),
        )
    }

    /// Whether it is of the same cluster as `known`, as far as that can be known.
    pub(super) fn is_related(&self, known: &Map) -> bool {
        known.nodes.is_empty() || !self.nodes.is_disjoint(&known.nodes)
    }

    pub(crate) fn masters(&self) -> &[Address] {
        &self.masters
    }

    /// The master of `slot`.
    pub(crate) fn owner(&self, slot: u16) -> Option<&Address> {
        let index = (*self.owners.get(usize::from(slot))?)?;
        self.masters.get(usize::from(index))
    }

    /// `slots` are at `address` now. Their former masters stay masters until the next map.
    pub(super) fn assign(&mut self, slots: RangeInclusive<u16>, address: &Address) {
        self.owners.resize(usize::from(SLOTS), None);
        let known = self.masters.iter().position(|master| master == address);
        let index = known.unwrap_or_else(|| {
            self.masters.push(address.clone());
            self.masters.len() - 1
        });
        let (first, last) = (usize::from(*slots.start()), usize::from(*slots.end()));
        if let Some(owners) = self.owners.get_mut(first..=last) {
            owners.fill(u16::try_from(index).ok());
        }
    }
}

/// First slot, last slot, the master, its replicas: each with host, port, id, and what else is known of it.
fn read_range(range: &Value, asked: &Address) -> Option<Range> {
    let Value::Array(range) = range else {
        return None;
    };
    let [
        Value::Int(first),
        Value::Int(last),
        master @ Value::Array(words),
        replicas @ ..,
    ] = &**range
    else {
        return None;
    };
    let [host, Value::Int(port), ..] = &**words else {
        return None;
    };
    let host = match host {
        // The node that was asked does not know its own.
        Value::Nil => "",
        // It has announced no name; this stands beside it.
        Value::Bytes(host) if &**host == b"?" => announced_ip(words).unwrap_or_default(),
        host => text(host)?,
    };
    let port = u16::try_from(*port).ok()?;
    let slot = |number: i64| u16::try_from(number).ok().filter(|slot| *slot < SLOTS);
    let nodes = std::iter::once(master).chain(replicas);
    Some(Range {
        slots: slot(*first)?..=slot(*last)?,
        master: (port != 0).then(|| at(host, port, asked)),
        nodes: nodes.filter_map(id).map(Box::from).collect(),
    })
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::Bytes(text) => std::str::from_utf8(text).ok(),
        _ => None,
    }
}

/// A node's id, which servers send since Redis 4.
fn id(node: &Value) -> Option<&str> {
    match node {
        Value::Array(words) => text(words.get(2)?),
        _ => None,
    }
}

/// The text behind the id: names and values by turns.
fn announced_ip(node: &[Value]) -> Option<&str> {
    let Value::Array(more) = node.get(3)? else {
        return None;
    };
    let mut pairs = more.chunks(2);
    pairs.find_map(|pair| match pair {
        [name, value] if text(name) == Some("ip") => text(value),
        _ => None,
    })
}

/// A node's address. One that does not say its host is where the one is that was asked.
fn at(host: &str, port: u16, asked: &Address) -> Address {
    let host = match (host, asked) {
        ("", Address::Tcp { host, .. }) => host,
        (host, _) => host,
    };
    Address::tcp(host, port)
}

/// The value of `name` in the answer to `CLUSTER INFO`.
fn line<'a>(info: &'a Value, name: &str) -> Option<&'a str> {
    let mut lines = text(info)?.lines();
    lines.find_map(|line| line.strip_prefix(name))
}

/// Where a node sends us.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Redirection {
    /// The slot is there now.
    Moved(u16, Address),
    /// This key is there already; the slot is on its way.
    Ask(Address),
}

impl Redirection {
    /// Reads `MOVED <slot> <host>:<port>` or `ASK ..` from the node at `from`.
    pub(super) fn read(text: &str, from: &Address) -> Option<Self> {
        let mut words = text.split(' ');
        let (word, slot, address) = (words.next()?, words.next()?, words.next()?);
        let slot = slot.parse().ok().filter(|slot| *slot < SLOTS)?;
        // Without a name no node can be found: the whole map says more.
        let (host, port) = address.rsplit_once(':').filter(|(host, _)| *host != "?")?;
        let address = at(host, port.parse().ok()?, from);
        match word {
            "MOVED" => Some(Redirection::Moved(slot, address)),
            "ASK" => Some(Redirection::Ask(address)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn word(text: &str) -> Value {
        Value::Bytes(text.into())
    }

    fn range(first: i64, last: i64, host: Value, port: i64) -> Value {
        let ip = Value::Array(vec![word("hostname"), word(""), word("ip"), word("ip")]);
        let master = Value::Array(vec![host, Value::Int(port), word("id"), ip]);
        Value::Array(vec![Value::Int(first), Value::Int(last), master])
    }

    fn read(slots: Vec<Value>) -> Result<Map, Refusal> {
        let info = word("cluster_state:ok\r\ncluster_current_epoch:7\r\n");
        Map::read(&Value::Array(slots), &info, &Address::tcp("asked", 1))
    }

    #[test]
    fn slots_are_found() {
        let map = read(vec![
            range(0, 99, word("h"), 2),
            range(200, 16382, Value::Nil, 3),
            range(16383, 16383, word("?"), 4),
            range(150, 160, word(""), 0),
        ]);
        let mut map = map.unwrap();
        assert!(map.serves && map.nodes.contains("id"));
        assert_eq!(map.owner(16383), Some(&Address::tcp("ip", 4)));
        assert_eq!(map.epoch, 7);
        assert_eq!(map.owner(99), Some(&Address::tcp("h", 2)));
        assert_eq!(map.owner(100), None);
        assert_eq!(map.owner(150), None);
        assert_eq!(map.owner(16382), Some(&Address::tcp("asked", 3)));
        map.assign(100..=100, &Address::tcp("new", 4));
        assert_eq!(map.owner(100), Some(&Address::tcp("new", 4)));
        assert_eq!(map.masters().len(), 4);
        assert_eq!(Map::default().owner(0), None);
    }

    #[test]
    fn what_makes_no_sense_is_no_map() {
        for slots in [
            vec![],
            vec![Value::Nil],
            vec![range(0, 16384, word("h"), 1)],
            vec![range(-1, 5, word("h"), 1)],
            vec![range(0, 5, word("h"), 65536)],
            vec![range(0, 5, Value::Int(1), 1)],
        ] {
            assert!(read(slots.clone()).is_err(), "{slots:?}");
        }
    }

    #[test]
    fn redirections_are_read() {
        let read = |text| Redirection::read(text, &Address::tcp("from", 1));
        let moved = |slot, address| Some(Redirection::Moved(slot, address));
        assert_eq!(read("MOVED 5 h:7"), moved(5, Address::tcp("h", 7)));
        assert_eq!(read("MOVED 5 ::1:7"), moved(5, Address::tcp("::1", 7)));
        assert_eq!(read("MOVED 5 :7"), moved(5, Address::tcp("from", 7)));
        assert_eq!(
            read("ASK 5 h:7"),
            Some(Redirection::Ask(Address::tcp("h", 7)))
        );
        for text in [
            "",
            "MOVED",
            "MOVED 16384 h:1",
            "ASK 1 h",
            "ASK 1 h:x",
            "OK 1 h:1",
            "MOVED 1 ?:1",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Nil),
            (-1..17_000_i64).prop_map(Value::Int),
            any::<i64>().prop_map(Value::Int),
            any::<Vec<u8>>().prop_map(Value::Bytes),
        ];
        leaf.prop_recursive(3, 32, 6, |inner| {
            proptest::collection::vec(inner, 0..6).prop_map(Value::Array)
        })
    }

    proptest! {
        #[test]
        fn any_answer_is_read(slots in any_value(), info in any_value()) {
            let _ = Map::read(&slots, &info, &Address::tcp("h", 1));
        }
    }
}
