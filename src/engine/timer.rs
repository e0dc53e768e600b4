//! The one timer of an object: the deadlines of all waiters, and the next check.
//!
//! Its task is there as long as a caller waits. When its runtime ends, the task is dropped and ends the waits.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::engine::drive::Rounds;

/// Where nothing is due it sleeps for so long.
const IDLE: Duration = Duration::from_secs(3600);

/// The owner of a timer.
pub(crate) trait Rings: Rounds {
    /// Time has passed: until when the timer [sleeps](Timer::next) from now on.
    fn ring(&self) -> Option<Instant>;
}

/// The state of the sleeping task.
#[derive(Default)]
pub(crate) struct Timer {
    /// Until when it sleeps; `None` while there is no task.
    until: Option<Instant>,
    /// Something comes earlier than that.
    earlier: Arc<Notify>,
}

impl Timer {
    /// Makes sure that `alarm` is not missed, nor the end of the runtime while a caller `waits`; the caller spawns what is
    /// returned.
    pub(crate) fn set<L: Rings>(
        &mut self,
        alarm: Option<Instant>,
        waits: bool,
        object: &Weak<L>,
    ) -> Option<impl Future<Output = ()> + Send + 'static> {
        let alarm = match alarm {
            None if waits && self.until.is_none() => Instant::now() + IDLE,
            alarm => alarm?,
        };
        match self.until {
            None => {
                self.until = Some(alarm);
                let task = Sleeper {
                    object: Weak::clone(object),
                    done: false,
                };
                return Some(task.sleep(Arc::clone(&self.earlier), alarm));
            }
            Some(until) if alarm < until => {
                self.until = Some(alarm);
                self.earlier.notify_one();
            }
            Some(_) => {}
        }
        None
    }

    /// The object has gone: the task need not sleep any longer.
    pub(crate) fn end(&self) {
        self.earlier.notify_one();
    }

    /// Until when the task sleeps from now on, with this `alarm`, and as a caller `waits` or not; it ends where there is nothing to
    /// wait for.
    pub(crate) fn next(&mut self, alarm: Option<Instant>, waits: bool) -> Option<Instant> {
        self.until = alarm.or_else(|| waits.then(|| Instant::now() + IDLE));
        self.until
    }
}

/// The task. Dropped before its end, with its runtime, it ends all waits.
struct Sleeper<L: Rings> {
    object: Weak<L>,
    done: bool,
}

impl<L: Rings> Sleeper<L> {
    async fn sleep(mut self, earlier: Arc<Notify>, until: Instant) {
        let mut until = until;
        loop {
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(until) => {}
                () = earlier.notified() => {}
            }
            let Some(object) = self.object.upgrade() else {
                break;
            };
            match object.ring() {
                Some(next) => until = next,
                None => break,
            }
        }
        self.done = true;
    }
}

impl<L: Rings> Drop for Sleeper<L> {
    fn drop(&mut self) {
        if !self.done
            && let Some(object) = self.object.upgrade()
        {
            object.abandon();
        }
    }
}
