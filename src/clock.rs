//! [`Moment`]: a point in time that a server counts by, too, whose clock goes on while this machine is suspended.

use std::ops::Add;
use std::time::Duration;

use tokio::time::Instant;

use crate::outside;

/// A point in time by two clocks: the one of timers, and one that counts a suspension. It has come as soon as either
/// says so.
///
/// On Linux and Android the second one counts since the system was booted; elsewhere it is the wall clock, and one that
/// was set back says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    timer: Instant,
    /// Since the system was booted, or since 1970.
    real: Option<Duration>,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Moment {
            // First the one that may be behind.
            real: real(),
            timer: Instant::now(),
        }
    }

    /// By the clock of timers.
    pub(crate) fn timer(self) -> Instant {
        self.timer
    }

    /// How long ago it was, by the clock that says more: what lives in a server for a time may be gone by then.
    pub(crate) fn age(self) -> Duration {
        let by_timer = self.timer.elapsed();
        match (self.real, real()) {
            (Some(then), Some(now)) => by_timer.max(now.saturating_sub(then)),
            _ => by_timer,
        }
    }

    /// Nothing where it is later than the clocks go.
    pub(crate) fn checked_add(self, time: Duration) -> Option<Self> {
        Some(Moment {
            timer: self.timer.checked_add(time)?,
            real: self.real.map(|real| real.saturating_add(time)),
        })
    }

    /// How long it is until then.
    pub(crate) fn remaining(self) -> Duration {
        let left = self.timer.saturating_duration_since(Instant::now());
        match (self.real, real()) {
            (Some(real), Some(now)) => left.min(real.saturating_sub(now)),
            _ => left,
        }
    }

    pub(crate) fn has_come(self) -> bool {
        self.remaining().is_zero()
    }

    /// For how long a timer may sleep until it has to look whether it has come.
    pub(crate) fn nap(self) -> Duration {
        match self.real {
            Some(_) => self.remaining().min(LONGEST_NAP),
            None => self.remaining(),
        }
    }

    pub(crate) fn earlier(self, other: Moment) -> Moment {
        Moment {
            timer: self.timer.min(other.timer),
            real: self.real.zip(other.real).map(|(one, two)| one.min(two)),
        }
    }

    pub(crate) fn later(self, other: Moment) -> Moment {
        Moment {
            timer: self.timer.max(other.timer),
            real: self.real.zip(other.real).map(|(one, two)| one.max(two)),
        }
    }
}

/// A suspension ends without a word; timers go on as if there had been none.
const LONGEST_NAP: Duration = Duration::from_secs(1);

/// By the clock of timers alone: for what is held in this process.
impl From<Instant> for Moment {
    fn from(timer: Instant) -> Self {
        Moment { timer, real: None }
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;

    fn add(self, time: Duration) -> Moment {
        Moment {
            timer: self.timer + time,
            real: self.real.map(|real| real.saturating_add(time)),
        }
    }
}

fn real() -> Option<Duration> {
    outside::since_boot().unwrap_or_else(since_boot)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn since_boot() -> Option<Duration> {
    use rustix::time::{DynamicClockId, clock_gettime_dynamic};

    // A sandbox may not have it.
    Duration::try_from(clock_gettime_dynamic(DynamicClockId::Boottime).ok()?).ok()
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn since_boot() -> Option<Duration> {
    use std::time::SystemTime;

    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Moment {
        /// As if the machine had been suspended for `time` since this was noted.
        pub(crate) fn after_suspension(self, time: Duration) -> Moment {
            Moment {
                real: self.real.map(|real| real.saturating_sub(time)),
                ..self
            }
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_suspension_counts() {
        let then = Moment::now() + 10 * SECOND;
        assert!(!then.has_come() && then.nap() <= SECOND);
        assert!(then.remaining() > 9 * SECOND && then.remaining() <= 10 * SECOND);
        if cfg!(target_os = "linux") {
            assert!(
                (Moment::now() + Duration::ZERO)
                    .after_suspension(7 * SECOND)
                    .age()
                    >= 7 * SECOND
            );
            let then = then.after_suspension(7 * SECOND);
            assert!(then.remaining() > 2 * SECOND && then.remaining() <= 3 * SECOND);
            assert!(then.after_suspension(3 * SECOND).has_come());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn so_does_the_time_of_timers() {
        for then in [Moment::now() + SECOND, (Instant::now() + SECOND).into()] {
            tokio::time::sleep(SECOND).await;
            assert!(then.has_come());
        }
        let then: Moment = (Instant::now() + 10 * SECOND).into();
        assert_eq!(then.nap(), 10 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn the_earlier_and_the_later_one() {
        let now = Moment::now();
        let (one, two) = (now + SECOND, now + 2 * SECOND);
        assert_eq!((one.earlier(two), two.earlier(one)), (one, one));
        assert_eq!((one.later(two), two.later(one)), (two, two));
    }
}
