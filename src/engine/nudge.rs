//! Further calls for waiters that an announcement has left asleep.
//!
//! Redisson's waiters do not pass a wake-up on: a message may wake only a thread that wants five permits
//! where one is free, and the thread behind it that wants one stays parked; and it starts one async waiter of a JVM,
//! however many permits there are. Those who were started in vain go to the end of their JVM's line, so the next
//! call reaches others.
//!
//! A series of nudges begins with a release that leaves permits while others listen. What counts is whether permits
//! are taken: as long as they are, twice as many waiters as took some are started, soon. A few nudges that have helped
//! nobody end the series, but for some late looks, for a JVM that was not awake or not connected; then only the next
//! release begins a new one. A JVM carries out two scripts at the most for each waiter that is started in vain.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::time::Instant;

use super::command::Commands;
use super::line::Line;
use super::request::{Arg, Request, Script};
use crate::transport::{Failure, Value, jittered};

static NUDGE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../../lua/semaphore/nudge.lua")));

/// As long as nobody takes anything: how long to wait, and how many waiters each client is to start then. The first
/// pause is long enough for those who were woken to take what is free.
const STEPS: [(Duration, u32); 6] = [
    (Duration::from_millis(20), 1),
    (Duration::from_millis(40), 2),
    (Duration::from_millis(80), 4),
    (Duration::from_millis(160), 8),
    (Duration::from_millis(320), 16),
    (Duration::from_millis(640), 0),
];
/// What follows them: looks whether permits have been taken since, or more clients listen.
pub(super) const LATE: [Duration; 3] = [
    Duration::from_secs(2),
    Duration::from_secs(8),
    Duration::from_secs(30),
];
/// A nudge starts this many waiters of a client at the most.
const MOST: u32 = 256;
/// While one release follows another, nudges keep this distance.
const DISTANCE: Duration = Duration::from_millis(200);

/// Nudges from now on until no permits are left, nobody but this client listens, or it is of no use.
pub(crate) fn start(line: &Arc<Line>, series: Series) {
    line.core().runtime.spawn(nudge(Arc::clone(line), series));
}

/// The last handle may be gone already; those left asleep are woken all the same.
async fn nudge(line: Arc<Line>, mut series: Series) {
    let mut last: Option<Instant> = None;
    loop {
        let pause = tokio::time::timeout(series.pause(), line.has_left_more());
        if pause.await.is_ok() {
            // There may be enough for somebody else now.
            series = Series::default();
            let due = Instant::now() + series.pause();
            tokio::time::sleep_until(last.map_or(due, |last| due.max(last + DISTANCE))).await;
        }
        let Some(left) = line.nudge_begins() else {
            return;
        };
        let request = request(&line, &series, &left);
        last = Some(Instant::now());
        let seen = match line.core().try_once(&request).await {
            Ok(value) => Seen::read(&value),
            Err(Failure::Refused(refusal)) if refusal.is_final(false) => Some(Seen::NOTHING),
            Err(_) => None,
        };
        let goes_on = match &seen {
            Some(seen) => series.goes_on(left.permits, seen),
            // That says nothing: the next one will.
            None => series.next_step(),
        };
        if line.nudge_has_ended(&left, seen, goes_on) {
            return;
        }
    }
}

fn request(line: &Line, series: &Series, left: &Left) -> Request {
    let keys = line.keys();
    Request::script(
        &NUDGE,
        vec![Arc::clone(keys.object()), Arc::clone(keys.channel())],
        vec![
            Arg::Word("PUBLISH"),
            Arg::Number(left.permits.unwrap_or(-1)),
            Arg::Number(series.starts().into()),
            Arg::Number(MOST.into()),
            Arg::Number(left.own.cast_signed()),
            Arg::Number(left.unannounced.into()),
        ],
    )
}

/// What a line has left to others, and whether there is a series for it.
#[derive(Debug, Default)]
pub(crate) struct Leavings {
    under_way: bool,
    times: u64,
    permits: Option<i64>,
    unannounced: bool,
}

/// The same when a nudge begins.
pub(crate) struct Left {
    /// How many permits were left the last time that was seen.
    permits: Option<i64>,
    /// No message has told of them.
    unannounced: bool,
    /// How often some have been left so far.
    times: u64,
    /// How many of the channel's listeners are this client itself.
    own: u64,
}

impl Leavings {
    /// Some have been left, and it may be known how many, and no message may have told of them. Whether a series is to
    /// be started; else the one that is under way is to be told.
    pub(crate) fn leave(&mut self, permits: Option<i64>, unannounced: bool) -> bool {
        self.times += 1;
        self.permits = permits;
        self.unannounced |= unannounced;
        !std::mem::replace(&mut self.under_way, true)
    }

    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way
    }

    /// A nudge begins.
    pub(crate) fn begin(&self, own: u64) -> Left {
        Left {
            permits: self.permits,
            unannounced: self.unannounced,
            times: self.times,
            own,
        }
    }

    /// The nudge that began with `left` has `seen` this, if it was answered. Whether the series ends: some may have
    /// been left meanwhile.
    pub(crate) fn end(&mut self, left: &Left, seen: Option<&Seen>, goes_on: bool) -> bool {
        if self.times == left.times {
            if let Some(seen) = seen {
                self.permits = Some(seen.permits);
                self.unannounced = false;
            }
            self.under_way = goes_on;
        }
        !self.under_way
    }

    /// There is nothing left to be nudged for.
    pub(crate) fn clear(&mut self) {
        self.under_way = false;
    }
}

/// What a nudge has seen.
pub(crate) struct Seen {
    pub(crate) permits: i64,
    pub(crate) others: u64,
}

impl Seen {
    const NOTHING: Seen = Seen {
        permits: 0,
        others: 0,
    };

    fn read(value: &Value) -> Option<Seen> {
        match value {
            Value::Array(numbers) => match numbers[..] {
                [Value::Int(permits), Value::Int(others)] => Some(Seen {
                    permits,
                    others: u64::try_from(others).ok()?,
                }),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Where a series stands.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Series {
    step: usize,
    /// How many others have heard it so far.
    others: u64,
}

impl Series {
    /// A short one: most who listen by now have come later, and have looked themselves.
    pub(crate) fn short() -> Self {
        Series {
            step: STEPS.len() - 2,
            others: 0,
        }
    }

    fn pause(&self) -> Duration {
        let pause = match STEPS.get(self.step) {
            Some((pause, _)) => *pause,
            None => LATE[self.step - STEPS.len()],
        };
        jittered(pause, 0.5, 1.0)
    }

    fn starts(&self) -> u32 {
        STEPS.get(self.step).map_or(0, |(_, starts)| *starts)
    }

    fn next_step(&mut self) -> bool {
        self.step += 1;
        self.step < STEPS.len() + LATE.len()
    }

    /// What follows the nudge that has `seen` so much; `before` it so many permits were left.
    fn goes_on(&mut self, before: Option<i64>, seen: &Seen) -> bool {
        if seen.permits < 1 || seen.others < 1 {
            return false;
        }
        let taken = before.is_some_and(|before| seen.permits < before);
        let more_listen = self.step >= STEPS.len() && seen.others > self.others;
        self.others = seen.others;
        if taken || more_listen {
            self.step = 0;
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
        assert_eq!(in_vain(Series::default(), 2), 31);
    }

    #[test]
    fn as_long_as_permits_are_taken_it_goes_on_soon() {
        let mut series = Series::default();
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
