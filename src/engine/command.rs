//! A call that is a request of its own: it travels alone, in its turn among an object's calls.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::core::Core;
use super::keys::Keys;
use super::once::{Ending, Patience, RUNTIME_ENDED, STALE, Trouble, refused};
use super::request::Request;
use crate::error::{Error, Result};
use crate::transport::{Refusal, Value};

/// One such call.
pub(crate) struct Command {
    request: Request,
    caller: Caller,
}

/// The caller that waits for its answer.
struct Caller {
    operation: &'static str,
    reply: Option<oneshot::Sender<Result<Value>>>,
    since: Instant,
}

impl Command {
    pub(crate) fn new(
        operation: &'static str,
        request: Request,
    ) -> (Self, oneshot::Receiver<Result<Value>>) {
        let (reply, answer) = oneshot::channel();
        let caller = Caller {
            operation,
            reply: Some(reply),
            since: Instant::now(),
        };
        (Command { request, caller }, answer)
    }

    /// Whether it has no caller any more: then it must not be sent.
    pub(crate) fn is_pointless(&self) -> bool {
        self.caller.has_gone()
    }

    /// Since when its caller waits.
    pub(crate) fn since(&self) -> Instant {
        self.caller.since
    }

    /// Tells the caller that it is not tried any more.
    pub(crate) fn give_up(&mut self, name: &str, trouble: &Trouble<'_>) {
        self.caller.give_up(name, trouble);
    }
}

impl Caller {
    /// Nobody knows what an earlier sending has done.
    fn outcome_unknown(&self, name: &str, detail: String) -> Error {
        Error::OutcomeUnknown {
            name: name.to_owned(),
            operation: self.operation,
            waited: self.since.elapsed(),
            detail,
        }
    }

    fn has_gone(&self) -> bool {
        self.reply.as_ref().is_none_or(oneshot::Sender::is_closed)
    }

    fn give_up(&mut self, name: &str, trouble: &Trouble<'_>) {
        if let Some(reply) = self.reply.take() {
            let error = trouble.error(name, self.operation, self.since);
            let _ = reply.send(Err(error));
        }
    }
}

/// The caller of a request that is being carried out. Dropped with its runtime, it can't tell any more what has become of that.
struct Waiting<'a> {
    caller: Caller,
    name: &'a str,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.caller
            .give_up(self.name, &Trouble::unknown(RUNTIME_ENDED));
    }
}

impl Core {
    /// Carries `command` on the object with these `keys` out and answers its caller. `others` sees to the calls that wait behind it.
    pub(crate) async fn carry_out_command(
        self: &Arc<Self>,
        keys: &Keys,
        command: Command,
        mut others: impl FnMut(&Trouble<'_>),
    ) {
        let Command {
            mut request,
            caller,
        } = command;
        let name = keys.name();
        let mut waiting = Waiting { caller, name };
        let caller = &mut waiting.caller;
        let due = caller.since + self.config.retry_window;
        let mut unanswered = false;
        request.number(self.next_sequence());
        let callers = |trouble: &Trouble<'_>| {
            unanswered |= trouble.maybe_done;
            others(trouble);
            if !trouble.is_over(due) && !caller.has_gone() {
                return Patience::Until(due);
            }
            caller.give_up(name, trouble);
            Patience::Forgotten
        };
        let answer = match self.carry_out(&mut request, callers).await {
            // Somebody else has written over what would tell.
            Ending::Answer(value) | Ending::Unconfirmed(value) if unanswered && value.is(STALE) => {
                Err(caller.outcome_unknown(name, format!("unexpected answer {value:?}")))
            }
            Ending::Answer(value) | Ending::Unconfirmed(value) => Ok(value),
            // An earlier sending may have been carried out all the same.
            Ending::Refused(Refusal { detail, .. }) if unanswered && !request.is_plain() => {
                Err(caller.outcome_unknown(name, detail))
            }
            Ending::Refused(refusal) => {
                let error = refused(name, &refusal);
                Err(Box::pin(self.explain(error, || keys.typed())).await)
            }
            Ending::NotSent | Ending::Unknown => return,
            Ending::ShutDown => Err(self.gone(name)),
        };
        if let Some(reply) = caller.reply.take() {
            let _ = reply.send(answer);
        }
    }
}
