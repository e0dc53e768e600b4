//! A line's one timer: the deadlines of all who wait, and the next look.

use std::sync::{Arc, Weak};

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::engine::drive::{self, Rounds};

/// Who has a timer.
pub(crate) trait Rings: Rounds {
    /// Time has passed: until when the timer [sleeps](Timer::sleeps) from now on, and whether there is something to carry out.
    fn ring(&self) -> (Option<Instant>, bool);
}

/// What is known of the task that sleeps.
#[derive(Default)]
pub(crate) struct Timer {
    /// Until when it sleeps; `None` while there is no task.
    until: Option<Instant>,
    /// Something comes earlier than that.
    earlier: Arc<Notify>,
}

impl Timer {
    /// Sees to it that `alarm` is not missed; the caller spawns what is returned.
    pub(crate) fn set<L: Rings>(
        &mut self,
        alarm: Option<Instant>,
        line: &Weak<L>,
    ) -> Option<impl Future<Output = ()> + Send + 'static> {
        let alarm = alarm?;
        match self.until {
            None => {
                self.until = Some(alarm);
                let task = Sleeper {
                    line: Weak::clone(line),
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

    /// The line has gone: the task need not sleep any longer.
    pub(crate) fn end(&self) {
        self.earlier.notify_one();
    }

    /// The task sleeps until then; it ends where there is nothing to wait for.
    pub(crate) fn sleeps(&mut self, until: Option<Instant>) {
        self.until = until;
    }
}

/// The task. Dropped before its end, with its runtime, it leaves nobody waiting for a deadline that never comes.
struct Sleeper<L: Rings> {
    line: Weak<L>,
    done: bool,
}

impl<L: Rings> Sleeper<L> {
    async fn sleep(mut self, earlier: Arc<Notify>, until: Instant) {
        let mut until = until;
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(until) => {}
                () = earlier.notified() => {}
            }
            let Some(line) = self.line.upgrade() else {
                break;
            };
            let (next, work) = line.ring();
            if work {
                drive::kick(&line);
            }
            match next {
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
            && let Some(line) = self.line.upgrade()
        {
            line.abandon();
        }
    }
}
