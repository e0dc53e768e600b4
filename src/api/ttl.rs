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

/// `time` in the milliseconds that Redis counts in, rounded up: what lasts so long here must not end earlier there.
pub(crate) fn whole_millis(time: Duration) -> i64 {
    let millis = time.as_nanos().div_ceil(1_000_000);
    i64::try_from(millis).unwrap_or(i64::MAX)
}

/// `time` in the milliseconds that Redis counts in; `what` it is for the object called `name`.
pub(crate) fn check_millis(name: &str, what: &'static str, time: Duration) -> Result<i64> {
    let millis = whole_millis(time);
    let reason = if time < Duration::from_millis(1) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_rounded_up() {
        let millis = |micros| whole_millis(Duration::from_micros(micros));
        assert_eq!([millis(0), millis(1), millis(1000)], [0, 1, 1]);
        assert_eq!([millis(1001), millis(1999), millis(2000)], [2, 2, 2]);
        assert_eq!(whole_millis(Duration::from_nanos(1)), 1);
        assert_eq!(whole_millis(Duration::MAX), i64::MAX);
    }
}
