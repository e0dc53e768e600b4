//! Which key it is that holds something else than it should: the server says only that there is one.

use super::core::Core;
use super::request::Request;
use crate::error::Error;
use crate::transport::{Command, Value};

use super::keys::Typed;

/// An object with more keys is not searched through.
const MOST_KEYS: usize = 64;

impl Core {
    /// `error`, and where it is about a wrong type, which of `keys` has it, and what it holds; the first one if that can't
    /// be learned.
    pub(crate) async fn explain(&self, error: Error, keys: impl FnOnce() -> Vec<Typed>) -> Error {
        let Error::WrongType { name, key, found } = error else {
            return error;
        };
        let keys = keys();
        for (key, expected) in keys.iter().take(MOST_KEYS) {
            let command = Command::new("TYPE").key(key);
            match self.try_once(&Request::Plain(command)).await {
                Ok(Value::SimpleString(found)) if found != *expected && found != "none" => {
                    let (key, found) = (key.to_string(), Some(found));
                    return Error::WrongType { name, key, found };
                }
                Ok(_) => {}
                // The user may not ask, or nobody answers.
                Err(_) => break,
            }
        }
        let key = keys.first().map_or(key, |(key, _)| key.to_string());
        Error::WrongType { name, key, found }
    }
}
