//! Which key it is that holds something else than it should: the server says only that there is one.

use futures::future::join_all;

use super::core::Core;
use super::request::Request;
use crate::error::Error;
use crate::transport::{Command, Value};

use super::keys::Typed;

/// So many keys are asked for at once.
const PAGE: usize = 64;

impl Core {
    /// `error`, and where it is about a wrong type, which of `keys` has it, and what it holds; the first one if that can't
    /// be learned.
    pub(crate) async fn explain(&self, error: Error, keys: impl FnOnce() -> Vec<Typed>) -> Error {
        let Error::WrongType { name, key, found } = error else {
            return error;
        };
        let keys = keys();
        let ask = |(key, _): &Typed| Request::plain(Command::new("TYPE").key(key));
        'pages: for page in keys.chunks(PAGE) {
            let questions: Vec<_> = page.iter().map(ask).collect();
            // Other calls wait behind the one that gets the error.
            let answers = join_all(questions.iter().map(|question| self.try_once(question))).await;
            for ((key, expected), answer) in page.iter().zip(answers) {
                match answer {
                    Ok(Value::Bytes(found)) if found != expected.as_bytes() && found != b"none" => {
                        let found = Some(String::from_utf8_lossy(&found).into_owned());
                        let key = key.to_string();
                        return Error::WrongType { name, key, found };
                    }
                    Ok(_) => {}
                    // The user lacks the permission, or there is no answer.
                    Err(_) => break 'pages,
                }
            }
        }
        let key = keys.first().map_or(key, |(key, _)| key.to_string());
        Error::WrongType { name, key, found }
    }
}
