//! Grants on their way to callers.

use std::time::Duration;

use tokio::time::Instant;

use super::batch::Batch;
use super::entries::Entry;
use super::outcome::{Grant, Outcome, Taken, Ticket, Want};
use super::primitive::{Held, Primitive};
use super::state::State;
use super::waiters::{Id, Waiter};
use crate::clock::Moment;

impl<P: Primitive> State<P> {
    /// `entry` has been granted: the earliest waiter that wants the same has it.
    pub(super) fn give_to_waiter(
        &mut self,
        batch: &Batch<P>,
        ticket: Ticket,
        entry: &Entry<P::Want>,
        taken: Taken,
    ) {
        // An entry that was about to leave the queue need not, as it is granted.
        self.leaving.retain(|(leaving, _)| *leaving != ticket);
        let lease = self.held.lease_time(entry.want);
        let until = batch.sent + lease;
        let over = batch.unconfirmed.is_some() || self.is_over(entry.want, lease, until);
        // That a latch was open then says nothing to those that have come since.
        let end = if P::QUEUES { Id::MAX } else { batch.next };
        let waiter = if over {
            None
        } else {
            self.waiters.take(entry.want, end)
        };
        match waiter {
            Some(waiter) => self.answer_waiter(ticket, entry, taken, waiter, until),
            None => {
                let grant = self.granted(entry.want, ticket, taken, entry.life, until);
                self.release_unclaimed(batch, grant);
            }
        }
    }

    /// Whether it has ended before a caller has it, and is taken again. A lease that is shorter than two round trips is not: it would be over
    /// each time, so its holder finds it lost.
    pub(super) fn is_over(&self, want: P::Want, lease: Duration, until: Moment) -> bool {
        want.is_leased() && until.has_come() && lease > 2 * self.core.round_trip()
    }

    /// Releases it before the calls that wait, which find it free.
    pub(super) fn release_unclaimed(&mut self, batch: &Batch<P>, grant: Grant<P::Want>) {
        let call = P::give_back(grant);
        if let Some(number) = batch.unconfirmed {
            let (_, returns) = self.returns.get_or_insert((number, Vec::new()));
            returns.push(call);
            return;
        }
        let queued = self.queued(call, Instant::now());
        self.calls.push_front(queued);
    }

    /// A waiter has what `entry` was made for.
    pub(super) fn answer_waiter(
        &mut self,
        ticket: Ticket,
        entry: &Entry<P::Want>,
        taken: Taken,
        waiter: Waiter<P::Want>,
        until: Moment,
    ) {
        let grant = self.granted(entry.want, ticket, taken, entry.life, until);
        self.replies.add(waiter.reply, Ok(Outcome::Granted(grant)));
    }

    /// A caller has this from now on; waiters that need not wait for it any more ask at once.
    pub(super) fn granted(
        &mut self,
        want: P::Want,
        ticket: Ticket,
        taken: Taken,
        life: u64,
        until: Moment,
    ) -> Grant<P::Want> {
        let grant = Grant {
            want,
            ticket,
            taken,
            until: Some(until),
        };
        self.held.granted(grant, life, until);
        let let_in = self.entries.iter();
        let let_in = let_in.filter(|(_, entry)| want.lets_in(entry.want));
        let let_in: Vec<_> = let_in.map(|(ticket, _)| ticket).collect();
        for ticket in let_in {
            let entry = self.entries.remove(ticket);
            self.leaving.extend(entry.map(|entry| (ticket, entry)));
        }
        grant
    }

    /// Until when a grant that was made at `clock` lasts, if at least half of its life is left for certain.
    pub(super) fn fresh_until(&self, clock: u64, entry: &Entry<P::Want>) -> Option<Moment> {
        if self.core.config.replicas.is_some() {
            return None;
        }
        let (sent, then) = self.clock?;
        let since = Duration::from_micros(clock.checked_sub(then)?);
        // The server's clock had that time when the script was sent, or later. Clocks drift by less than a thousandth.
        let made = sent + (since - since / 1000);
        let until = made + entry.life();
        (until.remaining() >= entry.life() / 2).then_some(until)
    }
}
