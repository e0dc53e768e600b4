//! [`RemainingTtl`].

use std::time::Duration;

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
