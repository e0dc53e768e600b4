//! The end of a client: nobody waits any more, and calls that must be carried out still are.

use tokio::time::Instant;

use super::batch::Batch;
use super::primitive::{Held, NotDone, Primitive};
use super::state::State;
use crate::engine::once::{RUNTIME_ENDED, Trouble};
use crate::error::Error;

impl<P: Primitive> State<P> {
    /// Nobody waits from now on; what was asked for is carried out.
    pub(super) fn close(&mut self, name: &str, key: &str, why: &'static str, now: Instant) {
        self.closed = true;
        self.announcements.end();
        self.look_at = None;
        (self.look, self.confirm_all) = (false, false);
        self.unwatch |= std::mem::take(&mut self.listens_to_jvms);
        self.surplus_at = None;
        for call in self.held.last_calls() {
            self.call(call, None, now);
        }
        self.end_waits(name, key, why, now);
        self.tick(now);
    }

    /// No task carries anything out any more. Also returns the deferred calls.
    pub(super) fn abandon(&mut self, name: &str, key: &str, now: Instant) -> Vec<String> {
        self.close(name, key, RUNTIME_ENDED, now);
        let mut deferred = Vec::new();
        for queued in std::mem::take(&mut self.calls) {
            if !queued.is_pointless() && queued.reply.is_none() {
                deferred.push(queued.text());
            }
            if let Some(reply) = queued.reply {
                self.replies.add(reply, Err(self.core.gone(name)));
            }
        }
        deferred
    }

    /// The runtime has ended while `batch` was under way.
    pub(super) fn lose(&mut self, name: &str, batch: Batch<P>) {
        let trouble = Trouble::unknown(RUNTIME_ENDED);
        for mut queued in batch.calls {
            queued.fail(&mut self.held, NotDone::Unknown);
            queued.give_up(name, &trouble, &mut self.replies);
        }
        for id in batch.asked {
            if let Some(waiter) = self.waiters.remove(id) {
                self.replies.add(
                    waiter.reply,
                    Err(self.ended(name, true, &trouble, waiter.since)),
                );
            }
        }
    }

    /// All waits end with the error `why`, as the client has ended. Grants that they may have got meanwhile are released.
    fn end_waits(&mut self, name: &str, key: &str, why: &'static str, now: Instant) {
        let trouble = Trouble::unknown(why);
        let under_way = self.under_way.as_ref();
        let sent = under_way.filter(|batch| self.core.sent.since(batch.sent_before, Some(key)));
        let asked = sent.map_or(Vec::new(), |batch| batch.asked.clone());
        // They may have what is being confirmed.
        let confirms = sent.into_iter().flat_map(|batch| &batch.confirms);
        let granted = confirms.filter_map(|ticket| self.entries.get(*ticket));
        let granted: Vec<P::Want> = granted.map(|entry| entry.want).collect();
        for (id, waiter) in self.waiters.take_all() {
            let maybe_granted = asked.binary_search(&id).is_ok() || granted.contains(&waiter.want);
            let error = self.ended(name, maybe_granted, &trouble, waiter.since);
            self.replies.add(waiter.reply, Err(error));
        }
        self.note_surplus(now);
    }

    /// The error of a waiter as its client has ended. A waiter that takes nothing, as at a latch, has had no effect.
    fn ended(
        &self,
        name: &str,
        maybe_granted: bool,
        trouble: &Trouble<'_>,
        since: Instant,
    ) -> Error {
        match maybe_granted && P::MOST_QUEUED > 0 {
            true => trouble.error(name, P::WAIT, since),
            false => self.core.gone(name),
        }
    }
}
