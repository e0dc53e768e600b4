//! How a round ends, and who is told what: when it was answered or refused, and while it is not.

use std::time::Duration;

use tokio::time::Instant;

use super::state::{Item, State};
use super::{Batch, Done, Got, Outcome, Primitive, Queued, Refused, Ticket, Told, Verdict};
use crate::engine::few::Few;
use crate::engine::once::{CLIENT_CLOSED, Patience, RUNTIME_ENDED, Trouble, shut_down};
use crate::error::{Error, Result};
use crate::sync::unlocked;
use crate::transport::Reason;

/// A shutdown waits so long behind the last call of a caller for those that the answers ask for.
const LONGEST_OWED: Duration = Duration::from_secs(1);

/// An answer, and what is known of the sending that it belongs to.
pub(super) struct Answered<P: Primitive> {
    pub(super) verdict: Verdict<P>,
    /// The sending that was answered was made at this time or later.
    pub(super) sent: Instant,
    pub(super) now: Instant,
}

impl<P: Primitive> State<P> {
    /// `batch` has been answered.
    pub(super) fn arrive(
        &mut self,
        name: &str,
        mut batch: Batch<P>,
        answered: Answered<P>,
    ) -> Told<P> {
        let Answered { verdict, sent, now } = answered;
        let mut told = Told(Few::up_to(batch.calls.len() + batch.asks.len()));
        let Verdict {
            replies,
            grants,
            look,
            stopped,
            later,
            owed,
        } = verdict;
        let mut surplus = Vec::new();
        if self.closed && batch.calls.iter().any(|queued| !queued.later) {
            self.owes_until = Some(now + LONGEST_OWED);
        }
        let calls = std::mem::take(&mut batch.calls);
        let mut allowed = false;
        for (queued, done) in calls.into_iter().zip(replies) {
            match done {
                Done::Reply(reply) => {
                    allowed |= queued.probes;
                    if batch.unconfirmed && !queued.has_caller() {
                        surplus.extend(P::take_back(reply));
                    } else {
                        told.answer(queued, Ok(Outcome::Reply(reply)));
                    }
                }
            }
        }
        if allowed {
            self.try_all_again();
        }
        let asked = !batch.asks.is_empty();
        self.told = self.told.max(batch.end);
        self.names_nobody();
        let asks = std::mem::take(&mut batch.asks);
        for (ask, grant) in asks.into_iter().zip(grants) {
            match grant {
                // Nobody can tell whether the server has it still, and for how long; or whether the next one will have it.
                Got::Granted(grant) if batch.is_outlived(&grant) || batch.unconfirmed => {
                    surplus.extend(P::give_back(grant));
                    self.gone.remove(&ask.ticket);
                    if let Some(waiter) = self.waiters.get_mut(ask.ticket) {
                        waiter.in_doubt &= !P::SETTLES;
                        P::asks_anew(&mut waiter.want);
                    }
                    self.look = true;
                }
                Got::Granted(grant) => match self.waiters.remove(ask.ticket) {
                    Some(waiter) => told.add(waiter.reply, Ok(Outcome::Granted(grant))),
                    None => {
                        self.gone.remove(&ask.ticket);
                        surplus.extend(P::give_back(grant));
                    }
                },
                Got::Nothing if ask.last => {
                    let in_doubt = self.is_in_doubt(ask.ticket);
                    if stopped.is_none()
                        && let Some((reply, since)) = self.take(ask.ticket, now)
                    {
                        let in_vain = if in_doubt && !P::SETTLES {
                            Err(never_answered(name, P::WAIT, since, now))
                        } else {
                            Ok(Outcome::InVain)
                        };
                        told.add(reply, in_vain);
                    }
                }
                Got::Nothing => {
                    if let Some(waiter) = self.waiters.get_mut(ask.ticket) {
                        waiter.in_doubt &= !P::SETTLES;
                    }
                }
            }
        }
        if let Some(error) = stopped {
            let all = self.waiters.tickets();
            told.0
                .extend(self.refuse(name, all, (&error, None), now).0.all());
        }
        self.withdraw(now);
        self.waiters.answered(sent);
        if asked {
            self.look_at = None;
        }
        self.note(look, now);
        self.give_back(surplus, now);
        self.owe(owed, now);
        self.look |= self.primitive.would_serve(&self.waiters, now);
        self.later = later.and_then(|(time, call)| Some((now.checked_add(time)?, call)));
        self.settle_later();
        told
    }

    fn is_in_doubt(&self, ticket: Ticket) -> bool {
        let waiter = self.waiters.get(ticket);
        waiter.is_some_and(|waiter| waiter.in_doubt)
    }

    /// The round is over for those who have gone while they were named in it.
    fn withdraw(&mut self, now: Instant) {
        self.names_nobody();
        while let Some((ticket, want)) = self.gone.pop_first() {
            let owed = self.primitive.left(ticket, &want, &self.waiters, now);
            self.owe(owed, now);
        }
        self.rest(now);
    }

    /// Nothing of `batch` has been done: its calls are the first of the next one.
    pub(super) fn put_back(&mut self, batch: Batch<P>, now: Instant) {
        self.primitive.undone();
        self.call_again(batch.calls);
        self.withdraw(now);
        self.look = true;
    }

    /// They are the first of the next batch.
    fn call_again(&mut self, calls: Vec<Queued<P>>) {
        for queued in calls.into_iter().rev() {
            self.queue.push_front(Item::Call(queued));
        }
    }

    /// The same, as what one part needs may be refused while the others' needs are not.
    pub(super) fn try_singly(&mut self, batch: Batch<P>, now: Instant) {
        self.singly = batch.calls.len();
        self.put_back(batch, now);
    }

    /// The last sending of `batch` has done nothing, because of `error`. Where an earlier one may have, its callers, and no
    /// others, are told the `doubt`, and what it may have taken is given back.
    pub(super) fn fail(
        &mut self,
        name: &str,
        batch: Batch<P>,
        (error, doubt): (&Error, Option<&Error>),
        now: Instant,
    ) -> Told<P> {
        if doubt.is_some() {
            let owed = self.primitive.unknown(&batch);
            self.owe(owed, now);
        } else {
            self.primitive.undone();
        }
        // Those who were to be served behind it did not ask for that reason.
        self.look |= self.frees(&batch);
        // What stops those who ask stops all.
        let stopped = if batch.asks.is_empty() {
            Vec::new()
        } else {
            self.waiters.tickets()
        };
        let mut told = self.refuse(name, stopped, (error, doubt), now);
        self.withdraw(now);
        let error = doubt.unwrap_or(error);
        for queued in batch.calls {
            self.refuse_one(queued, error.clone(), &mut told, now);
        }
        told
    }

    /// `queued` was refused because of this `error`.
    fn refuse_one(
        &mut self,
        mut queued: Queued<P>,
        error: Error,
        told: &mut Told<P>,
        now: Instant,
    ) {
        let Some(reply) = queued.reply.take().filter(|reply| !reply.is_closed()) else {
            if let Some(queued) = self.set_aside(queued, &error, now) {
                self.is_lost(&queued, &error);
            }
            return;
        };
        let comes_back = self.primitive.given_up(&queued.call);
        let refused = Refused {
            queued,
            error,
            comes_back,
        };
        told.add(reply, Ok(Outcome::Refused(Box::new(refused))));
    }

    /// It is tried again later, or is lost, unless it comes back anyway.
    pub(super) fn nobody_learned(&mut self, refused: Refused<P>, now: Instant) {
        let Refused {
            queued,
            error,
            comes_back,
        } = refused;
        if !comes_back && let Some(queued) = self.set_aside(queued, &error, now) {
            self.primitive.nobody_learned(&queued.call);
            not_carried_out(&queued, &error);
        }
    }

    /// Nobody waits for `queued`, which was refused because of this `error`, and it is not tried again.
    pub(super) fn is_lost(&mut self, queued: &Queued<P>, error: &Error) {
        let comes_back = self.primitive.given_up(&queued.call);
        self.primitive.nobody_learned(&queued.call);
        if !comes_back {
            not_carried_out(queued, error);
        }
    }

    /// What became of `batch` will never be known; its callers have been told.
    pub(super) fn give_up(&mut self, batch: &Batch<P>, now: Instant) {
        self.doubtful = true;
        self.look = true;
        for ask in batch.asks.iter().filter(|ask| P::takes(&ask.want)) {
            if let Some(waiter) = self.waiters.get_mut(ask.ticket) {
                waiter.in_doubt = true;
                P::asks_anew(&mut waiter.want);
            }
        }
        self.withdraw(now);
        let owed = self.primitive.unknown(batch);
        self.owe(owed, now);
        for queued in &batch.calls {
            self.primitive.given_up(&queued.call);
        }
    }

    /// The runtime has ended while `batch` was under way.
    pub(super) fn lose(&mut self, name: &str, batch: Batch<P>) -> Told<P> {
        let trouble = Trouble::unknown(RUNTIME_ENDED);
        let named: Vec<_> = batch.asks.iter().map(|ask| ask.ticket).collect();
        let mut told = self.end_waits(named, trouble.now, |wait, since| {
            wait.ended(&trouble, name, since)
        });
        for mut queued in batch.calls {
            tell_trouble(name, &mut queued, &trouble, &mut told);
        }
        told
    }

    /// Nobody waits from now on. What was asked for is carried out, and what is to be done soon behind that. `sent`: the
    /// batch under way may have been.
    pub(super) fn close(&mut self, name: &str, sent: bool, now: Instant) -> Told<P> {
        self.closed = true;
        self.try_all_again();
        self.owes_until = Some(now + LONGEST_OWED);
        self.settle_later();
        let trouble = Trouble::unknown(CLIENT_CLOSED);
        self.end_waits(self.waiters.tickets(), now, |mut wait, since| {
            wait.named &= sent;
            wait.ended(&trouble, name, since)
        })
    }

    /// Each answer may ask for one more call: those who wait elsewhere would keep a closed client at it for ever. So it makes them for a
    /// moment behind the last call that somebody has made.
    fn settle_later(&mut self) {
        let (closed, until) = (self.closed, self.owes_until);
        let late = |then: Instant| closed && until.is_none_or(|until| then > until);
        self.later.take_if(|(then, _)| late(*then));
    }

    /// Nobody carries anything out any more, but perhaps the batch under way. Also says what is owed.
    pub(super) fn abandon(&mut self, name: &str, now: Instant) -> (Told<P>, Vec<String>) {
        self.closed = true;
        self.later = None;
        self.try_all_again();
        let trouble = Trouble::unknown(RUNTIME_ENDED);
        let mut told = self.end_waits(self.waiters.tickets(), now, |wait, since| {
            wait.ended(&trouble, name, since)
        });
        let mut owed = Vec::new();
        self.sweep();
        for mut item in std::mem::take(&mut self.queue) {
            let pointless = item.is_pointless();
            match item {
                Item::Call(queued) => match queued.reply {
                    Some(reply) => told.add(reply, Err(shut_down(name))),
                    None if pointless => {}
                    None => owed.extend(details::<P>(&queued.call)),
                },
                // Its caller is told by the drop.
                Item::Command(_) => {}
            }
        }
        (told, owed)
    }

    /// Those who wait although the server has answered are told that they would wait in vain.
    pub(super) fn cannot_listen(&mut self, name: &str, error: &Error, now: Instant) -> Told<P> {
        let tickets = self.waiters.answered_ones();
        // Those who are left may never have asked.
        self.look = true;
        self.refuse(name, tickets, (error, None), now)
    }

    /// Takes waiters out because of `error`; whom the batch under way names, because of the `doubt`, where there is one.
    fn refuse(
        &mut self,
        name: &str,
        tickets: Vec<Ticket>,
        (error, doubt): (&Error, Option<&Error>),
        now: Instant,
    ) -> Told<P> {
        self.end_waits(tickets, now, |wait, since| match doubt {
            _ if wait.takes && wait.in_doubt => never_answered(name, wait.operation, since, now),
            Some(doubt) if wait.takes && wait.named => doubt.clone(),
            _ => error.clone(),
        })
    }

    /// Takes waiters out and tells each what `error` makes of it and of the time since when it waits.
    fn end_waits(
        &mut self,
        tickets: Vec<Ticket>,
        now: Instant,
        error: impl Fn(Wait, Instant) -> Error,
    ) -> Told<P> {
        let mut told = Told::nobody();
        for ticket in tickets {
            let wait = self.wait(ticket);
            if let (Some(wait), Some((reply, since))) = (wait, self.take(ticket, now)) {
                told.add(reply, Err(error(wait, since)));
            }
        }
        told
    }

    fn wait(&self, ticket: Ticket) -> Option<Wait> {
        let waiter = self.waiters.get(ticket)?;
        Some(Wait {
            operation: P::WAIT,
            named: self.is_named(ticket),
            takes: P::takes(&waiter.want),
            in_doubt: waiter.in_doubt,
        })
    }

    /// Tells those callers whose retry window has passed; says how long the others wait for `batch`, which has been
    /// under way since `began`.
    pub(super) fn tell_impatient(
        &mut self,
        name: &str,
        batch: &mut Batch<P>,
        trouble: &Trouble<'_>,
        began: Instant,
        window: Duration,
    ) -> (Told<P>, Patience) {
        let mut told = Told::nobody();
        let (mut owed, mut dropped) = (false, false);
        let mut next: Option<Instant> = None;
        batch.calls.retain_mut(|queued| {
            let due = queued.since + window;
            if queued.is_pointless() {
                dropped |= !trouble.doubtful || trouble.unconfirmed;
                return trouble.doubtful;
            }
            if !queued.has_caller() {
                owed = true;
            } else if trouble.is_over(due) {
                tell_trouble(name, queued, trouble, &mut told);
                if !queued.is_pointless() {
                    owed = true;
                    return true;
                }
                dropped = true;
                // What was never sent must not happen after this; the rest is a matter of its answer.
                if !trouble.doubtful {
                    self.primitive.given_up(&queued.call);
                }
                return trouble.doubtful;
            } else {
                next = next.into_iter().chain([due]).min();
            }
            true
        });
        let called = owed || next.is_some();
        let (behind, due) = self.tell_behind(name, trouble, began, window);
        told.0.extend(behind.0.all());
        next = next.into_iter().chain(due).min();
        let gone = dropped || !self.gone.is_empty();
        // What they were granted is taken back, and whoever waits on asks anew.
        let in_vain = trouble.unconfirmed && !called;
        if gone && (!trouble.doubtful || in_vain) {
            return (told, Patience::Nobody);
        }
        let waiting = !batch.asks.is_empty() && !self.waiters.is_empty();
        let patience = match next {
            Some(next) => Patience::Until(next),
            None if waiting || owed => Patience::Forever,
            None => Patience::Nobody,
        };
        (told, patience)
    }

    /// The same for those who wait, and for the calls behind the round, which have not been sent at all; when the next
    /// one's time is up.
    pub(super) fn tell_behind(
        &mut self,
        name: &str,
        trouble: &Trouble<'_>,
        began: Instant,
        window: Duration,
    ) -> (Told<P>, Option<Instant>) {
        let (overdue, mut next) = self.waiters.overdue(began, trouble.now, window);
        let mut told = Told::nobody();
        for (ticket, since) in overdue {
            if let (Some(wait), Some((reply, _))) =
                (self.wait(ticket), self.take(ticket, trouble.now))
            {
                told.add(reply, Err(wait.error(trouble, name, since)));
            }
        }
        let untouched = trouble.untouched();
        for mut item in std::mem::take(&mut self.queue) {
            if item.is_pointless() {
                continue;
            }
            let due = match &item {
                Item::Call(queued) => queued.has_caller().then(|| queued.since + window),
                Item::Command(command) => Some(command.since() + window),
            };
            if due.is_none_or(|due| due > trouble.now) {
                next = next.into_iter().chain(due).min();
                self.queue.push_back(item);
                continue;
            }
            match item {
                Item::Call(mut queued) => {
                    tell_trouble(name, &mut queued, &untouched, &mut told);
                    if queued.is_pointless() {
                        self.primitive.given_up(&queued.call);
                    } else {
                        self.queue.push_back(Item::Call(queued));
                    }
                }
                Item::Command(mut command) => command.give_up(name, &untouched),
            }
        }
        (told, next)
    }
}

impl<P: Primitive> Told<P> {
    /// What the caller of `queued` is told; where there is none, an error goes to the log.
    pub(super) fn answer(&mut self, queued: Queued<P>, outcome: Result<Outcome<P>>) {
        if let (None, Err(error)) = (&queued.reply, &outcome) {
            not_carried_out(&queued, error);
        }
        self.0.push((queued.reply, outcome));
    }
}

/// Nobody waits for `queued` who could be told of this `error`.
fn not_carried_out<P: Primitive>(queued: &Queued<P>, error: &Error) {
    let (error, call) = (error.clone(), P::name(&queued.call));
    if matches!(error, Error::NotHeld { .. }) {
        unlocked(move || tracing::debug!(%error, "lost before it was given back"));
    } else if !P::is_owed(&queued.call) {
        unlocked(move || tracing::debug!(%error, call, "refused, and nobody wants to know"));
    } else if let Some(call) = details::<P>(&queued.call) {
        unlocked(move || tracing::error!(%error, call, "not carried out"));
    }
}

/// What is known of a wait.
struct Wait {
    operation: &'static str,
    /// The batch under way names it.
    named: bool,
    takes: bool,
    in_doubt: bool,
}

impl Wait {
    /// The error for a caller whose time is over.
    fn error(&self, trouble: &Trouble<'_>, name: &str, since: Instant) -> Error {
        let doubtful = self.takes && (self.in_doubt || self.named && trouble.doubtful);
        let trouble = Trouble {
            doubtful,
            ..*trouble
        };
        trouble.error(name, self.operation, since)
    }

    /// The error for a caller whose client has ended, which is why no answer will come.
    fn ended(&self, unknown: &Trouble<'_>, name: &str, since: Instant) -> Error {
        if self.takes && (self.in_doubt || self.named) {
            return unknown.error(name, self.operation, since);
        }
        shut_down(name)
    }
}

/// Tells a caller that its time is over. What is owed is carried out all the same, as soon as it can be.
fn tell_trouble<P: Primitive>(
    name: &str,
    queued: &mut Queued<P>,
    trouble: &Trouble<'_>,
    told: &mut Told<P>,
) {
    if let Some(reply) = queued.reply.take() {
        let trouble = Trouble {
            doubtful: trouble.doubtful || P::is_owed(&queued.call),
            ..*trouble
        };
        let error = trouble.error(name, P::name(&queued.call), queued.since);
        told.add(reply, Err(error));
    }
}

/// The server says no to a caller one of whose questions has never been answered.
fn never_answered(name: &str, operation: &'static str, since: Instant, now: Instant) -> Error {
    let trouble = Trouble {
        doubtful: true,
        reason: Reason::Unreachable,
        last: false,
        unconfirmed: false,
        detail: "an earlier question was never answered",
        now,
    };
    trouble.error(name, operation, since)
}

/// What somebody needs who repairs by hand, where there is something to repair.
fn details<P: Primitive>(call: &P::Call) -> Option<String> {
    Some(P::details(call)).filter(|details| !details.is_empty())
}
