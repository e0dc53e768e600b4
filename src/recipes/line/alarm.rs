//! When those who wait look again: woken on the channel, or by the clock.

use std::sync::Weak;

use tokio::time::Instant;

use super::{Line, State, tell_all};
use crate::engine::drive;
use crate::engine::wakeups::{Listener, Wake};
use crate::transport::jittered;

impl Line {
    /// When to look next if nothing is heard: at the setting's pace, and when the first holder expires.
    pub(super) fn usual_look(&self, first_end: Option<Instant>) -> Instant {
        let check = Instant::now() + jittered(self.settings.check_interval, 0.75, 1.0);
        first_end.map_or(check, |end| end.min(check))
    }

    /// Looks at `instant`, or earlier if that is intended already.
    pub(super) fn set_alarm(&self, state: &mut State, instant: Instant) {
        if state.alarm.is_some_and(|alarm| alarm <= instant) {
            return;
        }
        state.alarm = Some(instant);
        let line = self.itself.clone();
        self.core.runtime.spawn(async move {
            tokio::time::sleep_until(instant).await;
            if let Some(line) = line.upgrade() {
                line.ring(instant);
            }
        });
    }

    fn ring(self: std::sync::Arc<Self>, instant: Instant) {
        {
            let mut state = self.lock();
            // One that was to ring later may have been overtaken by this one's successor.
            if state.alarm != Some(instant) {
                return;
            }
            state.alarm = None;
            state.look = true;
            if let Some(free) = state.lock_held_until() {
                self.set_alarm(&mut state, free);
            }
        }
        drive::kick(&self);
    }

    /// With waiters left, the channel must be heard; `confirmed` says whether it was heard already when they asked
    /// last.
    pub(super) fn listen_if_needed(&self, state: &mut State, confirmed: bool) {
        self.leave_if_unneeded(state);
        if state.waiters.somebody_was_answered() {
            let missed = state.listening.begin(
                &self.core.wakeups,
                &self.names.channel,
                &self.listener(),
                confirmed,
            );
            state.look |= missed;
        }
    }

    pub(super) fn leave_if_unneeded(&self, state: &mut State) {
        if state.waiters.is_empty() {
            state.ends.forget();
            state
                .listening
                .end(&self.core.wakeups, &self.names.channel, &self.listener());
        }
    }

    fn listener(&self) -> Weak<dyn Listener> {
        self.itself.clone()
    }
}

impl Listener for Line {
    fn wake(&self, _channel: &str, wake: &Wake) {
        let Some(line) = self.itself.upgrade() else {
            return;
        };
        let mut state = self.lock();
        let look = state.listening.hear(wake);
        if let Wake::Refused(refusal) = wake {
            let waiters = state.waiters.take_answered();
            drop(state);
            tell_all(waiters, &self.refused(refusal));
            drive::kick(&line);
            return;
        }
        if look && !state.waiters.is_empty() {
            state.look = true;
            self.note_busy(&mut state);
            drop(state);
            drive::kick(&line);
        }
    }
}
