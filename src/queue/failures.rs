//! Batches that were refused, not sent or never answered; and the callers whose time is over.

use tokio::time::Instant;

use super::batch::Batch;
use super::entries::Unconfirmed;
use super::messages::CONFIRM_AFTER;
use super::outcome::{Grant, Ticket};
use super::primitive::{NotDone, Primitive};
use super::state::State;
use super::waiters::{Id, Waiter};
use crate::engine::once::{Patience, Trouble};
use crate::error::Error;

impl<P: Primitive> State<P> {
    /// `batch` was not carried out, because of `error`. Where the outcome of an earlier sending is unknown, `unknown` says so.
    pub(super) fn failed(
        &mut self,
        batch: Batch<P>,
        error: &Error,
        unknown: Option<&Error>,
        now: Instant,
    ) {
        self.landed(now);
        if unknown.is_some() {
            // Entries may have left the queue.
            self.may_have_missed();
        }
        // Something else may have been refused.
        if !(batch.calls.is_empty() && batch.runs.is_empty() && batch.confirms.is_empty()) {
            self.leaving.extend(batch.leaves);
            self.note_surplus(now);
        }
        self.still_confirms(batch.extends, now);
        let why = unknown.map_or(NotDone::Refused, |_| NotDone::Unknown);
        for mut queued in batch.calls {
            // Without a caller nobody knows of it, and nobody tries again.
            let known = queued.has_caller();
            queued.fail(&mut self.held, if known { why } else { NotDone::Unknown });
            queued.answer(Err(unknown.unwrap_or(error).clone()), &mut self.replies);
        }
        if batch.runs.is_empty() && batch.confirms.is_empty() && !batch.look {
            return;
        }
        if let (Some(unknown), Error::RefusedForNow { .. }) = (unknown, error) {
            // The others wait on: what they asked for may be done soon.
            for id in batch.asked {
                if let Some(waiter) = self.waiters.remove(id) {
                    self.replies.add(waiter.reply, Err(unknown.clone()));
                }
            }
            self.note_surplus(now);
            return;
        }
        // An error that stops the waiters of this batch stops all.
        for (id, waiter) in self.waiters.take_all() {
            let asked = batch.asked.binary_search(&id).is_ok();
            let error = unknown.filter(|_| asked).unwrap_or(error);
            self.replies.add(waiter.reply, Err(error.clone()));
        }
        // Those that come now ask, too.
        self.leaving.extend(self.entries.take_all());
        self.note_surplus(Instant::now());
    }

    /// These grants are not confirmed yet, though guards use them.
    fn still_confirms(&mut self, extends: Vec<(Ticket, Unconfirmed<P::Want>)>, now: Instant) {
        if !extends.is_empty() {
            self.unconfirmed.extend(extends);
            self.confirm_at.get_or_insert(now + CONFIRM_AFTER);
        }
    }

    /// `batch` has never been sent, and one of its callers has gone: what is left of it is the first of the next one.
    pub(super) fn not_sent(&mut self, batch: Batch<P>) {
        for mut queued in batch.calls.into_iter().rev() {
            queued.fail(&mut self.held, NotDone::Refused);
            self.calls.push_front(queued);
        }
        let now = Instant::now();
        self.still_confirms(batch.extends, now);
        self.granted
            .extend(batch.confirms.iter().map(|(ticket, _)| *ticket));
        self.leaving.extend(batch.leaves);
        self.confirm_all |= batch.check && !self.entries.is_empty();
        self.look |= batch.look;
        self.heard += batch.heard;
        self.handed += batch.handed;
        self.unwatch |= batch.unwatch;
        self.note_surplus(now);
        self.landed(now);
    }

    /// The outcome of a batch stays unknown; its callers have their errors. Callers that waited before it may have been granted
    /// something.
    pub(super) fn never_answered(
        &mut self,
        name: &str,
        mut batch: Batch<P>,
        trouble: &Trouble<'_>,
    ) {
        for queued in &mut batch.calls {
            queued.fail(&mut self.held, NotDone::Unknown);
            let taken = queued.takes().map(|want| (want, queued.ticket));
            self.may_have_taken(taken, trouble.now);
        }
        for run in &batch.runs {
            let tickets = (run.ticket..).take(run.count);
            self.may_have_taken(tickets.map(|ticket| (run.want, ticket)), trouble.now);
        }
        let all = self.waiters.iter().map(|(id, _)| id);
        let serves = P::MOST_QUEUED > 0 && batch.request().is_none();
        let granted = |id: &Id| serves && self.waiters.is_answered(*id);
        let before: Vec<Id> = all.filter(granted).collect();
        for waiter in before.into_iter().filter_map(|id| self.waiters.remove(id)) {
            self.replies.add(
                waiter.reply,
                Err(trouble.error(name, P::WAIT, waiter.since)),
            );
        }
        self.note_surplus(trouble.now);
        self.landed(trouble.now);
    }

    /// Nobody will know whether these have been taken.
    fn may_have_taken(&mut self, all: impl IntoIterator<Item = (P::Want, Ticket)>, now: Instant) {
        for (want, ticket) in all {
            if let Some(call) = P::give_back_unknown(Grant::new(want, ticket)) {
                self.call(call, None, now);
            }
        }
    }

    /// Ends the calls whose retry window has passed without an answer; returns how long the others wait for `batch`, if there is one.
    pub(super) fn impatient(
        &mut self,
        name: &str,
        mut batch: Option<&mut Batch<P>>,
        trouble: &Trouble<'_>,
    ) -> Patience {
        let window = self.core.config.retry_window;
        let (mut deferred, mut gone, mut next) = (false, false, None::<Instant>);
        let asked = batch
            .as_ref()
            .map_or(Vec::new(), |batch| batch.asked.clone());
        for queued in batch.iter_mut().flat_map(|batch| &mut batch.calls) {
            let due = queued.since + window;
            if queued.has_caller() && trouble.is_over(due) {
                queued.give_up(name, trouble, &mut self.replies);
            } else if queued.has_caller() {
                next = next.into_iter().chain([due]).min();
            }
            deferred |= queued.is_deferred();
            gone |= queued.is_pointless();
        }
        let untouched = trouble.untouched();
        self.calls.retain_mut(|queued| {
            let due = queued.since + window;
            if due > trouble.now {
                next = next.into_iter().chain([due]).min();
                return true;
            }
            queued.give_up(name, &untouched, &mut self.replies);
            !queued.is_pointless()
        });
        let mut overdue = Vec::new();
        for (id, waiter) in self.waiters.unanswered() {
            let due = waiter.since + window;
            let is_asked = asked.binary_search(&id).is_ok();
            if due <= trouble.now || is_asked && trouble.is_over(due) {
                overdue.push(id);
            } else {
                next = next.into_iter().chain([due]).min();
            }
        }
        for id in overdue {
            let Some(Waiter { reply, since, .. }) = self.waiters.remove(id) else {
                continue;
            };
            let trouble = Trouble {
                maybe_done: trouble.maybe_done && asked.binary_search(&id).is_ok(),
                ..*trouble
            };
            self.replies
                .add(reply, Err(trouble.error(name, P::WAIT, since)));
        }
        gone |= asked.iter().any(|id| !self.waiters.has(*id));
        match next {
            // It is made anew without them, unless it has been carried out.
            _ if gone => Patience::Nobody,
            Some(next) => Patience::Until(next),
            None if deferred || !self.waiters.is_empty() || batch.is_some() => Patience::Forever,
            None => Patience::Nobody,
        }
    }

    /// The server forbids the subscription: its waiters would never be notified. The batch under way may serve some.
    pub(super) fn cannot_listen(&mut self, error: Error, now: Instant) {
        if self.under_way.is_some() {
            self.subscription_refused = Some(error);
            return;
        }
        for waiter in self.waiters.take_all().into_values() {
            self.replies.add(waiter.reply, Err(error.clone()));
        }
        self.note_surplus(now);
    }

    /// The batch under way has ended.
    pub(super) fn landed(&mut self, now: Instant) {
        self.under_way = None;
        if !std::mem::take(&mut self.early).is_empty() {
            self.may_have_missed();
        }
        if let Some(error) = self.subscription_refused.take() {
            self.cannot_listen(error, now);
        }
    }
}
