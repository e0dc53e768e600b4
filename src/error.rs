//! The one error type: every variant names the object and says whether anything took effect.

use std::time::Duration;

/// What a failed call may have changed in Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Effect {
    /// Nothing took effect: the call may be repeated.
    None,
    /// The call may or may not have taken effect; no answer came in time.
    Unknown,
}

/// Everything that can go wrong.
///
/// Running out of waiting time is not an error: it is `false` or `None`.
/// [`Error::effect`] says whether the failed call can have changed anything; the guide tells [what to make of
/// that](crate::guide::promises#errors).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A number of permits that no semaphore can hold (above 2^31-1). Nothing was sent.
    #[error("semaphore {name:?}: {permits} permits are more than 2147483647; nothing was sent")]
    InvalidPermits {
        /// The semaphore.
        name: String,
        /// The number asked for.
        permits: u32,
    },

    /// A limit that no semaphore with ids can have. Nothing was sent.
    #[error("semaphore {name:?}: a limit of {limit} is not between 1 and {most}; nothing was sent")]
    InvalidLimit {
        /// The semaphore.
        name: String,
        /// The limit of the handle.
        limit: u32,
        /// The highest possible one.
        most: u32,
    },

    /// The times in the key are in other units than the handle is set to. Nothing took effect.
    #[error(
        "semaphore {name:?} is set to {units:?}, but the time {found} in its key looks like the other unit; nothing took effect"
    )]
    WrongUnits {
        /// The semaphore.
        name: String,
        /// What the handle is set to.
        units: crate::units::Units,
        /// A time that was found.
        found: String,
    },

    /// An object name that cannot be used: it is empty, longer than 64 KiB, or would fall apart in a cluster. The id of a
    /// holder that is longer than that, too. Nothing was sent.
    #[error("object name {name:?} cannot be used: {reason}; nothing was sent")]
    InvalidName {
        /// The name, as it would stand in Redis; of one that is too long the beginning.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },

    /// A time that Redis cannot store (zero, below a millisecond, or too far away). Nothing was sent.
    #[error("{name:?}: {what} of {value:?} cannot be used: {reason}; nothing was sent")]
    InvalidDuration {
        /// The object.
        name: String,
        /// Which time: "time to live".
        what: &'static str,
        /// The value given.
        value: Duration,
        /// What is wrong with it.
        reason: &'static str,
    },

    /// A URL or setting that the client cannot work with. Nothing was sent.
    #[error("configuration: {reason}; nothing was sent")]
    Configuration {
        /// What is wrong with it. Never contains a password.
        reason: String,
    },

    /// A key of the object holds another type than the object has there. Nothing took effect.
    #[error(
        "{name:?}: the key {key:?} holds another type than this object has there{}; nothing took effect",
        .found.as_ref().map(|found| format!(" ({found})")).unwrap_or_default()
    )]
    WrongType {
        /// The object.
        name: String,
        /// The key as it stands in Redis; the object's own one where it is not known which it is.
        key: String,
        /// What was found there, in Redis's word (`list`, `hash`, ...); asked for by `TYPE`, if the server's ACL lets that
        /// pass.
        found: Option<String>,
    },

    /// The key holds a string that is not a whole number. Nothing took effect.
    #[error("{name:?} does not hold a whole number but {found:?}; nothing took effect")]
    NotANumber {
        /// The object.
        name: String,
        /// What was found there (shortened).
        found: String,
    },

    /// The result would not fit Redisson's signed 32 bits. Nothing took effect.
    #[error(
        "semaphore {name:?} holds {available} permits; {delta:+} would leave the range of 32 bits; nothing took effect"
    )]
    OutOfRange {
        /// The semaphore.
        name: String,
        /// Its counter when the call was carried out.
        available: i64,
        /// The change that was asked for.
        delta: i64,
    },

    /// The owner does not hold the lock, or does not any more. Nothing took effect.
    #[error("lock {name:?} is not held by {owner}; nothing took effect")]
    NotHeld {
        /// The lock.
        name: String,
        /// Who tried.
        owner: String,
    },

    /// The object does not exist and the operation needs it. Nothing took effect.
    #[error("{name:?} does not exist; nothing took effect")]
    NoSuchObject {
        /// The object.
        name: String,
    },

    /// The server's ACL forbids the command, the key or the channel. Nothing took effect.
    #[error("{name:?}: permission denied by the server: {detail}; nothing took effect")]
    PermissionDenied {
        /// The object.
        name: String,
        /// The server's words.
        detail: String,
    },

    /// The server refused the user name or password, or wants one. Nothing took effect.
    #[error("{name:?}: authentication failed: {detail}; nothing took effect")]
    Authentication {
        /// The server's address at the first connect, or the object.
        name: String,
        /// The server's words.
        detail: String,
    },

    /// TLS came to nothing: the server's certificate is not trusted, has expired or is for another name, the server does
    /// not take the client's, or it does not speak TLS at this port. Nothing took effect.
    #[error("{name:?}: no connection by TLS: {detail}; nothing took effect")]
    Tls {
        /// The server's address at the first connect, or the object.
        name: String,
        /// What is wrong.
        detail: String,
    },

    /// The server answers, but refuses for now, and has done so for as long as the retry window lasts (at the first
    /// connect: the connect time-out). Nothing took effect.
    ///
    /// The detail begins with the server's word for it: `READONLY` (it is a replica; after a failover the same
    /// address may lead to the new primary), `OOM` (out of memory), `NOREPLICAS`, `MISCONF` (it can't save its
    /// data), `LOADING`, `BUSY`, `MASTERDOWN`, `CLUSTERDOWN`, `TRYAGAIN`, or it has too many clients.
    #[error("{name:?}: the server refuses for now: {detail}; nothing took effect")]
    RefusedForNow {
        /// The object, or the server's address at the first connect.
        name: String,
        /// The server's words.
        detail: String,
    },

    /// The server refused the call for another reason. Nothing took effect.
    #[error("{name:?}: the server answered {detail:?}; nothing took effect")]
    Server {
        /// The object.
        name: String,
        /// The server's words.
        detail: String,
    },

    /// No connection for as long as the retry window lasts (at the first connect: the connect time-out). Nothing took
    /// effect.
    #[error(
        "{name:?}: no connection to the server within {waited:?} ({detail}); nothing took effect"
    )]
    Unavailable {
        /// The object, or the server's address at the first connect.
        name: String,
        /// How long it was tried.
        waited: Duration,
        /// The last failure seen.
        detail: String,
    },

    /// The call was sent, but no answer came for as long as the retry window lasts.
    ///
    /// It may have taken effect, or may still do so when the server comes back. The crate goes on asking, for
    /// five minutes from the first sending (or two retry windows): an acquisition that turns out to have happened is given
    /// back, a release is carried out.
    #[error(
        "{name:?}: {operation} was sent, but no answer came within {waited:?} ({detail}); it may have taken effect"
    )]
    OutcomeUnknown {
        /// The object.
        name: String,
        /// What was asked for.
        operation: &'static str,
        /// How long it was tried.
        waited: Duration,
        /// The last failure seen.
        detail: String,
    },

    /// [`Client::shutdown`](crate::Client::shutdown) ended before all calls were answered. What they owed, such as the
    /// releases of dropped guards, may or may not have been carried out.
    #[error(
        "shutdown: {left} requests were not answered within {waited:?}; they may have taken effect"
    )]
    Unfinished {
        /// How many requests, or objects with such requests, were left.
        left: usize,
        /// How long it was tried.
        waited: Duration,
    },

    /// The client has been shut down. Nothing took effect.
    #[error("{name:?}: the client has been shut down; nothing took effect")]
    ShutDown {
        /// The object.
        name: String,
    },
}

impl Error {
    /// What the failed call may have changed.
    #[must_use]
    pub fn effect(&self) -> Effect {
        match self {
            Error::OutcomeUnknown { .. } | Error::Unfinished { .. } => Effect::Unknown,
            _ => Effect::None,
        }
    }
}

/// What the calls of this crate return.
pub type Result<T, E = Error> = std::result::Result<T, E>;
