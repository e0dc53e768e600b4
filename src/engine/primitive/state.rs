//! The half of a line that decides: who comes, who goes, and what the next round takes along. No I/O, task or clock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tokio::time::Instant;

use super::aside::Aside;
use super::{Ask, Batch, Look, Primitive, Queued, Reply, Ticket, Unlearned, Waiters};
use crate::clock::Moment;
use crate::engine::command::Command;
use crate::engine::wakeups::Wake;

/// What is owed is compared with so many of what stands before it.
pub(super) const MOST_COMPARED: usize = 4;

/// A queue that is shorter is not looked through.
const SHORT: usize = 1024;

/// A round takes this many calls at the most.
const MOST_CALLS: usize = 1024;

/// What a round carries out.
pub(super) enum Task<P: Primitive> {
    /// In one place from here to its end.
    Batch(Box<Batch<P>>),
    Command(Box<Command>),
}

/// Something that waits for its round.
pub(super) enum Item<P: Primitive> {
    Call(Queued<P>),
    Command(Box<Command>),
}

impl<P: Primitive> Queued<P> {
    /// Whether somebody waits for the answer.
    pub(super) fn has_caller(&self) -> bool {
        self.reply.as_ref().is_some_and(|reply| !reply.is_closed())
    }

    /// Whether nobody waits for it any more, and it is not owed: then it must not be sent.
    pub(super) fn is_pointless(&mut self) -> bool {
        if self.has_caller() {
            return false;
        }
        self.reply = None;
        !P::is_owed(&self.call)
    }
}

impl<P: Primitive> Item<P> {
    pub(super) fn is_pointless(&mut self) -> bool {
        match self {
            Item::Call(queued) => queued.is_pointless(),
            Item::Command(command) => command.is_pointless(),
        }
    }
}

/// What a line knows.
pub(super) struct State<P: Primitive> {
    pub(super) primitive: P,
    pub(super) queue: VecDeque<Item<P>>,
    /// The length at which it is looked through.
    sweep_at: usize,
    pub(super) waiters: Waiters<P>,
    /// There is a reason to ask.
    pub(super) look: bool,
    /// There will be one then.
    pub(super) look_at: Option<Instant>,
    /// Somebody has just come who waits for that, as an earlier answer has told it to.
    pub(super) waits_unasked: bool,
    /// A call that is made then.
    pub(super) later: Option<(Instant, P::Call)>,
    /// What its user was not allowed to do.
    pub(super) aside: Option<Aside<P>>,
    /// Whom the batch under way names, in their order; empty between two rounds.
    named: Vec<Ticket>,
    /// Those of them who have gone since it departed.
    pub(super) gone: BTreeMap<Ticket, P::Want>,
    /// So many calls travel alone, as a batch of theirs was refused.
    pub(super) singly: usize,
    /// What is owed travels apart from what its caller may give up: replicas are waited for, and a batch that they do not
    /// confirm is either tried on or undone.
    pub(super) apart: bool,
    /// Those who wait were left out for that, and travel next.
    left_out: bool,
    /// A batch was given up whose copies may still reach the server.
    pub(super) doubtful: bool,
    pub(super) closed: bool,
    /// Who has an earlier ticket than this was there when a batch departed that has been answered.
    pub(super) told: Ticket,
    /// Once it is closed, a call that an answer asks for is made by then, or not at all.
    pub(super) owes_until: Option<Instant>,
}

impl<P: Primitive> State<P> {
    pub(super) fn new(primitive: P, closed: bool) -> Self {
        State {
            primitive,
            queue: VecDeque::new(),
            sweep_at: SHORT,
            waiters: Waiters::<P>::default(),
            look: false,
            look_at: None,
            waits_unasked: false,
            later: None,
            aside: None,
            named: Vec::new(),
            gone: BTreeMap::new(),
            singly: 0,
            apart: false,
            left_out: false,
            doubtful: false,
            closed,
            told: 0,
            owes_until: None,
        }
    }

    /// Queues a call for the next round.
    pub(super) fn call(&mut self, call: P::Call, reply: Option<Reply<P>>, now: Instant) {
        self.push(Item::Call(Queued::new(call, reply, now)));
    }

    /// The last one from now on. The queue stays short while the server does not answer: whenever it has doubled, it is
    /// looked through.
    pub(super) fn push(&mut self, item: Item<P>) {
        if self.queue.len() >= self.sweep_at {
            self.sweep();
            self.sweep_at = (2 * self.queue.len()).max(SHORT);
        }
        self.queue.push_back(item);
    }

    /// Drops what nobody waits for, and adds up what is owed.
    pub(super) fn sweep(&mut self) {
        let mut owed: Vec<usize> = Vec::new();
        for mut item in std::mem::take(&mut self.queue) {
            if item.is_pointless() {
                continue;
            }
            match &item {
                Item::Call(call) if !call.has_caller() => {
                    let mut earlier = owed.iter().rev().take(MOST_COMPARED);
                    let queue = &mut self.queue;
                    let is_added = earlier.any(|earlier| match queue.get_mut(*earlier) {
                        Some(Item::Call(earlier)) => P::add_up(&mut earlier.call, &call.call),
                        _ => false,
                    });
                    if is_added {
                        continue;
                    }
                    owed.push(self.queue.len());
                }
                _ => owed.clear(),
            }
            self.queue.push_back(item);
        }
    }

    /// Queues calls that nobody waits for.
    pub(super) fn owe(&mut self, calls: impl IntoIterator<Item = P::Call>, now: Instant) {
        for call in calls {
            self.call(call, None, now);
        }
    }

    /// Queues what gives back that which was granted to callers who have gone. It comes before all that is queued: to those
    /// callers it is as if it had not been granted.
    pub(super) fn give_back(&mut self, calls: Vec<P::Call>, now: Instant) {
        for call in calls.into_iter().rev() {
            self.queue
                .push_front(Item::Call(Queued::new(call, None, now)));
        }
    }

    /// Does what is left to do where nobody has learned of it.
    pub(super) fn unlearned(&mut self, all: Vec<Unlearned<P>>, now: Instant) {
        let mut owed = Vec::new();
        for unlearned in all {
            match unlearned {
                Unlearned::Owed(call) => owed.push(call),
                Unlearned::Refused(refused) => self.nobody_learned(refused, now),
            }
        }
        self.give_back(owed, now);
    }

    /// Adds a caller who waits, until `deadline` if there is one. If that has come, its first question is its last.
    pub(super) fn join(
        &mut self,
        want: P::Want,
        reply: Reply<P>,
        deadline: Option<Instant>,
        now: Instant,
    ) -> Ticket {
        if self.waiters.is_empty() {
            // It was for others.
            self.look_at = None;
        }
        let look = self.primitive.joins(&want, &self.waiters, now);
        self.note(look, now);
        let asks = look != Look::No;
        let ticket = self.waiters.join(want, reply, deadline, asks, now);
        if matches!(look, Look::After(_)) {
            // An earlier answer says so, and it is to hear when that is over; it is told of an outage as who has not been answered.
            self.waits_unasked = true;
            self.told = ticket + 1;
        }
        ticket
    }

    /// A caller does not wait any more.
    pub(super) fn leave(&mut self, ticket: Ticket, now: Instant) {
        let first = self.waiters.first() == Some(ticket);
        if self.take(ticket, now).is_some() {
            // Those behind it may never have asked.
            self.look |= first;
        }
    }

    /// Takes a waiter out who has not been granted anything; what it owes for that is queued, now or behind the round.
    pub(super) fn take(&mut self, ticket: Ticket, now: Instant) -> Option<(Reply<P>, Instant)> {
        let waiter = self.waiters.remove(ticket)?;
        if self.is_named(ticket) {
            self.gone.insert(ticket, waiter.want);
        } else {
            let owed = self
                .primitive
                .left(ticket, &waiter.want, &self.waiters, now);
            self.owe(owed, now);
            self.rest(now);
        }
        Some((waiter.reply, waiter.unanswered.unwrap_or(now)))
    }

    /// Whether the batch under way names it.
    pub(super) fn is_named(&self, ticket: Ticket) -> bool {
        self.named.binary_search(&ticket).is_ok()
    }

    /// The round is over.
    pub(super) fn names_nobody(&mut self) {
        self.named.clear();
    }

    /// Queues what is owed where nobody waits any more.
    pub(super) fn rest(&mut self, now: Instant) {
        if self.waiters.is_empty() && self.named.is_empty() {
            let owed = self.primitive.rest();
            self.owe(owed, now);
        }
    }

    /// Whether the channels are to be heard: somebody has been told to wait. Who has not been may never have to, and
    /// [asks](Self::listens): of a crowd that finds what it wants somebody has always just come.
    pub(super) fn somebody_was_told(&self) -> bool {
        let first = self.waiters.first_waiter_to_stay();
        first.is_some_and(|(ticket, first)| ticket < self.told || first.unanswered.is_none())
    }

    pub(super) fn listens(&mut self) -> bool {
        let told = self.somebody_was_told();
        self.look |= !told && !self.waiters.is_empty();
        told
    }

    /// Something is told of a channel, which those who wait hear or not.
    pub(super) fn heard(&mut self, channel: &str, wake: &Wake, hear: bool, now: Instant) {
        let look = self.primitive.heard(channel, wake, now);
        if hear {
            self.note(look, now);
        }
    }

    pub(super) fn note(&mut self, look: Look, now: Instant) {
        match look {
            Look::No => {}
            Look::Now => self.look = true,
            Look::After(time) => {
                let then = now.checked_add(time);
                let earlier = self.look_at.into_iter().chain(then).min();
                self.look_at = earlier;
            }
        }
    }

    /// Whether a call is to be made though nobody asks for it.
    pub(super) fn has_plans(&self) -> bool {
        self.later.is_some() || self.aside.is_some()
    }

    /// Until when the line is kept for what is known of others.
    pub(super) fn remembers(&self) -> Option<Instant> {
        let until = self.primitive.remembers().filter(|_| !self.closed);
        until.filter(|until| *until > Instant::now())
    }

    /// Whether the line is to stay though its last handle may have gone.
    pub(super) fn stays(&self) -> bool {
        self.has_plans() || self.remembers().is_some()
    }

    /// When something is to be done though nothing happens.
    pub(super) fn alarm(&self) -> Option<Instant> {
        let look = self.look_at.filter(|_| !self.waiters.is_empty());
        let later = self.later.as_ref().map(|(then, _)| *then);
        let deadline = self.waiters.first_deadline();
        let aside = self.aside.as_ref().map(|aside| aside.until);
        let all = look.into_iter().chain(deadline).chain(later).chain(aside);
        all.chain(self.remembers()).min()
    }

    /// That time may have come.
    pub(super) fn ring(&mut self, now: Instant) {
        let first = self.waiters.first_to_stay().map(|(ticket, _)| ticket);
        self.waiters.end_overdue(now);
        // Those behind it may never have asked.
        self.look |= first.is_some_and(|first| self.waiters.ends(first));
        if self.look_at.is_some_and(|then| then <= now) {
            self.look_at = None;
            self.look = true;
        }
        self.try_one_again(now);
        if let Some((_, call)) = self.later.take_if(|(then, _)| *then <= now) {
            self.push(Item::Call(Queued {
                later: true,
                ..Queued::new(call, None, now)
            }));
        }
    }

    /// Whether there is something for a round to carry out.
    pub(super) fn has_work(&self) -> bool {
        let asks = self.look || self.waiters.somebody_ends();
        !self.queue.is_empty() || asks && !self.waiters.is_empty()
    }

    /// Drops those from the front that nobody waits for.
    fn next(&mut self) -> Option<&Item<P>> {
        while self.queue.front_mut().is_some_and(Item::is_pointless) {
            self.queue.pop_front();
        }
        self.queue.front()
    }

    /// Takes what the next round carries out, which departs at `now`.
    pub(super) fn depart(&mut self, now: Moment) -> Option<Task<P>> {
        if matches!(self.next(), Some(Item::Command(_)))
            && let Some(Item::Command(command)) = self.queue.pop_front()
        {
            return Some(Task::Command(command));
        }
        let mut batch = Box::new(Batch {
            calls: Vec::new(),
            asks: Vec::new(),
            waiting: self.waiters.len(),
            end: self.waiters.end(),
            departed: now,
            doubtful: self.doubtful,
            sent: now,
            unanswered: None,
            unconfirmed: false,
            answered: now.timer(),
            heard: Vec::new(),
        });
        let most = if self.singly > 0 { 1 } else { MOST_CALLS };
        batch.calls.reserve_exact(most.min(self.queue.len()));
        let mut all_fit = true;
        if std::mem::take(&mut self.left_out) {
            self.ask(&mut batch);
        }
        let most = if batch.is_empty() { most } else { 0 };
        while batch.calls.len() < most && all_fit && self.next().is_some() {
            match self.queue.pop_front() {
                Some(Item::Call(queued))
                    if self.may_join(&batch, &queued)
                        && self.primitive.fits(&mut batch, &queued.call)
                        || batch.is_empty() =>
                {
                    batch.calls.push(queued);
                }
                Some(item) => {
                    self.queue.push_front(item);
                    all_fit = false;
                }
                None => {}
            }
        }
        self.look |= self.frees(&batch);
        // What does not fit may be about who asks.
        if all_fit && batch.asks.is_empty() && (self.singly == 0 || batch.calls.is_empty()) {
            self.left_out = self.apart && batch.calls.iter().any(|one| P::is_owed(&one.call));
            if !self.left_out {
                self.ask(&mut batch);
            }
        }
        self.singly = self.singly.saturating_sub(1);
        self.named.extend(batch.asks.iter().map(|ask| ask.ticket));
        self.named.sort_unstable();
        (!batch.is_empty()).then_some(Task::Batch(batch))
    }

    /// Whether `queued` may travel with `batch`: where they travel apart, all of its calls are owed, or none is.
    fn may_join(&self, batch: &Batch<P>, queued: &Queued<P>) -> bool {
        let alike = |last: &Queued<P>| P::is_owed(&last.call) == P::is_owed(&queued.call);
        !self.apart || batch.calls.last().is_none_or(alike)
    }

    /// Whether those who wait may be served behind `batch`.
    pub(super) fn frees(&self, batch: &Batch<P>) -> bool {
        let mut calls = batch.calls.iter();
        calls.any(|queued| self.primitive.frees(&queued.call))
    }

    /// Lets those travel along who have a reason to.
    fn ask(&mut self, batch: &mut Batch<P>) {
        let looks = std::mem::take(&mut self.look);
        let State {
            primitive, waiters, ..
        } = self;
        let asking = if looks {
            primitive.asks(batch, waiters)
        } else {
            Vec::new()
        };
        batch.asks.reserve_exact(asking.len());
        let ending = waiters.ending();
        let ending = ending.filter_map(|ticket| Some((ticket, &waiters.get(ticket)?.want)));
        let mut seen = BTreeSet::new();
        for (ticket, want) in asking.into_iter().chain(ending) {
            let last = waiters.ends(ticket);
            if last && !seen.insert(ticket) {
                continue;
            }
            let want = want.clone();
            let ask = Ask { ticket, want, last };
            if primitive.fits_ask(batch, &ask) || batch.is_empty() {
                batch.asks.push(ask);
            } else {
                // Whose time is up asks next without a reason.
                self.look |= !last;
            }
        }
    }
}
