//! What a primitive has to say to be waited for by the queue.

use std::fmt::{Debug, Display};
use std::sync::LazyLock;

use super::outcome::{Grant, Outcome, Want};
use crate::engine::request::{Arg, Script};
use crate::error::Error;

/// How a primitive uses the queue. Its script ends with `lua/queue` and has its own steps.
pub(crate) trait Primitive: Sized + Send + Sync + 'static {
    /// In the client's registry.
    const KIND: &'static str;
    /// The name of waiting, for errors.
    const WAIT: &'static str;
    type Call: Call;

    fn script() -> &'static LazyLock<Script>;

    /// The call that gives `grant` back.
    fn give_back(grant: Grant) -> Self::Call;
}

/// What a call does with what callers hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing.
    None,
    /// Takes this, without waiting for it.
    Takes(Want),
    /// Gives back so much of what this ticket holds under a lease; `true`: that only ends to be held, and stays taken.
    Gives(Grant, bool),
}

/// The answer to one of several equal calls of a step.
pub(crate) type Result = std::result::Result<Outcome, Error>;

/// A call on an object, but waiting.
pub(crate) trait Call: Copy + PartialEq + Send + Unpin + Debug + Display + 'static {
    /// The name for errors.
    fn name(&self) -> &'static str;

    /// Whether it is carried out, however late, when its caller has gone.
    fn is_owed(&self) -> bool;

    /// Adds a call that nobody waits for to this one, where that is possible.
    fn add_up(&mut self, call: &Self) -> bool;

    /// Whether one step may stand for several such calls.
    fn adds_up(&self) -> bool;

    fn effect(&self) -> Effect;

    /// What it frees, where this may serve a waiter of this client without Redis.
    fn frees(&self) -> Option<Grant>;

    /// Whether it may leave more permits than there were.
    fn adds(&self) -> bool;

    /// Writes the step for `count` such calls; not for what is held under a lease.
    fn write(&self, count: usize, args: &mut Vec<Arg>);

    /// What `word` of the script means for the call at `index` of the step; `None` for what the script never says.
    fn read(&self, name: &str, word: &str, index: usize) -> Option<Result>;
}
