//! The lock under which peers acquire: when to look whether it is free.
//!
//! Our scripts take no lock. While a peer holds it, nobody is granted anything; the next look is a millisecond later, as the
//! originals try, and the pauses grow up to the check interval for as long as it is the same peer that holds it. While
//! peers hand it round they stay short, and between two of them there are some looks for each caller who waits here, as
//! each would try on his own as a peer: a lock that is busy is free for moments only, and the permits, which nobody
//! announces, go to those who look. All that is the affair of the first in the line that all our clients see; the others
//! are called when he has gone.
//!
//! A string lock is looked at with the same growing pauses, as it is the same lock, and who waits for it waits for just that.

use std::time::Duration;

use tokio::time::Instant;

use super::super::answer::Outcome;
use super::{Line, State};
use crate::transport::jittered;

/// As the originals.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// So many looks for each who waits follow each other without a pause, and so many at the most. Measured: with four
/// each, ours get about what as many peers get, who are six round trips under the lock and try every millisecond.
const LOOKS_EACH: usize = 4;
const MOST_LOOKS: usize = 32;

/// A lock that was seen to change hands within this time is busy.
const BUSY: Duration = Duration::from_millis(10);

/// What is known of a peers' lock that has been seen held.
#[derive(Debug)]
pub(super) struct PeersLock {
    /// Who held it when that was seen last, and since when that is known.
    holder: String,
    since: Instant,
    /// When it was seen in other hands than before.
    changed: Option<Instant>,
    /// How many looks there have been without a pause.
    looks: usize,
    /// It is taken to be held until then.
    held_until: Option<Instant>,
}

impl State {
    /// Until when a peer holds the lock still, as far as is known. An alarm is set for then.
    pub(super) fn lock_held_until(&self) -> Option<Instant> {
        let until = self.peers_lock.as_ref()?.held_until;
        until.filter(|until| Instant::now() < *until)
    }
}

impl Line {
    /// Notes what `outcome` tells of the lock; when to look for it next, where that is this line's affair. `trying` is how
    /// many wait for nothing but the lock.
    pub(super) fn note_lock(
        &self,
        state: &mut State,
        outcome: &Outcome,
        trying: usize,
    ) -> Option<Instant> {
        let waiting = state.waiters.len() + trying;
        let now = Instant::now();
        if let Some(locked) = &outcome.locked {
            let lock = state.peers_lock.get_or_insert_with(|| PeersLock {
                holder: locked.holder.clone(),
                since: now,
                changed: None,
                looks: 0,
                held_until: None,
            });
            if lock.holder != locked.holder {
                lock.holder.clone_from(&locked.holder);
                lock.since = now;
                lock.changed = Some(now);
            }
        }
        let lock = state.peers_lock.as_mut()?;
        lock.held_until = None;
        if waiting == 0 || outcome.rank.before > 0 && trying == 0 {
            return None;
        }
        let under_lock = self.settings.lock.is_some();
        let busy = under_lock && lock.changed.is_some_and(|changed| now < changed + BUSY);
        lock.looks += 1;
        if busy && lock.looks < (LOOKS_EACH * waiting).min(MOST_LOOKS) {
            state.look = true;
            return None;
        }
        lock.looks = 0;
        let known_for = now.saturating_duration_since(lock.since);
        let pause = known_for.min(self.settings.check_interval).max(FIRST_PAUSE);
        let pause = jittered(pause, 0.75, 1.0);
        let Some(locked) = &outcome.locked else {
            return Some(now + pause);
        };
        // It may last for longer than the clock goes.
        let left = locked.left.saturating_add(Duration::from_millis(1));
        let until = now + pause.min(left);
        lock.held_until = under_lock.then_some(until);
        Some(until)
    }
}
