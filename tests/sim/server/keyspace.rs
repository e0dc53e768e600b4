//! The databases: keys, what they hold, when they expire and when they were last used; and what the last writes
//! have changed, so that they can be lost.

use std::collections::{BTreeMap, VecDeque};

use super::value::{Bytes, Value};

pub const DATABASES: usize = 16;

/// So many writes can be lost at the most.
const HISTORY: usize = 1000;

#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub value: Value,
    /// In milliseconds of the server's clock; it is there up to and including that millisecond.
    pub expires: Option<i64>,
    /// The second of its last use, in the 24 bits that Redis has for it.
    pub used: u32,
    /// The integer that it shares with all keys that hold it, and with them the time of the last use.
    pub shared: Option<u16>,
    /// A script has put a text there: a real server may have done it with the memory, and the time, of an older one.
    pub vague: bool,
}

impl Entry {
    /// Whether two of them are the same to who reads them.
    fn same(&self, other: &Entry) -> bool {
        self.value == other.value && self.expires == other.expires
    }
}

/// All databases.
#[derive(Debug, Clone)]
pub struct Keyspace {
    databases: Vec<BTreeMap<Bytes, Entry>>,
    /// What each of the last writes has changed, by its number, the latest last.
    history: VecDeque<(u64, Vec<Change>)>,
    /// The number of the last write.
    written: u64,
    /// That of the last one that the replica has, if there is a replica.
    replicated: Option<u64>,
    /// What the command being carried out has changed so far.
    current: Vec<Change>,
    /// It is a part of something larger.
    unfinished: bool,
}

#[derive(Debug, Clone)]
struct Change {
    database: usize,
    key: Bytes,
    before: Option<Entry>,
}

impl Default for Keyspace {
    fn default() -> Self {
        Keyspace {
            databases: vec![BTreeMap::new(); DATABASES],
            history: VecDeque::new(),
            written: 0,
            replicated: None,
            current: Vec::new(),
            unfinished: false,
        }
    }
}

impl Keyspace {
    pub fn get(&self, database: usize, key: &[u8]) -> Option<&Entry> {
        self.databases[database].get(key)
    }

    /// An entry of which only the last use may be changed.
    pub fn get_to_touch(&mut self, database: usize, key: &[u8]) -> Option<&mut Entry> {
        self.databases[database].get_mut(key)
    }

    pub fn get_mut(&mut self, database: usize, key: &[u8]) -> Option<&mut Entry> {
        self.note(database, key);
        self.databases[database].get_mut(key)
    }

    pub fn insert(&mut self, database: usize, key: &[u8], entry: Entry) {
        self.note(database, key);
        self.databases[database].insert(key.to_vec(), entry);
    }

    pub fn remove(&mut self, database: usize, key: &[u8]) -> Option<Entry> {
        self.note(database, key);
        self.databases[database].remove(key)
    }

    /// Removes what has expired, which is no write of anybody.
    pub fn forget(&mut self, database: usize, key: &[u8]) {
        self.databases[database].remove(key);
    }

    pub fn iter(&self, database: usize) -> impl Iterator<Item = (&Bytes, &Entry)> {
        self.databases[database].iter()
    }

    pub fn clear(&mut self, database: usize) {
        let keys: Vec<Bytes> = self.databases[database].keys().cloned().collect();
        for key in keys {
            self.remove(database, &key);
        }
    }

    /// Ends a command: what it has changed is one write.
    pub fn commit(&mut self) {
        if self.unfinished {
            return;
        }
        let mut changes = std::mem::take(&mut self.current);
        self.written += u64::from(!changes.is_empty());
        changes.retain(
            |change| match (&change.before, self.get(change.database, &change.key)) {
                (Some(before), Some(now)) => !before.same(now),
                (before, now) => before.is_some() != now.is_some(),
            },
        );
        if changes.is_empty() {
            return;
        }
        if self.history.len() == HISTORY && self.replicated.is_none() {
            self.history.pop_front();
        }
        self.history.push_back((self.written, changes));
    }

    /// The commands that follow are parts of one write, to the end of it.
    pub fn begin(&mut self) {
        self.unfinished = true;
    }

    pub fn end(&mut self) {
        self.unfinished = false;
        self.commit();
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
            let database = &mut self.databases[change.database];
            match change.before {
                Some(entry) => database.insert(change.key, entry),
                None => database.remove(&change.key),
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

    fn note(&mut self, database: usize, key: &[u8]) {
        let known = |change: &Change| change.database == database && change.key == key;
        if !self.current.iter().any(known) {
            self.current.push(Change {
                database,
                key: key.to_vec(),
                before: self.databases[database].get(key).cloned(),
            });
        }
    }
}
