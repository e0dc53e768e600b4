//! The data that a command works on: the keys at one moment.

use super::connection::ConnectionId;
use super::core::Core;
use super::keyspace::Entry;
use super::reply::{Refusal, WRONG_TYPE};
use super::value::{Kind, Value};

#[derive(Debug)]
pub struct Context<'a> {
    pub core: &'a mut Core,
    pub connection: ConnectionId,
}

impl Context<'_> {
    pub fn peek(&mut self, key: &[u8]) -> Option<&Entry> {
        let now = self.core.millis();
        let expires = self.core.keys.get(key)?.expires;
        if expires.is_some_and(|end| now > end) {
            // A replica waits for its primary to remove the key.
            if !self.core.faults.replica {
                self.core.keys.forget(key);
            }
            return None;
        }
        self.core.keys.get(key)
    }

    /// Whether the key exists.
    pub fn has(&mut self, key: &[u8]) -> bool {
        self.peek(key).is_some()
    }

    /// Reads a key that must have this type, if the key exists.
    pub fn read<K: Kind>(&mut self, key: &[u8]) -> Result<Option<&K>, Refusal> {
        match self.peek(key) {
            None => Ok(None),
            Some(entry) => K::of(&entry.value)
                .map(Some)
                .ok_or_else(|| WRONG_TYPE.into()),
        }
    }

    /// Changes a key that must have this type. A missing key is created.
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
        let entry = self.core.keys.get_mut(key).expect("seen above");
        let value = K::of_mut(&mut entry.value).expect("its type was seen above");
        let answer = how(value);
        if value.is_gone() {
            self.core.keys.remove(key);
        }
        Ok(answer)
    }

    /// Sets a key to a value, whatever it held before.
    pub fn write(&mut self, key: &[u8], value: Value, expires: Option<i64>) {
        self.core.keys.insert(key, Entry { value, expires });
    }

    pub fn remove(&mut self, key: &[u8]) -> bool {
        self.has(key) && self.core.keys.remove(key).is_some()
    }

    pub fn expires(&mut self, key: &[u8]) -> Option<i64> {
        self.peek(key)?.expires
    }
}
