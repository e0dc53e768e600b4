//! When those who wait look again: told that it is their turn, or by the clock.
//!
//! Only the first of all clients in line looks at the pace of the setting and when a holder expires, as nobody tells what
//! other programs release. The others are told when it is their turn; they look now and then all the same, the more of
//! them there are the more seldom each, so that somebody looks some fifty times a second.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::{Line, State, tell_all};
use crate::engine::drive;
use crate::engine::wakeups::{Listener, Wake};
use crate::transport::jittered;

/// All who wait together look once in this time.
const PACE_OF_ALL: Duration = Duration::from_millis(20);
/// Who is told no more than that it is the first looks at once, unless it looks within this time anyway.
const SOON: Duration = Duration::from_millis(250);
/// What a client is told that has become the first in line, in `lua/recipes/line.lua`.
const FIRST: &[u8] = b"first";
/// How long others wait for a client that has been told that it is its turn, besides its round trips; for one that does
/// not listen yet; and at the most.
const LEAST_PATIENCE: Duration = Duration::from_millis(20);
const MOST_PATIENCE: Duration = Duration::from_millis(250);

/// Where this client stands in the line of all clients, as far as is known.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(in crate::recipes) struct Rank {
    /// So many stand before it.
    pub(in crate::recipes) before: u32,
    /// So many stand in line.
    pub(in crate::recipes) of: u32,
}

impl Rank {
    /// One that dies takes nobody's place for long.
    fn is_near(self) -> bool {
        self.before <= 1
    }
}

/// When something is to be done without a word from anybody.
#[derive(Debug, Default)]
pub(super) struct Alarm {
    /// When those who wait look next.
    pub(super) look: Option<Instant>,
    /// When it is to be seen whether those come who have been told that it is their turn.
    pub(super) tend: Option<Instant>,
    /// When a timer ends.
    timer: Option<Instant>,
}

impl Line {
    /// When to look next if nothing is heard.
    pub(super) fn usual_look(&self, state: &State) -> Instant {
        let check = self.settings.check_interval;
        if state.rank.is_near() {
            let check = Instant::now() + jittered(check, 0.75, 1.0);
            return state.ends.first().map_or(check, |end| end.min(check));
        }
        let check = check.min(self.core.config.safety_interval);
        Instant::now() + jittered(check.max(PACE_OF_ALL * state.rank.of), 0.75, 1.0)
    }

    /// How long the others are to wait for this client when it has been told that it is its turn.
    pub(super) fn patience(state: &State) -> Duration {
        match state.listening.is_confirmed() {
            true => MOST_PATIENCE.min(LEAST_PATIENCE + 2 * state.round_trip),
            false => MOST_PATIENCE,
        }
    }

    /// Sees to it that a timer ends when something is to be done.
    pub(super) fn set_timer(&self, state: &mut State) {
        let Some(instant) = state.alarm.look.into_iter().chain(state.alarm.tend).min() else {
            return;
        };
        if state.alarm.timer.is_some_and(|timer| timer <= instant) {
            return;
        }
        state.alarm.timer = Some(instant);
        let line = self.itself.clone();
        self.core.runtime.spawn(async move {
            tokio::time::sleep_until(instant).await;
            if let Some(line) = line.upgrade() {
                line.ring(instant);
            }
        });
    }

    fn ring(self: Arc<Self>, timer: Instant) {
        {
            let mut state = self.lock();
            // One that was to end later may have been overtaken by this one's successor.
            if state.alarm.timer != Some(timer) || state.closed {
                return;
            }
            state.alarm.timer = None;
            let has_come = |instant: &mut Instant| *instant <= timer;
            state.look |= state.alarm.look.take_if(has_come).is_some();
            state.tend |= state.alarm.tend.take_if(has_come).is_some();
            if state.alarm.look.is_none() {
                state.alarm.look = state.lock_held_until();
            }
            self.set_timer(&mut state);
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

    /// Whether `wake`, which has been heard, is a reason to look now.
    fn is_reason(&self, state: &mut State, wake: &Wake) -> bool {
        match wake {
            // Behind what has been told stands the pace.
            Wake::Look => state.rank.is_near(),
            Wake::Message(word) if word == FIRST && self.settings.check_interval <= SOON => {
                state.rank.before = 0;
                let usual = self.usual_look(state);
                let look = state.alarm.look.get_or_insert(usual);
                *look = usual.min(*look);
                self.set_timer(state);
                false
            }
            _ => true,
        }
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
        if look && !state.waiters.is_empty() && self.is_reason(&mut state, wake) {
            state.look = true;
            self.note_busy(&mut state);
            drop(state);
            drive::kick(&line);
        }
    }
}
