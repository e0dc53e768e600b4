//! [`Answer`]: what a server answers to a command.

/// The answer of a server to a command of the user's; see [`Client::ask`](crate::Client::ask).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// There is nothing.
    Nil,
    /// A whole number.
    Int(i64),
    /// A string, of the server's own words too: `OK`, the type of a key.
    Bytes(Vec<u8>),
    /// Several answers.
    Array(Vec<Answer>),
    /// Something that is none of these.
    Other,
}
