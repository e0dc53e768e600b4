//! The keys, their values and their ends; and the changes of the last writes, so that these writes can be lost.

use std::collections::{BTreeMap, VecDeque};

use super::value::{Bytes, Value};

/// The most writes that can be lost.
const HISTORY: usize = 1000;

#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub value: Value,
    /// In milliseconds of the server's clock. The key exists up to and including that millisecond.
    pub expires: Option<i64>,
}

/// All keys of the only database.
#[derive(Debug, Clone, Default)]
pub struct Keyspace {
    keys: BTreeMap<Bytes, Entry>,
    /// The changes of each of the last writes, with its number, the latest last.
    history: VecDeque<(u64, Vec<Change>)>,
    /// The number of the last write.
    written: u64,
    /// The number of the last write that the replica has, if there is a replica.
    replicated: Option<u64>,
    /// The changes so far of the command that is being carried out.
    current: Vec<Change>,
}

#[derive(Debug, Clone)]
struct Change {
    key: Bytes,
    before: Option<Entry>,
}

impl Keyspace {
    pub fn get(&self, key: &[u8]) -> Option<&Entry> {
        self.keys.get(key)
    }

    pub fn get_mut(&mut self, key: &[u8]) -> Option<&mut Entry> {
        self.note(key);
        self.keys.get_mut(key)
    }

    pub fn insert(&mut self, key: &[u8], entry: Entry) {
        self.note(key);
        self.keys.insert(key.to_vec(), entry);
    }

    pub fn remove(&mut self, key: &[u8]) -> Option<Entry> {
        self.note(key);
        self.keys.remove(key)
    }

    /// Removes an expired key. This is no write of a client.
    pub fn forget(&mut self, key: &[u8]) {
        self.keys.remove(key);
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Bytes, &Entry)> {
        self.keys.iter()
    }

    /// Ends a command: its changes are one write.
    pub fn commit(&mut self) {
        let mut changes = std::mem::take(&mut self.current);
        self.written += u64::from(!changes.is_empty());
        changes.retain(|change| change.before.as_ref() != self.get(&change.key));
        if changes.is_empty() {
            return;
        }
        if self.history.len() == HISTORY && self.replicated.is_none() {
            self.history.pop_front();
        }
        self.history.push_back((self.written, changes));
    }

    /// Makes all writes so far safe from being lost.
    pub fn save(&mut self) {
        self.history.clear();
    }

    /// Undoes the last `writes` writes, as far as they are remembered.
    pub fn lose(&mut self, writes: usize) {
        for _ in 0..writes {
            let Some((_, changes)) = self.history.pop_back() else {
                return;
            };
            self.undo(changes);
        }
    }

    fn undo(&mut self, changes: Vec<Change>) {
        for change in changes {
            match change.before {
                Some(entry) => self.keys.insert(change.key, entry),
                None => self.keys.remove(&change.key),
            };
        }
    }

    pub fn written(&self) -> u64 {
        self.written
    }

    /// Records that the replica has all writes up to this one.
    pub fn replicate(&mut self, number: u64) {
        self.replicated = self.replicated.max(Some(number));
        while let Some((first, _)) = self.history.front()
            && *first <= number
        {
            self.history.pop_front();
        }
    }

    /// Undoes the last write, which the replica does not have. Returns its number.
    pub fn lose_last(&mut self) -> Option<u64> {
        let (number, changes) = self.history.pop_back()?;
        self.undo(changes);
        Some(number)
    }

    fn note(&mut self, key: &[u8]) {
        let known = |change: &Change| change.key == key;
        if !self.current.iter().any(known) {
            self.current.push(Change {
                key: key.to_vec(),
                before: self.keys.get(key).cloned(),
            });
        }
    }
}
