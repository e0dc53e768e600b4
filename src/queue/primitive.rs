//! The traits of a primitive that uses the queue.

use std::fmt::{Debug, Display};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use super::outcome::{Grant, Outcome, Ticket, Want};
use crate::clock::Moment;
use crate::engine::request::Arg;
use crate::error::Error;
use crate::lease::Lease;

/// A batch carries so many calls or waiters at the most.
pub(super) const MOST_TOGETHER: usize = 1024;

/// How a primitive uses the queue. Its script has the parts of `lua/queue`, and its own steps at the end; `src/lua.rs` puts it together.
pub(crate) trait Primitive: Sized + Send + Sync + 'static {
    /// In the client's registry.
    const KIND: &'static str;
    /// The name of waiting, for errors.
    const WAIT: &'static str;
    /// So many waiters are asked for together where the client has no entry.
    const MOST_ASKED: usize = MOST_TOGETHER;
    /// Its waiters stand in the queue. Where none does, they ask again when something may have changed.
    const QUEUES: bool = true;
    /// Free permits are announced to JVMs again, as JVMs do not pass a wake-up on.
    const TELLS_AGAIN: bool = false;
    type Want: Want;
    type Call: Call<Want = Self::Want>;
    type Held: Held<Self>;

    /// The call that gives `grant` back.
    fn give_back(grant: Grant<Self::Want>) -> Self::Call;

    /// The call that releases `grant` if it was granted, which is unknown; `None` where it ends by itself, or the call would be about
    /// something else.
    fn give_back_unknown(_: Grant<Self::Want>) -> Option<Self::Call> {
        None
    }
}

/// Waiters that need an entry beside those of the first ones.
pub(crate) enum Overtaking<W> {
    /// Those that want less than each entry: the first of them have one.
    Smaller,
    These(Vec<RangeInclusive<W>>),
}

/// The answer to one of several equal calls of a step.
pub(crate) type Result<W> = std::result::Result<Outcome<W>, Error>;

/// A call on an object, but waiting.
pub(crate) trait Call: Clone + PartialEq + Send + Unpin + Debug + Display + 'static {
    type Want;
    /// Notes about a call on its way.
    type Note: Default + Send;

    /// The name for errors.
    fn name(&self) -> &'static str;

    /// Whether it is carried out, however late, when its caller has gone.
    fn is_deferred(&self) -> bool;

    /// Whether it changes nothing.
    fn is_plain(&self) -> bool {
        false
    }

    /// Whether one step may stand for several such calls.
    fn adds_up(&self) -> bool {
        false
    }

    /// As how many calls it counts in a batch.
    fn size(&self) -> usize {
        1
    }

    /// The permits that it takes, without waiting for them.
    fn takes(&self) -> Option<Self::Want> {
        None
    }

    /// Whether it may change a grant to `want`, or is about the same owner.
    fn concerns(&self, _want: Self::Want) -> bool {
        false
    }

    /// The permits that it frees, where these may serve a waiter of this client without Redis.
    fn frees(&self) -> Option<Grant<Self::Want>> {
        None
    }

    /// The permits of a guard that are held no more behind it, whether it frees them or leaves them taken.
    fn ends(&self) -> Option<Grant<Self::Want>> {
        None
    }

    /// Whether it may leave more permits than there were.
    fn adds(&self) -> bool {
        false
    }

    /// Writes the step for `count` such calls. The permits that it takes are held under `ticket`.
    fn write(&self, count: usize, ticket: Ticket, note: &Self::Note, args: &mut Vec<Arg>);

    /// The result that `word` of the script means for the call at `index` of the step; `None` for a word that the script never uses.
    fn read(&self, name: &str, word: &str, index: usize) -> Option<Result<Self::Want>>;
}

pub(super) type NoteOf<P> = <<P as Primitive>::Call as Call>::Note;

/// Why something that has departed is not known to be done.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotDone {
    /// It was refused, or never sent.
    Refused,
    /// Nobody will know.
    Unknown,
}

/// The permits of one object that the callers of this client hold, under leases that the table of
/// [`engine::holds`](crate::engine::holds) renews.
pub(crate) trait Held<P: Primitive>: Send + 'static {
    /// The script's argument about what is held (`ARGV[7]`), computed when all of a batch is known. For semaphores it is the text that the client
    /// adds to its entries, for locks the owner and its count, for permits with ids the secret of these, for recipes their settings.
    fn header(&mut self, wants: &mut dyn Iterator<Item = P::Want>) -> Arc<str>;

    /// `call` is on its way.
    fn queued(&mut self, _: &P::Call) -> NoteOf<P> {
        NoteOf::<P>::default()
    }

    /// `call` departs.
    fn departs(&mut self, _: &P::Call, _: &mut NoteOf<P>) {}

    /// `call` has been answered, to a sending at `sent` or later. Returns the outcome for its caller.
    fn answered(
        &mut self,
        _call: &P::Call,
        _note: &NoteOf<P>,
        result: Result<P::Want>,
        _sent: Moment,
    ) -> Result<P::Want> {
        result
    }

    /// `call` was sent and not carried out.
    fn failed(&mut self, _: &P::Call, _: &mut NoteOf<P>, _: NotDone) {}

    /// A caller has been granted this; its lease ends at `until` for the time being. `life`: that of the grant, as its entry says.
    fn granted(&mut self, _grant: Grant<P::Want>, _life: u64, _until: Moment) {}

    /// The server has answered that `want` is not free.
    fn not_granted(&mut self, _want: P::Want) {}

    /// The server has said, to a sending at `sent` or later, that `ticket` is held still; or that it is not.
    fn extended(&mut self, _ticket: Ticket, _: P::Want, _sent: Option<Moment>) {}

    /// Whether it is held still, and has to be confirmed.
    fn has(&self, _: Ticket, _: P::Want) -> bool {
        false
    }

    /// The lease of what may be handed on to another caller of this client.
    fn lease(&self, _: Ticket) -> Option<Lease> {
        None
    }

    /// How long the lease of what is granted by a script lasts.
    fn lease_time(&self, want: P::Want) -> Duration;

    /// The wants that may be served before the entries of this client.
    fn overtaking(&self) -> Overtaking<P::Want> {
        Overtaking::These(Vec::new())
    }

    /// Whether this client holds all that there is: its waiters may ask together with the call that frees it.
    fn has_all(&self) -> bool {
        false
    }

    /// The time until a client has to check whether a lease of another client has run out.
    fn checks_after(&self) -> Option<Duration> {
        None
    }

    /// How often the first client in the queue looks, where others free something without a word.
    fn pace(&self) -> Option<Duration> {
        None
    }

    /// How many callers wait that the queue does not know.
    fn waiting(&self) -> usize {
        0
    }

    /// The calls by which waiters that the queue does not know leave, as the client ends.
    fn last_calls(&mut self) -> Vec<P::Call> {
        Vec::new()
    }
}

/// Nothing is held of what takes nothing.
pub(crate) struct Nothing;

impl<P: Primitive<Held = Self>> Held<P> for Nothing {
    fn header(&mut self, _: &mut dyn Iterator<Item = P::Want>) -> Arc<str> {
        Arc::default()
    }

    fn lease_time(&self, _: P::Want) -> Duration {
        Duration::ZERO
    }
}
