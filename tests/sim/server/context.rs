//! What a command works on: the keys of one database at one moment.

use super::connection::ConnectionId;
use super::core::{Core, LAST_CLOCK, SHARED_INTEGERS};
use super::keyspace::Entry;
use super::number;
use super::reply::{Refusal, WRONG_TYPE};
use super::value::{Kind, Value};

#[derive(Debug)]
pub struct Context<'a> {
    pub core: &'a mut Core,
    pub connection: ConnectionId,
    pub database: usize,
}

impl Context<'_> {
    /// For how many seconds the entry has not been used; who looks after the clock went back sees nearly 2^24.
    pub fn idle(&self, entry: &Entry) -> u32 {
        let clock = self.core.clock();
        let used = match entry.shared {
            Some(integer) => self.core.shared_uses[usize::from(integer)],
            None => entry.used,
        };
        if clock >= used {
            clock - used
        } else {
            clock + (LAST_CLOCK - used)
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
        let database = self.database;
        self.touch_in(database, key)
    }

    pub fn touch_in(&mut self, database: usize, key: &[u8]) -> bool {
        if self.peek_in(database, key).is_none() {
            return false;
        }
        let clock = self.core.clock();
        if let Some(entry) = self.core.keys.get_to_touch(database, key) {
            match entry.shared {
                Some(integer) => self.core.shared_uses[usize::from(integer)] = clock,
                None => entry.used = clock,
            }
            entry.vague = false;
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
        // Whether there is something to be replaced is a look at it.
        self.touch(key);
        let shared = match &value {
            Value::Text(text) => {
                number::integer(text).and_then(|number| u16::try_from(number).ok())
            }
            _ => None,
        };
        let is_number = matches!(&value, Value::Text(text) if number::integer(text).is_some());
        let entry = Entry {
            vague: self.core.script.is_some() && !is_number,
            value,
            expires,
            used: self.core.clock(),
            shared: shared.filter(|integer| *integer < SHARED_INTEGERS),
        };
        self.core.keys.insert(self.database, key, entry);
    }

    /// Gives a key that was just written an object of its own.
    pub fn unshare(&mut self, key: &[u8]) {
        if let Some(entry) = self.core.keys.get_mut(self.database, key) {
            entry.shared = None;
        }
    }

    pub fn remove(&mut self, key: &[u8]) -> bool {
        self.peek(key).is_some() && self.core.keys.remove(self.database, key).is_some()
    }

    pub fn expires(&mut self, key: &[u8]) -> Option<i64> {
        self.peek(key)?.expires
    }
}
