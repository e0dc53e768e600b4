//! Growing, jittered pauses between attempts.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(10);
/// A server that is back must not stay unnoticed for long.
const LONGEST: Duration = Duration::from_millis(500);
/// A connection that stood for so long was no failure.
const STEADY: Duration = Duration::from_millis(100);

/// The pauses of one series of failures: the bound doubles up to the longest, and each pause is between half of
/// its bound and all of it.
#[derive(Debug)]
pub(crate) struct Backoff {
    first: Duration,
    next: Duration,
    longest: Duration,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Self::between(FIRST, LONGEST)
    }

    pub(crate) fn between(first: Duration, longest: Duration) -> Self {
        Backoff {
            first,
            next: first,
            longest,
        }
    }

    /// A connection has ended that stood for so long; whether that ends the series of failures.
    pub(crate) fn note_end(&mut self, stood: Duration) -> bool {
        let steady = stood >= STEADY;
        if steady {
            self.next = self.first;
        }
        steady
    }

    /// The pause to make now.
    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        jittered(pause, 0.5, 1.0)
    }
}

/// `duration` times a random factor between `low` and `high`, so that clients do not act in step.
pub(crate) fn jittered(duration: Duration, low: f64, high: f64) -> Duration {
    duration.mul_f64(low + (high - low) * fastrand::f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_the_longest_and_vary() {
        let mut backoff = Backoff::new();
        let mut pauses: Vec<Duration> = (0..20).map(|_| backoff.next()).collect();
        assert!(pauses[0] >= FIRST / 2 && pauses[0] <= FIRST);
        assert!(
            pauses[10..]
                .iter()
                .all(|p| *p >= LONGEST / 2 && *p <= LONGEST)
        );
        pauses.dedup();
        assert!(pauses.len() > 10, "jitter makes equal pauses unlikely");
    }

    #[test]
    fn pauses_begin_anew_within_their_own_bounds() {
        let (first, longest) = (Duration::from_secs(1), Duration::from_secs(10));
        let mut backoff = Backoff::between(first, longest);
        for _ in 0..2 {
            let pauses: Vec<Duration> = (0..10).map(|_| backoff.next()).collect();
            assert!(pauses[0] >= first / 2 && pauses[0] <= first, "{pauses:?}");
            assert!(pauses[9] >= longest / 2, "{pauses:?}");
            assert!(!backoff.note_end(STEADY / 2));
            assert!(backoff.next() >= longest / 2);
            assert!(backoff.note_end(STEADY));
        }
    }
}
