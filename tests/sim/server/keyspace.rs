//! The keys, what they hold and when they expire; and what the last writes have changed, so that they can be lost.

use std::collections::{BTreeMap, VecDeque};

use super::value::{Bytes, Value};

/// So many writes can be lost at the most.
const HISTORY: usize = 1000;

#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub value: Value,
    /// In milliseconds of the server's clock; it is there up to and including that millisecond.
    pub expires: Option<i64>,
}

/// All keys of the one database that there is.
#[derive(Debug, Clone, Default)]
pub struct Keyspace {
    keys: BTreeMap<Bytes, Entry>,
    /// What each of the last writes has changed, by its number, the latest last.
    history: VecDeque<(u64, Vec<Change>)>,
    /// The number of the last write.
    written: u64,
    /// That of the last one that the replica has, if there is a replica.
    replicated: Option<u64>,
    /// What the command being carried out has changed so far.
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

    /// Removes what has expired, which is no write of anybody.
    pub fn forget(&mut self, key: &[u8]) {
        self.keys.remove(key);
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Bytes, &Entry)> {
        self.keys.iter()
    }

    /// Ends a command: what it has changed is one write.
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

    /// What has been written so far is not lost any more.
    pub fn save(&mut self) {
        self.history.clear();
    }

    /// Undoes the last `writes`, as far as they are remembered.
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

    /// The replica has all writes up to this one.
    pub fn replicate(&mut self, number: u64) {
        self.replicated = self.replicated.max(Some(number));
        while let Some((first, _)) = self.history.front()
            && *first <= number
        {
            self.history.pop_front();
        }
    }

    /// Undoes the last write, which the replica does not have; its number.
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
