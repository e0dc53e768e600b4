//! The answers of a server, in the second version of the protocol.

use std::fmt;

/// An answer, or a pushed message (an array).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reply {
    /// A short word: `OK`, `PONG`.
    Status(Vec<u8>),
    /// An error, its code first, without the leading dash.
    Error(Vec<u8>),
    Int(i64),
    Bulk(Vec<u8>),
    /// No value, where one would be.
    Nil,
    Array(Vec<Reply>),
}

/// A command's answer. An error comes from the command itself, or from a check before it.
pub type Outcome = Result<Reply, Refusal>;

/// The text of an error, its code first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal(pub Vec<u8>);

pub const SYNTAX: &str = "ERR syntax error";
pub const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
pub const NOT_A_FLOAT: &str = "ERR value is not a valid float";
pub const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
pub const NO_SUCH_KEY: &str = "ERR no such key";

impl Reply {
    pub fn ok() -> Reply {
        Reply::status("OK")
    }

    pub fn status(word: &str) -> Reply {
        Reply::Status(word.into())
    }

    pub fn bulk(bytes: impl Into<Vec<u8>>) -> Reply {
        Reply::Bulk(bytes.into())
    }

    /// A bulk string, or no value.
    pub fn maybe(bytes: Option<impl Into<Vec<u8>>>) -> Reply {
        bytes.map_or(Reply::Nil, Reply::bulk)
    }

    pub fn count(count: usize) -> Reply {
        Reply::Int(i64::try_from(count).expect("fits in memory"))
    }

    pub fn flag(flag: bool) -> Reply {
        Reply::Int(flag.into())
    }

    pub fn array<T: Into<Vec<u8>>>(items: impl IntoIterator<Item = T>) -> Reply {
        Reply::Array(items.into_iter().map(Reply::bulk).collect())
    }

    /// Appends the bytes that go over the wire.
    pub fn encode(&self, wire: &mut Vec<u8>) {
        let line = |wire: &mut Vec<u8>, kind: u8, text: &[u8]| {
            wire.push(kind);
            wire.extend_from_slice(text);
            wire.extend_from_slice(b"\r\n");
        };
        match self {
            Reply::Status(word) => line(wire, b'+', word),
            Reply::Error(text) => line(wire, b'-', text),
            Reply::Int(number) => line(wire, b':', number.to_string().as_bytes()),
            Reply::Nil => line(wire, b'$', b"-1"),
            Reply::Bulk(bytes) => {
                line(wire, b'$', bytes.len().to_string().as_bytes());
                wire.extend_from_slice(bytes);
                wire.extend_from_slice(b"\r\n");
            }
            Reply::Array(items) => {
                line(wire, b'*', items.len().to_string().as_bytes());
                for item in items {
                    item.encode(wire);
                }
            }
        }
    }
}

impl From<Outcome> for Reply {
    fn from(outcome: Outcome) -> Reply {
        match outcome {
            Ok(reply) => reply,
            Err(Refusal(text)) => Reply::Error(one_line(&text)),
        }
    }
}

/// An error is one line.
fn one_line(text: &[u8]) -> Vec<u8> {
    let is_break = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let end = text
        .iter()
        .rposition(|byte| !is_break(byte))
        .map_or(0, |last| last + 1);
    let plain = |byte: &u8| if is_break(byte) { b' ' } else { *byte };
    text[..end].iter().map(plain).collect()
}

impl From<&str> for Refusal {
    fn from(text: &str) -> Refusal {
        Refusal(text.into())
    }
}

impl From<String> for Refusal {
    fn from(text: String) -> Refusal {
        Refusal(text.into())
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reply::Status(word) => write!(f, "+{}", word.escape_ascii()),
            Reply::Error(text) => write!(f, "-{}", text.escape_ascii()),
            Reply::Int(number) => write!(f, "{number}"),
            Reply::Bulk(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
            Reply::Nil => f.write_str("nil"),
            Reply::Array(items) => f.debug_list().entries(items).finish(),
        }
    }
}
