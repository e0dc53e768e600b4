//! Sends a request until it is answered, so that it takes effect once.
//!
//! Every script that changes something carries the client's id and a rising sequence number, and keeps
//! the last number with its answer in a record beside the object (`redisson_sc_once:{name}:<client id>`,
//! a string with a time to live). A repeated number is answered from the record, an older one is
//! refused. So a request may be sent again after a lost reply, on the same connection or a new one.
//!
//! A request that was sent and not answered is repeated even when none of its callers waits any more:
//! only its answer tells what has to be given back. That ends half a record's life after the first
//! sending, by whichever clock says that it is over, as the record must outlive every repetition.
//!
//! Lone calls that travel together ([`coalesce`](super::coalesce)) are not repeated but asked about.

use std::time::Duration;

use tokio::time::Instant;

use super::core::Core;
use super::request::Request;
use crate::error::Error;
use crate::transport::{Backoff, Failure, Moment, Reason, Refusal, Value};

/// How a request ended.
pub(crate) enum Ending {
    /// The server's answer.
    Answer(Value),
    /// The server refuses it: nothing took effect.
    Refused(Refusal),
    /// It was never sent, or would have changed nothing, and not all of its callers wait for it any more.
    NotSent,
    /// It was sent, and no answer came for the time that the record allows, or until the client was shut down.
    /// All callers have been told.
    Unknown,
    /// It was never sent, and will not be: the client has been shut down. Nobody has been told.
    ShutDown,
}

/// How long the callers of a request go on waiting for it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Until the first of them has waited through the retry window.
    Until(Instant),
    /// It is owed: there is no caller, or none that gives up.
    Forever,
    /// Every caller has been told that it failed; or one, and it must not be sent as it is.
    Nobody,
}

/// What has been seen of a request so far.
pub(crate) struct Trouble<'a> {
    /// Whether the server may have carried it out.
    pub(crate) doubtful: bool,
    /// What the server said last, if it said anything.
    pub(crate) reason: Reason,
    /// The last failure.
    pub(crate) detail: &'a str,
    pub(crate) now: Instant,
    /// It is given up: everybody's time is over.
    pub(crate) last: bool,
}

impl<'a> Trouble<'a> {
    /// The same for a call that has not been sent at all.
    pub(crate) fn untouched(&self) -> Trouble<'a> {
        Trouble {
            doubtful: false,
            ..*self
        }
    }

    /// Whether the time of a caller is over that waits until `due`.
    pub(crate) fn is_over(&self, due: Instant) -> bool {
        self.last || due <= self.now
    }

    /// The error for a caller that has waited since `since` for `operation` on `name`.
    pub(crate) fn error(&self, name: &str, operation: &'static str, since: Instant) -> Error {
        let name = name.to_owned();
        let waited = self.now.saturating_duration_since(since);
        let detail = self.detail.to_owned();
        if self.doubtful {
            return Error::OutcomeUnknown {
                name,
                operation,
                waited,
                detail,
            };
        }
        match self.reason {
            Reason::Unreachable => Error::Unavailable {
                name,
                waited,
                detail,
            },
            reason => {
                let detail = detail.clone();
                refused(&name, &Refusal { reason, detail })
            }
        }
    }
}

/// How often impatient callers are looked after while there is no connection.
const LOOK_AFTER: Duration = Duration::from_secs(1);

impl Core {
    /// Carries `request` out. After each failure `callers` tells those whose time is up, and says how
    /// long the others wait.
    pub(crate) async fn carry_out(
        &self,
        request: &mut Request,
        callers: impl FnMut(&Trouble<'_>) -> Patience,
    ) -> Ending {
        // The usual case first: nothing is prepared for trouble that does not come.
        let began = Instant::now();
        match self.first_attempt(request, began).await {
            Ok(answer) => Ending::Answer(answer),
            Err(failure) => Box::pin(self.carry_on(request, failure, callers)).await,
        }
    }

    /// The first sending of a request that is made now; [`carry_on`](Self::carry_on) takes it from there.
    pub(crate) async fn first_attempt(
        &self,
        request: &Request,
        began: Instant,
    ) -> Result<Value, Failure> {
        let patience = began + LOOK_AFTER.min(self.config.retry_window);
        self.attempt(request, patience, None).await
    }

    /// Goes on when the first sending has ended with `failure`.
    pub(crate) async fn carry_on(
        &self,
        request: &mut Request,
        mut failure: Failure,
        mut callers: impl FnMut(&Trouble<'_>) -> Patience,
    ) -> Ending {
        let mut first_sent: Option<Moment> = None;
        let mut refused_before = false;
        let mut backoff = Backoff::new();
        loop {
            // Without a connection the next attempt waits for one anyway.
            let pause = match &failure {
                Failure::NoConnection(_) => Duration::ZERO,
                Failure::Refused(_) | Failure::Unanswered { .. } => backoff.next(),
            };
            if let Failure::Refused(refusal) = &failure
                && refusal.may_pass()
            {
                refused_before = true;
                self.refusing.note(self.connection.server(), refusal);
            }
            let Refusal { reason, detail } = match failure {
                Failure::Refused(refusal) if refusal.is_final(first_sent.is_some()) => {
                    return Ending::Refused(refusal);
                }
                Failure::Refused(refusal) | Failure::NoConnection(refusal) => refusal,
                Failure::Unanswered { detail, sent } => {
                    first_sent.get_or_insert(sent);
                    request.mark_doubtful(self.next_sequence());
                    Refusal::unreachable(detail)
                }
            };
            if self.is_finished() && first_sent.is_none() {
                return Ending::ShutDown;
            }
            let last = self.is_finished() || first_sent.is_some_and(|sent| self.is_too_late(sent));
            let now = Instant::now();
            let patience = callers(&Trouble {
                doubtful: first_sent.is_some(),
                reason,
                detail: &detail,
                now,
                last,
            });
            let next_look = match (patience, first_sent) {
                _ if last => return Ending::Unknown,
                (Patience::Nobody, None) => return Ending::NotSent,
                // Nobody wants to know, and those behind it are not held up.
                (Patience::Nobody, _) if request.is_plain() => return Ending::NotSent,
                // It has had its time, and there was one more chance since the shutdown began.
                (Patience::Nobody, _) if self.closing_for() >= LOOK_AFTER => {
                    self.note_unsettled();
                    return Ending::Unknown;
                }
                (Patience::Until(instant), _) => instant.min(now + LOOK_AFTER),
                _ => now + LOOK_AFTER,
            };
            tokio::time::sleep_until(next_look.min(now + pause)).await;
            failure = match self.attempt(request, next_look, first_sent).await {
                Ok(answer) => {
                    if refused_before {
                        self.refusing.end(self.connection.server());
                    }
                    return Ending::Answer(answer);
                }
                Err(failure) => failure,
            };
        }
    }

    /// Sends something of no consequence, without repeating it.
    pub(crate) async fn try_once(&self, request: &Request) -> Result<Value, Failure> {
        self.attempt(request, Instant::now(), None).await
    }

    /// Whether the record of a request that was `first_sent` then may be gone before a repetition arrives.
    fn is_too_late(&self, first_sent: Moment) -> bool {
        first_sent.age() >= self.config.repeat_horizon()
    }

    async fn attempt(
        &self,
        request: &Request,
        patience: Instant,
        first_sent: Option<Moment>,
    ) -> Result<Value, Failure> {
        let live = self.connection.live(patience).await?;
        // The machine may have slept while there was no connection.
        if first_sent.is_some_and(|sent| self.is_too_late(sent)) {
            let refusal = Refusal::unreachable("not repeated, it is too late");
            return Err(Failure::NoConnection(refusal));
        }
        match live.send(&request.command()).await {
            Err(Failure::Refused(refusal)) if refusal.reason == Reason::NoScript => {
                let full = request.full_command();
                Box::pin(live.send(&full)).await
            }
            Err(Failure::Refused(refusal)) if refusal.reason == Reason::ReadOnly => {
                self.wakeups.renew();
                Err(Failure::Refused(refusal))
            }
            answer => answer,
        }
    }
}

/// The error for a refusal of anything about the object called `name`; see [`Core::explain`] for a wrong type.
pub(crate) fn refused(name: &str, refusal: &Refusal) -> Error {
    let name = name.to_owned();
    let detail = refusal.detail.clone();
    match refusal.reason {
        Reason::WrongType => Error::WrongType {
            key: name.clone(),
            name,
            found: None,
        },
        Reason::Permission => Error::PermissionDenied { name, detail },
        Reason::NotNow | Reason::ReadOnly => Error::RefusedForNow { name, detail },
        Reason::Authentication => Error::Authentication { name, detail },
        _ if detail.contains("no such key") => Error::NoSuchObject { name },
        _ => Error::Server { name, detail },
    }
}
