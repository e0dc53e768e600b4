//! Sends a request until it is answered, so that it takes effect once.
//!
//! Every script that changes something carries the client's id and a rising sequence number, and keeps
//! the last number with its answer in a record beside the object (`redisson_sc_once:{name}:<client id>`,
//! a string with a time to live). A repeated number is answered from the record, an older one is
//! refused. A request that is sent for the first time finds neither, unless another program has written there: it is refused, too,
//! and sent once more with a number of its own. So a request may be sent again after a lost reply, on the same connection or a new one.
//!
//! A request without an answer:
//!
//! | | all its callers wait still | one of them has gone |
//! |---|---|---|
//! | it was sent | it is sent again as it is; the record answers, or it is carried out then | it is sent again to read from the record what has been done, which tells what has to be released; its number is on record from then on, so that a late copy does nothing |
//! | it was not | it is sent | it is not sent; the callers that are left go into another one |
//!
//! Repetitions end half a record's life after the first sending, by the first clock that says so, as the record must outlive each of them.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::core::Core;
use super::request::Request;
use crate::clock::Moment;
use crate::error::Error;
use crate::transport::{Backoff, Failure, Reason, Refusal, Route, Value};

/// How a request ended.
pub(crate) enum Ending {
    /// The server's answer.
    Answer(Value),
    /// The same, which too few replicas have confirmed, and a caller with a possible grant has gone: the grant is to be
    /// undone.
    Unconfirmed(Value),
    /// The server refuses it: that sending took no effect. Whether an earlier one may have.
    Refused(Refusal, bool),
    /// It was never sent, and not all of its callers wait for it any more.
    NotSent,
    /// It was sent, and no answer came for the time that the record allows, or until the client was shut down; or it changes nothing, and has
    /// no caller any more.
    Unknown,
    /// It was never sent, and will not be: the client has been shut down. Its callers have no error yet.
    ShutDown,
}

/// A request has no answer yet.
pub(crate) struct Trouble<'a> {
    /// The last failure.
    pub(crate) why: &'a Refusal,
    /// The server may have carried it out.
    pub(crate) maybe_done: bool,
    /// It is sent again now.
    pub(crate) departs: bool,
}

/// Why a client does not wait for answers any more.
pub(crate) const RUNTIME_ENDED: &str = "the runtime in which the client was made has ended";
pub(crate) const CLIENT_CLOSED: &str = "the client has been shut down";

/// A batch that was refused because of a foreign record is sent again so often, with a number of
/// its own each time; after that another program goes on writing there.
const MOST_DISOWNED: u32 = 3;

/// How often a request without an answer is looked after.
const LOOK_AFTER: Duration = Duration::from_secs(1);

impl Core {
    /// Carries `request` out. After each failure, each second, and before each further sending, `is_wanted` says whether all its callers
    /// wait for it still.
    pub(crate) async fn carry_out(
        self: &Arc<Self>,
        request: &mut Request,
        mut is_wanted: impl FnMut(&Trouble<'_>) -> bool,
    ) -> Ending {
        let (mut unanswered, mut disowned) = (false, 0);
        loop {
            // The usual case first: nothing is prepared for trouble that does not come.
            let ending = match self.try_once(request).await {
                Ok(answer) => self.answered_at_once(request, answer),
                Err(failure) => {
                    let is_wanted = |trouble: &Trouble<'_>| {
                        unanswered |= trouble.maybe_done;
                        is_wanted(trouble)
                    };
                    Box::pin(self.carry_on(request, failure, is_wanted)).await
                }
            };
            // Sent for the first time it can't be there: that is nothing of this client's.
            let is_foreign = matches!(&ending, Ending::Answer(value) if value.is(STALE));
            if !is_foreign || unanswered || disowned >= MOST_DISOWNED {
                return ending;
            }
            if let Some((record, _)) = request.record() {
                tracing::warn!(
                    record = &**record,
                    "somebody else has written to this client's record"
                );
            }
            request.disown_record(self.next_sequence());
            disowned += 1;
        }
    }

    /// Goes on when the first sending has ended with `failure`.
    async fn carry_on(
        self: &Arc<Self>,
        request: &mut Request,
        mut failure: Failure,
        mut is_wanted: impl FnMut(&Trouble<'_>) -> bool,
    ) -> Ending {
        let mut first_sent: Option<Moment> = None;
        // It has been carried out, and answered so, but too few replicas have it.
        let mut unconfirmed: Option<Value>;
        let mut backoff = Backoff::new();
        loop {
            // Without a connection the next attempt waits for one anyway.
            let pause = match &failure {
                Failure::NoConnection(_) => Duration::ZERO,
                Failure::Refused(_) | Failure::Unanswered { .. } => backoff.next(),
            };
            if let Failure::Refused(refusal) = &failure
                && refusal.may_pass()
                && self.refuses.is_due()
            {
                let (server, why) = (self.connection.server(), &refusal.detail);
                tracing::warn!(%server, %why, "the server refuses for now");
            }
            let why = match failure {
                Failure::Unanswered {
                    unconfirmed: Some(answer),
                    ..
                } if first_sent.is_some() && answer.is(NOTHING) => return Ending::Answer(answer),
                Failure::Refused(refusal) if refusal.is_final(first_sent.is_some()) => {
                    return Ending::Refused(refusal, first_sent.is_some());
                }
                Failure::Refused(refusal) | Failure::NoConnection(refusal) => {
                    unconfirmed = None;
                    refusal
                }
                Failure::Unanswered {
                    detail,
                    sent,
                    unconfirmed: answer,
                } => {
                    unconfirmed = answer;
                    first_sent.get_or_insert(sent);
                    if let Some((record, _)) = request.record() {
                        self.note_unanswered(record);
                    }
                    request.mark_repeated();
                    Refusal::unreachable(detail)
                }
            };
            let not_before = Instant::now() + pause;
            failure = loop {
                if self.is_finished() && first_sent.is_none() {
                    return Ending::ShutDown;
                }
                let last =
                    self.is_finished() || first_sent.is_some_and(|sent| self.is_too_late(sent));
                let now = Instant::now();
                let route = (now >= not_before).then(|| self.connection.route(request.key()));
                let route = route.and_then(Result::ok);
                let wanted = is_wanted(&Trouble {
                    why: &why,
                    maybe_done: first_sent.is_some(),
                    departs: route.is_some(),
                });
                // No caller waits for replicas any more: the grant has no holder.
                if (last || !wanted)
                    && let Some(answer) = unconfirmed.take()
                {
                    return Ending::Unconfirmed(answer);
                }
                match first_sent {
                    _ if last => return Ending::Unknown,
                    _ if wanted => {}
                    None => return Ending::NotSent,
                    // It changes nothing, so those behind it are not held up.
                    Some(_) if request.is_plain() => return Ending::Unknown,
                    // It has had its time, and there was one more chance since the shutdown began.
                    Some(sent)
                        if sent.age() >= self.config.retry_window
                            && self.closing_for() >= LOOK_AFTER =>
                    {
                        self.note_unsettled();
                        return Ending::Unknown;
                    }
                    Some(_) => request.withdraw(),
                }
                if let Some(route) = route {
                    self.stats.note_retry();
                    match self.attempt(route, request).await {
                        Ok(answer) => {
                            return match first_sent {
                                None => self.answered_at_once(request, answer),
                                Some(_) => Ending::Answer(answer),
                            };
                        }
                        Err(failure) => break failure,
                    }
                }
                let next_look = now + LOOK_AFTER;
                tokio::time::sleep_until(next_look.min(not_before)).await;
                if let Err(refusal) = self.connection.until_up(request.key(), next_look).await {
                    break Failure::NoConnection(refusal);
                }
            };
        }
    }

    fn answered_at_once(self: &Arc<Self>, request: &Request, answer: Value) -> Ending {
        if let Some((record, number)) = request.record() {
            self.note_answered(record, number);
        }
        Ending::Answer(answer)
    }

    /// Sends a request once, and not again where it fails.
    pub(crate) async fn try_once(&self, request: &Request) -> Result<Value, Failure> {
        let route = self.connection.route(request.key());
        let route = route.map_err(Failure::NoConnection)?;
        self.attempt(route, request).await
    }

    /// Whether the record of a request that was `first_sent` then may be gone before a repetition arrives.
    fn is_too_late(&self, first_sent: Moment) -> bool {
        first_sent.age() >= self.config.repeat_horizon()
    }

    /// If replicas are wanted, they are waited for where the request takes effect once, unless its script says that nothing has changed.
    async fn attempt(&self, route: Route<'_>, request: &Request) -> Result<Value, Failure> {
        let messages = self.connection.messages();
        let answer = route.send(&request.command(messages)).await;
        if let Err(Failure::Refused(refusal)) = &answer
            && refusal.reason == Reason::NoScript
        {
            let full = request.full_command(messages);
            return Box::pin(route.send(&full)).await;
        }
        answer
    }
}

/// The answer to a question about what has not been carried out, and will not be; no replica has to confirm it.
pub(crate) const NOTHING: &str = "none";
/// The answer where a later call is on record, or the text of another program.
pub(crate) const STALE: &str = "stale";

/// The error for an answer about the object called `name` that makes no sense.
pub(crate) fn unexpected_answer(name: &str, value: &Value) -> Error {
    Error::Server {
        name: name.to_owned(),
        detail: format!("unexpected answer {value:?}"),
    }
}

/// The error for a refusal of anything about the object called `name`; see [`Core::explain`] for a wrong type.
pub(crate) fn refused(name: &str, refusal: &Refusal) -> Error {
    refusal.error(name, Duration::ZERO)
}
