//! Releases that serve callers who wait in the same process, without Redis.

use tokio::time::Instant;

use super::calls::Grant;
use super::permits::{Behind, Permits};
use crate::engine::primitive::{Ticket, Waiters};

/// Beside others a permit may be handed on for so many times as long: whose turn it is, is known then.
const AMONG_OTHERS: u32 = 4;

impl Permits {
    /// Whom a release of what was granted serves without Redis. What is on record serves only those whose is to be, and
    /// stays there.
    ///
    /// It is as if the release and their acquisitions had run back to back, which leaves the counter as it
    /// is. That holds while the counter is not negative, so it must have been seen a moment ago: after
    /// `local_hand_over` the next release goes to Redis.
    pub(super) fn hand_over(
        &mut self,
        grant: Grant,
        waiters: &Waiters<Self>,
        now: Instant,
    ) -> Vec<(Ticket, Grant)> {
        let mut window = self.core.config.local_hand_over;
        if window.is_zero() || self.available < 0 {
            return Vec::new();
        }
        if self.place.turns().others_listen() {
            window *= AMONG_OTHERS;
        }
        let known_for = self.seen.map(|seen| now.saturating_duration_since(seen));
        let Some(age) = known_for.filter(|age| *age < window) else {
            return Vec::new();
        };
        let live = grant
            .life
            .is_none_or(|life| self.record.live() == Some(life));
        if !live || !self.first_may_keep(waiters, grant.permits) {
            return Vec::new();
        }
        let crowd = &mut self.crowd;
        let served = crowd.serve_exactly(waiters, grant, self.available, now);
        self.place.turns().handed_over(served.len());
        if !served.is_empty() {
            let permits = grant.permits;
            self.behind = Behind::HandOver(permits, age, window);
        }
        served
    }

    /// Whether a release of `permits` may serve the first in line without Redis.
    pub(super) fn first_may_keep(&mut self, waiters: &Waiters<Self>, permits: u32) -> bool {
        let turns = self.place.turns();
        let first = waiters.first_to_stay();
        first.is_some_and(|(_, first)| turns.may_keep(first.since, first.permits <= permits))
    }
}
