//! What all calls of all primitives have in common, seen from the caller: a bound on the whole of it, and that it is counted.
//!
//! How calls travel, are repeated and answered is no matter here: a call is a future that may be dropped at any await point,
//! and that is how the bound ends it. What was granted to it is given back, what it owes is carried out, as after any drop.
//! What is left to do is to say what may have become of it.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

use super::core::Core;
use crate::error::{Error, Result};
use crate::state::ConnectionState;
use crate::stats::{Counter, Since, What};

/// How long a timed call may take besides its wait, unless that is set.
const TIMED_CALL: Duration = Duration::from_secs(5);

/// For how long a call was told to wait for what it wants.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wait {
    /// It does not wait.
    No,
    For(Duration),
    /// For as long as it takes.
    Forever,
}

impl From<Option<Duration>> for Wait {
    /// As locks say it: zero is no wait.
    fn from(wait: Option<Duration>) -> Self {
        match wait {
            None => Wait::Forever,
            Some(Duration::ZERO) => Wait::No,
            Some(wait) => Wait::For(wait),
        }
    }
}

/// What happens to a call whose future is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dropped {
    /// It changes nothing.
    Harmless,
    /// Where it was not sent, it will not be; what it takes is given back.
    Withdrawn,
    /// It is carried out.
    CarriedOut,
}

/// A call, as it is told and bounded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) name: &'a str,
    pub(crate) operation: &'static str,
    pub(crate) wait: Wait,
    pub(crate) dropped: Dropped,
}

/// Whether a call was granted what it asked for.
pub(crate) trait Granted {
    fn is_granted(&self) -> bool;
}

impl Granted for () {
    fn is_granted(&self) -> bool {
        true
    }
}

impl Granted for bool {
    fn is_granted(&self) -> bool {
        *self
    }
}

impl<T> Granted for Option<T> {
    fn is_granted(&self) -> bool {
        self.is_some()
    }
}

/// Somebody who waits, as long as this lives.
struct Waiting<'a>(&'a Counter);

impl<'a> Waiting<'a> {
    fn new(counter: &'a Counter) -> Self {
        counter.add(1);
        Waiting(counter)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.add(-1);
    }
}

impl Core {
    /// Makes a call that asks for so many permits, or a lock.
    pub(crate) async fn take<T: Granted>(
        &self,
        call: Call<'_>,
        what: What,
        _amount: u32,
        future: Pin<&mut (impl Future<Output = Result<T>> + Send)>,
    ) -> Result<T> {
        let since = Since::now();
        let calling = self.call(call, future);
        #[cfg(feature = "spans")]
        let calling = tracing::Instrument::instrument(
            calling,
            tracing::info_span!(
                "wait",
                name = call.name,
                what = what.word(),
                amount = _amount
            ),
        );
        let answer = calling.await;
        match &answer {
            Ok(answer) if answer.is_granted() => self.stats.note_granted(what, since),
            Ok(_) => self.stats.refused.add(1),
            Err(_) => {}
        }
        answer
    }

    /// Makes a call: `future` is dropped by its owner when this has ended.
    pub(crate) async fn call<T>(
        &self,
        call: Call<'_>,
        mut future: Pin<&mut (impl Future<Output = Result<T>> + Send)>,
    ) -> Result<T> {
        let sent = self.requests_sent();
        let at_once = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await;
        let answer = match at_once {
            Poll::Ready(answer) => answer,
            Poll::Pending => {
                let _waiting = Waiting::new(&self.stats.waiting);
                match self.limit(call.wait) {
                    None => future.await,
                    Some(limit) => self.bounded(call, limit, sent, future).await,
                }
            }
        };
        if let Err(error) = &answer {
            self.stats.failed.add(1);
            if matches!(error, Error::OutcomeUnknown { .. }) {
                self.stats.outcomes_unknown.add(1);
            }
        }
        answer
    }

    /// How long a call may take; `None`: as long as its engine gives it.
    fn limit(&self, wait: Wait) -> Option<Duration> {
        let limit = self.config.call_timeout;
        match wait {
            Wait::No => limit,
            Wait::For(wait) => Some(wait.saturating_add(limit.unwrap_or(TIMED_CALL))),
            Wait::Forever => None,
        }
    }

    async fn bounded<T>(
        &self,
        call: Call<'_>,
        limit: Duration,
        sent: u64,
        future: Pin<&mut (impl Future<Output = Result<T>> + Send)>,
    ) -> Result<T> {
        let began = Instant::now();
        let Some(until) = began.checked_add(limit) else {
            return future.await;
        };
        // The timer is that of the caller's runtime, which lives as long as the call; without one it is the client's.
        let timed = match tokio::runtime::Handle::try_current() {
            Ok(_) => tokio::time::timeout_at(until, future),
            Err(_) => {
                let _runtime = self.runtime.enter();
                tokio::time::timeout_at(until, future)
            }
        };
        match timed.await {
            Ok(answer) => answer,
            Err(_) => Err(self.given_up(call, began.elapsed(), sent)),
        }
    }

    /// The error for a call that is given up; `sent` requests had been sent when it began.
    fn given_up(&self, call: Call<'_>, waited: Duration, sent: u64) -> Error {
        let name = call.name.to_owned();
        let detail = match &*self.connection.state().borrow() {
            ConnectionState::Disconnected { detail } => detail.clone(),
            _ => "its time is over".to_owned(),
        };
        // Where nothing at all was sent, this was not.
        let untouched = call.dropped == Dropped::Withdrawn && self.requests_sent() == sent;
        if untouched || call.dropped == Dropped::Harmless {
            return Error::Unavailable {
                name,
                waited,
                detail,
            };
        }
        Error::OutcomeUnknown {
            name,
            operation: call.operation,
            waited,
            detail,
        }
    }
}
