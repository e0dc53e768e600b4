//! A release that serves a waiter of the same client without Redis.

use std::time::Duration;

use tokio::time::Instant;

use super::outcome::{Grant, Outcome, Want};
use super::primitive::{Call, Held, Primitive};
use super::state::State;

/// Waiters that came so much later than the first entry of another client are still served by a release of this client.
const LEEWAY: Duration = Duration::from_millis(5);

impl<P: Primitive> State<P> {
    /// Serves the first waiters by what `call` frees, without Redis; `false` where that is not fair or not possible.
    pub(super) fn hand_off(&mut self, call: &P::Call, now: Instant) -> bool {
        let Some(freed) = call.frees().filter(|_| !self.waiters.is_empty()) else {
            return false;
        };
        let window = self.core.config.local_hand_off;
        let Some(known) = self.known.as_ref().filter(|known| known.available >= 0) else {
            return false;
        };
        if now >= known.until(window) {
            return false;
        }
        let leased = freed.want.is_leased();
        let lease = leased.then(|| self.held.lease(freed.ticket));
        if lease.is_some_and(|lease| lease.is_none_or(|lease| lease.is_lost())) {
            return false;
        }
        let until = known.foreign.map(|foreign| foreign + LEEWAY);
        let mut left = freed.want.amount();
        let mut served = Vec::new();
        for (id, waiter) in self.waiters.iter() {
            let late = until.is_some_and(|until| waiter.since > until);
            let amount = waiter.want.amount();
            let suits =
                waiter.want.is_leased() == leased && (amount == left || !leased && amount < left);
            if late || !suits {
                return false;
            }
            served.push(id);
            left -= amount;
            if left == 0 {
                break;
            }
        }
        if left > 0 {
            return false;
        }
        for id in served {
            let Some(waiter) = self.waiters.remove(id) else {
                continue;
            };
            let grant = Grant::new(waiter.want, freed.ticket);
            self.replies.add(waiter.reply, Ok(Outcome::Granted(grant)));
            self.handed += 1;
        }
        self.note_surplus(now);
        true
    }
}
