//! What a command works on: the keys of one database at one moment.

use super::connection::ConnectionId;
use super::core::Core;
use super::keyspace::Entry;
use super::reply::{Refusal, WRONG_TYPE};
use super::value::{Kind, Value};

/// The seconds of a last use have so many bits.
const CLOCK_BITS: u32 = 24;

#[derive(Debug)]
pub struct Context<'a> {
    pub core: &'a mut Core,
    pub connection: ConnectionId,
    pub database: usize,
}

impl Context<'_> {
    /// The clock of last uses: seconds, as far as they have room.
    pub fn clock(&self) -> u32 {
        let seconds = self.core.now / 1_000_000;
        u32::try_from(seconds % (1 << CLOCK_BITS)).expect("fits in its bits")
    }

    /// For how many seconds the entry has not been used; who looks after the clock went back sees nearly 2^24.
    pub fn idle(&self, entry: &Entry) -> u32 {
        let most = (1 << CLOCK_BITS) - 1;
        let clock = self.clock();
        if clock >= entry.used {
            clock - entry.used
        } else {
            clock + (most - entry.used)
        }
    }

    /// Looks without using it.
    pub fn peek(&mut self, key: &[u8]) -> Option<&Entry> {
        let database = self.database;
        self.peek_in(database, key)
    }

    pub fn peek_in(&mut self, database: usize, key: &[u8]) -> Option<&Entry> {
        let now = self.core.millis();
        let expires = self.core.keys.get(database, key)?.expires;
        if expires.is_some_and(|end| now > end) {
            // A replica waits for its primary's word.
            if !self.core.faults.replica {
                self.core.keys.forget(database, key);
            }
            return None;
        }
        self.core.keys.get(database, key)
    }

    /// Whether there is something; notes that it was used.
    pub fn touch(&mut self, key: &[u8]) -> bool {
        if self.peek(key).is_none() {
            return false;
        }
        let clock = self.clock();
        if let Some(entry) = self.core.keys.get_to_touch(self.database, key) {
            entry.used = clock;
        }
        true
    }

    pub fn value(&mut self, key: &[u8]) -> Option<&Value> {
        if !self.touch(key) {
            return None;
        }
        self.core
            .keys
            .get(self.database, key)
            .map(|entry| &entry.value)
    }

    /// Reads a key that must have this type, if there is one.
    pub fn read<K: Kind>(&mut self, key: &[u8]) -> Result<Option<&K>, Refusal> {
        match self.value(key) {
            None => Ok(None),
            Some(value) => K::of(value).map(Some).ok_or_else(|| WRONG_TYPE.into()),
        }
    }

    /// Changes a key that must have this type. One that is missing is made.
    pub fn change<K: Kind, T>(
        &mut self,
        key: &[u8],
        how: impl FnOnce(&mut K) -> T,
    ) -> Result<T, Refusal> {
        if self.read::<K>(key)?.is_none() {
            let mut value = K::default();
            let answer = how(&mut value);
            if !value.is_gone() {
                self.write(key, value.wrap(), None);
            }
            return Ok(answer);
        }
        let entry = self
            .core
            .keys
            .get_mut(self.database, key)
            .expect("seen above");
        let value = K::of_mut(&mut entry.value).expect("its type was seen above");
        let answer = how(value);
        if value.is_gone() {
            self.core.keys.remove(self.database, key);
        }
        Ok(answer)
    }

    /// Puts a value there, whatever was there before.
    pub fn write(&mut self, key: &[u8], value: Value, expires: Option<i64>) {
        let entry = Entry {
            value,
            expires,
            used: self.clock(),
        };
        self.core.keys.insert(self.database, key, entry);
    }

    pub fn remove(&mut self, key: &[u8]) -> bool {
        self.peek(key).is_some() && self.core.keys.remove(self.database, key).is_some()
    }

    pub fn expires(&mut self, key: &[u8]) -> Option<i64> {
        self.peek(key)?.expires
    }
}
