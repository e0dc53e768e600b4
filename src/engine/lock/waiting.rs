//! The callers of one client that wait for one lock, and when the first of them asks Redis.

use std::collections::VecDeque;
use std::sync::Weak;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::calls::{Claim, Reply};
use super::{LockLine, State};
use crate::engine::drive;
use crate::engine::listening::Listening;
use crate::engine::once::refused;
use crate::engine::wakeups::{Listener, Wake};
use crate::error::Error;

/// How long the lock is left to others when they are due: the one that is awake needs a round trip to take it.
const GIVE_WAY: Duration = Duration::from_millis(2);

/// A caller that waits for the lock.
pub(super) struct Waiter {
    ticket: u64,
    pub(super) claim: Claim,
    pub(super) reply: Reply,
    /// Since when it has been asking without an answer.
    pub(super) asked: Option<Instant>,
}

impl Waiter {
    pub(super) fn ticket(&self) -> u64 {
        self.ticket
    }
}

/// Those who wait, the first to be served in front.
#[derive(Default)]
pub(super) struct Waiting {
    waiters: VecDeque<Waiter>,
    last_ticket: u64,
    /// The lock may have become free since the first one last asked.
    look: bool,
    pub(super) listening: Listening,
    /// Somebody else listens for the lock.
    pub(super) others: bool,
    /// Since when the lock has stayed within this process.
    kept_since: Option<Instant>,
    /// Others come first until then.
    gives_way_until: Option<Instant>,
    /// Looks when the one who holds the lock must have lost it.
    alarm: Option<AbortHandle>,
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// Adds a caller: at the end, or in front if it `holds` the lock already. Returns its ticket.
    pub(super) fn join(&mut self, claim: Claim, reply: Reply, holds: bool) -> u64 {
        self.last_ticket += 1;
        // Behind others there is no reason to ask: whatever wakes the first one leads to all.
        let first = holds || self.waiters.is_empty();
        let waiter = Waiter {
            ticket: self.last_ticket,
            claim,
            reply,
            asked: first.then(Instant::now),
        };
        if first {
            self.waiters.push_front(waiter);
            self.look = true;
        } else {
            self.waiters.push_back(waiter);
        }
        self.last_ticket
    }

    pub(super) fn has(&self, ticket: u64) -> bool {
        self.waiters.iter().any(|waiter| waiter.ticket == ticket)
    }

    pub(super) fn first(&mut self) -> Option<&mut Waiter> {
        self.waiters.front_mut()
    }

    /// Takes the waiter with this ticket out.
    pub(super) fn take(&mut self, ticket: u64) -> Option<Waiter> {
        let place = self.waiters.iter().position(|w| w.ticket == ticket)?;
        if place == 0 {
            // The next one has never asked.
            self.look = true;
        }
        self.waiters.remove(place)
    }

    /// Takes the one out that has been served.
    pub(super) fn take_served(&mut self, ticket: u64) -> Option<Reply> {
        let place = self.waiters.iter().position(|w| w.ticket == ticket)?;
        self.waiters.remove(place).map(|waiter| waiter.reply)
    }

    pub(super) fn take_all(&mut self) -> Vec<Waiter> {
        std::mem::take(&mut self.waiters).into()
    }

    /// Takes all out who wait although the first of them has had its answer.
    fn take_answered(&mut self) -> Vec<Waiter> {
        match self.waiters.front() {
            Some(first) if first.asked.is_some() => Vec::new(),
            _ => self.take_all(),
        }
    }

    /// Takes those out that have been asking without an answer for `window`; and when the next is due.
    pub(super) fn take_overdue(
        &mut self,
        now: Instant,
        window: Duration,
    ) -> (Vec<Waiter>, Option<Instant>) {
        let due = |waiter: &Waiter| waiter.asked.map(|asked| asked + window);
        let (overdue, rest): (Vec<_>, Vec<_>) = self
            .waiters
            .drain(..)
            .partition(|waiter| due(waiter).is_some_and(|due| due <= now));
        self.waiters = rest.into();
        (overdue, self.waiters.iter().filter_map(due).min())
    }

    /// There is a reason for the first one to ask.
    pub(super) fn look_anew(&mut self) {
        self.look = true;
    }

    /// Whether the first one asks now.
    pub(super) fn wants_to_ask(&self, now: Instant) -> bool {
        self.look
            && !self.waiters.is_empty()
            && self.gives_way_until.is_none_or(|until| now >= until)
    }

    /// The first one asks now; its ticket and what it asks for.
    pub(super) fn ask(&mut self, now: Instant) -> Option<(u64, Claim)> {
        self.look = false;
        let waiter = self.waiters.front_mut()?;
        waiter.asked.get_or_insert(now);
        Some((waiter.ticket, waiter.claim.clone()))
    }

    /// A local owner gives the lock back: may the next one take it in the same step? If not, until when the lock is
    /// left to others.
    pub(super) fn may_keep(&mut self, now: Instant, window: Duration) -> Result<(), Instant> {
        let since = *self.kept_since.get_or_insert(now);
        if !window.is_zero() && (!self.others || now.saturating_duration_since(since) < window) {
            return Ok(());
        }
        self.kept_since = None;
        let until = if self.others { now + GIVE_WAY } else { now };
        self.gives_way_until = Some(until);
        Err(until)
    }

    /// The lock is not this client's any more.
    pub(super) fn not_kept(&mut self) {
        self.kept_since = None;
    }

    /// This client has taken the lock.
    pub(super) fn kept(&mut self, now: Instant) {
        self.kept_since.get_or_insert(now);
    }

    /// Those who wait as `owner`, who holds the lock now, do not have to wait: they come first.
    pub(super) fn bring_forward(&mut self, owner: &str) {
        let mut place = 0;
        for i in 0..self.waiters.len() {
            if *self.waiters[i].claim.owner == *owner
                && let Some(waiter) = self.waiters.remove(i)
            {
                self.waiters.insert(place, waiter);
                place += 1;
                self.look = true;
            }
        }
    }
}

impl LockLine {
    /// Takes a waiter out that does not wait any more.
    pub(super) fn leave(&self, state: &mut State, ticket: u64) -> Option<Waiter> {
        let waiter = state.waiting.take(ticket);
        // The first one's question may be on its way since before the channel was heard.
        self.listen_as_needed(state, false);
        waiter
    }

    /// The channel is heard as long as somebody waits; `confirmed` says whether it was when the first one asked.
    pub(super) fn listen_as_needed(&self, state: &mut State, confirmed: bool) {
        let (wakeups, channel) = (&self.core.wakeups, self.keys.channel());
        let waiting = &mut state.waiting;
        let listener: Weak<dyn Listener> = self.itself.clone();
        if waiting.waiters.is_empty() {
            waiting.listening.end(wakeups, channel, &listener);
            if let Some(alarm) = waiting.alarm.take() {
                alarm.abort();
            }
        } else {
            waiting.look |= waiting
                .listening
                .begin(wakeups, channel, &listener, confirmed);
        }
    }

    /// Looks at `instant`, instead of any other that was set before.
    pub(super) fn set_alarm(&self, state: &mut State, instant: Instant) {
        let line = self.itself.clone();
        let alarm = self.core.runtime.spawn(async move {
            tokio::time::sleep_until(instant).await;
            if let Some(line) = line.upgrade() {
                line.look_again();
            }
        });
        if let Some(before) = state.waiting.alarm.replace(alarm.abort_handle()) {
            before.abort();
        }
    }

    fn look_again(self: std::sync::Arc<Self>) {
        let mut state = self.lock();
        state.waiting.look_anew();
        let waiting = !state.waiting.is_empty();
        if waiting {
            self.note_busy(&mut state);
        }
        drop(state);
        if waiting {
            drive::kick(&self);
        }
    }
}

impl Listener for LockLine {
    fn wake(&self, wake: &Wake) {
        let Some(line) = self.itself.upgrade() else {
            return;
        };
        let mut state = self.lock();
        let look = state.waiting.listening.hear(wake);
        if let Wake::Refused(refusal) = wake {
            let waiters = state.waiting.take_answered();
            drop(state);
            tell_all(waiters, &refused(self.name(), refusal));
            drive::kick(&line);
            return;
        }
        drop(state);
        if look {
            line.look_again();
        }
    }
}

/// Ends the waiting of `waiters` with `error`.
pub(super) fn tell_all(waiters: Vec<Waiter>, error: &Error) {
    for waiter in waiters {
        let _ = waiter.reply.send(Err(error.clone()));
    }
}
