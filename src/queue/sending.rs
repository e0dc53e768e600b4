//! The choice of the next batch.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::batch::{Batch, Queued, Run};
use super::entries::{Entry, MOST};
use super::outcome::{Ticket, Want};
use super::primitive::{Call, Held, MOST_TOGETHER, Overtaking, Primitive};
use super::state::{State, UnderWay};
use super::waiters::Id;
use crate::clock::Moment;

/// A batch that serves the queue confirms all entries where that was so long ago.
const CHECK_AGAIN: Duration = Duration::from_secs(1);

impl<P: Primitive> State<P> {
    pub(super) fn has_work(&self) -> bool {
        !self.calls.is_empty()
            || self.returns.is_some()
            || !self.granted.is_empty()
            || self.confirm_all && !self.entries.is_empty()
            || self.serve
            || self.announcements.due
            || self.unwatch
            || self.asks()
    }

    /// Whether a batch departs for waiters without an entry.
    pub(super) fn asks(&self) -> bool {
        if !P::QUEUES {
            return self.waiters.unanswered().next().is_some();
        }
        self.ask_at.is_none() && self.entries.len() <= MOST / 2 && self.without_entry() > 0
            || !self.overtaking(&[]).is_empty()
    }

    /// Lets the next batch depart.
    pub(super) fn depart(&mut self, now: Moment) -> Option<&Batch<P>> {
        while self.calls.front().is_some_and(Queued::is_pointless) {
            self.calls.pop_front();
        }
        if !self.has_work() {
            return None;
        }
        let batch = match self.returns.take() {
            Some((number, calls)) => self.taking_back(number, calls, now),
            None => self.batch(now),
        };
        let under_way = Box::new(UnderWay {
            batch,
            maybe_done: true,
            trouble: None,
            departed: true,
        });
        Some(&self.under_way.insert(under_way).batch)
    }

    /// The batch that releases grants of an earlier one which no replica has confirmed. It is repeated until one has it, so the next one
    /// serves this client's waiters. Its script serves no forgotten entry either: that would leave the counter as it was, and nothing
    /// for replicas to confirm.
    fn taking_back(&mut self, number: u64, calls: Vec<P::Call>, sent: Moment) -> Batch<P> {
        let calls = calls.into_iter().map(|call| {
            let mut queued = self.queued(call, sent.timer());
            queued.depart(&mut self.held);
            queued
        });
        let calls = calls.collect();
        self.serve = true;
        Batch {
            header: self.held.header(&mut std::iter::empty()),
            calls,
            apart: true,
            takes_back: Some(number),
            ..Batch::empty(sent)
        }
    }

    fn batch(&mut self, sent: Moment) -> Batch<P> {
        let now = sent.timer();
        if (self.calls.front()).is_some_and(|next| next.request().is_some()) {
            return Batch {
                calls: self.calls.pop_front().into_iter().collect(),
                ..Batch::empty(sent)
            };
        }
        // It finds out, too, what this client has missed.
        let is_old = |at: Instant| now.saturating_duration_since(at) >= CHECK_AGAIN;
        if self.serve && self.checked.is_none_or(is_old) {
            self.may_have_missed();
        }
        let calls = self.take_calls();
        let mut extends: Vec<_> = std::mem::take(&mut self.unconfirmed).into_iter().collect();
        extends.retain(|(ticket, (entry, _))| self.held.has(*ticket, entry.want));
        self.ask_at = None;
        let deferred = self.sends_apart() && calls.first().is_some_and(Queued::is_deferred);
        let mut batch = Batch {
            extends,
            leaves: std::mem::take(&mut self.leaving),
            calls,
            behind: self.last_arrival,
            serve: std::mem::take(&mut self.serve),
            skip: self.skip.take(),
            announce: std::mem::take(&mut self.announcements.due),
            check: self.confirm_all && !self.entries.is_empty(),
            confirms_all: self.confirm_all || !self.hears,
            unwatch: std::mem::take(&mut self.unwatch),
            heard: std::mem::take(&mut self.heard),
            handed: std::mem::take(&mut self.handed),
            next: self.waiters.next(),
            ..Batch::empty(sent)
        };
        let mut granted = std::mem::take(&mut self.granted);
        self.take_surplus(&mut granted, &mut batch.leaves);
        self.surplus_at = None;
        self.confirm_all = false;
        if batch.confirms_all {
            self.checked = Some(now);
            granted = self.entries.iter().map(|(ticket, _)| ticket).collect();
        }
        let confirms = granted.into_iter();
        let confirms = confirms.filter_map(|ticket| Some((ticket, *self.entries.get(ticket)?)));
        batch.confirms = confirms.collect();
        if deferred {
            // Waiters are asked for by the next batch: its answer is theirs.
            batch.next = 0;
            batch.apart = !self.entries.is_empty();
            self.serve = batch.apart || batch.serve && !P::QUEUES;
        } else if P::QUEUES || batch.serve || self.asks() {
            self.ask(&mut batch, now);
        }
        let header = self.held.header(&mut batch.wants());
        Batch { header, ..batch }
    }

    /// With replicas to wait for, deferred calls travel apart: they are repeated until a replica has them, whereas permits that others have
    /// asked for are taken back.
    fn sends_apart(&self) -> bool {
        self.core.config.replicas.is_some()
    }

    /// The calls for the next batch.
    fn take_calls(&mut self) -> Vec<Queued<P>> {
        let apart = self.sends_apart();
        let mut calls: Vec<Queued<P>> = Vec::new();
        // A release of what one of these has taken departs when the answer to that is known.
        let mut owners = Vec::new();
        let mut size = 0;
        while size < MOST_TOGETHER
            && let Some(next) = self.calls.front()
            && let Some(call) = next.call()
            && (!apart
                || (calls.first()).is_none_or(|first| first.is_deferred() == next.is_deferred()))
            && (call.takes().is_some() || !owners.iter().any(|want| call.concerns(*want)))
        {
            let as_many = call.size();
            if let Some(mut queued) = self.calls.pop_front()
                && !queued.is_pointless()
            {
                queued.depart(&mut self.held);
                let takes = queued.takes();
                owners.extend(takes.filter(|want| want.lets_in(*want)));
                size += as_many;
                calls.push(queued);
            }
        }
        calls
    }

    /// Moves the entries without a waiter to `leaves`, those that are `granted` first: others wait for them.
    fn take_surplus(
        &mut self,
        granted: &mut Vec<Ticket>,
        leaves: &mut Vec<(Ticket, Entry<P::Want>)>,
    ) {
        let surplus: Vec<_> = self.surplus().collect();
        for (want, mut count) in surplus {
            while count > 0
                && let Some(ticket) = (granted.iter().copied())
                    .find(|ticket| {
                        self.entries
                            .get(*ticket)
                            .is_some_and(|entry| entry.want == want)
                    })
                    .or_else(|| self.entries.alike(want).next_back())
            {
                granted.retain(|other| *other != ticket);
                leaves.extend(self.entries.remove(ticket).map(|entry| (ticket, entry)));
                count -= 1;
            }
        }
    }

    /// Waiters without an entry join `batch`.
    fn ask(&mut self, batch: &mut Batch<P>, now: Instant) {
        let most = if P::QUEUES { MOST } else { 0 };
        let mut room = most.saturating_sub(self.entries.len());
        let together = if self.entries.is_empty() {
            P::MOST_ASKED
        } else {
            room
        };
        let mut covered: BTreeMap<P::Want, usize> = self.entries.wants(..).collect();
        for (id, waiter) in self.waiters.iter() {
            if batch.asked.len() >= together {
                break;
            }
            if let Some(count) = covered.get_mut(&waiter.want).filter(|count| **count > 0) {
                *count -= 1;
                continue;
            }
            batch.asked.push(id);
            let joins = |run: &&mut Run<P::Want>| run.want == waiter.want && run.want.adds_up();
            match batch.runs.last_mut().filter(joins) {
                Some(run) => run.count += 1,
                None => {
                    let lease = self.held.lease_time(waiter.want);
                    batch.runs.push(Run::of(waiter, lease, now));
                }
            }
        }
        for run in &mut batch.runs {
            run.room = run.count.min(room);
            room -= run.room;
        }
        let (mut room, mut more) = (most, Vec::new());
        for want in self.overtaking(&batch.runs) {
            let is_asked = |id: &Id| batch.asked.binary_search(id).is_ok();
            let first = self.waiters.alike(want).next();
            let first = first.filter(|first| !is_asked(first));
            let Some(waiter) = first.and_then(|first| self.waiters.get(first)) else {
                continue;
            };
            let alike = self.waiters.alike(want).filter(|id| !is_asked(id));
            let before = more.len();
            more.extend(alike.take(if want.adds_up() { room } else { 1 }));
            let count = more.len() - before;
            room = room.saturating_sub(count);
            let run = Run::of(waiter, self.held.lease_time(want), now);
            batch.runs.push(Run {
                count,
                room: count,
                ..run
            });
            if room == 0 && want.adds_up() {
                break;
            }
        }
        batch.asked.extend(more);
        batch.asked.sort_unstable();
        for run in &mut batch.runs {
            run.ticket = self.core.next_sequences(run.count as u64);
        }
    }

    /// How many waiters have no entry.
    fn without_entry(&self) -> usize {
        let covered = self.entries.wants(..);
        let covered = covered.map(|(want, count)| count.min(self.waiters.count(want)));
        self.waiters.len() - covered.sum::<usize>()
    }

    /// Wants that may be granted past the entries. Neither an entry nor one of `runs` stands for these.
    fn overtaking(&self, runs: &[Run<P::Want>]) -> Vec<P::Want> {
        if self.waiters.is_empty() {
            return Vec::new();
        }
        let joining = runs.iter().filter(|run| run.room > 0).map(|run| run.want);
        match self.held.overtaking() {
            Overtaking::Smaller => {
                let queued = self.entries.wants(..).map(|(want, _)| want).next();
                let least = joining.chain(queued).map(Want::amount).min();
                let wants = self.waiters.wants(..).map(|(want, _)| want);
                wants
                    .take_while(|want| least.is_none_or(|least| want.amount() < least))
                    .take(MOST_TOGETHER)
                    .collect()
            }
            Overtaking::These(ranges) => {
                let joining: Vec<_> = joining.collect();
                let wants = ranges
                    .into_iter()
                    .flat_map(|range| self.waiters.wants(range));
                let stands = |want| self.entries.count(want) > 0 || joining.contains(&want);
                wants
                    .map(|(want, _)| want)
                    .filter(|want| !stands(*want))
                    .collect()
            }
        }
    }
}
