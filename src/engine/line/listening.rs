//! The line's ear on its channel: wanted as long as somebody waits, and what is done about a message.

use std::sync::Weak;

use super::{Line, State, tell_all};
use crate::engine::drive;
use crate::engine::once::refused;
use crate::engine::wakeups::{Listener, Wake};

impl Line {
    /// With waiters left, the channel must be heard; `confirmed` says whether it was heard already when
    /// they asked last.
    pub(super) fn listen_if_needed(&self, state: &mut State, confirmed: bool) {
        self.leave_if_unneeded(state);
        if state.waiters.somebody_was_answered() {
            let channel = self.keys.channel();
            // A message between their question and the subscription would have been missed.
            state.look |=
                state
                    .listening
                    .begin(&self.core.wakeups, channel, &self.listener(), confirmed);
        }
    }

    pub(super) fn listener(&self) -> Weak<dyn Listener> {
        self.itself.clone()
    }

    /// Somebody has gone who may have stood in the way of smaller requests.
    pub(super) fn way_is_free(&self, state: &mut State) {
        state.look = true;
        self.leave_if_unneeded(state);
    }

    pub(super) fn leave_if_unneeded(&self, state: &mut State) {
        if state.waiters.is_empty() {
            let channel = self.keys.channel();
            state
                .listening
                .end(&self.core.wakeups, channel, &self.listener());
        }
    }

    /// How many of the channel's listeners are this client itself.
    pub(crate) fn own_subscriptions(&self) -> u64 {
        u64::from(self.lock().listening.is_confirmed())
    }

    /// Ends when a release has left permits while somebody else listens.
    pub(crate) async fn released_again(&self) {
        self.released_again.notified().await;
    }

    /// Whether there may still be permits for someone asleep: how many releases have left some so far.
    pub(crate) fn wants_nudge(&self) -> Option<u64> {
        let mut state = self.lock();
        state.nudging = state.available > 0 && !state.closed;
        state.nudging.then_some(state.leaving)
    }

    /// Ends the nudging, unless there was a release behind those that were `seen`.
    pub(crate) fn nudge_ended(&self, seen: u64) -> bool {
        let mut state = self.lock();
        state.nudging = state.leaving != seen;
        !state.nudging
    }
}

impl Listener for Line {
    fn wake(&self, wake: &Wake) {
        let Some(line) = self.itself.upgrade() else {
            return;
        };
        let mut state = self.lock();
        let look = state.listening.hear(wake);
        match wake {
            Wake::Message => state.turns.heard(),
            Wake::Lost | Wake::Ended => state.turns.deaf(),
            Wake::Confirmed | Wake::Look => {}
            Wake::Refused(refusal) => {
                let waiters = state.waiters.take_answered();
                drop(state);
                tell_all(waiters, &refused(self.name(), refusal));
                return;
            }
        }
        if !look {
            return;
        }
        state.look = true;
        let waiting = !state.waiters.is_empty();
        if waiting {
            self.note_busy(&mut state);
        }
        drop(state);
        if waiting {
            drive::kick(&line);
        }
    }
}
