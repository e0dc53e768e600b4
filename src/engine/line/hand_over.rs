//! Hand-over within the process: a release serves callers of this client that wait, without Redis.

use std::sync::Arc;

use tokio::time::Instant;

use super::{Line, State};
use crate::engine::batch::Operation;
use crate::engine::drive;
use crate::engine::waiters::Want;

/// Beside others a permit may be handed on for so many times as long: whose turn it is, is known then.
const AMONG_OTHERS: u32 = 4;

impl State {
    /// Whether a release of `permits` may serve the first in line without Redis.
    fn first_may_keep(&self, permits: u32) -> bool {
        let may_keep = |first: &Want| self.turns.may_keep(first.since, first.permits <= permits);
        self.waiters.first().is_some_and(may_keep)
    }
}

impl Line {
    /// Lets a release serve waiting callers of this process without Redis; whether it did. What is on record serves only
    /// those whose is to be, and stays there.
    ///
    /// It is as if the release and their acquisitions had run back to back, which leaves the counter as it
    /// is. That holds while the counter is not negative, so it must have been seen a moment ago: after
    /// `local_hand_over` the next release goes to Redis.
    pub(super) fn hand_over(self: &Arc<Self>, operation: Operation) -> bool {
        let (permits, life) = match operation {
            Operation::Release(permits) => (permits, None),
            Operation::GiveBack(permits, life) => (permits, Some(life)),
            _ => return false,
        };
        let window = self.core.config.local_hand_over;
        let mut state = self.lock();
        if state.closed || state.waiters.is_empty() || window.is_zero() || state.available < 0 {
            return false;
        }
        let now = Instant::now();
        let others = state.turns.others_listen();
        let window = if others {
            AMONG_OTHERS * window
        } else {
            window
        };
        let known_for = state.seen.map(|seen| now.saturating_duration_since(seen));
        let fresh = known_for.is_some_and(|age| age < window);
        if !fresh || !state.first_may_keep(permits) {
            return false;
        }
        if life.is_some_and(|life| state.live() != Some(life)) {
            return false;
        }
        let free = state.available;
        let served = (state.waiters).serve_exactly(permits, life.is_some(), free, now);
        let handed_over = !served.is_empty();
        state.turns.handed_over(served.len());
        // A large request that has been served may have stood in the way of smaller ones.
        let fits = handed_over && state.waiters.somebody_fits(state.available, now);
        // What is known of others is asked for again before it does not allow to go on.
        let due = known_for.is_some_and(|age| {
            age >= window / 2 || age >= window / 20 && !state.first_may_keep(permits)
        });
        let look = fits || due && others && !state.waiters.is_empty();
        if look {
            state.look = true;
            self.note_busy(&mut state);
        }
        self.leave_if_unneeded(&mut state);
        drop(state);
        if look {
            drive::kick(self);
        } else if handed_over {
            drive::let_caller_go(self);
        }
        let granted = life.map_or(1, u64::cast_signed);
        for waiter in served {
            let Want {
                permits, recorded, ..
            } = waiter.want;
            let undoing = Operation::undoing(permits, granted, recorded);
            if waiter.reply.send(Ok(granted)).is_err() {
                self.call_detached(undoing);
            }
        }
        handed_over
    }
}
