//! The callers of one client that wait for one lock, and when the first of them asks Redis.

use std::collections::VecDeque;
use std::sync::Weak;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::calls::{Claim, Reply};
use super::herd::Herd;
use super::sharing::Sharing;
use super::{LockLine, State};
use crate::engine::drive;
use crate::engine::listening::Listening;
use crate::engine::once::refused;
use crate::engine::wakeups::{Listener, Wake};

/// Others are served before a client for so long, then it is next.
const LONGEST_PASSED: Duration = Duration::from_secs(5);
/// Who comes back within this time has not been away.
const LONGEST_ABSENCE: Duration = Duration::from_secs(1);

/// A caller that waits for the lock.
pub(super) struct Waiter {
    ticket: u64,
    claim: Claim,
    pub(super) reply: Reply,
    /// Since when it waits for an answer of the server's, if only to somebody else; `None` once there was one.
    pub(super) unanswered: Option<Instant>,
    /// Its time is up: it is part of the next question, whose answer is its own.
    ends: bool,
    /// What became of a question that it was part of will never be known.
    pub(super) in_doubt: bool,
}

impl Waiter {
    pub(super) fn ticket(&self) -> u64 {
        self.ticket
    }
}

/// A waiter's part of a question.
pub(super) struct Turn {
    pub(super) ticket: u64,
    pub(super) claim: Claim,
    /// Its time was up before: it does not wait any longer.
    pub(super) last: bool,
}

/// Those who wait, the first to be served in front.
#[derive(Default)]
pub(super) struct Waiting {
    waiters: VecDeque<Waiter>,
    last_ticket: u64,
    /// The lock may have become free since the first one last asked.
    look: bool,
    /// Since when they have waited in vain, these or those before them; and when somebody last came or left.
    unserved_since: Option<Instant>,
    last_seen: Option<Instant>,
    /// How many there are whose time is up.
    ending: usize,
    /// Since when the server has not answered anything, once that has been noticed.
    silent_since: Option<Instant>,
    pub(super) listening: Listening,
    pub(super) sharing: Sharing,
    pub(super) herd: Herd,
    /// Looks when the one who holds the lock must have lost it.
    alarm: Option<AbortHandle>,
}

impl Waiting {
    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// Adds a caller: at the end, or in front if it `holds` the lock already. In front it `asks`. Returns its ticket.
    pub(super) fn join(&mut self, claim: Claim, reply: Reply, holds: bool, asks: bool) -> u64 {
        self.last_ticket += 1;
        let now = Instant::now();
        // A caller that comes back has waited all the while.
        let is_back = |seen| now < seen + LONGEST_ABSENCE;
        if self.waiters.is_empty() && !self.last_seen.is_some_and(is_back) {
            self.unserved_since = None;
        }
        self.unserved_since.get_or_insert(now);
        self.last_seen = Some(now);
        let waiter = Waiter {
            ticket: self.last_ticket,
            claim,
            reply,
            unanswered: Some(now),
            ends: false,
            in_doubt: false,
        };
        // Behind others there is no reason to ask: whatever wakes the first one leads to all.
        if holds || self.waiters.is_empty() {
            self.waiters.push_front(waiter);
            self.look |= asks;
        } else {
            self.waiters.push_back(waiter);
        }
        self.last_ticket
    }

    /// One of them has the lock.
    pub(super) fn served(&mut self, now: Instant) {
        self.unserved_since = Some(now);
    }

    /// For how long others have been served, where that is too long.
    pub(super) fn passed(&self, now: Instant) -> Option<Duration> {
        let passed = now.saturating_duration_since(self.unserved_since?);
        (passed >= LONGEST_PASSED).then_some(passed)
    }

    fn place(&self, ticket: u64) -> Option<usize> {
        self.waiters.iter().position(|w| w.ticket == ticket)
    }

    pub(super) fn get(&mut self, ticket: u64) -> Option<&mut Waiter> {
        let place = self.place(ticket)?;
        self.waiters.get_mut(place)
    }

    pub(super) fn has(&self, ticket: u64) -> bool {
        self.place(ticket).is_some()
    }

    /// Takes the waiter with this ticket out, who has been answered.
    pub(super) fn take(&mut self, ticket: u64) -> Option<Waiter> {
        let waiter = self.waiters.remove(self.place(ticket)?)?;
        self.last_seen = Some(Instant::now());
        self.ending -= usize::from(waiter.ends);
        Some(waiter)
    }

    pub(super) fn take_all(&mut self) -> Vec<Waiter> {
        self.ending = 0;
        std::mem::take(&mut self.waiters).into()
    }

    /// The time of the waiter with this ticket is up at `now`; `false` if it is not there any more.
    pub(super) fn end(&mut self, ticket: u64, now: Instant) -> bool {
        let Some(waiter) = self.get(ticket) else {
            return false;
        };
        // It has been told to wait, but for no longer than until now.
        waiter.unanswered.get_or_insert(now);
        if !std::mem::replace(&mut waiter.ends, true) {
            self.ending += 1;
        }
        true
    }

    /// The server has answered something that was sent at `sent`: all who were there then do wait in line.
    pub(super) fn answered(&mut self, sent: Instant) {
        self.silent_since = None;
        // Those without an answer are the last ones, but for some that have come to the front.
        let mut answered = |waiter: &mut Waiter| match waiter.unanswered {
            Some(since) if since > sent || waiter.ends => true,
            Some(_) => waiter.unanswered.take().is_some(),
            None => false,
        };
        let _ = self.waiters.iter_mut().rev().all(&mut answered);
        let _ = self.waiters.iter_mut().all(&mut answered);
    }

    /// Takes all out who wait although the first of them has had its answer.
    fn take_answered(&mut self) -> Vec<Waiter> {
        match self.waiters.front() {
            Some(first) if first.unanswered.is_some() => Vec::new(),
            _ => self.take_all(),
        }
    }

    /// The server has been silent since `began` at the latest. Takes those out that have waited in vain for an answer
    /// for `window`, with the time since when; and says when the next one has.
    pub(super) fn take_overdue(
        &mut self,
        began: Instant,
        now: Instant,
        window: Duration,
    ) -> (Vec<(Waiter, Instant)>, Option<Instant>) {
        let silent = *self.silent_since.get_or_insert(began);
        let since = |waiter: &Waiter| waiter.unanswered.map(|since| since.max(silent));
        let (mut overdue, mut next) = (Vec::new(), None::<Instant>);
        let all = std::mem::take(&mut self.waiters);
        for waiter in all {
            match since(&waiter) {
                Some(since) if since + window <= now => {
                    self.ending -= usize::from(waiter.ends);
                    overdue.push((waiter, since));
                    continue;
                }
                Some(since) => {
                    let due = since + window;
                    next = Some(next.map_or(due, |next| next.min(due)));
                }
                None => {}
            }
            self.waiters.push_back(waiter);
        }
        (overdue, next)
    }

    /// A message says that the lock has come free: nothing, and the first one asks now; else when it does so, as others
    /// are to ask before it.
    fn heard(&mut self, now: Instant) -> Option<Instant> {
        self.sharing.heard(now);
        self.herd.heard(self.sharing.others(), now)
    }

    /// There is a reason for the first one to ask.
    pub(super) fn look_anew(&mut self) {
        self.look = true;
    }

    /// Whether the first one asks now.
    fn first_asks(&self, now: Instant) -> bool {
        self.look && !self.waiters.is_empty() && self.sharing.gives_way(now).is_none()
    }

    /// Whether anybody asks now.
    pub(super) fn wants_to_ask(&self, now: Instant) -> bool {
        self.ending > 0 || self.first_asks(now)
    }

    /// Who asks now: the first one, if there is a reason and it `may`, and those whose time is up; `most` of them, one of
    /// each owner, and none of those who are `busy`.
    pub(super) fn ask(
        &mut self,
        now: Instant,
        may: bool,
        most: usize,
        busy: impl Fn(&str) -> bool,
    ) -> Vec<Turn> {
        let mut turns: Vec<Turn> = Vec::new();
        let mut first = may && self.first_asks(now);
        for waiter in &self.waiters {
            if turns.len() == most || (!first && self.ending == 0) {
                break;
            }
            let asks = std::mem::take(&mut first);
            let owner = &waiter.claim.owner;
            let twice = turns.iter().any(|turn| turn.claim.owner == *owner);
            if !(asks || waiter.ends) || twice || busy(owner) {
                continue;
            }
            self.look &= !asks;
            turns.push(Turn {
                ticket: waiter.ticket,
                claim: Claim {
                    // The last try takes what is free.
                    waits: !waiter.ends,
                    ..waiter.claim.clone()
                },
                last: waiter.ends,
            });
        }
        turns
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
        let first = state.waiting.waiters.front();
        // The next one has never asked.
        state.waiting.look |= first.is_some_and(|first| first.ticket == ticket);
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

    /// Looks at `instant`, unless there is another message before.
    fn look_late_at(&self, instant: Instant) {
        let line = self.itself.clone();
        self.core.runtime.spawn(async move {
            tokio::time::sleep_until(instant).await;
            if let Some(line) = line.upgrade() {
                let due = line.lock().waiting.herd.is_due(instant);
                if due {
                    line.look_again();
                }
            }
        });
    }

    fn look_again(self: std::sync::Arc<Self>) {
        let mut state = self.lock();
        state.waiting.look_anew();
        self.look_when_others_had_it(&mut state);
        let asks = state.waiting.wants_to_ask(Instant::now());
        if asks {
            self.note_busy(&mut state);
        }
        drop(state);
        if asks {
            drive::kick(&self);
        }
    }

    /// Those who wait look when the time is over for which the lock is left to others.
    pub(super) fn look_when_others_had_it(&self, state: &mut State) {
        if let Some(until) = state.waiting.sharing.gives_way(Instant::now())
            && !state.waiting.is_empty()
        {
            self.set_alarm(state, until);
        }
    }
}

impl Listener for LockLine {
    fn wake(&self, _channel: &str, wake: &Wake) {
        let Some(line) = self.itself.upgrade() else {
            return;
        };
        let mut state = self.lock();
        let look = state.waiting.listening.hear(wake);
        match wake {
            Wake::Message(_) => {
                if let Some(late) = state.waiting.heard(Instant::now()) {
                    let waits = !state.waiting.is_empty();
                    drop(state);
                    if waits {
                        self.look_late_at(late);
                    }
                    return;
                }
            }
            Wake::Look => {}
            _ => state.waiting.sharing.forget_echoes(),
        }
        if let Wake::Refused(refusal) = wake {
            let waiters = state.waiting.take_answered();
            drop(state);
            self.tell_all(waiters, &refused(self.name(), refusal), &refusal.detail);
            drive::kick(&line);
            return;
        }
        drop(state);
        if look {
            line.look_again();
        }
    }
}
