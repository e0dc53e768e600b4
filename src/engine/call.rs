//! The common part of all calls, on the caller's side: a bound on the whole call, and its counts.
//!
//! How calls travel, are repeated and answered is no matter here: a call is a future that may be dropped at any await point,
//! and that is how the bound ends it. Its grant is released, and a release is carried out, as after any drop.
//! The error then says whether the call may have taken effect.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use super::core::Core;
use super::once::refused;
use crate::error::{Error, Result};
use crate::state::ConnectionState;
use crate::stats::{Counters, Since, What};

/// How long a timed call may take besides its wait, unless that is set.
const TIMED_CALL: Duration = Duration::from_secs(5);

/// The time for which a call may wait.
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

/// The fate of a call whose future is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dropped {
    /// It changes nothing.
    Harmless,
    /// Where it was not sent, it will not be; permits that it takes are released.
    Withdrawn,
    /// It is carried out.
    CarriedOut,
}

/// A call, with its name for errors and its bound.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) name: &'a str,
    pub(crate) operation: &'static str,
    pub(crate) wait: Wait,
    pub(crate) dropped: Dropped,
    /// The object's own key, where that is known before it is sent.
    pub(crate) key: Option<&'a str>,
}

impl<'a> Call<'a> {
    pub(crate) fn new(
        name: &'a str,
        operation: &'static str,
        wait: Wait,
        dropped: Dropped,
    ) -> Self {
        Call {
            name,
            operation,
            wait,
            dropped,
            key: None,
        }
    }

    /// The same, for a call on the object with this key.
    pub(crate) fn about(mut self, key: &'a str) -> Self {
        self.key = Some(key);
        self
    }
}

impl Core {
    /// Makes a call that asks for so many permits, or a lock.
    #[inline]
    pub(crate) fn take<'a, T, F: Future<Output = Result<Option<T>>>>(
        &'a self,
        call: Call<'a>,
        what: What,
        _amount: u32,
        future: Pin<&'a mut Option<F>>,
    ) -> impl Future<Output = Result<Option<T>>> + use<'a, T, F> {
        let taking = Taking {
            what,
            since: self.stats.since(),
            is_granted: Option::is_some,
        };
        let calling = self.calling(call, future, Some(taking));
        #[cfg(feature = "spans")]
        let calling = tracing::Instrument::instrument(
            calling,
            tracing::info_span!(
                "wait",
                name = call.name,
                what = what.word(),
                amount = i64::from(_amount)
            ),
        );
        calling
    }

    /// Makes a call: `future` is dropped by its owner when this has ended, or here if its time is over.
    #[inline]
    pub(crate) fn call<'a, T, F: Future<Output = Result<T>>>(
        &'a self,
        call: Call<'a>,
        future: Pin<&'a mut Option<F>>,
    ) -> Calling<'a, F, T> {
        self.calling(call, future, None)
    }

    #[inline]
    fn calling<'a, F, T>(
        &'a self,
        call: Call<'a>,
        future: Pin<&'a mut Option<F>>,
        taking: Option<Taking<T>>,
    ) -> Calling<'a, F, T> {
        let limit = self.limit(call.wait);
        Calling {
            core: self,
            future,
            taking,
            harmless: call.dropped == Dropped::Harmless,
            bound: limit.map(|limit| {
                Box::new(Bound {
                    call,
                    limit,
                    began: Instant::now(),
                    sent: self.sent.count(),
                    over: None,
                })
            }),
        }
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

    fn timer(&self, until: Instant) -> Pin<Box<Sleep>> {
        let _runtime = self.outside();
        Box::pin(sleep_until(until))
    }
}

/// A call that asks for permits or a lock is counted by its result.
struct Taking<T> {
    what: What,
    since: Since,
    is_granted: fn(&T) -> bool,
}

impl<T> Taking<T> {
    fn count(&self, stats: &Counters, answer: &T) {
        match (self.is_granted)(answer) {
            true => stats.note_granted(self.what, self.since),
            false => stats.note_refused(),
        }
    }
}

/// A call under way. Written by hand, as all calls of a busy semaphore go through it.
pub(crate) struct Calling<'a, F, T> {
    core: &'a Core,
    future: Pin<&'a mut Option<F>>,
    taking: Option<Taking<T>>,
    /// It changes nothing, whatever has become of it.
    harmless: bool,
    /// Boxed, so that the others are small.
    bound: Option<Box<Bound<'a>>>,
}

/// When a call is given up.
struct Bound<'a> {
    call: Call<'a>,
    limit: Duration,
    began: Instant,
    /// How many requests had been sent when it began.
    sent: u64,
    /// There is no timer for what is answered at once.
    over: Option<Pin<Box<Sleep>>>,
}

impl<T, F: Future<Output = Result<T>>> Future for Calling<'_, F, T> {
    type Output = Result<T>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        let this = &mut *self;
        let future = this.future.as_mut().as_pin_mut();
        let answer = match future.expect("it is not polled again").poll(cx) {
            Poll::Ready(Err(error)) if this.harmless => Err(without_effect(error)),
            Poll::Ready(answer) => answer,
            Poll::Pending => {
                let Some(bound) = &mut this.bound else {
                    return Poll::Pending;
                };
                if !bound.is_over(this.core, cx) {
                    return Poll::Pending;
                }
                // From here on it leaves its queue no more: what has been sent until now is all.
                this.future.set(None);
                Err(bound.given_up(this.core))
            }
        };
        match (&answer, &this.taking) {
            (Ok(answer), Some(taking)) => taking.count(&this.core.stats, answer),
            (Ok(_), None) => {}
            (Err(error), _) => this.core.stats.note_failed(error),
        }
        Poll::Ready(answer)
    }
}

/// The error of a call that changes nothing, and was not answered in time: it is certain of that.
fn without_effect(error: Error) -> Error {
    match error {
        Error::OutcomeUnknown {
            name,
            waited,
            detail,
            ..
        } => Error::Unavailable {
            name,
            waited,
            detail,
        },
        other => other,
    }
}

impl Bound<'_> {
    fn is_over(&mut self, core: &Core, cx: &mut Context<'_>) -> bool {
        if self.over.is_none() {
            // Where the clock cannot express it there is no end.
            let end = self.began.checked_add(self.limit);
            self.over = end.map(|end| core.timer(end));
        }
        let over = self.over.as_mut();
        over.is_some_and(|over| over.as_mut().poll(cx).is_ready())
    }

    /// The error of a call that has been withdrawn, as far as it could be.
    fn given_up(&self, core: &Core) -> Error {
        let name = self.call.name.to_owned();
        let waited = self.began.elapsed();
        // A copy: a change of the state waits until all readers are done.
        let state = core.connection.state().borrow().clone();
        let detail = match state {
            ConnectionState::Disconnected { detail } => detail,
            _ => {
                let lag = core.lag.since(self.began);
                lag.unwrap_or_else(|| "its time is over".to_owned())
            }
        };
        // Where nothing was sent about its object that may have been carried out, this was not.
        let dropped = self.call.dropped;
        let untouched = dropped == Dropped::Withdrawn && !core.sent.since(self.sent, self.call.key);
        if untouched || dropped == Dropped::Harmless {
            if let Some(refusal) = core.refusal.since(self.began) {
                return refused(&name, &refusal);
            }
            return Error::Unavailable {
                name,
                waited,
                detail,
            };
        }
        Error::OutcomeUnknown {
            name,
            operation: self.call.operation,
            waited,
            detail,
        }
    }
}
