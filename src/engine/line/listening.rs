//! The line's ear on its channel: wanted as long as somebody waits, and what is done about a message.

use std::sync::{Arc, MutexGuard, Weak};

use tokio::time::Instant;

use super::{Line, State, tell_all};
use crate::engine::drive;
use crate::engine::keys::TurnKeys;
use crate::engine::nudge::{self, Left, Seen, Series};
use crate::engine::once::refused;
use crate::engine::primitive::Look;
use crate::engine::turns::{Call, Ear};
use crate::engine::wakeups::{Listener, Wake};

impl Line {
    /// With waiters left, the channel must be heard; `sure` says whether it was heard already when
    /// they asked last, and the others who listen were known or counted.
    pub(super) fn listen_if_needed(&self, state: &mut State, sure: bool) {
        self.leave_if_unneeded(state);
        if state.waiters.somebody_was_answered() {
            let (wakeups, channel) = (&self.core.wakeups, self.keys.channel());
            let now = Instant::now();
            let begins = !state.listening.is_wanted() && state.turns.are_kept(now);
            let takes_part = state.turns.comes_back(now) || begins;
            let turns = takes_part.then(|| self.keys.turns()).flatten();
            // Who is taken for somebody who does not take part costs less than one who is not known to listen.
            if let Some(turns) = turns {
                wakeups.listen(&turns.own_channel, &self.ear(Call::Turn));
            }
            // A message between their question and the subscription would have been missed; and where others listen
            // this client is to stand in line.
            state.look |= state
                .listening
                .begin(wakeups, channel, &self.listener(), sure);
            if let Some(turns) = turns {
                wakeups.listen(&turns.line, &self.ear(Call::NewLine));
            }
        }
    }

    /// Whether this client is one of those who are counted where turns are kept: at both channels.
    pub(super) fn is_counted(&self, state: &State) -> bool {
        let hears_line = |keys: &TurnKeys| self.core.wakeups.is_confirmed(&keys.line);
        state.listening.is_confirmed() && self.keys.turns().is_none_or(hears_line)
    }

    fn ear(&self, hears: Call) -> Weak<dyn Listener> {
        let ear: Weak<Ear> = Arc::downgrade(match hears {
            Call::Turn => &self.ears[0],
            Call::NewLine => &self.ears[1],
        });
        ear
    }

    /// A line has begun: whoever waits is to stand in it. Or it can't use what is free: some of `all` are to look.
    pub(crate) fn is_to_come(self: &Arc<Self>, all: bool) {
        let now = Instant::now();
        let mut state = self.lock();
        if state.waiters.is_empty() {
            // Who comes now is to find out.
            state.turns.forget();
            return;
        }
        let asks = state.coming;
        let look = state.turns.call(all, asks, now);
        self.unlock(state);
        if look == Look::Now {
            self.has_its_turn();
        }
    }

    /// Few stand before this client by now: it is one of those who answer what is for everybody.
    pub(crate) fn comes_near(&self) {
        self.lock().turns.comes_near();
    }

    /// The turn of this client has come: those who wait look.
    pub(crate) fn has_its_turn(self: &Arc<Self>) {
        let mut state = self.lock();
        if !state.waiters.is_empty() {
            state.look = true;
            self.note_busy(&mut state);
            drop(state);
            drive::kick(self);
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
        if state.waiters.is_empty() && state.listening.is_wanted() {
            self.leave_turns();
            let channel = self.keys.channel();
            state
                .listening
                .end(&self.core.wakeups, channel, &self.listener());
        }
    }

    /// From here on this client is one of those who do not take part.
    pub(super) fn leave_turns(&self) {
        if let Some(turns) = self.keys.turns() {
            let wakeups = &self.core.wakeups;
            wakeups.leave(&turns.line, &self.ear(Call::NewLine));
            wakeups.leave(&turns.own_channel, &self.ear(Call::Turn));
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

/// How a message begins that is meant for JVMs, and for those who are not told in another way: see
/// `lua/semaphore/nudge.lua` and `batch.lua`.
pub(crate) const FOR_OTHERS: &[u8] = b"+";

impl Listener for Line {
    fn wake(&self, _channel: &str, wake: &Wake) {
        let Some(line) = self.itself.upgrade() else {
            return;
        };
        let mut state = self.lock();
        let now = Instant::now();
        let mut look = state.listening.hear(wake);
        match wake {
            Wake::Message(payload) if payload.starts_with(FOR_OTHERS) => {
                look = !state.turns.takes_part(now);
            }
            // A zero follows the announcement of the same permits.
            Wake::Message(payload) if payload == b"0" => {
                look = state.turns.message(now) == Look::Now;
            }
            Wake::Message(_) => {
                state.turns.heard();
                look = state.turns.message(now) == Look::Now;
                // Whoever has sent it sees to the others.
                (state.unprompted, state.looking_unprompted) = (false, false);
            }
            Wake::Look => {
                look = state.turns.looks(self.core.config.safety_interval);
                state.unprompted |= look;
            }
            Wake::ConfirmedAgain => state.unprompted = true,
            Wake::Confirmed => state.turns.forget(),
            Wake::Lost | Wake::Ended => state.turns.deaf(),
            Wake::Refused(refusal) => {
                self.leave_turns();
                let waiters = state.waiters.take_answered();
                drop(state);
                tell_all(waiters, &refused(self.name(), refusal));
                // Others may wait for them in vain, and who carries a round out may have been told.
                drive::kick(&line);
                return;
            }
        }
        if !look {
            self.unlock(state);
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
