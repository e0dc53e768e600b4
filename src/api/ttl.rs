//! Times to live: how long one may be, and [`RemainingTtl`].

use std::time::Duration;

use crate::error::{Error, Result};

/// The longest time to live, in milliseconds: exact in a Lua number, and below what Redis can add to its clock.
pub(crate) const LONGEST_MILLIS: i64 = 1 << 53;

/// How long an object goes on existing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RemainingTtl {
    /// It does not exist (Redisson: -2).
    Missing,
    /// It has no expiry (Redisson: -1).
    Persistent,
    /// It vanishes after this time.
    Expires(Duration),
}

/// `time` in the milliseconds that Redis counts in; `what` it is for the object called `name`.
pub(crate) fn check_millis(name: &str, what: &'static str, time: Duration) -> Result<i64> {
    let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    let reason = if millis == 0 {
        "it is shorter than a millisecond"
    } else if millis > LONGEST_MILLIS {
        "it is longer than Redis can count"
    } else {
        return Ok(millis);
    };
    Err(Error::InvalidDuration {
        name: name.to_owned(),
        what,
        value: time,
        reason,
    })
}
