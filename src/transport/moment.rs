//! A point in time by two clocks, where the server's clock goes on whatever happens to this machine.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// A moment that has passed.
///
/// The monotonic clock may stand still while the machine is suspended, and the wall clock may be set. How long ago a
/// moment was is told by the one that says more: what lives in the server for a time may be gone by then.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    monotonic: Instant,
    wall: SystemTime,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Moment {
            monotonic: Instant::now(),
            wall: SystemTime::now(),
        }
    }

    /// How long ago it was.
    pub(crate) fn age(&self) -> Duration {
        self.until(&Self::now())
    }

    fn until(&self, now: &Moment) -> Duration {
        let by_monotonic = now.monotonic.saturating_duration_since(self.monotonic);
        // A wall clock that was set back says nothing.
        let by_wall = now.wall.duration_since(self.wall).unwrap_or_default();
        by_monotonic.max(by_wall)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_that_says_more_counts() {
        let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3600));
        let then = Moment::now();
        let later = |monotonic, wall| Moment {
            monotonic: then.monotonic + monotonic,
            wall,
        };
        assert_eq!(then.until(&later(second, then.wall + second)), second);
        let suspended = later(second, then.wall + hour);
        assert_eq!(then.until(&suspended), hour);
        let set_back = later(second, then.wall - hour);
        assert_eq!(then.until(&set_back), second);
    }
}
