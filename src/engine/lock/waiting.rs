//! The callers of one client that wait for one lock, and when the first of them asks Redis.

use std::sync::Weak;
use std::time::Duration;

use tokio::time::Instant;

use super::calls::{Claim, Reply};
use super::herd::Herd;
use super::sharing::Sharing;
use super::{LockLine, State};
use crate::engine::drive;
use crate::engine::listening::Listening;
use crate::engine::once::refused;
use crate::engine::primitive::Ticket;
use crate::engine::primitive::timer::Rings;
use crate::engine::primitive::waiters::{self, Waiters};
use crate::engine::wakeups::{Listener, Wake};

/// Others are served before a client for so long, then it is next.
const LONGEST_PASSED: Duration = Duration::from_secs(5);
/// Who comes back within this time has not been away.
const LONGEST_ABSENCE: Duration = Duration::from_secs(1);

/// A caller that waits for the lock.
pub(super) type Waiter = waiters::Waiter<Claim, Reply>;

/// A waiter's part of a question.
pub(super) struct Turn {
    pub(super) ticket: Ticket,
    pub(super) claim: Claim,
    /// Its time was up before: it does not wait any longer.
    pub(super) last: bool,
}

/// Those who wait.
#[derive(Default)]
pub(super) struct Waiting {
    pub(super) waiters: Waiters<Claim, Reply>,
    /// The lock may have become free since the first one last asked.
    look: bool,
    /// Since when they have waited in vain, these or those before them; and when somebody last came or left.
    unserved_since: Option<Instant>,
    last_seen: Option<Instant>,
    pub(super) listening: Listening,
    pub(super) sharing: Sharing,
    pub(super) herd: Herd,
    /// There is a reason to ask then, though nothing happens: whoever holds the lock must have lost it, or others have had
    /// their time.
    pub(super) look_at: Option<Instant>,
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// Adds a caller, which `asks` if it is the first one, or `holds` the lock already. Returns its ticket.
    pub(super) fn join(
        &mut self,
        claim: Claim,
        (reply, deadline): (Reply, Option<Instant>),
        (holds, asks): (bool, bool),
        now: Instant,
    ) -> Ticket {
        // A caller that comes back has waited all the while.
        let is_back = |seen| now < seen + LONGEST_ABSENCE;
        if self.waiters.is_empty() && !self.last_seen.is_some_and(is_back) {
            self.unserved_since = None;
        }
        self.unserved_since.get_or_insert(now);
        self.last_seen = Some(now);
        // Behind others there is no reason to ask: whatever wakes the first one leads to all.
        self.look |= asks && (holds || self.waiters.is_empty());
        self.waiters.join(claim, reply, deadline, now)
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

    /// Takes the waiter with this ticket out, who has been answered.
    pub(super) fn take(&mut self, ticket: Ticket) -> Option<Waiter> {
        let waiter = self.waiters.remove(ticket)?;
        self.last_seen = Some(Instant::now());
        Some(waiter)
    }

    /// When something is to be done though nothing happens.
    pub(super) fn alarm(&self) -> Option<Instant> {
        let looks = self.look_at.into_iter().chain(self.herd.late());
        let looks = looks.filter(|_| !self.waiters.is_empty());
        looks.chain(self.waiters.first_deadline()).min()
    }

    /// That time may have come.
    fn ring(&mut self, now: Instant) {
        self.waiters.end_overdue(now);
        if self.look_at.take_if(|then| *then <= now).is_some() || self.herd.is_due(now) {
            self.look_again(now);
        }
    }

    /// There is a reason for the first one to ask, now or when others have had their time.
    fn look_again(&mut self, now: Instant) {
        self.look = true;
        self.look_when_others_had_it(now);
    }

    /// Those who wait look when the time is over for which the lock is left to others.
    pub(super) fn look_when_others_had_it(&mut self, now: Instant) {
        if let Some(until) = self.sharing.gives_way(now) {
            self.look_at = Some(until);
        }
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
        self.waiters.somebody_ends() || self.first_asks(now)
    }

    /// Who asks now: the first one, if there is a reason and it `may`, and those whose time is up; `most` of them, one of
    /// each owner, and none of those who are `busy`. Who waits as the `holder` does not have to wait: it is the first.
    pub(super) fn ask(
        &mut self,
        now: Instant,
        may: bool,
        most: usize,
        holder: Option<&str>,
        busy: impl Fn(&str) -> bool,
    ) -> Vec<Turn> {
        let as_holder = |(_, claim): &(Ticket, &Claim)| holder == Some(&*claim.owner);
        let mut first = None;
        if may && self.first_asks(now) {
            let before_others = holder.and_then(|_| self.waiters.iter().find(as_holder));
            first = before_others.map_or(self.waiters.first(), |(ticket, _)| Some(ticket));
        }
        let others = self.waiters.ending().filter(|other| Some(*other) != first);
        let mut turns: Vec<Turn> = Vec::new();
        for ticket in first.into_iter().chain(others) {
            if turns.len() == most {
                break;
            }
            let Some(waiter) = self.waiters.get(ticket) else {
                continue;
            };
            let owner = &waiter.want.owner;
            let twice = turns.iter().any(|turn| turn.claim.owner == *owner);
            if twice || busy(owner) {
                continue;
            }
            let last = self.waiters.ends(ticket);
            turns.push(Turn {
                ticket,
                claim: Claim {
                    // The last try takes what is free.
                    waits: !last,
                    ..waiter.want.clone()
                },
                last,
            });
        }
        self.look &= first.is_none() || turns.first().map(|turn| turn.ticket) != first;
        turns
    }

    /// What became of a question with these `turns` will never be known.
    pub(super) fn doubt(&mut self, turns: &[Turn]) {
        for turn in turns {
            if let Some(waiter) = self.waiters.get_mut(turn.ticket) {
                waiter.in_doubt = true;
            }
        }
    }

    /// Those who wait as `owner`, who holds the lock now, do not have to wait.
    pub(super) fn look_for(&mut self, owner: &str) {
        self.look |= self.waiters.iter().any(|(_, claim)| *claim.owner == *owner);
    }
}

impl LockLine {
    /// Takes a waiter out that does not wait any more.
    pub(super) fn leave(&self, state: &mut State, ticket: Ticket) -> Option<Waiter> {
        // The next one has never asked.
        state.waiting.look |= state.waiting.waiters.first() == Some(ticket);
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
            waiting.look_at = None;
        } else {
            waiting.look |= waiting
                .listening
                .begin(wakeups, channel, &listener, confirmed);
        }
    }
}

impl Rings for LockLine {
    fn ring(&self) -> (Option<Instant>, bool) {
        let now = Instant::now();
        let mut state = self.lock();
        state.waiting.ring(now);
        let next = state.waiting.alarm();
        state.timer.sleeps(next);
        let asks = state.waiting.wants_to_ask(now);
        if asks {
            self.note_busy(&mut state);
        }
        (next, asks)
    }
}

impl Listener for LockLine {
    fn wake(&self, _channel: &str, wake: &Wake) {
        let Some(line) = self.itself.upgrade() else {
            return;
        };
        let now = Instant::now();
        let mut state = self.lock();
        let mut look = state.waiting.listening.hear(wake);
        match wake {
            Wake::Message(_) => look &= state.waiting.heard(now).is_none(),
            Wake::Look => {}
            _ => state.waiting.sharing.forget_echoes(),
        }
        if let Wake::Refused(refusal) = wake {
            let answered = state.waiting.waiters.answered_ones().into_iter();
            let waiters = answered.filter_map(|ticket| state.waiting.take(ticket));
            let waiters: Vec<_> = waiters.collect();
            drop(state);
            self.tell_all(waiters, &refused(self.name(), refusal), &refusal.detail);
            drive::kick(&line);
            return;
        }
        if look {
            state.waiting.look_again(now);
        }
        let asks = look && state.waiting.wants_to_ask(now);
        if asks {
            self.note_busy(&mut state);
        }
        drop(state);
        if asks {
            drive::kick(&line);
        }
    }
}
