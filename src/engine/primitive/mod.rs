//! One line for each lock, latch, semaphore whose permits have ids, and classic recipe: what a primitive is, and what the line does
//! with it. [`RSemaphore`](crate::RSemaphore) stands on [`queue`](crate::queue) instead.
//!
//! A [`Primitive`] is a state machine: it does no I/O, starts no task and waits for nothing. It says what travels, who asks, how that is
//! written and read, what gives a grant back, what is owed, and what a message means. Everything that *happens* is the
//! line's, once for all primitives: the queue of calls, those who wait and until when, one round at a time, repetition
//! of what was not answered, subscriptions, and what becomes of a caller who goes. The line has two halves; the one
//! that decides ([`State`](state::State)) does no more than the primitive, and is called under one lock with it.
//!
//! # The rules that the line keeps
//!
//! - **A waiter that leaves while its question is under way** is seen to behind that round: what it was granted is
//!   given back, and else it [withdraws](Primitive::left). Before, the server would not know it yet.
//! - **What was granted to a caller who has gone** is given back before all that is queued: to those behind it is as if it had
//!   not been granted.
//! - **At its deadline** a waiter keeps its ticket: the next question that names it is its last, and the answer to
//!   that is its answer.
//! - **What was sent and not answered** is asked about by its number (that of a lock is sent again, which comes to the same: what nobody wants any more only tells then
//!   whether it was done). If the server has not seen it, it never will, and
//!   those calls are made again that somebody still wants, or that are owed.
//! - **A refusal is what the script says it is.** `refused` means that no sending has done anything. An error of the
//!   server's means that for this sending only: behind an unanswered one the outcome is unknown. Where several travel
//!   together, each is tried on its own before anybody is told.
//! - **What its user may not do** is told to its caller. Where nobody learns of that, and nothing else brings it back, it is tried again
//!   for five minutes: permissions are taken away and given by people.
//! - **An error tells the truth about its effect**: unknown for what was sent, of those whose question
//!   [takes](Primitive::takes) something; none for all others.
//! - **Where replicas are waited for**, what is owed travels apart from all else: it is tried until they have it, while what its
//!   caller has given up is undone whether they have it or not.
//! - **An outcome that stays unknown** leaves the line in doubt until a later batch is on record, behind which no copy of
//!   an earlier one does anything.
//!
//! # How what stands on it fits
//!
//! | | recipes | lock | permits with ids |
//! |---|---|---|---|
//! | `Call` | release, clear, list, and what the line of all clients needs | try, release, force, and the same | release, add, set, list, and the same |
//! | `Want` | how long it lasts; whether it only tries: a wait that ends at once | owner, term, since when | permits, their ids |
//! | `Grant` | id, slot, until when | hold | ids |
//! | `asks` | the first `limit + 1`, and who tries under a peer's lock | the first | as many as may be served |
//! | `give_back` | release of the id | release of this hold | release of the ids |
//! | `rest` | its place in the line of all clients is given up | the same | the same |
//! | `unknown` | release of the ids | the holds are given up | release of the ids |
//! | look `After` | first expiry, peers' lock, pace | the holder's end | the next end of a permit |
//! | short form | - | a script without a number; a look while it is held | - |
//!
//! Who waits for a latch takes nothing: all ask at once, by a command that only reads, and nothing is given back.

mod aside;
mod channels;
mod endings;
mod envelope;
mod line;
mod locked;
mod pending;
mod round;
mod row;
mod state;

mod waiters;

#[cfg(test)]
mod tests;

use std::str::SplitAsciiWhitespace;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

pub(crate) use envelope::{Wire, alone};
pub(crate) use line::Line;

use super::few::Few;
use super::keys::Keys;
use super::request::{Arg, Request};
use super::wakeups::Wake;
use crate::clock::Moment;
use crate::error::{Error, Result};

/// What a primitive is. Pure; called under the line's lock.
pub(crate) trait Primitive: Sized + Send + 'static {
    /// What the client's registry knows it by.
    const KIND: &'static str;
    /// What errors and the log call the wait.
    const WAIT: &'static str;
    /// Whether those who wait may ask while calls stay behind that did not fit: they are not about who asks.
    const OVERTAKES: bool = false;
    /// Whether an answer that grants nothing says, too, that no earlier question has got anything: its waiter is in doubt no
    /// more.
    const SETTLES: bool = false;

    /// What a caller asks for that is answered by the next round.
    type Call: Send;
    /// The answer to a call.
    type Reply: Send;
    /// What a caller waits for.
    type Want: Clone + Send;
    /// What it gets at the end.
    type Grant: Send;
    /// As what the calls and questions of a batch travel.
    type Steps: Default + Send;

    /// What errors and the log name a call.
    fn name(call: &Self::Call) -> &'static str;

    /// The same with all that somebody needs who repairs by hand; nothing where there is nothing to repair.
    fn details(call: &Self::Call) -> String {
        Self::name(call).to_owned()
    }

    /// The same with all that somebody needs who repairs by hand.
    fn wait_details(_want: &Self::Want) -> String {
        Self::WAIT.to_owned()
    }

    /// Whether a call is carried out although its caller has gone.
    fn is_owed(call: &Self::Call) -> bool;

    /// Whether it is tried again for a while where nobody waits for it and its user may not do it, whatever is done meanwhile.
    fn outlasts_refusals(_call: &Self::Call) -> bool {
        false
    }

    /// Adds a call to an earlier one, where that comes to the same; whether it did. For what is owed while the server does
    /// not answer.
    fn add_up(_earlier: &mut Self::Call, _call: &Self::Call) -> bool {
        false
    }

    /// Whether those who wait may be served behind a call.
    fn frees(&self, call: &Self::Call) -> bool;

    /// Whether a question for this may change something.
    fn takes(want: &Self::Want) -> bool;

    /// Whether one more call fits into a batch; if not, and there is something in it, it is for the next one. If so, it is
    /// noted in the steps.
    fn fits(&self, _batch: &mut Batch<Self>, _call: &Self::Call) -> bool {
        true
    }

    /// The same for a question.
    fn fits_ask(&self, _batch: &mut Batch<Self>, _ask: &Ask<Self>) -> bool {
        true
    }

    /// What the arrival of one more is a reason for.
    fn joins(&mut self, _want: &Self::Want, _others: &Waiters<Self>, _now: Instant) -> Look {
        Look::Now
    }

    /// What is known of a call that would depart with `batch`, so that it need not be sent. It was made at `since`.
    fn settled(
        &mut self,
        _batch: &Batch<Self>,
        _call: &Self::Call,
        _since: Instant,
    ) -> Option<Result<Self::Reply>> {
        None
    }

    /// Who asks, when there is a reason to: all, if nothing else is said. Those whose time is up ask in any case.
    /// `batch` has the calls that travel along.
    fn asks<'a>(
        &mut self,
        _batch: &Batch<Self>,
        waiters: &'a Waiters<Self>,
    ) -> Vec<(Ticket, &'a Self::Want)> {
        waiters.iter().collect()
    }

    /// Whether there is a reason to ask for those who are left, behind an answer.
    fn would_serve(&mut self, _waiters: &Waiters<Self>, _now: Instant) -> bool {
        false
    }

    /// A call was refused, or nobody will know whether it was carried out. Whether what it would have done is done in another way from now on.
    fn given_up(&mut self, _call: &Self::Call) -> bool {
        false
    }

    /// Nobody has learned that a call was refused, and it is not tried again.
    fn nobody_learned(&mut self, _call: &Self::Call) {}

    /// A batch departs. Once for each.
    fn departs(&mut self, _batch: &Batch<Self>) {}

    /// Nothing of it has been done, and it will not be sent again as it is.
    fn undone(&mut self) {}

    /// What a batch is sent in. A script without the envelope keeps its own account of what was carried out, and answers in
    /// the envelope's words.
    fn request(&mut self, batch: &Batch<Self>, wire: &Wire<'_>) -> Request {
        wire.request(self, batch)
    }

    /// `request` is to be sent once more, with this number: it was refused because of a record that nobody of ours has
    /// written, of which `found` is known. That does not count.
    fn disown(request: &mut Request, number: u64, _found: &str) {
        request.disown_record(number);
    }

    /// Writes the steps of a batch: at least one for a batch that is not empty. Once for each batch that departs.
    fn encode(&mut self, batch: &Batch<Self>, args: &mut Vec<Arg>);

    /// The further keys that the batch which has just been written needs: those of the object, unless it says otherwise.
    fn keys(&self, keys: &Keys) -> Vec<Arc<str>> {
        keys.parts().cloned().collect()
    }

    /// Reads the answer to a batch; `None` for one that its script never gives.
    fn decode(
        &mut self,
        batch: &Batch<Self>,
        words: &mut SplitAsciiWhitespace<'_>,
    ) -> Option<Verdict<Self>>;

    /// What it means that the script has `found` something that does not belong there.
    fn unreadable(&self, name: &str, found: &str) -> Error {
        Error::NotANumber {
            name: name.to_owned(),
            found: found.to_owned(),
        }
    }

    /// When what was granted ends by itself, counted from the batch's departure.
    fn ends(_grant: &Self::Grant) -> Option<Moment> {
        None
    }

    /// Somebody goes on waiting though what was, or may have been, granted to it is given back, which may happen after the next question:
    /// what that is granted must be something else.
    fn asks_anew(_want: &mut Self::Want) {}

    /// What gives back what was granted to a caller who has gone.
    fn give_back(_grant: Self::Grant) -> Option<Self::Call> {
        None
    }

    /// The same for an answer to a call; or what is still owed behind it.
    fn take_back(_reply: Self::Reply) -> Option<Self::Call> {
        None
    }

    /// What a waiter owes that has gone, or was told that it waits in vain, and what is left of `_others`. Never called while
    /// its question is under way.
    fn left(
        &mut self,
        _ticket: Ticket,
        _want: &Self::Want,
        _others: &Waiters<Self>,
        _now: Instant,
    ) -> Option<Self::Call> {
        None
    }

    /// What is owed where nobody waits any more.
    fn rest(&mut self) -> Option<Self::Call> {
        None
    }

    /// What is owed when nobody will ever know what became of a batch.
    fn unknown(&mut self, _batch: &Batch<Self>) -> Vec<Self::Call> {
        Vec::new()
    }

    /// Which channels are to be heard, in this order; `own` is the object's.
    fn channels(&self, own: &str, _waiters: &Waiters<Self>) -> Vec<String> {
        vec![own.to_owned()]
    }

    /// What is told of a channel at `now`, a message or something else, and what it is a reason for. It never grants
    /// anything.
    fn heard(&mut self, _channel: &str, _wake: &Wake, _now: Instant) -> Look {
        Look::Now
    }

    /// Whether those who wait can do without a channel that the server does not let be heard; it is wanted no more then.
    fn does_without(&mut self, _channel: &str) -> bool {
        false
    }

    /// Until when it is worth something what is known of others, though the last handle may have gone: another one may be made for the
    /// next call.
    fn remembers(&self) -> Option<Instant> {
        None
    }

    /// What is to be done when nothing is locked any more: those are told who wait for what the objects of a client share.
    fn after(&mut self) -> Option<fn(&Arc<Line<Self>>)> {
        None
    }
}

/// A waiter's number, rising in the order of arrival.
pub(crate) type Ticket = u64;

/// When those who wait ask again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// When there is another reason.
    No,
    Now,
    /// When so much time has passed.
    After(Duration),
}

/// What travels together: the calls in their order, then the questions of those who wait.
pub(crate) struct Batch<P: Primitive> {
    pub(crate) calls: Vec<Queued<P>>,
    pub(crate) asks: Vec<Ask<P>>,
    pub(crate) steps: P::Steps,
    /// How many waited when it departed, named here or not.
    pub(crate) waiting: usize,
    /// The first of those who wait longer than for this batch.
    pub(crate) first: Option<(Ticket, P::Want)>,
    /// The server has told it to wait.
    pub(crate) first_is_known: bool,
    /// Who has this ticket or a later one came after that.
    pub(crate) end: Ticket,
    /// Before it was sent for the first time.
    pub(crate) departed: Moment,
    /// Batches were given up before it departed whose copies may still arrive.
    pub(crate) doubtful: bool,
    /// The sending that was answered was made then or later; until then as `departed`.
    pub(crate) sent: Moment,
    /// For how long an earlier sending had been without an answer then.
    pub(crate) unanswered: Option<Duration>,
    /// Too few replicas have what its answer tells of.
    unconfirmed: bool,
    /// When the answer had come; until then as `departed`.
    pub(crate) answered: Instant,
    /// The channels that were heard when it departed.
    heard: Vec<String>,
}

impl<P: Primitive> Batch<P> {
    /// Whether `grant` is over, as it may have been made when the batch departed, and would not be if only the sending counted that was answered: the
    /// server had been away for as long as it lasts.
    fn is_outlived(&self, grant: &P::Grant) -> bool {
        let (departed, sent) = (self.departed.timer(), self.sent.timer());
        let again = sent.saturating_duration_since(departed);
        P::ends(grant).is_some_and(|ends| ends.has_come() && !(ends + again).has_come())
    }

    fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.asks.is_empty()
    }

    /// Whether `channel` was heard when it departed.
    pub(crate) fn hears(&self, channel: &str) -> bool {
        self.heard.iter().any(|heard| heard == channel)
    }

    /// How many could be tried on their own.
    fn parts(&self) -> usize {
        self.calls.len() + usize::from(!self.asks.is_empty())
    }

    /// What is in it, for the log.
    fn contents(&self) -> String {
        let calls = self.calls.iter();
        let calls = calls.map(|queued| P::details(&queued.call));
        let asks = self.asks.iter().map(|ask| P::wait_details(&ask.want));
        let mut all: Vec<(String, usize)> = Vec::new();
        for details in calls.chain(asks).filter(|details| !details.is_empty()) {
            match all.last_mut() {
                Some((last, count)) if *last == details => *count += 1,
                _ => all.push((details, 1)),
            }
        }
        super::log::list_of(all.into_iter())
    }
}

/// A call on its way.
pub(crate) struct Queued<P: Primitive> {
    pub(crate) call: P::Call,
    /// `None` where nobody waits for it.
    reply: Option<Reply<P>>,
    since: Instant,
    /// An earlier answer has asked for it.
    later: bool,
    /// It shows whether what was set aside may be done.
    probes: bool,
}

impl<P: Primitive> Queued<P> {
    fn new(call: P::Call, reply: Option<Reply<P>>, since: Instant) -> Self {
        Queued {
            call,
            reply,
            since,
            later: false,
            probes: false,
        }
    }
}

/// A waiter's question.
pub(crate) struct Ask<P: Primitive> {
    pub(crate) ticket: Ticket,
    pub(crate) want: P::Want,
    /// It does not wait any longer.
    pub(crate) last: bool,
}

/// What the server has said to a batch.
pub(crate) struct Verdict<P: Primitive> {
    /// For each call.
    pub(crate) replies: Vec<Done<P::Reply>>,
    /// For each question.
    pub(crate) grants: Vec<Got<P::Grant>>,
    /// When those who are left, asked or not, ask again.
    pub(crate) look: Look,
    /// Why nobody was granted anything, though the calls were carried out: all who wait are told.
    pub(crate) stopped: Option<Error>,
    /// A call that is made after so much time, unless a later answer says otherwise.
    pub(crate) later: Option<(Duration, P::Call)>,
    /// What is owed for what the answer says.
    pub(crate) owed: Option<P::Call>,
}

impl<P: Primitive> Verdict<P> {
    /// What somebody is told who was refused.
    fn errors(&mut self) -> impl Iterator<Item = &mut Error> {
        self.stopped.iter_mut()
    }

    /// Each question has got something or not.
    pub(crate) fn new(
        replies: Vec<P::Reply>,
        grants: impl IntoIterator<Item = Option<P::Grant>>,
        look: Look,
    ) -> Self {
        let grants = grants.into_iter();
        Verdict {
            replies: replies.into_iter().map(Done::Reply).collect(),
            grants: grants
                .map(|got| got.map_or(Got::Nothing, Got::Granted))
                .collect(),
            look,
            stopped: None,
            later: None,
            owed: None,
        }
    }
}

/// What has become of a call.
pub(crate) enum Done<R> {
    Reply(R),
}

/// What a question has got.
pub(crate) enum Got<G> {
    Granted(G),
    /// It waits on, unless it was its last question.
    Nothing,
}

/// How a call or a wait has ended.
pub(crate) enum Outcome<P: Primitive> {
    Reply(P::Reply),
    Granted(P::Grant),
    /// The time has run out.
    InVain,
    /// Boxed, as it is rare.
    Refused(Box<Refused<P>>),
}

/// A call that was refused. Where nobody learns of that, something may have to be done about it.
pub(crate) struct Refused<P: Primitive> {
    queued: Queued<P>,
    error: Error,
    /// It is done in another way.
    comes_back: bool,
}

impl<P: Primitive> Outcome<P> {
    /// As callers are told it.
    fn or_refusal(self) -> Result<Self> {
        match self {
            Outcome::Refused(refused) => Err(refused.error),
            outcome => Ok(outcome),
        }
    }

    /// What is left to do where nobody has learned of it.
    fn unlearned(self) -> Option<Unlearned<P>> {
        match self {
            Outcome::Reply(reply) => P::take_back(reply).map(Unlearned::Owed),
            Outcome::Granted(grant) => P::give_back(grant).map(Unlearned::Owed),
            Outcome::InVain => None,
            Outcome::Refused(refused) => Some(Unlearned::Refused(*refused)),
        }
    }
}

/// What nobody has learned of.
enum Unlearned<P: Primitive> {
    /// This gives back what was granted.
    Owed(P::Call),
    Refused(Refused<P>),
}

/// Those who wait for what a primitive grants.
pub(crate) type Waiters<P> = waiters::Waiters<<P as Primitive>::Want, Reply<P>>;

/// Where the outcome goes.
type Reply<P> = oneshot::Sender<Result<Outcome<P>>>;

/// What is to be told to callers when the lock is free.
#[must_use]
struct Told<P: Primitive>(Few<OneTold<P>>);

/// What one caller is told, if there is one still.
type OneTold<P> = (Option<Reply<P>>, Result<Outcome<P>>);

impl<P: Primitive> Told<P> {
    fn nobody() -> Self {
        Told(Few::default())
    }

    fn add(&mut self, reply: Reply<P>, outcome: Result<Outcome<P>>) {
        self.0.push((Some(reply), outcome));
    }

    /// Tells them; what is left to do where nobody has learned of it.
    fn tell(self) -> Vec<Unlearned<P>> {
        let mut all = Vec::new();
        for (reply, outcome) in self.0.all() {
            let untold = match reply {
                Some(reply) => reply.send(outcome).err(),
                None => Some(outcome),
            };
            if let Some(Ok(outcome)) = untold {
                all.extend(outcome.unlearned());
            }
        }
        all
    }
}
