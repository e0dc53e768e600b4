//! The effect of an answer on waiters and callers; and their errors where there is none.

use std::time::Duration;

use tokio::time::Instant;

use super::announcements::Found;
use super::answer::{Answer, Results};
use super::batch::{Batch, Queued, Run, What};
use super::entries::Entry;
use super::known::Known;
use super::outcome::{Outcome, Taken};
use super::primitive::{self, Held, Primitive};
use super::state::State;
use crate::transport::Value;

/// Grants that have run out are looked for so much later.
const LATE: Duration = Duration::from_millis(2);

/// An object whose last handle has gone is kept for a batch that is due so soon: longer than a grant lasts.
const SOON: Duration = Duration::from_secs(4);

const UNCONFIRMED: &str = "too few replicas have confirmed it";

/// The permits that a call has taken, if it has.
fn taken<W>(result: &primitive::Result<W>) -> Option<Taken> {
    match result {
        Ok(Outcome::Taken(taken)) => Some(*taken),
        _ => None,
    }
}

impl<P: Primitive> State<P> {
    /// The batch has been carried out, by a sending that departed at its time or later.
    pub(super) fn answered(
        &mut self,
        answer: &Answer<'_, P::Want>,
        results: Results<P::Want>,
        now: Instant,
    ) {
        let mut batch = self.take_batch();
        if let Some(clock) = answer.clock {
            self.clock = Some((batch.sent, clock));
        }
        let adds = batch.adds();
        for ((ticket, (entry, _)), held) in batch.extends.drain(..).zip(results.extends) {
            let sent = held.then_some(batch.sent);
            self.held.extended(ticket, entry.want, sent);
            if !held {
                // Others of this client's may have left the queue with it.
                self.may_have_missed();
            }
        }
        let confirms = std::mem::take(&mut batch.confirms).into_iter();
        for ((ticket, entry), taken) in confirms.zip(results.confirms) {
            if let Some(taken) = taken {
                self.entries.remove(ticket);
                self.give_to_waiter(&batch, ticket, &entry, taken);
            } else if !batch.confirms_all {
                // It had run out. Another entry, for a grant that lasts longer, takes its place; others may have left the queue with it.
                self.leaving
                    .extend(self.entries.remove(ticket).map(|entry| (ticket, entry)));
                self.may_have_missed();
            }
        }
        let calls = std::mem::take(&mut batch.calls);
        for (queued, result) in calls.into_iter().zip(results.calls) {
            self.call_answered(&batch, queued, result, now);
        }
        for (run, served) in std::mem::take(&mut batch.runs)
            .into_iter()
            .zip(results.runs)
        {
            self.run_answered(&batch, &run, served, answer.clock);
        }
        for (ticket, said, taken) in &answer.served {
            let entry = self.entries.remove(*ticket).unwrap_or(*said);
            self.give_to_waiter(&batch, *ticket, &entry, *taken);
        }
        for ticket in &answer.dropped {
            self.entries.remove(*ticket);
        }
        self.under_way = None;
        for ticket in std::mem::take(&mut self.early) {
            // The batch may have taken it away.
            self.grant(ticket, None, now);
        }
        self.learn(&batch, adds, answer, now);
        if batch.unconfirmed.is_none() {
            self.waiters.answered(batch.next);
            self.mark_unasked();
        }
        self.tick(now);
        self.landed(now);
    }

    fn run_answered(
        &mut self,
        batch: &Batch<P>,
        run: &Run<P::Want>,
        (served, last): (usize, Taken),
        clock: Option<u64>,
    ) {
        if served < run.count {
            self.held.not_granted(run.want);
        }
        let waited = u64::try_from(run.waited.as_micros()).unwrap_or(u64::MAX);
        let arrival = clock.map_or(0, |clock| {
            clock.saturating_sub(waited).max(self.last_arrival)
        });
        for (index, ticket) in (0..)
            .zip(run.ticket..)
            .take(run.count.min(served + run.room))
        {
            let entry = Entry {
                want: run.want,
                arrival: arrival + index,
                life: run.life,
            };
            if index < served as u64 {
                let before = served as u64 - 1 - index;
                let taken = Taken {
                    token: last.token.saturating_sub(before),
                    count: u32::try_from(before)
                        .map_or(0, |before| last.count.saturating_sub(before)),
                };
                self.give_to_waiter(batch, ticket, &entry, taken);
            } else {
                if self.entries.is_empty() {
                    self.checked = Some(Instant::now());
                }
                self.last_arrival = self.last_arrival.max(entry.arrival + 1);
                self.entries.insert(ticket, entry);
            }
        }
    }

    /// Notes what the answer to `batch` says of others.
    fn learn(&mut self, batch: &Batch<P>, adds: bool, answer: &Answer<'_, P::Want>, now: Instant) {
        let sent = batch.sent.timer();
        let jvms = answer.jvms.or(self.known.as_ref().map(|known| known.jvms));
        let before = self.known.as_ref().map(|known| known.available);
        self.known = Some(Known {
            seen: sent,
            available: answer.available,
            foreign: (answer.foreign).map(|waited| sent.checked_sub(waited).unwrap_or(sent)),
            jvms: jvms.unwrap_or(0),
        });
        let alone = self.known.as_ref().is_some_and(Known::is_alone);
        self.ask_at = self.ask_at.filter(|_| alone && self.held.has_all());
        self.plan(answer, now);
        if self.held.pace().is_none() {
            // Without waiters the answer does not say that.
            self.listens_to_jvms =
                answer.watches || self.listens_to_jvms && self.entries.is_empty();
        }
        if P::TELLS_AGAIN {
            let found = Found {
                before,
                available: answer.available,
                jvms: answer.jvms,
                added: adds,
                announced: batch.announce,
            };
            self.announcements.learn(&found, now);
        }
    }

    /// Notes when the queue is to be served next.
    fn plan(&mut self, answer: &Answer<'_, P::Want>, now: Instant) {
        let leases = self.held.checks_after();
        let at = |pause: Duration| now + pause + LATE;
        // An answer that says nothing does not take a promise back.
        let needs =
            |pause: &Duration| *pause < SOON || leases.is_some() || !self.waiters.is_empty();
        let next = answer.serve_in.filter(needs).map(at);
        self.serves_soon = match answer.serve_in {
            Some(pause) => pause < SOON,
            None => self.serves_soon && self.serve_at.is_some(),
        };
        self.serve_at = next.or(self.serve_at).or(leases.map(at));
        if self.held.pace().is_some() && answer.watches && !self.waiters.is_empty() {
            self.serve_at = None;
            self.check_as_first(answer.serve_in, now);
        }
        self.skip = answer.skip;
        self.serve |= self.skip.is_some();
    }

    fn call_answered(
        &mut self,
        batch: &Batch<P>,
        mut queued: Queued<P>,
        result: primitive::Result<P::Want>,
        now: Instant,
    ) {
        let What::Call(call, note) = &queued.what else {
            return;
        };
        let result = self.held.answered(call, note, result, batch.sent);
        if batch.unconfirmed.is_some() {
            let unanswered = self.unanswered(UNCONFIRMED, now);
            queued.give_up(&unanswered, true, &mut self.replies);
        }
        let Some((want, taken)) = queued.takes().zip(taken(&result)) else {
            return queued.answer(result, &mut self.replies);
        };
        let lease = self.held.lease_time(want);
        let until = batch.sent + lease;
        let grant = self.granted(want, queued.ticket, taken, 0, until);
        match queued.reply {
            Some(_) if self.is_over(want, lease, until) => {
                self.release_unclaimed(batch, grant);
                if let What::Call(call, _) = queued.what {
                    let again = Queued {
                        reply: queued.reply,
                        due: queued.due,
                        ..self.queued(call, queued.since)
                    };
                    self.calls.push_back(again);
                }
            }
            Some(reply) => self.replies.add(reply, Ok(Outcome::Granted(grant))),
            None => self.release_unclaimed(batch, grant),
        }
    }

    /// The request of the batch, which travelled alone, has been answered.
    pub(super) fn replied(&mut self, value: &Value, now: Instant) {
        let batch = self.take_batch();
        self.landed(now);
        for queued in batch.calls {
            queued.answer(Ok(Outcome::Value(value.clone())), &mut self.replies);
        }
    }
}
