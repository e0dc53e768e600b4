//! The client's half of the queue for one object, without I/O: what is asked for, believed and to be done.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::batch::Queued;
use super::entries::{Entries, Entry, MOST};
use super::outcome::{Grant, Outcome, Reply, Taken, Ticket, Told, Want};
use super::primitive::{Call, Held, Primitive};
use super::waiters::{Id, Waiter, Waiters};
use crate::clock::Moment;
use crate::engine::Core;
use crate::engine::command::Command;
use crate::error::Error;

/// A grant that a guard uses already is confirmed after so long, or with the next batch.
const CONFIRM_AFTER: Duration = Duration::from_millis(100);
/// A surplus entry leaves the queue after so long, or with the next batch that has another reason.
const SURPLUS_AFTER: Duration = Duration::from_millis(5);
/// Waiters that came so much later than the first entry of another client are still served by a release of this client.
const LEEWAY: Duration = Duration::from_millis(5);
/// Grants of a client that confirms late last up to eight times as long.
const MOST_LATE: u32 = 3;
/// Among callers of this client alone what is known of others counts for so many times as long.
const ALONE: u32 = 4;
/// After a release that left permits these are announced to JVMs again, as JVMs do not pass a wake-up on.
pub(super) const ANNOUNCEMENTS: [Duration; 5] = [
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(30),
];
/// Without a listener it begins here: a JVM may subscribe anew.
pub(super) const UNHEARD: usize = 2;

/// A call in its place among the others: one of a batch, or one that travels alone.
pub(super) enum Item<P: Primitive> {
    Call(Queued<P>),
    Command(Box<Command>),
}

impl<P: Primitive> Item<P> {
    /// Nobody wants it any more.
    pub(super) fn is_pointless(&self) -> bool {
        match self {
            Item::Call(queued) => queued.is_pointless(),
            Item::Command(command) => command.is_pointless(),
        }
    }

    /// It must be carried out, and has no caller.
    fn is_abandoned(&self) -> bool {
        matches!(self, Item::Call(queued) if !queued.has_caller())
    }
}

/// The state of the batch under way.
pub(super) struct UnderWay {
    /// The waiters that it asks for.
    pub(super) asked: Vec<Id>,
    /// The entries that it confirms.
    pub(super) confirms: Vec<Ticket>,
    /// These, and the entries whose grants it may change.
    pub(super) touches: Vec<Ticket>,
    /// How many requests the client had sent before it.
    pub(super) sent_before: u64,
}

/// The last answer's information about other clients.
pub(super) struct Known {
    pub(super) seen: Instant,
    pub(super) available: i64,
    /// When the first waiter of another client came.
    pub(super) foreign: Option<Instant>,
    pub(super) jvms: u32,
}

impl Known {
    /// Nobody else waits.
    pub(super) fn is_alone(&self) -> bool {
        self.foreign.is_none() && self.jvms == 0
    }
}

/// A grant, and its end by the server's clock.
pub(super) type Unconfirmed<W> = (Entry<W>, u64);

pub(super) struct State<P: Primitive> {
    pub(super) core: Arc<Core>,
    pub(super) waiters: Waiters<P::Want>,
    pub(super) entries: Entries<P::Want>,
    pub(super) calls: VecDeque<Item<P>>,
    pub(super) held: P::Held,
    /// Entries of waiters that have gone.
    pub(super) leaving: Vec<(Ticket, Entry<P::Want>)>,
    /// Grants of which this client has been notified, and that are to be confirmed.
    pub(super) granted: Vec<Ticket>,
    /// Grants of which this client was notified while a batch was under way that may change them, or has made their entries.
    pub(super) early: Vec<Ticket>,
    /// Grants that guards use already; they are confirmed at `confirm_at` at the latest.
    pub(super) unconfirmed: BTreeMap<Ticket, Unconfirmed<P::Want>>,
    confirm_at: Option<Instant>,
    /// All entries are to be confirmed: something may have been missed.
    pub(super) recheck: bool,
    /// A batch is to be sent, if only to look; and to look behind so many entries.
    pub(super) look: bool,
    pub(super) pass: Option<u64>,
    pub(super) look_at: Option<Instant>,
    /// The look comes soon, and others rely on it.
    pub(super) looks_soon: bool,
    /// When all entries were confirmed, or the first of them was made.
    pub(super) checked: Option<Instant>,
    pub(super) surplus_at: Option<Instant>,
    /// Until then waiters need not ask: what they want is held here, and they ask with the call that frees it.
    pub(super) ask_at: Option<Instant>,
    /// Notifications are heard. Until then entries may leave the queue at any time.
    pub(super) hears: bool,
    /// Which announcement comes next, and when.
    pub(super) announce_at: Option<(usize, Instant)>,
    pub(super) announce: bool,
    /// This client listens to JVMs; or does so no more.
    pub(super) watches: bool,
    pub(super) unwatch: bool,
    /// How many releases of JVMs it has heard, and how many permits it has handed on, since the last batch.
    pub(super) heard: u32,
    pub(super) handed: u32,
    pub(super) known: Option<Known>,
    /// JVMs have listened: one that does not now may be connecting anew.
    pub(super) jvms_seen: bool,
    /// The arrival of the last entry.
    pub(super) last_arrival: u64,
    /// How many more grants have run out before they were confirmed than were in time, lately.
    pub(super) late: u32,
    /// When a script was sent, and the server's clock in it.
    pub(super) clock: Option<(Moment, u64)>,
    /// Calls that release grants which no replica has confirmed.
    pub(super) returns: Vec<P::Call>,
    /// Deferred calls that were forbidden; and when they are tried again.
    pub(super) refused: Vec<Queued<P>>,
    pub(super) retry_at: Option<Instant>,
    pub(super) under_way: Option<UnderWay>,
    /// The server forbids the subscription; waiters get that error behind the batch under way.
    pub(super) unheard: Option<Error>,
    pub(super) closed: bool,
}

impl<P: Primitive> State<P> {
    pub(super) fn new(core: &Arc<Core>, held: P::Held, closed: bool) -> Self {
        State {
            core: Arc::clone(core),
            waiters: Waiters::default(),
            entries: Entries::default(),
            calls: VecDeque::new(),
            held,
            leaving: Vec::new(),
            granted: Vec::new(),
            early: Vec::new(),
            unconfirmed: BTreeMap::new(),
            confirm_at: None,
            recheck: false,
            look: false,
            pass: None,
            look_at: None,
            looks_soon: false,
            checked: None,
            surplus_at: None,
            ask_at: None,
            hears: true,
            announce_at: None,
            announce: false,
            watches: false,
            unwatch: false,
            heard: 0,
            handed: 0,
            known: None,
            jvms_seen: false,
            last_arrival: 0,
            late: 0,
            clock: None,
            returns: Vec::new(),
            refused: Vec::new(),
            retry_at: None,
            under_way: None,
            unheard: None,
            closed,
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiters.len() + self.held.waiting()
    }

    // ---- what callers do ----

    pub(super) fn join(
        &mut self,
        want: P::Want,
        reply: Reply<P::Want>,
        deadline: Option<Instant>,
        now: Instant,
    ) -> Id {
        let told = self.waiters.unanswered().next().is_none();
        if self.ask_at.is_none() && !self.asks() {
            let known = self.known.as_ref().filter(|known| known.is_alone());
            let until = known.map(|known| known.seen + ALONE * self.core.config.local_hand_over);
            self.ask_at = until.filter(|until| *until > now && self.held.has_all());
        }
        self.ask_at = self
            .ask_at
            .filter(|at| deadline.is_none_or(|deadline| *at < deadline));
        let id = self.waiters.add(want, now, deadline, reply);
        if told {
            self.told_to_wait();
        }
        id
    }

    /// Waiters for which no batch departs wait behind others that the server has answered.
    pub(super) fn told_to_wait(&mut self) {
        if self.ask_at.is_none() && !self.asks() {
            self.waiters.answered(self.waiters.next());
        }
    }

    /// A waiter has gone, and its entry with it: a later one must not have its place.
    pub(super) fn leave(&mut self, id: Id, now: Instant) -> Option<Waiter<P::Want>> {
        let rank = self.waiters.rank(id, MOST);
        let waiter = self.waiters.remove(id)?;
        let ticket = rank.and_then(|rank| self.entries.nth(waiter.want, rank));
        if let Some(ticket) = ticket {
            let entry = self.entries.remove(ticket);
            self.leaving.extend(entry.map(|entry| (ticket, entry)));
        }
        self.note_surplus(now);
        Some(waiter)
    }

    pub(super) fn call(&mut self, call: P::Call, reply: Option<Reply<P::Want>>, now: Instant) {
        self.tidy();
        let queued = self.queued(call, reply, now);
        self.calls.push_back(Item::Call(queued));
    }

    pub(super) fn command(&mut self, command: Command) {
        self.tidy();
        self.calls.push_back(Item::Command(Box::new(command)));
    }

    /// Calls whose callers have gone do not pile up: the last one goes, or is added to the one before it.
    fn tidy(&mut self) {
        while self.calls.back().is_some_and(Item::is_pointless) {
            self.calls.pop_back();
        }
        if !self.calls.back().is_some_and(Item::is_abandoned) {
            return;
        }
        let Some(Item::Call(last)) = self.calls.pop_back() else {
            return;
        };
        if let Some(Item::Call(before)) = self.calls.back_mut()
            && !before.has_caller()
            && before.call.add_up(&last.call)
        {
            before.since = before.since.max(last.since);
        } else {
            self.calls.push_back(Item::Call(last));
        }
    }

    /// A call on its way.
    pub(super) fn queued(
        &mut self,
        call: P::Call,
        reply: Option<Reply<P::Want>>,
        now: Instant,
    ) -> Queued<P> {
        let note = self.held.queued(&call);
        let ticket = call.takes().map_or(0, |_| self.core.next_sequences(1));
        Queued {
            call,
            reply,
            since: now,
            note,
            ticket,
            lease: Duration::ZERO,
        }
    }

    /// Serves the first waiters by what `freed` frees, without Redis; none where that is not fair or not possible.
    pub(super) fn hand_over(
        &mut self,
        freed: Grant<P::Want>,
        now: Instant,
    ) -> Option<Told<P::Want>> {
        let window = self.core.config.local_hand_over;
        let known = self.known.as_ref().filter(|known| known.available >= 0)?;
        let window = if known.is_alone() {
            window * ALONE
        } else {
            window
        };
        if now.saturating_duration_since(known.seen) >= window {
            return None;
        }
        if freed.want.is_leased()
            && self
                .held
                .lease(freed.ticket)
                .is_none_or(|lease| lease.is_lost())
        {
            return None;
        }
        let until = known.foreign.map(|foreign| foreign + LEEWAY);
        let mut left = freed.want.amount();
        let mut served = Vec::new();
        for (id, waiter) in self.waiters.iter() {
            let late = until.is_some_and(|until| waiter.since > until);
            let (amount, leased) = (waiter.want.amount(), freed.want.is_leased());
            let suits =
                waiter.want.is_leased() == leased && (amount == left || !leased && amount < left);
            if late || !suits {
                return None;
            }
            served.push(id);
            left -= amount;
            if left == 0 {
                break;
            }
        }
        if left > 0 {
            return None;
        }
        let mut told = Told::default();
        for id in served {
            let Some(waiter) = self.waiters.remove(id) else {
                continue;
            };
            let grant = Grant::new(waiter.want, freed.ticket);
            told.add(waiter.reply, Ok(Outcome::Granted(grant)));
            self.handed += 1;
        }
        self.note_surplus(now);
        Some(told)
    }

    // ---- what is heard ----

    /// A notification to this client.
    pub(super) fn notified(&mut self, message: &str, now: Instant) -> Told<P::Want> {
        let mut told = Told::default();
        let mut words = message.split_ascii_whitespace();
        match words.next() {
            Some("grant") => {
                let ticket = words.next().and_then(|word| word.get(1..)?.parse().ok());
                let mut number = || words.next().and_then(|word| word.parse().ok());
                if let Some((ticket, clock)) = ticket.zip(number()) {
                    let token = number().unwrap_or(0);
                    self.grant(ticket, Some((clock, token)), now, &mut told);
                }
            }
            // It asks anew, and gets the reason.
            Some("none") => {
                let ticket = words.next().and_then(|word| word.get(1..)?.parse().ok());
                ticket.and_then(|ticket| self.entries.remove(ticket));
            }
            Some("watch") if !self.waiters.is_empty() => {
                self.watches = true;
                // The answer of a batch under way may know of another one.
                self.look = true;
            }
            Some("watch") => self.unwatch = true,
            // The answer to the batch may know less.
            Some("first") if self.under_way.is_some() => self.look = true,
            Some("first") => {
                let micros = words.next().and_then(|word| word.parse().ok());
                self.look_as_first(micros.map(Duration::from_micros), now);
            }
            // "gone", or that a latch has changed.
            _ => self.missed(),
        }
        told
    }

    /// `ticket` was granted. `made`: when, by the server's clock, and its token; without these the grant is confirmed before it is used.
    pub(super) fn grant(
        &mut self,
        ticket: Ticket,
        made: Option<(u64, u64)>,
        now: Instant,
        told: &mut Told<P::Want>,
    ) {
        if self.leaving.iter().any(|(other, _)| *other == ticket) {
            // Others wait for it.
            self.look = true;
            return;
        }
        let under_way = self.under_way.as_ref();
        let touched = under_way.is_some_and(|batch| batch.touches.contains(&ticket));
        let Some(entry) = self.entries.get(ticket).copied().filter(|_| !touched) else {
            match under_way {
                Some(_) => self.early.push(ticket),
                None => self.missed(),
            }
            self.early.truncate(2 * MOST);
            return;
        };
        let fresh =
            made.and_then(|(clock, token)| Some((self.fresh_until(clock, &entry)?, clock, token)));
        if let Some((until, clock, token)) = fresh.filter(|_| entry.want.is_used_at_once())
            && let Some(waiter) = self.waiters.take(entry.want, Id::MAX)
        {
            self.entries.remove(ticket);
            self.in_time(true);
            let count = entry.want.count_of_grant();
            let taken = Taken { token, count };
            self.hold(ticket, &entry, taken, waiter, until, told);
            let ends = clock + entry.life * 1000;
            self.unconfirmed.insert(ticket, (entry, ends));
            self.confirm_at.get_or_insert(now + CONFIRM_AFTER);
        } else if !self.granted.contains(&ticket) {
            self.granted.push(ticket);
        }
    }

    /// A grant was confirmed in time, or had run out: from now on those of this client last for half as long, or for twice as long.
    pub(super) fn in_time(&mut self, yes: bool) {
        self.late = match yes {
            true => self.late.saturating_sub(1),
            false => (self.late + 1).min(MOST_LATE),
        };
    }

    /// Until when a grant that was made at `clock` lasts, if at least half of its life is left for certain.
    fn fresh_until(&self, clock: u64, entry: &Entry<P::Want>) -> Option<Moment> {
        if self.core.config.replicas.is_some() {
            return None;
        }
        let (sent, then) = self.clock?;
        let since = Duration::from_micros(clock.checked_sub(then)?);
        // The server's clock had that time when the script was sent, or later. Clocks drift by less than a thousandth.
        let made = sent + (since - since / 1000);
        let until = made + entry.life();
        (until.remaining() >= entry.life() / 2).then_some(until)
    }

    /// A waiter has what `entry` was made for.
    pub(super) fn hold(
        &mut self,
        ticket: Ticket,
        entry: &Entry<P::Want>,
        taken: Taken,
        waiter: Waiter<P::Want>,
        until: Moment,
        told: &mut Told<P::Want>,
    ) {
        let grant = self.granted(entry.want, ticket, taken, entry.life, until);
        told.add(waiter.reply, Ok(Outcome::Granted(grant)));
    }

    /// A caller has this from now on; waiters that need not wait for it any more ask at once.
    pub(super) fn granted(
        &mut self,
        want: P::Want,
        ticket: Ticket,
        taken: Taken,
        life: u64,
        until: Moment,
    ) -> Grant<P::Want> {
        let grant = Grant {
            want,
            ticket,
            taken,
            until: Some(until),
        };
        self.held.granted(grant, life, until);
        for ticket in self.entries.let_in_by(want) {
            let entry = self.entries.remove(ticket);
            self.leaving.extend(entry.map(|entry| (ticket, entry)));
        }
        grant
    }

    /// A JVM has released.
    pub(super) fn jvm_released(&mut self) {
        self.heard = self.heard.saturating_add(1);
        self.look = true;
    }

    pub(super) fn look(&mut self) {
        self.look |= !self.waiters.is_empty();
    }

    /// This client is the first in the queue. It checks for permits that are freed without a message: after `pause`, as some may
    /// be free then, and at the pace of its handle.
    pub(super) fn look_as_first(&mut self, pause: Option<Duration>, now: Instant) {
        let Some(pause) = self.held.pace().map(|pace| pause.unwrap_or(pace).min(pace)) else {
            return;
        };
        if pause.is_zero() {
            self.look = true;
        } else {
            self.look_at = self.look_at.into_iter().chain([now + pause]).min();
        }
    }

    /// Messages of JVMs are not heard any more.
    pub(super) fn watch_no_more(&mut self) {
        self.unwatch |= std::mem::take(&mut self.watches);
    }

    /// Messages may have been missed.
    pub(super) fn missed(&mut self) {
        self.recheck |= !self.entries.is_empty();
        self.look |= P::MOST_QUEUED == 0 && !self.waiters.is_empty();
    }

    /// The slow check; not where all entries are new.
    pub(super) fn slow_check(&mut self, now: Instant) {
        let interval = self.core.config.safety_interval;
        let is_recent = |at: Instant| now.saturating_duration_since(at) < interval / 2;
        if !self.checked.is_some_and(is_recent) {
            self.missed();
            self.look();
        }
    }

    /// The connection for messages is gone: what comes by the next one is of another server, perhaps.
    pub(super) fn deaf(&mut self) {
        self.clock = None;
        self.last_arrival = 0;
    }

    /// Time has passed: ends the waits whose deadline it was.
    pub(super) fn tick(&mut self, now: Instant) -> Told<P::Want> {
        let mut told = Told::default();
        for id in self.waiters.overdue(now) {
            if let Some(waiter) = self.leave(id, now) {
                told.add(waiter.reply, Ok(Outcome::InVain));
            }
        }
        self.note_surplus(now);
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry();
        }
        self.ask_at.take_if(|at| *at <= now);
        let late_surplus = self.surplus_at.take_if(|at| *at <= now).is_some();
        let late_confirmation = self.confirm_at.take_if(|at| *at <= now).is_some();
        let looks = self.look_at.take_if(|at| *at <= now).is_some()
            && (P::MOST_QUEUED > 0 || !self.waiters.is_empty());
        self.look |= late_surplus || looks || late_confirmation && !self.unconfirmed.is_empty();
        if let Some((step, _)) = self.announce_at.take_if(|(_, at)| *at <= now) {
            self.announce = true;
            let next = ANNOUNCEMENTS.get(step + 1).zip(ANNOUNCEMENTS.get(step));
            self.announce_at = next.map(|(later, sooner)| (step + 1, now + (*later - *sooner)));
        }
        told
    }

    /// Forbidden releases are tried again.
    pub(super) fn retry(&mut self) {
        self.retry_at = None;
        let refused = std::mem::take(&mut self.refused).into_iter();
        self.calls.extend(refused.map(Item::Call));
    }

    /// Whether something is left to be done when the object has no handle any more.
    pub(super) fn stays(&self) -> bool {
        !self.entries.is_empty()
            || !self.leaving.is_empty()
            || self.watches
            || self.unwatch
            || self.looks_soon && self.look_at.is_some()
            || !self.refused.is_empty()
            || self.jvms_seen && self.announce_at.is_some()
    }

    pub(super) fn note_surplus(&mut self, now: Instant) {
        if self.surplus().next().is_none() && self.leaving.is_empty() {
            self.surplus_at = None;
        } else if self.surplus_at.is_none() {
            self.surplus_at = Some(if self.closed {
                now
            } else {
                now + SURPLUS_AFTER
            });
        }
    }

    /// How many entries of which kind have no waiter.
    pub(super) fn surplus(&self) -> impl Iterator<Item = (P::Want, usize)> {
        let all = self.entries.wants();
        all.filter_map(|(want, count)| {
            let surplus = count.saturating_sub(self.waiters.count(want));
            (surplus > 0).then_some((want, surplus))
        })
    }

    /// When something is due by itself.
    pub(super) fn alarm(&self) -> Option<Instant> {
        let all = [
            self.waiters.first_deadline(),
            self.look_at,
            self.surplus_at,
            self.announce_at.map(|(_, at)| at),
            self.retry_at,
            self.confirm_at,
            self.ask_at,
        ];
        all.into_iter().flatten().min()
    }
}
