//! The one error type. A variant names the object, if it is about one, and says whether anything took effect.

use std::time::Duration;

/// The effect that a failed call may have had in Redis.
///
/// An unknown outcome does not lose a permit: the crate gives back an acquisition that happened after all, and carries a release
/// out. So the caller's next step follows from the effect and from the kind of the call:
///
/// ```
/// use redisson_semaphore::{Effect, Error, RSemaphore, Result};
///
/// enum Next {
///     Again,
///     Unlimited,
///     Fail(Error),
/// }
///
/// fn after_an_acquisition(error: Error) -> Next {
///     match error.effect() {
///         // Nothing was taken, and it may work out later.
///         Effect::NotApplied if error.is_retryable() => Next::Again,
///         // A wrong name or amount, a key of another type, no permission: it would fail again.
///         Effect::NotApplied => Next::Fail(error),
///         // If it was granted after all, the crate gives it back: as if nothing had been taken.
///         Effect::Unknown => Next::Unlimited,
///         _ => Next::Fail(error),
///     }
/// }
///
/// async fn give_back(seats: &RSemaphore) -> Result<()> {
///     match seats.release(1).await {
///         // Never release again here: it has happened, or will when Redis is back.
///         Err(error) if error.effect() == Effect::Unknown => Ok(()),
///         // Nothing was given back: it may be tried again, in a while.
///         told => told,
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Effect {
    /// Nothing took effect, and nothing will: the call may be repeated.
    NotApplied,
    /// The call may or may not have taken effect, or may do so still; no answer came in time. Unless the client ends,
    /// an acquisition is given back, and a release or unlock is carried out; see [`Error::OutcomeUnknown`] for how long that is tried. Any other change
    /// is as it is: look, before it is made again.
    Unknown,
}

/// Everything that can go wrong.
///
/// Running out of waiting time is not an error: it is `false` or `None`.
///
/// Methods answer the questions of a caller, so that few programs need the variants:
///
/// | Method | Question |
/// |---|---|
/// | [`effect`](Error::effect) | Can the failed call have changed anything? (With an example of the next step.) |
/// | [`is_retryable`](Error::is_retryable) | May the same call be made again, and succeed then? |
/// | [`is_unavailable`](Error::is_unavailable) | Is Redis at fault? |
/// | [`is_invalid_argument`](Error::is_invalid_argument) | Is the argument or the setting at fault? |
/// | [`name`](Error::name) | Which object is it about? |
///
/// Variants, and fields in them, may be added. The guide has [the guarantees](crate::guide::promises) for the case of an error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A number of permits that no semaphore can hold (above 2^31-1). Nothing was sent.
    #[error("semaphore {name:?}: {permits} permits are more than 2147483647; nothing was sent")]
    #[non_exhaustive]
    InvalidPermits {
        /// The semaphore.
        name: String,
        /// The number asked for.
        permits: u32,
    },

    /// A limit that no semaphore with ids can have. Nothing was sent.
    #[error("semaphore {name:?}: a limit of {limit} is not between 1 and {most}; nothing was sent")]
    #[non_exhaustive]
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
    #[non_exhaustive]
    WrongUnits {
        /// The semaphore.
        name: String,
        /// The units of the handle.
        units: crate::units::Units,
        /// A time that was found.
        found: String,
    },

    /// An object name that cannot be used: it is empty, longer than 64 KiB, or would fall apart in a cluster. The id of a
    /// holder that is longer than that, too. Nothing was sent.
    #[error("object name {name:?} cannot be used: {reason}; nothing was sent")]
    #[non_exhaustive]
    InvalidName {
        /// The name, as it would stand in Redis; of one that is too long the beginning.
        name: String,
        /// The reason.
        reason: &'static str,
    },

    /// A time that Redis cannot store (zero, below a millisecond, or too far away). Nothing was sent.
    #[error("{name:?}: {what} of {value:?} cannot be used: {reason}; nothing was sent")]
    #[non_exhaustive]
    InvalidDuration {
        /// The object.
        name: String,
        /// Which time: "time to live".
        what: &'static str,
        /// The value given.
        value: Duration,
        /// The reason.
        reason: &'static str,
    },

    /// A URL or setting that the client cannot work with. Nothing was sent.
    #[error("configuration: {reason}; nothing was sent")]
    #[non_exhaustive]
    Configuration {
        /// The reason. Never contains a password.
        reason: String,
    },

    /// A key of the object holds another type than the object has there. Nothing took effect.
    #[error(
        "{name:?}: the key {key:?} holds another type than this object has there{}; nothing took effect",
        .found.as_ref().map(|found| format!(" ({found})")).unwrap_or_default()
    )]
    #[non_exhaustive]
    WrongType {
        /// The object.
        name: String,
        /// The key as it stands in Redis; the object's own one where it is not known which it is.
        key: String,
        /// The type that was found there, in Redis's word (`list`, `hash`, ...); asked for by `TYPE`, if the server's ACL lets that
        /// pass.
        found: Option<String>,
    },

    /// The key holds a string that is not a whole number. Nothing took effect.
    #[error("{name:?} does not hold a whole number but {found:?}; nothing took effect")]
    #[non_exhaustive]
    NotANumber {
        /// The object.
        name: String,
        /// The value that was found there (shortened).
        found: String,
    },

    /// The result would not fit Redisson's signed 32 bits. Nothing took effect.
    #[error(
        "semaphore {name:?} holds {available} permits; {delta:+} would leave the range of 32 bits; nothing took effect"
    )]
    #[non_exhaustive]
    OutOfRange {
        /// The semaphore.
        name: String,
        /// Its counter when the call was carried out.
        available: i64,
        /// The change that was asked for.
        delta: i64,
    },

    /// More permits at a time than one call may take or give back. Nothing was sent.
    #[error(
        "semaphore {name:?}: {permits} permits at a time are more than {most}; nothing was sent"
    )]
    #[non_exhaustive]
    TooManyAtOnce {
        /// The semaphore.
        name: String,
        /// How many were given.
        permits: usize,
        /// The most that are allowed.
        most: usize,
    },

    /// The given id is that of no permit of this semaphore, or has a form that cannot be worked with. Nothing took
    /// effect.
    #[error("semaphore {name:?}: permit id {id:?} cannot be used: {reason}; nothing took effect")]
    #[non_exhaustive]
    InvalidPermitId {
        /// The semaphore.
        name: String,
        /// The id as it was given; of one that is too long the beginning.
        id: String,
        /// The reason.
        reason: &'static str,
    },

    /// No permit with this id is held, or not any more: it was given back, has expired, or was taken away. Nothing took
    /// effect.
    #[error("semaphore {name:?}: permit {id} is not held; nothing took effect")]
    #[non_exhaustive]
    PermitNotHeld {
        /// The semaphore.
        name: String,
        /// The id; of several, the first that is not held.
        id: String,
    },

    /// The owner does not hold the lock, or the permits, or does not any more. Nothing took effect.
    #[error("{name:?} is not held by {owner}; nothing took effect")]
    #[non_exhaustive]
    NotHeld {
        /// The lock or the semaphore.
        name: String,
        /// The owner that made the call.
        owner: String,
    },

    /// The object does not exist and the operation needs it. Nothing took effect.
    #[error("{name:?} does not exist; nothing took effect")]
    #[non_exhaustive]
    NoSuchObject {
        /// The object.
        name: String,
    },

    /// The server's ACL forbids the command, the key or the channel. Nothing took effect.
    #[error("{name:?}: permission denied by the server: {detail}; nothing took effect")]
    #[non_exhaustive]
    PermissionDenied {
        /// The object.
        name: String,
        /// The server's words.
        detail: String,
    },

    /// The server refused the user name or password, or wants one. Nothing took effect.
    #[error("{name:?}: authentication failed: {detail}; nothing took effect")]
    #[non_exhaustive]
    Authentication {
        /// The server's address at the first connect, or the object.
        name: String,
        /// The server's words.
        detail: String,
    },

    /// TLS came to nothing: the server's certificate is not trusted, has expired or is for another name, the server does
    /// not take the client's, or it does not speak TLS at this port. Nothing took effect.
    #[error("{name:?}: no connection by TLS: {detail}; nothing took effect")]
    #[non_exhaustive]
    Tls {
        /// The server's address at the first connect, or the object.
        name: String,
        /// The reason.
        detail: String,
    },

    /// The server answers, but refuses for now, and has done so for as long as the retry window lasts (at the first
    /// connect: the connect time-out). Nothing took effect.
    ///
    /// The detail begins with the server's word for it: `READONLY` (it is a replica; after a failover the same
    /// address may lead to the new primary), `OOM` (out of memory), `NOREPLICAS`, `MISCONF` (it can't save its
    /// data), `LOADING`, `BUSY`, `MASTERDOWN`, `CLUSTERDOWN`, `TRYAGAIN`, or it has too many clients.
    #[error("{name:?}: the server refuses for now: {detail}; nothing took effect")]
    #[non_exhaustive]
    RefusedForNow {
        /// The object, or the server's address at the first connect.
        name: String,
        /// The server's words.
        detail: String,
    },

    /// The server refused the call for another reason. Nothing took effect.
    #[error("{name:?}: the server answered {detail:?}; nothing took effect")]
    #[non_exhaustive]
    Server {
        /// The object.
        name: String,
        /// The server's words.
        detail: String,
    },

    /// No connection, or nothing sent, for as long as the retry window or the
    /// [call timeout](crate::ClientBuilder::call_timeout) lasts (at the first connect: the connect time-out). Nothing took
    /// effect, and nothing will. Of a call that only reads: no answer came. A release never ends so: it is carried out later.
    #[error(
        "{name:?}: the server could not be reached within {waited:?} ({detail}); nothing took effect"
    )]
    #[non_exhaustive]
    Unavailable {
        /// The object, or the server's address at the first connect.
        name: String,
        /// How long it was tried.
        waited: Duration,
        /// The last failure seen.
        detail: String,
    },

    /// The call was sent, but no answer came for as long as the retry window or the
    /// [call timeout](crate::ClientBuilder::call_timeout) lasts. Or it is a release, an unlock or a count-down that could not be
    /// sent, or was refused for now: it is carried out later. If it is forbidden by then, the log says so.
    ///
    /// It may have taken effect, or may still do so when the server comes back. The crate goes on asking, for
    /// five minutes from the first sending (or two retry windows): an acquisition that turns out to have happened is given
    /// back, a release is carried out.
    #[error(
        "{name:?}: {operation} was not confirmed within {waited:?} ({detail}); it may have taken effect, or will"
    )]
    #[non_exhaustive]
    OutcomeUnknown {
        /// The object.
        name: String,
        /// The operation of the call.
        operation: &'static str,
        /// How long it was tried.
        waited: Duration,
        /// The last failure seen.
        detail: String,
    },

    /// [`Client::shutdown`](crate::Client::shutdown) ended before all calls were answered. The requests that were left, such as the
    /// releases of dropped guards, may or may not have been carried out.
    #[error(
        "shutdown: {left} requests were not answered within {waited:?}; they may have taken effect"
    )]
    #[non_exhaustive]
    Unfinished {
        /// How many requests, or objects with such requests, were left.
        left: usize,
        /// How long it was tried.
        waited: Duration,
    },

    /// The client has been shut down. Nothing took effect.
    #[error("{name:?}: the client has been shut down; nothing took effect")]
    #[non_exhaustive]
    ShutDown {
        /// The object.
        name: String,
    },

    /// The tokio runtime in which the client was made has ended, and the client with it. Nothing took effect.
    ///
    /// A client in a `static` that several `#[tokio::test]` share ends with the first of them. Make a client for each runtime, or give
    /// the client a runtime that stays: [`ClientBuilder::runtime`](crate::ClientBuilder::runtime).
    ///
    /// A thread that waits in [`Handle::block_on`](tokio::runtime::Handle::block_on) of the runtime that ends may panic instead, as with
    /// each timer of tokio's.
    #[error(
        "{name:?}: the runtime in which the client was made has ended; make a client for each runtime, or give the client a runtime that \
         stays (ClientBuilder::runtime); nothing took effect"
    )]
    #[non_exhaustive]
    RuntimeEnded {
        /// The object, or the server's address.
        name: String,
    },
}

impl Error {
    /// The effect that the failed call may have had.
    #[must_use]
    pub fn effect(&self) -> Effect {
        match self {
            Error::OutcomeUnknown { .. } | Error::Unfinished { .. } => Effect::Unknown,
            _ => Effect::NotApplied,
        }
    }

    /// Whether the same call may be made again, as nothing took effect, and may succeed then, as the reason may pass:
    /// [`Unavailable`](Error::Unavailable) and [`RefusedForNow`](Error::RefusedForNow).
    ///
    /// The call has been tried again and again already, for as long as it was given: give Redis a break before.
    /// [`OutcomeUnknown`](Error::OutcomeUnknown) is not among them: see [`Effect::Unknown`].
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Error::Unavailable { .. } | Error::RefusedForNow { .. }
        )
    }

    /// Whether it is Redis that could not be reached, did not answer, or refused for now, and neither the call nor the
    /// object is at fault: what a service answers with "503" or goes without a limit for.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        self.is_retryable()
            || matches!(
                self,
                Error::OutcomeUnknown { .. } | Error::Unfinished { .. }
            )
    }

    /// Whether an argument or a setting was wrong, whatever Redis holds. Nothing was sent, and it will fail again.
    #[must_use]
    pub fn is_invalid_argument(&self) -> bool {
        matches!(
            self,
            Error::InvalidPermits { .. }
                | Error::TooManyAtOnce { .. }
                | Error::InvalidLimit { .. }
                | Error::InvalidName { .. }
                | Error::InvalidDuration { .. }
                | Error::Configuration { .. }
        )
    }

    /// The object that it is about, as it was named in the code; the server's address where connecting has failed; `None`
    /// where it is about the client.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Error::InvalidPermits { name, .. }
            | Error::TooManyAtOnce { name, .. }
            | Error::InvalidPermitId { name, .. }
            | Error::PermitNotHeld { name, .. }
            | Error::InvalidLimit { name, .. }
            | Error::WrongUnits { name, .. }
            | Error::InvalidName { name, .. }
            | Error::InvalidDuration { name, .. }
            | Error::WrongType { name, .. }
            | Error::NotANumber { name, .. }
            | Error::OutOfRange { name, .. }
            | Error::NotHeld { name, .. }
            | Error::NoSuchObject { name, .. }
            | Error::PermissionDenied { name, .. }
            | Error::Authentication { name, .. }
            | Error::Tls { name, .. }
            | Error::RefusedForNow { name, .. }
            | Error::Server { name, .. }
            | Error::Unavailable { name, .. }
            | Error::OutcomeUnknown { name, .. }
            | Error::ShutDown { name, .. }
            | Error::RuntimeEnded { name, .. } => Some(name),
            Error::Configuration { .. } | Error::Unfinished { .. } => None,
        }
    }
}

/// Errors to make: for tests of code that handles them (see [`memory`](crate::memory)), and for tools on top of this crate.
impl Error {
    /// [`Unavailable`](Error::Unavailable), after no time.
    #[must_use]
    pub fn unavailable(name: impl Into<String>, detail: impl Into<String>) -> Self {
        Error::Unavailable {
            name: name.into(),
            waited: Duration::ZERO,
            detail: detail.into(),
        }
    }

    /// [`OutcomeUnknown`](Error::OutcomeUnknown), after no time.
    #[must_use]
    pub fn outcome_unknown(
        name: impl Into<String>,
        operation: &'static str,
        detail: impl Into<String>,
    ) -> Self {
        Error::OutcomeUnknown {
            name: name.into(),
            operation,
            waited: Duration::ZERO,
            detail: detail.into(),
        }
    }

    /// [`Server`](Error::Server).
    #[must_use]
    pub fn server(name: impl Into<String>, detail: impl Into<String>) -> Self {
        Error::Server {
            name: name.into(),
            detail: detail.into(),
        }
    }
}

/// The result of the calls of this crate.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_do_about_an_error() {
        let name = || "seats".to_owned();
        let refused = Error::RefusedForNow {
            name: name(),
            detail: "LOADING".to_owned(),
        };
        let invalid = Error::InvalidPermits {
            name: name(),
            permits: u32::MAX,
        };
        let configuration = Error::Configuration {
            reason: String::new(),
        };
        let unfinished = Error::Unfinished {
            left: 1,
            waited: Duration::ZERO,
        };
        // Which may be called again, for which Redis is at fault, for which the caller.
        for (error, answers) in [
            (Error::unavailable("seats", "away"), [true, true, false]),
            (refused, [true, true, false]),
            (
                Error::outcome_unknown("seats", "release", "silent"),
                [false, true, false],
            ),
            (unfinished, [false, true, false]),
            (invalid, [false, false, true]),
            (configuration, [false, false, true]),
            (Error::server("seats", "ERR"), [false, false, false]),
            (Error::ShutDown { name: name() }, [false, false, false]),
            (Error::RuntimeEnded { name: name() }, [false, false, false]),
        ] {
            let told = [
                error.is_retryable(),
                error.is_unavailable(),
                error.is_invalid_argument(),
            ];
            assert_eq!(told, answers, "{error}");
            assert!(!error.is_retryable() || error.effect() == Effect::NotApplied);
            assert!(error.name().is_none_or(|name| name == "seats"), "{error}");
        }
    }
}
