//! When the nudges of a series come, how many waiters each is to start, and when it is enough.

use std::time::Duration;

use super::Seen;
use crate::engine::unheard::LATE;
use crate::transport::jittered;

/// As long as nobody takes anything: how long to wait, and how many waiters each client is to start then. The first
/// pause is long enough for those who were woken to take what is free.
pub(super) const STEPS: [(Duration, u32); 6] = [
    (Duration::from_millis(20), 1),
    (Duration::from_millis(40), 2),
    (Duration::from_millis(80), 4),
    (Duration::from_millis(160), 8),
    (Duration::from_millis(320), 16),
    LAST,
];
/// Where so many permits were of no use to anybody a moment ago.
pub(super) const FEW_STEPS: [(Duration, u32); 3] = [STEPS[0], STEPS[1], LAST];
/// Where nobody listened when permits were announced: most who listen by now have come later, and have looked.
const ONE_STEP: [(Duration, u32); 2] = [STEPS[4], LAST];
const LAST: (Duration, u32) = (Duration::from_millis(640), 0);
/// A series, and where it stands. Behind its steps come [late](LATE) ones: each starts as many waiters as the largest step did, for
/// clients that were not connected before, and for JVMs so busy that a few of their callers took all calls; and looks whether
/// permits have been taken since, or more clients listen.
#[derive(Debug)]
pub(in super::super) struct Series {
    steps: &'static [(Duration, u32)],
    step: usize,
    /// How many others have heard it so far.
    others: u64,
}

pub(super) enum Stands {
    /// Permits are being taken.
    AtTheBeginning,
    InTheMiddle,
    /// All steps have been in vain, just now.
    AtTheEnd,
}

impl Series {
    pub(super) fn of(steps: &'static [(Duration, u32)]) -> Self {
        Series {
            steps,
            step: 0,
            others: 0,
        }
    }

    /// For permits that nobody heard of when they were announced.
    pub(super) fn of_unheard() -> Self {
        Series::of(&ONE_STEP)
    }

    pub(super) fn pause(&self) -> Duration {
        let late = || LATE[(self.step - self.steps.len()).min(LATE.len() - 1)];
        let step = self.steps.get(self.step);
        jittered(step.map_or_else(late, |(pause, _)| *pause), 0.5, 1.0)
    }

    pub(super) fn starts(&self) -> u32 {
        let starts = |(_, starts): &(Duration, u32)| *starts;
        let most = || self.steps.iter().map(starts).max().unwrap_or(1);
        self.steps.get(self.step).map_or_else(most, starts)
    }

    pub(super) fn stands_at(&self) -> Stands {
        if self.step == 0 {
            Stands::AtTheBeginning
        } else if self.step == STEPS.len() && self.steps.len() == STEPS.len() {
            Stands::AtTheEnd
        } else {
            Stands::InTheMiddle
        }
    }

    pub(super) fn next_step(&mut self) -> bool {
        self.step += 1;
        self.step < self.steps.len() + LATE.len()
    }

    /// What follows the nudge that has `seen` so much; `before` it so many permits were left.
    pub(super) fn goes_on(&mut self, before: Option<i64>, seen: &Seen) -> bool {
        if seen.permits < 1 || seen.others < 1 {
            return false;
        }
        let taken = before.is_some_and(|before| seen.permits < before);
        let more_listen = self.step >= self.steps.len() && seen.others > self.others;
        self.others = seen.others;
        if taken || more_listen {
            (self.steps, self.step) = (&STEPS, 0);
            return true;
        }
        self.next_step()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many waiters a client is asked to start before the series ends, where nothing helps.
    fn in_vain(mut series: Series, others: u64) -> u32 {
        let mut started = 0;
        loop {
            started += series.starts();
            let seen = Seen { permits: 3, others };
            if !series.goes_on(Some(3), &seen) {
                return started;
            }
        }
    }

    #[test]
    fn what_helps_nobody_ends() {
        assert_eq!(in_vain(Series::of(&STEPS), 2), 31 + 3 * 16);
        assert_eq!(in_vain(Series::of(&FEW_STEPS), 2), 3 + 3 * 2);
    }

    #[test]
    fn as_long_as_permits_are_taken_it_goes_on_soon() {
        let mut series = Series::of(&STEPS);
        for left in (1..2000).rev() {
            let seen = Seen {
                permits: left,
                others: 1,
            };
            assert!(series.goes_on(Some(left + 1), &seen));
            assert!(series.pause() <= STEPS[0].0);
        }
        assert!(!series.goes_on(Some(1), &Seen::NOTHING));
    }

    #[test]
    fn who_wakes_late_or_comes_back_late_is_started_too() {
        let seen = |permits, others| Seen { permits, others };
        let late = || Series {
            steps: &STEPS,
            step: STEPS.len(),
            others: 1,
        };
        let mut series = late();
        assert!(series.goes_on(Some(3), &seen(3, 1)));
        assert_eq!(series.step, STEPS.len() + 1);
        for seen in [seen(2, 1), seen(3, 2)] {
            let mut series = late();
            assert!(series.goes_on(Some(3), &seen));
            assert_eq!(series.step, 0);
        }
    }
}
