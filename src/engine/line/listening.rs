//! The line's ear on its channel: wanted as long as somebody waits, and what is done about a message.

use std::sync::{Arc, MutexGuard, Weak};

use super::{Line, State, tell_all};
use crate::engine::drive;
use crate::engine::nudge::{self, Left, Seen, Series};
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

    /// Permits have come and been announced by another way than a batch of this line.
    pub(crate) fn has_been_given_more(self: &Arc<Self>) {
        let state = self.lock();
        self.nudge_others(state, false, None);
    }

    /// Permits were announced when nobody listened, and somebody does now.
    pub(crate) fn is_heard_by_now(self: &Arc<Self>) {
        let state = self.lock();
        // A series that began later looks late, too.
        if !state.leavings.is_under_way() {
            self.nudge_others(state, true, Some(Series::of_unheard()));
        }
    }

    fn nudge_others(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State>,
        unannounced: bool,
        series: Option<Series>,
    ) {
        // It is not known how many are free.
        state.available = i64::MAX;
        let start = state.leavings.leave(None, unannounced);
        let series = series.unwrap_or_else(|| state.leavings.series());
        drop(state);
        if start {
            nudge::start(self, series);
        } else {
            self.left_more.notify_one();
        }
    }

    /// Ends when permits have been left to others once more.
    pub(crate) async fn has_left_more(&self) {
        self.left_more.notified().await;
    }

    /// How what has been left is to be nudged for.
    pub(crate) fn next_series(&self) -> Series {
        self.lock().leavings.series()
    }

    /// What a nudge has to know; `None` if there is no reason for one any more.
    pub(crate) fn nudge_begins(&self) -> Option<Left> {
        let mut state = self.lock();
        if state.available < 1 || state.closed {
            state.leavings.clear();
            return None;
        }
        let own = u64::from(state.listening.is_confirmed());
        Some(state.leavings.begin(own))
    }

    /// Whether the series of nudges has ended with this one.
    pub(crate) fn nudge_has_ended(
        &self,
        left: &Left,
        seen: Option<Seen>,
        series: &Series,
        goes_on: bool,
    ) -> bool {
        let mut state = self.lock();
        let ended = state.leavings.end(left, seen.as_ref(), series, goes_on);
        drop(state);
        if ended && seen.is_some_and(|seen| seen.permits > 0 && seen.others == 0) {
            self.core.nobody_has_heard(&self.keys);
        }
        ended
    }
}

/// How a message begins that is news to JVMs only: see `lua/semaphore/nudge.lua`.
const FOR_JVMS: &[u8] = b"+";

impl Listener for Line {
    fn wake(&self, _channel: &str, wake: &Wake) {
        if matches!(wake, Wake::Message(payload) if payload.starts_with(FOR_JVMS)) {
            return;
        }
        let Some(line) = self.itself.upgrade() else {
            return;
        };
        let mut state = self.lock();
        let look = state.listening.hear(wake);
        match wake {
            // A zero follows the announcement of the same permits.
            Wake::Message(payload) if payload == b"0" => {}
            Wake::Message(_) => {
                state.turns.heard();
                // Whoever has sent it sees to the others.
                (state.unprompted, state.looking_unprompted) = (false, false);
            }
            Wake::Lost | Wake::Ended => state.turns.deaf(),
            Wake::Look | Wake::ConfirmedAgain => state.unprompted = true,
            Wake::Confirmed => {}
            Wake::Refused(refusal) => {
                let waiters = state.waiters.take_answered();
                drop(state);
                tell_all(waiters, &refused(self.name(), refusal));
                // Others may wait for them in vain, and who carries a round out may have been told.
                drive::kick(&line);
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
