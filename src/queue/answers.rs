//! The effect of an answer on waiters and callers; and their errors where there is none.

use std::time::Duration;

use tokio::time::Instant;

use super::answer::Answer;
use super::batch::{Batch, Queued, Run};
use super::entries::Entry;
use super::outcome::{Grant, Outcome, Taken, Ticket, Told, Want};
use super::primitive::{self, Call, Held, InVain, Primitive};
use super::results::Results;
use super::state::{ANNOUNCEMENTS, Item, Known, State, UNHEARD};
use super::waiters::{Id, Waiter};
use crate::clock::Moment;
use crate::engine::once::{Patience, RUNTIME_ENDED, Trouble};
use crate::error::Error;

/// Grants that have run out are looked for so much later.
const LATE: Duration = Duration::from_millis(2);
/// An object is kept for a look until then though its last handle has gone: longer than a grant lasts.
const SOON: Duration = Duration::from_secs(4);
/// A release that was forbidden is tried again after so long.
const RETRY: Duration = Duration::from_secs(1);

const UNCONFIRMED: &str = "too few replicas have confirmed it";

fn is_forbidden(error: &Error) -> bool {
    matches!(
        error,
        Error::PermissionDenied { .. } | Error::Authentication { .. }
    )
}

/// The permits that a call has taken, if it has.
fn taken<W>(result: &primitive::Result<W>) -> Option<Taken> {
    match result {
        Ok(Outcome::Taken(taken)) => Some(*taken),
        _ => None,
    }
}

impl<P: Primitive> State<P> {
    /// `batch` has been carried out, by a sending that departed at its time or later.
    pub(super) fn answered(
        &mut self,
        name: &str,
        mut batch: Batch<P>,
        answer: &Answer<'_, P::Want>,
        results: Results<P::Want>,
        now: Instant,
    ) -> Told<P::Want> {
        let mut told = Told::default();
        if let Some(clock) = answer.clock {
            self.clock = Some((batch.sent, clock));
        }
        let adds = batch.adds();
        for ((ticket, (entry, _)), held) in batch.extends.drain(..).zip(results.extends) {
            let sent = held.then_some(batch.sent);
            self.held.extended(ticket, entry.want, sent);
            if !held {
                // Others of this client's may have left the queue with it.
                self.missed();
            }
        }
        let confirms = std::mem::take(&mut batch.confirms).into_iter();
        for ((ticket, entry), taken) in confirms.zip(results.confirms) {
            if let Some(taken) = taken {
                self.entries.remove(ticket);
                let lease = self.lease_of(entry.want, taken, Duration::ZERO);
                self.in_time(true);
                self.served(&batch, ticket, &entry, taken, lease, &mut told);
            } else if !batch.confirms_all {
                // It had run out. Another entry, for a grant that lasts longer, takes its place; others may have left the queue with it.
                self.in_time(false);
                self.leaving
                    .extend(self.entries.remove(ticket).map(|entry| (ticket, entry)));
                self.missed();
            }
        }
        let calls = std::mem::take(&mut batch.calls);
        for (queued, result) in calls.into_iter().zip(results.calls) {
            self.call_answered(name, &batch, queued, result, &mut told);
        }
        for (run, served) in std::mem::take(&mut batch.runs)
            .into_iter()
            .zip(results.runs)
        {
            self.run_answered(&batch, &run, served, answer.clock, &mut told);
        }
        for (ticket, said, taken) in &answer.served {
            let entry = self.entries.remove(*ticket).unwrap_or(*said);
            let lease = self.lease_of(entry.want, *taken, Duration::ZERO);
            self.served(&batch, *ticket, &entry, *taken, lease, &mut told);
        }
        for ticket in &answer.dropped {
            self.entries.remove(*ticket);
        }
        self.under_way = None;
        for ticket in std::mem::take(&mut self.early) {
            // The batch may have taken it away.
            self.grant(ticket, None, now, &mut told);
        }
        self.learn(&batch, adds, answer, now);
        if !batch.unconfirmed {
            self.waiters.answered(batch.next);
            self.told_to_wait();
        }
        told.append(self.tick(now));
        told.append(self.landed(now));
        told
    }

    fn run_answered(
        &mut self,
        batch: &Batch<P>,
        run: &Run<P::Want>,
        (served, last): (usize, Taken),
        clock: Option<u64>,
        told: &mut Told<P::Want>,
    ) {
        if served < run.count {
            self.held.asked_in_vain(run.want, InVain::Taken);
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
                let lease = self.lease_of(run.want, taken, run.lease);
                self.served(batch, ticket, &entry, taken, lease, told);
            } else {
                if self.entries.is_empty() {
                    self.checked = Some(Instant::now());
                }
                self.last_arrival = self.last_arrival.max(entry.arrival + 1);
                self.entries.insert(ticket, entry);
            }
        }
    }

    /// The lease that a script has set: it knew what the owner held at the departure, and by its own steps.
    fn lease_of(&self, want: P::Want, taken: Taken, departed: Duration) -> Duration {
        match taken.count {
            1 => self.held.lease_alone(want),
            _ => departed.max(self.held.lease_time(want)),
        }
    }

    /// Notes what the answer to `batch` says of others.
    fn learn(&mut self, batch: &Batch<P>, adds: bool, answer: &Answer<'_, P::Want>, now: Instant) {
        let sent = batch.sent.timer();
        let jvms = answer.jvms.or(self.known.as_ref().map(|known| known.jvms));
        self.jvms_seen |= jvms.is_some_and(|jvms| jvms > 0);
        let before = self.known.as_ref().map(|known| known.available);
        self.known = Some(Known {
            seen: sent,
            available: answer.available,
            foreign: (answer.foreign).map(|waited| sent.checked_sub(waited).unwrap_or(sent)),
            jvms: jvms.unwrap_or(0),
        });
        let alone = self.known.as_ref().is_some_and(Known::is_alone);
        self.ask_at = self.ask_at.filter(|_| alone && self.held.has_all());
        let leases = self.held.looks_after();
        let at = |look: Duration| now + look + LATE;
        // An answer that says nothing does not take a promise back.
        let needs = |look: &Duration| *look < SOON || leases.is_some() || !self.waiters.is_empty();
        let look = answer.look.filter(needs).map(at);
        self.look_at = look.or(self.look_at).or(leases.map(at));
        self.looks_soon = answer.look.is_some_and(|look| look < SOON);
        if self.held.pace().is_some() {
            if answer.watches && !self.waiters.is_empty() {
                self.look_at = None;
                self.look_as_first(answer.look, now);
            }
        } else {
            // Without waiters the answer does not say that.
            self.watches = answer.watches || self.watches && self.entries.is_empty();
        }
        self.pass = answer.passed;
        self.look |= self.pass.is_some();
        let found =
            before.is_some_and(|before| answer.available > before) && answer.jvms != Some(0);
        if answer.available <= 0 || !P::TELLS_AGAIN {
            self.announce_at = None;
        } else if adds || found && self.announce_at.is_none() {
            let step = if answer.jvms == Some(0) { UNHEARD } else { 0 };
            self.announce_at = Some((step, now + ANNOUNCEMENTS[step]));
        } else if batch.announce && before.is_some_and(|before| answer.available < before) {
            // It is of use: others may be asleep still.
            self.announce_at = Some((0, now + ANNOUNCEMENTS[0]));
        }
    }

    /// `entry` has been granted: the earliest waiter that wants the same has it.
    fn served(
        &mut self,
        batch: &Batch<P>,
        ticket: Ticket,
        entry: &Entry<P::Want>,
        taken: Taken,
        lease: Duration,
        told: &mut Told<P::Want>,
    ) {
        // The waiter that it was made for has gone, and another one has it now.
        self.leaving.retain(|(leaving, _)| *leaving != ticket);
        let until = batch.sent + lease;
        let over = batch.unconfirmed || self.is_over(entry.want, lease, until);
        // That a latch was open then says nothing to those that have come since.
        let end = if P::MOST_QUEUED > 0 {
            Id::MAX
        } else {
            batch.next
        };
        let waiter = if over {
            None
        } else {
            self.waiters.take(entry.want, end)
        };
        match waiter {
            Some(waiter) => self.hold(ticket, entry, taken, waiter, until, told),
            None => {
                let grant = self.granted(entry.want, ticket, taken, entry.life, until);
                self.nobody_has(batch, grant);
            }
        }
    }

    /// Whether it has ended before a caller has it, and is taken again. A lease that is shorter than two round trips is not: it would be over
    /// each time, so its holder finds it lost.
    fn is_over(&self, want: P::Want, lease: Duration, until: Moment) -> bool {
        want.is_leased() && until.has_come() && lease > 2 * self.core.round_trip()
    }

    /// To calls that wait it is as if it had never been taken.
    fn nobody_has(&mut self, batch: &Batch<P>, grant: Grant<P::Want>) {
        let call = P::give_back(grant);
        if batch.unconfirmed {
            self.returns.push(call);
            return;
        }
        let queued = self.queued(call, None, Instant::now());
        self.calls.push_front(Item::Call(queued));
    }

    fn call_answered(
        &mut self,
        name: &str,
        batch: &Batch<P>,
        mut queued: Queued<P>,
        result: primitive::Result<P::Want>,
        told: &mut Told<P::Want>,
    ) {
        let result = (self.held).answered(&queued.call, &queued.note, result, batch.sent);
        if batch.unconfirmed {
            queued.give_up(name, &Trouble::unknown(UNCONFIRMED), told);
        }
        let Some((want, taken)) = queued.call.takes().zip(taken(&result)) else {
            return queued.answer(result, told);
        };
        let lease = self.lease_of(want, taken, queued.lease);
        let until = batch.sent + lease;
        let grant = self.granted(want, queued.ticket, taken, 0, until);
        match queued.reply {
            Some(_) if self.is_over(want, lease, until) => {
                self.nobody_has(batch, grant);
                self.call(queued.call, queued.reply, queued.since);
            }
            Some(reply) => told.add(reply, Ok(Outcome::Granted(grant))),
            None => self.nobody_has(batch, grant),
        }
    }

    /// The batch that releases grants which no replica has confirmed. It is repeated until one has it, so the next one serves waiters.
    pub(super) fn returning(&mut self) -> Option<Batch<P>> {
        if self.returns.is_empty() {
            return None;
        }
        let returns = std::mem::take(&mut self.returns).into_iter();
        let calls = returns.map(|call| {
            let mut queued = self.queued(call, None, Instant::now());
            self.held.departs(&queued.call, &mut queued.note);
            queued
        });
        let calls = calls.collect();
        let apart = !self.entries.is_empty();
        self.look |= apart;
        Some(Batch {
            header: self.held.header(&mut std::iter::empty()),
            calls,
            apart,
            ..Batch::empty()
        })
    }

    /// `batch` was not carried out, because of `error`; or one sending was not, and the others are unknown: `doubt`.
    pub(super) fn failed(
        &mut self,
        batch: Batch<P>,
        error: &Error,
        doubt: Option<&Error>,
        now: Instant,
    ) -> Told<P::Want> {
        let mut told = self.landed(now);
        let why = InVain::of(doubt.is_some());
        let forbidden = doubt.is_none() && is_forbidden(error) && !self.closed;
        for mut queued in batch.calls {
            if forbidden && !queued.has_caller() && queued.stays_owed(now) {
                self.held
                    .failed(&queued.call, &mut queued.note, InVain::Forbidden);
                self.refused.push(queued);
                self.retry_at.get_or_insert(now + RETRY);
            } else {
                self.held.failed(&queued.call, &mut queued.note, why);
                queued.answer(Err(doubt.unwrap_or(error).clone()), &mut told);
            }
        }
        for run in &batch.runs {
            self.held.asked_in_vain(run.want, why);
        }
        if batch.runs.is_empty() && batch.confirms.is_empty() && !batch.look {
            return told;
        }
        // An error that stops the waiters of this batch stops all.
        for (id, waiter) in self.waiters.take_all() {
            let asked = batch.asked.binary_search(&id).is_ok();
            let error = doubt.filter(|_| asked).unwrap_or(error);
            told.add(waiter.reply, Err(error.clone()));
        }
        // Those that come now ask, too.
        self.leaving.extend(self.entries.take_all());
        self.note_surplus(Instant::now());
        told
    }

    /// `batch` has never been sent, and one of its callers has gone: what is left of it is the first of the next one.
    pub(super) fn not_sent(&mut self, batch: Batch<P>) -> Told<P::Want> {
        for mut queued in batch.calls.into_iter().rev() {
            self.held
                .failed(&queued.call, &mut queued.note, InVain::NotDone);
            self.calls.push_front(Item::Call(queued));
        }
        for run in &batch.runs {
            self.held.asked_in_vain(run.want, InVain::NotDone);
        }
        self.unconfirmed.extend(batch.extends);
        self.granted
            .extend(batch.confirms.iter().map(|(ticket, _)| *ticket));
        self.leaving.extend(batch.leaves);
        self.recheck |= batch.check && !self.entries.is_empty();
        self.look |= batch.look;
        self.heard += batch.heard;
        self.handed += batch.handed;
        self.unwatch |= batch.unwatch;
        let now = Instant::now();
        self.note_surplus(now);
        self.landed(now)
    }

    /// The outcome of a batch stays unknown; its callers have their errors. Callers that waited before it may have been granted
    /// something.
    pub(super) fn never_answered(
        &mut self,
        name: &str,
        mut batch: Batch<P>,
        trouble: &Trouble<'_>,
    ) -> Told<P::Want> {
        let mut told = Told::default();
        for queued in &mut batch.calls {
            self.held
                .failed(&queued.call, &mut queued.note, InVain::Unknown);
            let taken = queued.call.takes().map(|want| (want, queued.ticket));
            self.may_have_taken(taken, trouble.now);
        }
        for run in &batch.runs {
            self.held.asked_in_vain(run.want, InVain::Unknown);
            let tickets = (run.ticket..).take(run.count);
            self.may_have_taken(tickets.map(|ticket| (run.want, ticket)), trouble.now);
        }
        let all = self.waiters.iter().map(|(id, _)| id);
        let granted = |id: &Id| P::MOST_QUEUED > 0 && self.waiters.is_answered(*id);
        let before: Vec<Id> = all.filter(granted).collect();
        for waiter in before.into_iter().filter_map(|id| self.waiters.remove(id)) {
            told.add(
                waiter.reply,
                Err(trouble.error(name, P::WAIT, waiter.since)),
            );
        }
        self.note_surplus(trouble.now);
        told.append(self.landed(trouble.now));
        told
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
    ) -> (Told<P::Want>, Patience) {
        let window = self.core.config.retry_window;
        let mut told = Told::default();
        let (mut owed, mut gone, mut next) = (false, false, None::<Instant>);
        let asked = batch
            .as_ref()
            .map_or(Vec::new(), |batch| batch.asked.clone());
        for queued in batch.iter_mut().flat_map(|batch| &mut batch.calls) {
            let due = queued.since + window;
            if queued.has_caller() && trouble.is_over(due) {
                queued.give_up(name, trouble, &mut told);
            } else if queued.has_caller() {
                next = next.into_iter().chain([due]).min();
            }
            owed |= queued.call.is_owed();
            gone |= queued.is_pointless();
        }
        let untouched = trouble.untouched();
        self.calls.retain_mut(|item| {
            let since = match item {
                Item::Call(queued) => queued.since,
                Item::Command(command) => command.since(),
            };
            if since + window > trouble.now {
                next = next.into_iter().chain([since + window]).min();
                return true;
            }
            match item {
                Item::Call(queued) => {
                    queued.give_up(name, &untouched, &mut told);
                    !queued.is_pointless()
                }
                Item::Command(command) => {
                    command.give_up(name, &untouched);
                    false
                }
            }
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
                doubtful: trouble.doubtful && asked.binary_search(&id).is_ok(),
                ..*trouble
            };
            told.add(reply, Err(trouble.error(name, P::WAIT, since)));
        }
        gone |= asked.iter().any(|id| !self.waiters.has(*id));
        let patience = match next {
            // It is made anew without them, unless it has been carried out.
            _ if gone => Patience::Nobody,
            Some(next) => Patience::Until(next),
            None if owed || !self.waiters.is_empty() || batch.is_some() => Patience::Forever,
            None => Patience::Nobody,
        };
        (told, patience)
    }

    /// Nobody waits from now on; what was asked for is carried out.
    pub(super) fn close(
        &mut self,
        name: &str,
        key: &str,
        why: &'static str,
        now: Instant,
    ) -> Told<P::Want> {
        self.closed = true;
        (self.announce_at, self.look_at) = (None, None);
        (self.announce, self.look, self.recheck) = (false, false, false);
        self.unwatch |= std::mem::take(&mut self.watches);
        self.retry();
        self.surplus_at = None;
        for call in self.held.last_calls() {
            self.call(call, None, now);
        }
        let mut told = self.end_waits(name, key, why, now);
        told.append(self.tick(now));
        told
    }

    /// No task carries anything out any more. Also returns the deferred calls.
    pub(super) fn abandon(
        &mut self,
        name: &str,
        key: &str,
        now: Instant,
    ) -> (Told<P::Want>, Vec<String>) {
        let mut told = self.close(name, key, RUNTIME_ENDED, now);
        let mut owed = Vec::new();
        for item in std::mem::take(&mut self.calls) {
            if let Item::Call(queued) = item {
                if !queued.is_pointless() && queued.reply.is_none() {
                    owed.push(queued.call.to_string());
                }
                if let Some(reply) = queued.reply {
                    told.add(reply, Err(self.core.gone(name)));
                }
            }
        }
        (told, owed)
    }

    /// The runtime has ended while `batch` was under way.
    pub(super) fn lose(&mut self, name: &str, batch: Batch<P>) -> Told<P::Want> {
        let trouble = Trouble::unknown(RUNTIME_ENDED);
        let mut told = Told::default();
        for mut queued in batch.calls {
            self.held
                .failed(&queued.call, &mut queued.note, InVain::Unknown);
            queued.give_up(name, &trouble, &mut told);
        }
        for id in batch.asked {
            if let Some(waiter) = self.waiters.remove(id) {
                told.add(
                    waiter.reply,
                    Err(self.ended(name, true, &trouble, waiter.since)),
                );
            }
        }
        told
    }

    /// All waits end with the error `why`, as the client has ended. Grants that they may have got meanwhile are released.
    fn end_waits(
        &mut self,
        name: &str,
        key: &str,
        why: &'static str,
        now: Instant,
    ) -> Told<P::Want> {
        let trouble = Trouble::unknown(why);
        let under_way = self.under_way.as_ref();
        let sent = under_way.filter(|batch| self.core.sent.since(batch.sent_before, Some(key)));
        let asked = sent.map_or(Vec::new(), |batch| batch.asked.clone());
        // They may have what is being confirmed.
        let confirms = sent.into_iter().flat_map(|batch| &batch.confirms);
        let granted = confirms.filter_map(|ticket| self.entries.get(*ticket));
        let granted: Vec<P::Want> = granted.map(|entry| entry.want).collect();
        let mut told = Told::default();
        for (id, waiter) in self.waiters.take_all() {
            let in_doubt = asked.binary_search(&id).is_ok() || granted.contains(&waiter.want);
            let error = self.ended(name, in_doubt, &trouble, waiter.since);
            told.add(waiter.reply, Err(error));
        }
        self.note_surplus(now);
        told
    }

    /// The server forbids the subscription: its waiters would never be notified. The batch under way may serve some.
    pub(super) fn cannot_listen(&mut self, error: Error, now: Instant) -> Told<P::Want> {
        let mut told = Told::default();
        if self.under_way.is_some() {
            self.unheard = Some(error);
            return told;
        }
        for waiter in self.waiters.take_all().into_values() {
            told.add(waiter.reply, Err(error.clone()));
        }
        self.note_surplus(now);
        told
    }

    /// The batch under way has ended.
    fn landed(&mut self, now: Instant) -> Told<P::Want> {
        self.under_way = None;
        if !std::mem::take(&mut self.early).is_empty() {
            self.missed();
        }
        match self.unheard.take() {
            Some(error) => self.cannot_listen(error, now),
            None => Told::default(),
        }
    }

    /// The error of a waiter as its client has ended: one that takes nothing, as at a latch, is in no doubt.
    fn ended(&self, name: &str, in_doubt: bool, trouble: &Trouble<'_>, since: Instant) -> Error {
        match in_doubt && P::MOST_QUEUED > 0 {
            true => trouble.error(name, P::WAIT, since),
            false => self.core.gone(name),
        }
    }
}
