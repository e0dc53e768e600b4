//! Batches that were refused, not sent or never answered; and the callers whose time is over.

use tokio::time::Instant;

use super::batch::{Batch, Queued};
use super::messages::CONFIRM_AFTER;
use super::outcome::{Grant, Ticket};
use super::primitive::{NotDone, Primitive};
use super::state::State;
use super::waiters::Id;
use crate::clock::Moment;
use crate::engine::once::Trouble;
use crate::error::Error;
use crate::transport::Refusal;

/// Why callers have no answer.
pub(super) struct Unanswered {
    name: String,
    why: Refusal,
    now: Instant,
}

impl Unanswered {
    /// The error of a caller that has waited since then; `sent`: its call may have been carried out.
    pub(super) fn error(&self, operation: &'static str, since: Instant, sent: bool) -> Error {
        let waited = self.now.saturating_duration_since(since);
        if !sent {
            return self.why.error(&self.name, waited);
        }
        Error::OutcomeUnknown {
            name: self.name.clone(),
            operation,
            waited,
            detail: self.why.detail.clone(),
        }
    }
}

impl<P: Primitive> State<P> {
    /// The batch was not carried out, because of `error`. Where the outcome of an earlier sending is unknown, `unknown` says why.
    pub(super) fn failed(&mut self, error: &Error, unknown: Option<&str>, now: Instant) {
        let mut batch = self.take_batch();
        let unknown = unknown.map(|why| self.unanswered(why, now));
        let error_of = |operation, since, may_change: bool| match &unknown {
            Some(unknown) if may_change => unknown.error(operation, since, true),
            _ => error.clone(),
        };
        self.landed(now);
        self.carry_over(&mut batch, unknown.is_some(), now);
        let why = match unknown {
            Some(_) => NotDone::Unknown,
            None => NotDone::Refused,
        };
        for mut queued in batch.calls {
            // Without a caller nobody knows of it, and nobody tries again.
            let known = queued.has_caller();
            queued.fail(&mut self.held, if known { why } else { NotDone::Unknown });
            let error = error_of(queued.name(), queued.since, !queued.is_plain());
            queued.answer(Err(error), &mut self.replies);
        }
        if batch.runs.is_empty() && batch.confirms.is_empty() && !batch.serve {
            return;
        }
        if let (Some(unknown), Error::RefusedForNow { .. }) = (&unknown, error) {
            // The others wait on: what they asked for may be done soon.
            for id in batch.asked {
                self.give_up_waiter(id, unknown, true);
            }
            self.note_surplus(now);
            return;
        }
        // An error that stops the waiters of this batch stops all.
        for (id, waiter) in self.waiters.take_all() {
            let asked = batch.asked.binary_search(&id).is_ok();
            let error = error_of(P::WAIT, waiter.since, asked && P::QUEUES);
            self.replies.add(waiter.reply, Err(error));
        }
        // Those that come now ask, too.
        self.leaving.extend(self.entries.take_all());
        self.note_surplus(now);
    }

    /// The batch was not carried out, or that is `unknown`: a later one confirms the grants that guards use, and takes entries out of the
    /// queue.
    pub(super) fn carry_over(&mut self, batch: &mut Batch<P>, unknown: bool, now: Instant) {
        if unknown {
            // Entries may have left the queue.
            self.may_have_missed();
        }
        // Something else may have been refused.
        if !(batch.calls.is_empty() && batch.runs.is_empty() && batch.confirms.is_empty()) {
            self.leaving.append(&mut batch.leaves);
            self.note_surplus(now);
        }
        if !batch.extends.is_empty() {
            self.unconfirmed.extend(batch.extends.drain(..));
            self.confirm_at.get_or_insert(now + CONFIRM_AFTER);
        }
    }

    /// The batch has not been carried out, and one of its callers has gone: what is left of it is the first of the next one.
    pub(super) fn not_sent(&mut self, now: Instant) {
        let mut batch = self.take_batch();
        self.carry_over(&mut batch, false, now);
        // Grants that were never made are not taken back.
        let calls = batch
            .calls
            .into_iter()
            .filter(|_| batch.takes_back.is_none());
        for mut queued in calls.rev() {
            queued.fail(&mut self.held, NotDone::Refused);
            self.calls.push_front(queued);
        }
        self.granted
            .extend(batch.confirms.iter().map(|(ticket, _)| *ticket));
        self.confirm_all |= batch.check && !self.entries.is_empty();
        self.serve |= batch.serve;
        self.heard += batch.heard;
        self.handed += batch.handed;
        self.unwatch |= batch.unwatch;
        self.announcements.due |= batch.announce;
        self.landed(now);
    }

    /// The outcome of the batch stays unknown: its callers have that error, and those that waited before it, as they may have been granted
    /// something.
    pub(super) fn never_answered(&mut self, now: Instant) {
        let mut batch = self.take_batch();
        self.carry_over(&mut batch, true, now);
        let unanswered = self.unanswered("its batch was never answered", now);
        let serves = P::QUEUES && batch.request().is_none();
        for mut queued in batch.calls {
            queued.fail(&mut self.held, NotDone::Unknown);
            queued.give_up(&unanswered, true, &mut self.replies);
            let taken = queued.takes().map(|want| (want, queued.ticket));
            self.may_have_taken(taken, now);
        }
        for run in &batch.runs {
            let tickets = (run.ticket..).take(run.count);
            self.may_have_taken(tickets.map(|ticket| (run.want, ticket)), now);
        }
        let all = self.waiters.iter().map(|(id, _)| id);
        let granted = |id: &Id| {
            serves && self.waiters.is_answered(*id) || batch.asked.binary_search(id).is_ok()
        };
        let before: Vec<Id> = all.filter(granted).collect();
        for id in before {
            self.give_up_waiter(id, &unanswered, true);
        }
        self.note_surplus(now);
        self.landed(now);
    }

    /// Nobody will know whether these have been taken.
    fn may_have_taken(&mut self, all: impl IntoIterator<Item = (P::Want, Ticket)>, now: Instant) {
        for (want, ticket) in all {
            if let Some(call) = P::give_back_unknown(Grant::new(want, ticket)) {
                self.call(call, None, now);
            }
        }
    }

    /// The batch has had no answer so far. Returns whether all its callers wait for it still: where one has gone, it must not be sent as it
    /// is.
    pub(super) fn troubled(&mut self, trouble: &Trouble<'_>, now: Instant) -> bool {
        if let Some(under_way) = &mut self.under_way {
            under_way.trouble = Some(trouble.why.clone());
            (under_way.maybe_done, under_way.departed) = (trouble.maybe_done, false);
        }
        self.give_up(now);
        let Some(under_way) = &mut self.under_way else {
            return false;
        };
        under_way.maybe_done |= trouble.departs;
        under_way.departed = trouble.departs;
        let batch = &under_way.batch;
        batch.asked.iter().all(|id| self.waiters.has(*id))
            && !batch.calls.iter().any(Queued::is_pointless)
    }

    /// Ends the callers that have had no answer for too long, between two sendings for the retry window, and notes when the next ones will
    /// have.
    pub(super) fn give_up(&mut self, now: Instant) {
        let mut under_way = self.under_way.take();
        let trouble = under_way.as_ref().and_then(|one| one.trouble.clone());
        let sent = under_way.as_ref().is_some_and(|one| one.maybe_done);
        let between = under_way.as_ref().is_some_and(|one| !one.departed);
        let window = between.then(|| self.core.config.retry_window);
        let unanswered = Unanswered {
            name: self.name.clone(),
            why: trouble.unwrap_or_else(|| Refusal::unreachable("its time is over")),
            now,
        };
        let mut next: Option<Instant> = None;
        let mut is_over = |since: Instant, due: Option<Instant>| {
            let window = window.and_then(|window| since.checked_add(window));
            let due = due.into_iter().chain(window).min();
            let over = due.is_some_and(|due| due <= now);
            next = next.into_iter().chain(due.filter(|_| !over)).min();
            over
        };
        let departed = under_way.iter_mut().flat_map(|one| &mut one.batch.calls);
        let departed = departed.map(|queued| (queued, sent));
        let waiting = self.calls.iter_mut().map(|queued| (queued, false));
        for (queued, sent) in departed.chain(waiting) {
            if queued.has_caller() && is_over(queued.since, queued.due) {
                queued.give_up(&unanswered, sent, &mut self.replies);
            }
        }
        self.calls.retain(|queued| !queued.is_pointless());
        let waiters = self.waiters.unanswered();
        let late = waiters.filter(|(_, waiter)| is_over(waiter.since, waiter.due));
        let late: Vec<Id> = late.map(|(id, _)| id).collect();
        let asked = under_way.as_ref().map(|one| &one.batch.asked);
        for id in late {
            let asked = asked.is_some_and(|asked| asked.binary_search(&id).is_ok());
            self.give_up_waiter(id, &unanswered, sent && asked);
        }
        self.due_at = next;
        self.under_way = under_way;
        self.note_surplus(now);
    }

    /// Ends a wait without an answer; `sent`: it may have been granted. A wait that takes nothing, as at a latch, has had no effect.
    pub(super) fn give_up_waiter(&mut self, id: Id, unanswered: &Unanswered, sent: bool) {
        if let Some(waiter) = self.waiters.remove(id) {
            let sent = sent && P::QUEUES;
            let error = unanswered.error(P::WAIT, waiter.since, sent);
            self.replies.add(waiter.reply, Err(error));
        }
    }

    /// The reason of callers that will have no answer.
    pub(super) fn unanswered(&self, why: &str, now: Instant) -> Unanswered {
        Unanswered {
            name: self.name.clone(),
            why: Refusal::unreachable(why),
            now,
        }
    }

    /// The calls of the batch under way, for the log.
    pub(super) fn contents(&self) -> String {
        let under_way = self.under_way.as_ref();
        under_way.map_or_else(String::new, |under_way| under_way.batch.contents())
    }

    /// The batch under way has ended; it counts as under way until it has [`landed`](Self::landed).
    pub(super) fn take_batch(&mut self) -> Batch<P> {
        match &mut self.under_way {
            Some(under_way) => {
                let nothing = Batch::empty(under_way.batch.sent);
                std::mem::replace(&mut under_way.batch, nothing)
            }
            None => Batch::empty(Moment::now()),
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
