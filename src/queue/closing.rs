//! The end of a client: nobody waits any more, and calls that must be carried out still are.

use tokio::time::Instant;

use super::failures::Unanswered;
use super::primitive::{Held, NotDone, Primitive};
use super::state::State;
use super::waiters::Id;
use crate::engine::once::RUNTIME_ENDED;

impl<P: Primitive> State<P> {
    /// Nobody waits from now on; what was asked for is carried out.
    pub(super) fn close(&mut self, why: &'static str, now: Instant) {
        self.closed = true;
        self.announcements.end();
        self.serve_at = None;
        (self.serve, self.confirm_all) = (false, false);
        self.watch_no_more();
        self.surplus_at = None;
        for call in self.held.last_calls() {
            self.call(call, None, now);
        }
        self.end_waits(why, now);
        self.tick(now);
    }

    /// No task carries anything out any more. Also returns the deferred calls.
    pub(super) fn abandon(&mut self, now: Instant) -> Vec<String> {
        self.close(RUNTIME_ENDED, now);
        let returns = self.returns.take().into_iter().flat_map(|(_, calls)| calls);
        let mut deferred: Vec<_> = returns.map(|call| call.to_string()).collect();
        for queued in std::mem::take(&mut self.calls) {
            if !queued.is_pointless() && queued.reply.is_none() {
                deferred.push(queued.text());
            }
            if let Some(reply) = queued.reply {
                self.replies.add(reply, Err(self.core.gone(&self.name)));
            }
        }
        deferred
    }

    /// The round of the batch under way was dropped, with its runtime: its callers get that error. Returns its calls, for the log.
    pub(super) fn lose(&mut self) -> Option<String> {
        let mut batch = self.under_way.take()?.batch;
        let contents = batch.contents();
        let now = Instant::now();
        self.carry_over(&mut batch, true, now);
        let unanswered = self.unanswered(RUNTIME_ENDED, now);
        for mut queued in batch.calls {
            queued.fail(&mut self.held, NotDone::Unknown);
            queued.give_up(&unanswered, true, &mut self.replies);
        }
        for id in batch.asked {
            self.end_wait(id, &unanswered, true);
        }
        Some(contents)
    }

    /// All waits end with the error `why`, as the client has ended. Grants that they may have got meanwhile are released.
    fn end_waits(&mut self, why: &'static str, now: Instant) {
        let unanswered = self.unanswered(why, now);
        let sent = self.under_way.as_ref();
        let sent = sent.filter(|under_way| under_way.maybe_done);
        let batch = sent.map(|under_way| &under_way.batch);
        let asked = batch.map_or(Vec::new(), |batch| batch.asked.clone());
        // They may have what is being confirmed.
        let confirms = batch.into_iter().flat_map(|batch| &batch.confirms);
        let granted: Vec<P::Want> = confirms.map(|(_, entry)| entry.want).collect();
        let all = self.waiters.iter().map(|(id, waiter)| (id, waiter.want));
        let all: Vec<_> = all.collect();
        for (id, want) in all {
            let maybe_granted = asked.binary_search(&id).is_ok() || granted.contains(&want);
            self.end_wait(id, &unanswered, maybe_granted);
        }
        self.note_surplus(now);
    }

    /// Ends a wait, as the client has ended.
    fn end_wait(&mut self, id: Id, unanswered: &Unanswered, maybe_granted: bool) {
        if maybe_granted && P::QUEUES {
            self.give_up_waiter(id, unanswered, true);
        } else if let Some(waiter) = self.waiters.remove(id) {
            let error = self.core.gone(&self.name);
            self.replies.add(waiter.reply, Err(error));
        }
    }
}
