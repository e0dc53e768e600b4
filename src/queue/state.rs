//! The client's half of the queue for one object, without I/O: what is asked for, believed and to be done.
//!
//! Callers, messages and answers change it. Something is to be sent when [`has_work`](State::has_work) says so, and at the latest when one
//! of these times comes:
//!
//! | Time | Set when | Then |
//! |---|---|---|
//! | a waiter's deadline | it comes | it ends, and its entry leaves the queue |
//! | `due_at` | a call has a time limit, or the server is away | callers without an answer get their errors |
//! | `surplus_at` | an entry has no waiter any more | a batch takes it out of the queue |
//! | `confirm_at` | a guard uses a grant | a batch confirms the grant |
//! | `ask_at` | a waiter comes while all is held by this client | a batch asks for the waiter |
//! | `serve_at` | an answer says when something ends | a batch lets its script serve the queue |
//! | `announcements` | permits are left for JVMs | a batch announces them again |
//! | `listens` | the last waiter has gone | the channels are left |

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::announcements::Announcements;
use super::batch::{Batch, Queued, What};
use super::entries::{Entries, Entry, MOST, Unconfirmed};
use super::known::Known;
use super::outcome::{Outcome, Replies, Reply, Ticket};
use super::primitive::{Call, Held, Primitive};
use super::waiters::{Id, Waiter, Waiters};
use crate::clock::Moment;
use crate::engine::Core;
use crate::engine::request::Request;
use crate::error::Error;
use crate::transport::Refusal;

/// Channels stay subscribed for so long after the last waiter, as the next one may come soon; and the object stays with them.
const LINGER: Duration = Duration::from_secs(1);

/// A surplus entry leaves the queue after so long, or with the next batch that has another reason.
const SURPLUS_AFTER: Duration = Duration::from_millis(5);

/// The batch under way.
pub(super) struct UnderWay<P: Primitive> {
    pub(super) batch: Batch<P>,
    /// It may have been carried out.
    pub(super) maybe_done: bool,
    /// Why it has no answer yet; and whether a sending is under way.
    pub(super) trouble: Option<Refusal>,
    pub(super) departed: bool,
}

/// Whether channels are subscribed.
#[derive(Clone, Copy, PartialEq)]
enum Listens {
    Not,
    /// A caller waits.
    Now,
    /// None does any more.
    Until(Instant),
}

pub(super) struct State<P: Primitive> {
    pub(super) core: Arc<Core>,
    /// The object's name, for errors.
    pub(super) name: String,
    pub(super) held: P::Held,
    pub(super) closed: bool,
    /// Outcomes that callers get when the object's lock is free.
    pub(super) replies: Replies<P::Want>,

    // Callers, and their places in Redis.
    pub(super) waiters: Waiters<P::Want>,
    pub(super) entries: Entries<P::Want>,
    /// Entries of waiters that have gone: they leave the queue with the next batch, or at `surplus_at`.
    pub(super) leaving: Vec<(Ticket, Entry<P::Want>)>,
    pub(super) surplus_at: Option<Instant>,
    /// The arrival of the last entry.
    pub(super) last_arrival: u64,
    /// Until then waiters need not ask: what they want is held here, and they ask with the call that frees it.
    pub(super) ask_at: Option<Instant>,
    pub(super) calls: VecDeque<Queued<P>>,
    /// Calls that release grants which no replica has confirmed, of the batch with this number.
    pub(super) returns: Option<(u64, Vec<P::Call>)>,
    /// When the first of the callers without an answer gets its error.
    pub(super) due_at: Option<Instant>,

    // Grants of which this client was notified.
    /// To be confirmed by the next batch.
    pub(super) granted: Vec<Ticket>,
    /// Notified while a batch was under way that may change them, or has made their entries: confirmed behind it.
    pub(super) early: Vec<Ticket>,
    /// Used by guards already; confirmed by the next batch, or at `confirm_at`.
    pub(super) unconfirmed: BTreeMap<Ticket, Unconfirmed<P::Want>>,
    pub(super) confirm_at: Option<Instant>,
    /// When a script was sent, and the server's clock in it: tells how old a notification is.
    pub(super) clock: Option<(Moment, u64)>,

    // Batches.
    pub(super) under_way: Option<Box<UnderWay<P>>>,
    /// The next batch has its script serve the queue, though it may carry nothing else. It departs at `serve_at` at the latest.
    pub(super) serve: bool,
    pub(super) serve_at: Option<Instant>,
    /// That comes soon, and other clients rely on it.
    pub(super) serves_soon: bool,
    /// The last script has passed so many entries, and there are more: the next one goes on behind them.
    pub(super) skip: Option<u64>,
    /// The next batch confirms all entries, as a message may have been missed.
    pub(super) confirm_all: bool,
    /// When all entries were confirmed, or the first of them was made.
    pub(super) checked: Option<Instant>,
    /// Whether notifications are wanted.
    listens: Listens,
    /// Whether they are heard: until then entries may leave the queue at any time.
    pub(super) hears: bool,
    /// The server forbids the subscription; waiters get that error behind the batch under way.
    pub(super) subscription_refused: Option<Error>,

    // Other clients, and JVMs.
    pub(super) known: Option<Known>,
    pub(super) announcements: Announcements,
    /// This client listens to JVMs; it says with the next batch that it does so no more.
    pub(super) listens_to_jvms: bool,
    pub(super) unwatch: bool,
    /// Since the last batch: how many releases of JVMs it has heard, and how many callers it has served without Redis.
    pub(super) heard: u32,
    pub(super) handed: u32,
}

impl<P: Primitive> State<P> {
    pub(super) fn new(core: &Arc<Core>, name: &str, held: P::Held, closed: bool) -> Self {
        State {
            core: Arc::clone(core),
            name: name.to_owned(),
            waiters: Waiters::default(),
            entries: Entries::default(),
            calls: VecDeque::new(),
            held,
            replies: Replies::default(),
            leaving: Vec::new(),
            granted: Vec::new(),
            early: Vec::new(),
            unconfirmed: BTreeMap::new(),
            confirm_at: None,
            confirm_all: false,
            serve: false,
            skip: None,
            serve_at: None,
            serves_soon: false,
            checked: None,
            surplus_at: None,
            ask_at: None,
            listens: Listens::Not,
            hears: true,
            announcements: Announcements::default(),
            listens_to_jvms: false,
            unwatch: false,
            heard: 0,
            handed: 0,
            known: None,
            last_arrival: 0,
            clock: None,
            returns: None,
            due_at: None,
            under_way: None,
            subscription_refused: None,
            closed,
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiters.len() + self.held.waiting()
    }

    // ---- what callers do ----

    /// A caller waits for `want`, for `wait` at the most.
    pub(super) fn join(
        &mut self,
        want: P::Want,
        reply: Reply<P::Want>,
        wait: Option<Duration>,
        now: Instant,
    ) -> Id {
        // A wait that the clock cannot express has no end.
        let deadline = wait.and_then(|wait| now.checked_add(wait));
        let due = self.core.due(wait);
        self.note_due(due);
        let all_answered = self.waiters.unanswered().next().is_none();
        if self.ask_at.is_none() && !self.asks() {
            let known = self.known.as_ref().filter(|known| known.is_alone());
            let until = known.map(|known| known.until(self.core.config.local_hand_off));
            self.ask_at = until.filter(|until| *until > now && self.held.has_all());
        }
        self.ask_at = self
            .ask_at
            .filter(|at| deadline.is_none_or(|deadline| *at < deadline));
        let id = self.waiters.add(Waiter {
            want,
            since: now,
            deadline,
            due,
            reply,
        });
        if all_answered {
            self.mark_unasked();
        }
        id
    }

    /// Waiters that no batch asks for count as answered, as those do that wait behind an entry: only these can time out.
    pub(super) fn mark_unasked(&mut self) {
        if self.ask_at.is_none() && !self.asks() {
            self.waiters.answered(self.waiters.next());
        }
    }

    /// A waiter has gone, and its entry with it: a later one must not have its place.
    pub(super) fn leave(&mut self, id: Id, now: Instant) -> Option<Waiter<P::Want>> {
        let rank = self.waiters.rank(id, MOST);
        let waiter = self.waiters.remove(id)?;
        let ticket = rank.and_then(|rank| self.entries.alike(waiter.want).nth(rank));
        if let Some(ticket) = ticket {
            let entry = self.entries.remove(ticket);
            self.leaving.extend(entry.map(|entry| (ticket, entry)));
        }
        self.note_surplus(now);
        Some(waiter)
    }

    /// A caller ends then that has no answer.
    fn note_due(&mut self, due: Option<Instant>) {
        self.due_at = self.due_at.into_iter().chain(due).min();
    }

    /// Carries `call` out, for a caller that ends at a time where it has no answer, or for none.
    pub(super) fn call(
        &mut self,
        call: P::Call,
        caller: Option<(Reply<P::Want>, Option<Instant>)>,
        now: Instant,
    ) {
        self.tidy();
        let mut queued = self.queued(call, now);
        if let Some((reply, due)) = caller {
            (queued.reply, queued.due) = (Some(reply), due);
            self.note_due(due);
        }
        self.calls.push_back(queued);
    }

    pub(super) fn request(
        &mut self,
        operation: &'static str,
        request: Request,
        reply: Reply<P::Want>,
        now: Instant,
    ) {
        self.tidy();
        let due = self.core.due(Some(Duration::ZERO));
        self.note_due(due);
        self.calls.push_back(Queued {
            what: What::Request(operation, Box::new(request)),
            reply: Some(reply),
            since: now,
            due,
            ticket: 0,
        });
    }

    /// Calls whose callers have gone do not pile up.
    fn tidy(&mut self) {
        while self.calls.back().is_some_and(Queued::is_pointless) {
            self.calls.pop_back();
        }
    }

    /// A call on its way, without a caller.
    pub(super) fn queued(&mut self, call: P::Call, now: Instant) -> Queued<P> {
        let note = self.held.queued(&call);
        let ticket = call.takes().map_or(0, |_| self.core.next_sequences(1));
        Queued {
            what: What::Call(call, note),
            reply: None,
            since: now,
            due: None,
            ticket,
        }
    }

    /// Time has passed: ends the waits whose deadline it was, and what has had no answer for too long.
    pub(super) fn tick(&mut self, now: Instant) {
        for id in self.waiters.overdue(now) {
            if let Some(waiter) = self.leave(id, now) {
                self.replies.add(waiter.reply, Ok(Outcome::TimedOut));
            }
        }
        if self.due_at.is_some_and(|at| at <= now) {
            self.give_up(now);
        }
        if matches!(self.listens, Listens::Until(at) if at <= now) {
            self.listens = Listens::Not;
        }
        self.note_surplus(now);
        self.ask_at.take_if(|at| *at <= now);
        let late_surplus = self.surplus_at.take_if(|at| *at <= now).is_some();
        let late_confirmation = self.confirm_at.take_if(|at| *at <= now).is_some();
        let serves = self.serve_at.take_if(|at| *at <= now).is_some()
            && (P::QUEUES || !self.waiters.is_empty());
        self.serve |= late_surplus || serves || late_confirmation && !self.unconfirmed.is_empty();
        self.announcements.tick(now);
    }

    /// Whether something is left to be done when the object has no handle any more.
    pub(super) fn stays(&self) -> bool {
        !self.entries.is_empty()
            || !self.leaving.is_empty()
            || self.listens != Listens::Not
            || self.unwatch
            || self.serves_soon && self.serve_at.is_some()
            || self.announcements.keep_object()
    }

    /// Begins or ends to listen. Returns whether the channels are to be subscribed: while a caller waits, and a while longer.
    pub(super) fn update_listening(&mut self) -> bool {
        let queued = !P::QUEUES || !self.entries.is_empty();
        if queued && !self.waiters.is_empty() {
            self.listens = Listens::Now;
        } else if self.closed {
            self.listens = Listens::Not;
        } else if self.listens == Listens::Now {
            self.listens = Listens::Until(Instant::now() + LINGER);
        }
        self.listens != Listens::Not
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
        let all = self.entries.wants(..);
        all.filter_map(|(want, count)| {
            let surplus = count.saturating_sub(self.waiters.count(want));
            (surplus > 0).then_some((want, surplus))
        })
    }

    /// When something is due by itself.
    pub(super) fn alarm(&self) -> Option<Instant> {
        let all = [
            self.waiters.first_deadline(),
            self.serve_at,
            self.surplus_at,
            self.announcements.alarm(),
            self.confirm_at,
            self.ask_at,
            self.due_at,
            match self.listens {
                Listens::Until(at) => Some(at),
                Listens::Not | Listens::Now => None,
            },
        ];
        all.into_iter().flatten().min()
    }
}
