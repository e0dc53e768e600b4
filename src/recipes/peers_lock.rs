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

use super::outcome::Locked;
use super::settings::Settings;
use crate::engine::primitive::Look;
use crate::transport::jittered;

/// As the originals.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// So many looks for each who waits follow each other without a pause, and so many at the most. Measured: with four
/// each, ours get about what as many peers get, who are six round trips under the lock and try every millisecond.
const LOOKS_EACH: usize = 4;
const MOST_LOOKS: usize = 32;

/// A lock that was seen to change hands within this time is busy.
const BUSY: Duration = Duration::from_millis(10);

/// What is known of the lock.
#[derive(Debug, Default)]
pub(super) struct PeersLock(Option<Seen>);

/// One that has been seen held.
#[derive(Debug)]
struct Seen {
    /// Who held it when that was seen last, and since when that is known.
    holder: String,
    since: Instant,
    /// When it was seen in other hands than before.
    changed: Option<Instant>,
    /// How many looks there have been without a pause.
    looks: usize,
}

impl PeersLock {
    /// Notes at `now` whether it is `locked`.
    pub(super) fn note(&mut self, locked: Option<&Locked>, now: Instant) {
        let Some(locked) = locked else { return };
        let holder = &locked.holder;
        let seen = self.0.get_or_insert_with(|| Seen {
            holder: holder.clone(),
            since: now,
            changed: None,
            looks: 0,
        });
        if seen.holder != *holder {
            seen.holder.clone_from(holder);
            seen.since = now;
            seen.changed = Some(now);
        }
    }

    /// When to look for it next, with so many who wait; nothing while it has never been in the way.
    pub(super) fn look(
        &mut self,
        settings: &Settings,
        locked: Option<&Locked>,
        waiting: usize,
        now: Instant,
    ) -> Option<Look> {
        let seen = self.0.as_mut()?;
        let just_now = seen.changed.is_some_and(|changed| now < changed + BUSY);
        seen.looks += 1;
        let most = (LOOKS_EACH * waiting).min(MOST_LOOKS);
        if settings.lock.is_some() && just_now && seen.looks < most {
            return Some(Look::Now);
        }
        seen.looks = 0;
        let known_for = now.saturating_duration_since(seen.since);
        let pause = known_for.min(settings.check_interval).max(FIRST_PAUSE);
        let pause = jittered(pause, 0.75, 1.0);
        let left = locked.map_or(Duration::MAX, |locked| locked.left);
        Some(Look::After(
            pause.min(left.saturating_add(Duration::from_millis(1))),
        ))
    }
}
