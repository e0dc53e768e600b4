//! How `rsem` ends: what it says, and with which status.

use redisson_semaphore::Error;

/// The permits were not free in time, or an answer was no. (`EX_TEMPFAIL`; `run -E` picks another for `run`.)
pub(crate) const NOT_IN_TIME: u8 = 75;
/// Redis can't be reached, does not answer, or refuses for now. (`EX_UNAVAILABLE`)
pub(crate) const REDIS_AWAY: u8 = 69;
/// The lock or the permits were lost while the command ran, and the command was ended. (`EX_PROTOCOL`)
pub(crate) const LOST: u8 = 76;
/// The server does not let this user in, or do this. (`EX_NOPERM`)
pub(crate) const DENIED: u8 = 77;
/// The arguments can't be used. (`EX_USAGE`)
pub(crate) const USAGE: u8 = 64;
/// The value in Redis is not as the arguments say, or would not be. (`EX_DATAERR`)
pub(crate) const DATA: u8 = 65;
/// Anything else. (`EX_SOFTWARE`)
pub(crate) const FAILED: u8 = 70;
/// Something was found, or was not done because the user said no.
pub(crate) const NO: u8 = 1;
/// The command was found but can't be run; as shells have it.
pub(crate) const NOT_RUNNABLE: u8 = 126;
/// The command was not found; as shells have it.
pub(crate) const NOT_FOUND: u8 = 127;

/// As a shell says of a program that a signal has ended.
pub(crate) fn of_signal(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// For the help and the manual.
pub(crate) const TABLE: &str = "\
Exit status:
  0        all went well
  1        the answer was no; `doctor`: something is wrong
  64       the arguments can't be used
  65       what stands in Redis is of another kind, or the result would not fit
  69       Redis can't be reached, does not answer, or refuses for now
  70       another failure
  75       `run`: no permit, or lock, in time (another one with -E)
  76       `run`: the lock or the permits were lost while the command ran, and it was ended
  77       the server does not let the user in, or do this
  126, 127 `run`: the command can't be run, or was not found
  128+n    signal n ended `rsem`, or the command that it ran
  `run` hands the command's own status on otherwise.";

/// Why it ends early.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: u8,
    pub(crate) reason: String,
}

impl Failure {
    pub(crate) fn new(status: u8, reason: impl Into<String>) -> Self {
        Failure {
            status,
            reason: reason.into(),
        }
    }

    pub(crate) fn usage(reason: impl Into<String>) -> Self {
        Failure::new(USAGE, reason)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = match &error {
            error if error.is_unavailable() => REDIS_AWAY,
            error if error.is_invalid_argument() => USAGE,
            Error::Tls { .. } => REDIS_AWAY,
            Error::Authentication { .. } | Error::PermissionDenied { .. } => DENIED,
            Error::WrongType { .. } | Error::NotANumber { .. } | Error::OutOfRange { .. } => DATA,
            _ => FAILED,
        };
        Failure::new(status, error.to_string())
    }
}
