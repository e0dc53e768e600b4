//! [`Units`].

/// The unit of the times in a zset. All programs that share a semaphore must agree on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Units {
    /// Seconds with fractions, as Python's `time.time()` gives them.
    Seconds,
    /// Whole milliseconds, as Java's `System.currentTimeMillis()` gives them. The default.
    #[default]
    Millis,
}
