//! A batch: what one script call carries out.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::entries::{Entry, Unconfirmed};
use super::failures::Unanswered;
use super::outcome::{Outcome, Replies, Reply, Ticket, Want};
use super::primitive::{Call, Held, NotDone, NoteOf, Primitive};
use super::waiters::{Id, Waiter};
use crate::clock::Moment;
use crate::engine::log;
use crate::engine::request::{Arg, Request};
use crate::error::Error;
use crate::sync::unlocked;

/// Something that a batch carries out for a caller.
pub(super) enum What<P: Primitive> {
    Call(P::Call, NoteOf<P>),
    /// A request of its own, and the name of the operation: no call travels with it.
    Request(&'static str, Box<Request>),
}

/// A call or a request on its way.
pub(super) struct Queued<P: Primitive> {
    pub(super) what: What<P>,
    pub(super) reply: Option<Reply<P::Want>>,
    pub(super) since: Instant,
    /// Without an answer it ends then.
    pub(super) due: Option<Instant>,
    /// Permits that it takes are held under this ticket.
    pub(super) ticket: Ticket,
}

/// Waiters that came one after the other and want the same.
pub(super) struct Run<W> {
    pub(super) want: W,
    pub(super) count: usize,
    /// The ticket of the first one; those of the others follow.
    pub(super) ticket: Ticket,
    /// How long the first one had waited when the batch departed.
    pub(super) waited: Duration,
    pub(super) life: u64,
    /// So many may queue.
    pub(super) room: usize,
}

/// A grant lasts so many milliseconds without its confirmation, but no longer than its lease. Measured: a process that is stopped for 1.3 s
/// loses what lasts for 1 s.
const LIFE: u64 = 3000;

impl<W: Want> Run<W> {
    /// Of this waiter.
    pub(super) fn of(waiter: &Waiter<W>, lease: Duration, now: Instant) -> Self {
        let lease = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        let leased = waiter.want.is_leased();
        Run {
            want: waiter.want,
            count: 1,
            ticket: 0,
            waited: now.saturating_duration_since(waiter.since),
            life: if leased { LIFE.min(lease) } else { LIFE },
            room: 0,
        }
    }
}

/// A number of any size.
fn amount<W: Want>(want: W) -> Arg {
    let text = |amount: u64| Arg::Text(amount.to_string().into());
    i64::try_from(want.amount()).map_or_else(|_| text(want.amount()), Arg::Number)
}

pub(crate) struct Batch<P: Primitive> {
    /// The script's argument about what is held.
    pub(super) header: Arc<str>,
    /// Grants that guards have used before their confirmation.
    pub(super) extends: Vec<(Ticket, Unconfirmed<P::Want>)>,
    pub(super) confirms: Vec<(Ticket, Entry<P::Want>)>,
    pub(super) leaves: Vec<(Ticket, Entry<P::Want>)>,
    pub(super) calls: Vec<Queued<P>>,
    pub(super) runs: Vec<Run<P::Want>>,
    /// The arrival of the client's last entry by the server's clock.
    pub(super) behind: u64,
    /// The waiters in the runs.
    pub(super) asked: Vec<Id>,
    /// It is sent so that its script serves the queue, though it may carry nothing else.
    pub(super) serve: bool,
    /// Its script goes on behind so many entries.
    pub(super) skip: Option<u64>,
    /// It tells JVMs what is free.
    pub(super) announce: bool,
    /// It checks whether the client that listens to JVMs can be notified.
    pub(super) check: bool,
    /// It confirms all entries.
    pub(super) confirms_all: bool,
    /// This client listens to JVMs no more.
    pub(super) unwatch: bool,
    /// How many releases of JVMs were heard.
    pub(super) heard: u32,
    /// How many callers were served without Redis.
    pub(super) handed: u32,
    /// The place of the next waiter when it departed.
    pub(super) next: Id,
    pub(super) sent: Moment,
    /// Replicas do not have it, which has this number, and its callers have gone: what it was granted goes back.
    pub(super) unconfirmed: Option<u64>,
    /// It takes back what the batch of this number was granted.
    pub(super) takes_back: Option<u64>,
    /// It must be carried out, and is repeated until replicas have it: its client's entries are not served by it.
    pub(super) apart: bool,
}

impl<P: Primitive> Queued<P> {
    pub(super) fn call(&self) -> Option<&P::Call> {
        match &self.what {
            What::Call(call, _) => Some(call),
            What::Request(..) => None,
        }
    }

    pub(super) fn request(&self) -> Option<&Request> {
        match &self.what {
            What::Call(..) => None,
            What::Request(_, request) => Some(request),
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match &self.what {
            What::Call(call, _) => call.name(),
            What::Request(operation, _) => operation,
        }
    }

    /// As it stands in the log.
    pub(super) fn text(&self) -> String {
        let call = self.call().map(ToString::to_string);
        call.unwrap_or_else(|| self.name().to_owned())
    }

    pub(super) fn is_deferred(&self) -> bool {
        self.call().is_some_and(Call::is_deferred)
    }

    pub(super) fn takes(&self) -> Option<P::Want> {
        self.call()?.takes()
    }

    /// It departs.
    pub(super) fn depart(&mut self, held: &mut P::Held) {
        if let What::Call(call, note) = &mut self.what {
            held.departs(call, note);
        }
    }

    /// It was sent and not carried out, or not sent.
    pub(super) fn fail(&mut self, held: &mut P::Held, why: NotDone) {
        if let What::Call(call, note) = &mut self.what {
            held.failed(call, note, why);
        }
    }

    pub(super) fn has_caller(&self) -> bool {
        self.reply.as_ref().is_some_and(|reply| !reply.is_closed())
    }

    /// It has no caller, and is no deferred call: it must not be sent any more.
    pub(super) fn is_pointless(&self) -> bool {
        !self.has_caller() && !self.is_deferred()
    }

    /// Whether it changes nothing.
    pub(super) fn is_plain(&self) -> bool {
        match &self.what {
            What::Call(call, _) => call.is_plain(),
            What::Request(_, request) => request.is_plain(),
        }
    }

    /// Ends the call with an error, as nobody knows of it; `sent`: it may have been carried out. A release is carried out all the same.
    pub(super) fn give_up(
        &mut self,
        unanswered: &Unanswered,
        sent: bool,
        replies: &mut Replies<P::Want>,
    ) {
        if let Some(reply) = self.reply.take() {
            let may_change = (sent || self.is_deferred()) && !self.is_plain();
            let error = unanswered.error(self.name(), self.since, may_change);
            replies.add(reply, Err(error));
        }
    }

    /// Tells the caller, or the log.
    pub(super) fn answer(
        self,
        outcome: Result<Outcome<P::Want>, Error>,
        replies: &mut Replies<P::Want>,
    ) {
        if let Some(reply) = self.reply {
            replies.add(reply, outcome);
        } else if let Err(error) = outcome {
            let call = self.text();
            unlocked(move || match error {
                Error::NotHeld { .. } => {
                    tracing::debug!(%error, "lost before it was given back")
                }
                error => tracing::error!(%error, call, "not carried out"),
            });
        }
    }

    fn joins(&self, other: &Self) -> bool {
        let (call, other) = (self.call(), other.call());
        call == other && call.is_some_and(Call::adds_up)
    }
}

impl<P: Primitive> Batch<P> {
    /// A batch of nothing.
    pub(super) fn empty(sent: Moment) -> Self {
        Batch {
            header: Arc::default(),
            extends: Vec::new(),
            confirms: Vec::new(),
            leaves: Vec::new(),
            calls: Vec::new(),
            runs: Vec::new(),
            behind: 0,
            asked: Vec::new(),
            serve: false,
            skip: None,
            announce: false,
            check: false,
            confirms_all: false,
            unwatch: false,
            heard: 0,
            handed: 0,
            next: 0,
            sent,
            unconfirmed: None,
            takes_back: None,
            apart: false,
        }
    }

    /// The steps of its calls: each for one or more equal ones.
    pub(super) fn steps(&self) -> impl Iterator<Item = &[Queued<P>]> {
        self.calls.chunk_by(Queued::joins)
    }

    pub(super) fn encode(&self, args: &mut Vec<Arg>) {
        args.extend([
            Arg::Number(self.heard.into()),
            Arg::Number(self.handed.into()),
        ]);
        for (ticket, (entry, ends)) in &self.extends {
            args.extend([
                Arg::Word("extend"),
                Arg::Text(entry.text(*ticket, &self.header).into()),
                Arg::number(*ends),
            ]);
        }
        for (ticket, entry) in &self.confirms {
            let text = entry.text(*ticket, &self.header);
            args.extend([
                Arg::Word("confirm"),
                Arg::Text(text.into()),
                Arg::number(entry.arrival),
            ]);
        }
        for (ticket, entry) in &self.leaves {
            let amount = amount(entry.want);
            args.extend([
                Arg::Word("leave"),
                Arg::Text(entry.text(*ticket, &self.header).into()),
                amount,
            ]);
        }
        for step in self.steps() {
            let first = &step[0];
            if let What::Call(call, note) = &first.what {
                call.write(step.len(), first.ticket, note, args);
            }
        }
        for run in &self.runs {
            args.extend([
                Arg::Word("wait"),
                amount(run.want),
                Arg::number(run.count),
                Arg::Word(run.want.kind()),
                Arg::number(run.ticket),
                Arg::micros(run.waited),
                Arg::number(self.behind),
                Arg::Text(format!("{}{}", run.life, run.want.tail("")).into()),
                Arg::number(run.room),
            ]);
        }
        for (word, number) in self.flags() {
            args.extend([Arg::Word(word), Arg::number(number), Arg::Number(0)]);
        }
    }

    /// The steps behind the others, each of a word and a number.
    pub(super) fn flags(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let all = [
            ("announce", self.announce.then_some(0)),
            ("check", self.check.then_some(0)),
            ("unwatch", self.unwatch.then_some(0)),
            ("pass", self.skip),
            ("apart", self.apart.then_some(0)),
        ];
        let set = all.into_iter();
        set.filter_map(|(word, number)| Some((word, number?)))
    }

    /// The wants that its steps grant, confirm or take back.
    pub(super) fn wants(&self) -> impl Iterator<Item = P::Want> {
        let extends = self.extends.iter().map(|(_, (entry, _))| entry.want);
        let entries = self.confirms.iter().chain(&self.leaves);
        let wants = entries.map(|(_, entry)| entry.want);
        let runs = self.runs.iter().map(|run| run.want);
        let calls = self.calls.iter().filter_map(Queued::takes);
        extends.chain(wants).chain(runs).chain(calls)
    }

    /// Whether it may change a grant to `want`, or is about the same owner.
    pub(super) fn concerns(&self, want: P::Want) -> bool {
        self.wants().any(|other| other.lets_in(want))
            || (self.calls.iter().filter_map(Queued::call)).any(|call| call.concerns(want))
    }

    /// Whether it may change the grant to the entry `ticket` for `want`. Where entries have no owners, its confirmations alone do.
    pub(super) fn touches(&self, ticket: Ticket, want: P::Want) -> bool {
        self.confirms.iter().any(|(other, _)| *other == ticket)
            || want.lets_in(want) && self.concerns(want)
    }

    /// The request that it carries alone.
    pub(super) fn request(&self) -> Option<&Request> {
        self.calls.first()?.request()
    }

    /// Its calls that may have changed something, for the log.
    pub(super) fn contents(&self) -> String {
        let is_plain = |step: &&[Queued<P>]| step[0].request().is_some_and(Request::is_plain);
        let steps = self.steps().filter(|step| !is_plain(step));
        let calls = steps.map(|step| (step[0].text(), step.len()));
        let runs = self
            .runs
            .iter()
            .map(|run| (format!("{}({})", P::WAIT, run.want.amount()), run.count));
        log::list_of(calls.chain(runs))
    }

    /// Whether permits may be added by it.
    pub(super) fn adds(&self) -> bool {
        (self.calls.iter().filter_map(Queued::call)).any(Call::adds)
    }
}
