//! When those who wait look again: woken on the channel, or by the clock.

use std::sync::Weak;
use std::time::Duration;

use tokio::time::Instant;

use super::super::batch::{Batch, Call, Operation};
use super::waiting::Done;
use super::{Line, State, tell_all};
use crate::engine::drive;
use crate::engine::once::Trouble;
use crate::engine::wakeups::{Listener, Wake};
use crate::transport::{Backoff, Reason, jittered};

/// The first pause while a peer holds the lock; they hold it for some round trips.
const FIRST_PAUSE: Duration = Duration::from_millis(2);

impl State {
    /// Whether a peer holds the lock still, as far as is known.
    pub(super) fn waits_for_lock(&self) -> bool {
        let until = self.locked.as_ref().map(|(until, _)| *until);
        until.is_some_and(|until| Instant::now() < until)
    }
}

impl Line {
    /// When to look next if nothing is heard: at the setting's pace, and when the first holder expires.
    pub(super) fn next_look(&self, first_end: Option<Duration>) -> Instant {
        let check = jittered(self.settings.check_interval, 0.75, 1.0);
        // What has its end in this very millisecond is there until the next one.
        let end = first_end.map(|end| end + Duration::from_millis(1));
        Instant::now() + end.map_or(check, |end| end.min(check))
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
        }
        drive::kick(&self);
    }

    /// A peer holds the lock for `left` at the most: nothing of `batch` was done, and it is tried again soon, with
    /// growing pauses.
    pub(super) fn wait_for_lock(&self, batch: Batch, left: Duration, confirmed: bool) {
        let now = Instant::now();
        // The first of them has had an answer, though not the one it waits for.
        let claim = batch.claim.tickets().count();
        let locked = {
            let mut state = self.lock();
            let check = self.settings.check_interval;
            let mut pauses = match state.locked.take() {
                Some((_, pauses)) => pauses,
                None => Backoff::between(FIRST_PAUSE.min(check), check),
            };
            let until = now + pauses.next().min(left + Duration::from_millis(1));
            state.locked = Some((until, pauses));
            if claim > 0 {
                state.waiters.note_answered(&batch.claim);
            }
            until
        };
        let window = self.core.config.retry_window;
        let trouble = Trouble {
            doubtful: false,
            reason: Reason::Unreachable,
            last: false,
            detail: "a peer holds the semaphore's lock",
            now,
        };
        let mut batch = batch;
        batch.retain_calls(|call| self.waits_on(call, &trouble, window));
        self.put_back(batch);
        let mut state = self.lock();
        self.listen_if_needed(&mut state, confirmed);
        state.alarm = None;
        self.set_alarm(&mut state, locked);
    }

    /// Whether `call` goes on waiting for a peer's lock.
    fn waits_on(&self, call: &mut Call, trouble: &Trouble<'_>, window: Duration) -> bool {
        call.forget_caller_who_has_gone();
        let waited = trouble.now.saturating_duration_since(call.since);
        match (&call.operation, call.reply.is_some()) {
            (Operation::Try, false) => false,
            (Operation::Try, true) if waited >= self.settings.check_interval => {
                if let Some(reply) = call.reply.take() {
                    let _ = reply.send(Ok(Done::Held(None)));
                }
                false
            }
            (_, true) if waited >= window => {
                self.tell_trouble(call, trouble);
                false
            }
            _ => true,
        }
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
    fn wake(&self, wake: &Wake) {
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
