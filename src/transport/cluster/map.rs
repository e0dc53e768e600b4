//! Which node serves which slot, as a node of the cluster says it.

use crate::transport::address::Address;
use crate::transport::slot::SLOTS;
use crate::transport::{Refusal, Value};

/// Who serves what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Map {
    /// The highest number of a configuration that who has told this had heard of: every failover has a higher one than
    /// those before.
    pub(super) epoch: u64,
    pub(super) masters: Vec<Address>,
    /// Which of them has each slot; empty while nothing is known.
    pub(super) owners: Vec<Option<u16>>,
}

impl Map {
    /// Reads the answers to `CLUSTER SLOTS` and `CLUSTER INFO` of the node at `asked`.
    pub(super) fn read(slots: &Value, info: &Value, asked: &Address) -> Result<Self, Refusal> {
        let no_sense = || Refusal::unreachable(format!("{asked} tells slots that make no sense"));
        let mut map = Map {
            epoch: epoch(info).unwrap_or_default(),
            ..Map::default()
        };
        let Value::Array(ranges) = slots else {
            return Err(no_sense());
        };
        let ranges = ranges.iter().map(|range| read_range(range, asked));
        let mut ranges: Vec<_> = ranges.collect::<Option<_>>().ok_or_else(no_sense)?;
        // Nodes tell them in different orders.
        ranges.sort_by_key(|(slots, _)| *slots.start());
        for (slots, address) in ranges {
            for slot in slots {
                map.assign(slot, &address);
            }
        }
        if map.masters.is_empty() {
            let detail = format!("{asked} knows of no node that serves anything");
            return Err(Refusal::unreachable(detail));
        }
        Ok(map)
    }

    /// How much it tells: of which configuration, and for how many slots.
    pub(super) fn rank(&self) -> (u64, usize) {
        (self.epoch, self.owners.iter().flatten().count())
    }

    pub(crate) fn masters(&self) -> &[Address] {
        &self.masters
    }

    /// Who has `slot`.
    pub(crate) fn owner(&self, slot: u16) -> Option<&Address> {
        let index = (*self.owners.get(usize::from(slot))?)?;
        self.masters.get(usize::from(index))
    }

    /// `slot` is at `address` now. Who had it stays a master until the next map.
    pub(super) fn assign(&mut self, slot: u16, address: &Address) {
        self.owners.resize(usize::from(SLOTS), None);
        let known = self.masters.iter().position(|master| master == address);
        let index = known.unwrap_or_else(|| {
            self.masters.push(address.clone());
            self.masters.len() - 1
        });
        if let Some(owner) = self.owners.get_mut(usize::from(slot)) {
            *owner = u16::try_from(index).ok();
        }
    }
}

/// First slot, last slot, the master's host and port; then replicas.
fn read_range(range: &Value, asked: &Address) -> Option<(std::ops::RangeInclusive<u16>, Address)> {
    let Value::Array(range) = range else {
        return None;
    };
    let [
        Value::Int(first),
        Value::Int(last),
        Value::Array(master),
        ..,
    ] = &**range
    else {
        return None;
    };
    let [host, Value::Int(port), ..] = &**master else {
        return None;
    };
    let host = match host {
        // The node that was asked does not know its own.
        Value::Nil => "",
        Value::BulkString(host) => std::str::from_utf8(host).ok()?,
        _ => return None,
    };
    let slot = |number: i64| u16::try_from(number).ok().filter(|slot| *slot < SLOTS);
    let address = at(host, u16::try_from(*port).ok()?, asked);
    Some((slot(*first)?..=slot(*last)?, address))
}

/// A node's address. One that does not say its host is where the one is that was asked.
fn at(host: &str, port: u16, asked: &Address) -> Address {
    let host = match (host, asked) {
        ("" | "?", Address::Tcp { host, .. }) => host,
        (host, _) => host,
    };
    Address::tcp(host, port)
}

fn epoch(info: &Value) -> Option<u64> {
    let Value::BulkString(info) = info else {
        return None;
    };
    let mut lines = std::str::from_utf8(info).ok()?.lines();
    lines
        .find_map(|line| line.strip_prefix("cluster_current_epoch:"))?
        .parse()
        .ok()
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
        let (host, port) = address.rsplit_once(':')?;
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
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    fn range(first: i64, last: i64, host: Value, port: i64) -> Value {
        let master = Value::Array(vec![host, Value::Int(port), text("id")]);
        Value::Array(vec![Value::Int(first), Value::Int(last), master])
    }

    fn read(slots: Vec<Value>) -> Result<Map, Refusal> {
        let info = text("cluster_state:ok\r\ncluster_current_epoch:7\r\n");
        Map::read(&Value::Array(slots), &info, &Address::tcp("asked", 1))
    }

    #[test]
    fn slots_are_found() {
        let map = read(vec![
            range(0, 99, text("h"), 2),
            range(200, 16383, Value::Nil, 3),
        ]);
        let mut map = map.unwrap();
        assert_eq!(map.epoch, 7);
        assert_eq!(map.owner(99), Some(&Address::tcp("h", 2)));
        assert_eq!(map.owner(100), None);
        assert_eq!(map.owner(16383), Some(&Address::tcp("asked", 3)));
        map.assign(100, &Address::tcp("new", 4));
        assert_eq!(map.owner(100), Some(&Address::tcp("new", 4)));
        assert_eq!(map.masters().len(), 3);
        assert_eq!(Map::default().owner(0), None);
    }

    #[test]
    fn what_makes_no_sense_is_no_map() {
        for slots in [
            vec![],
            vec![Value::Nil],
            vec![range(0, 16384, text("h"), 1)],
            vec![range(-1, 5, text("h"), 1)],
            vec![range(0, 5, text("h"), 65536)],
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
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_answer_is_read(slots in crate::any_value::value(), info in crate::any_value::value()) {
            let _ = Map::read(&slots, &info, &Address::tcp("h", 1));
        }
    }
}
