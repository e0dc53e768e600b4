//! Failures on demand, for tests of the code that meets them.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::queue::{Rules, Shared};
use crate::error::{Effect, Error, Result};
use crate::sync::unlocked;

/// How long a call waits for an answer besides its wait, as in Redis: one with a wait, and any other.
const TIMED_CALL: Duration = Duration::from_secs(5);
const RETRY_WINDOW: Duration = Duration::from_secs(30);

/// Why there is no answer.
const STALLED: &str = "it stalls on purpose";

/// The present fault.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    Fails(Error),
    Stalls,
}

/// A call that is left for the time after the fault.
pub(super) type Deferred<R> = Box<dyn FnOnce(&mut R) + Send>;

impl<R: Rules> Shared<R> {
    /// Sets the fault. At its end deferred calls are carried out before callers that wait for an answer.
    pub(super) fn set_fault(&self, fault: Fault) {
        let mut queue = self.current();
        queue.fault = fault;
        if queue.fault == Fault::None {
            let deferred = std::mem::take(&mut queue.deferred);
            deferred.into_iter().for_each(|call| call(&mut queue.rules));
            queue.serve();
        }
        drop(queue);
        self.fault_changed.notify_waiters();
    }

    /// Lets a call pass that waits for `wait` at the most (`None`: it does not, or without a limit), as soon as nothing is wrong.
    pub(super) async fn pass(&self, wait: Option<Duration>) -> Result<()> {
        self.valid.clone()?;
        let waited = wait.map_or(RETRY_WINDOW, |wait| wait.saturating_add(TIMED_CALL));
        let began = Instant::now();
        loop {
            let changed = self.fault_changed.notified();
            let fault = self.queue.lock().fault.clone();
            match fault {
                Fault::None => return Ok(()),
                Fault::Fails(error) => return Err(error),
                Fault::Stalls => {}
            }
            let left = waited.saturating_sub(began.elapsed());
            if timeout(left, changed).await.is_err() {
                return Err(Error::Unavailable {
                    name: self.name.clone(),
                    waited,
                    detail: STALLED.to_owned(),
                });
            }
        }
    }

    /// Carries out a call that must happen once it was polled, also when its caller goes: now, or as soon as the fault ends. Where
    /// calls fail its caller gets an error at once: that it is deferred, or that it is refused for good.
    pub(super) async fn carry_out<T: Send + 'static>(
        &self,
        operation: &'static str,
        call: impl FnOnce(&mut R) -> T + Send + 'static,
    ) -> Result<T> {
        self.valid.clone()?;
        let fault = self.queue.lock().fault.clone();
        if let Fault::Fails(error) = fault {
            if error.effect() == Effect::NotApplied && !error.is_retryable() {
                return Err(error);
            }
            self.defer(|rules| drop(call(rules)));
            return Err(match error {
                Error::OutcomeUnknown { .. } => error,
                other => Error::outcome_unknown(&self.name, operation, other.to_string()),
            });
        }
        let (reply, mut answer) = oneshot::channel();
        self.defer(|rules| {
            let answer = call(rules);
            unlocked(|| drop(reply.send(answer)));
        });
        // Without a stall no timer is needed.
        if let Ok(answer) = answer.try_recv() {
            return Ok(answer);
        }
        match timeout(RETRY_WINDOW, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            _ => Err(Error::OutcomeUnknown {
                name: self.name.clone(),
                operation,
                waited: RETRY_WINDOW,
                detail: STALLED.to_owned(),
            }),
        }
    }

    /// The same without a caller.
    pub(super) fn defer(&self, call: impl FnOnce(&mut R) + Send + 'static) {
        let mut queue = self.current();
        if queue.fault == Fault::None {
            call(&mut queue.rules);
            queue.serve();
        } else {
            queue.deferred.push(Box::new(call));
        }
    }
}

/// The switch as methods of an object, which is sealed as all are.
macro_rules! fault_switch {
    ($type:ty) => {
        impl $crate::api::Sealed for $type {}

        /// Faults on purpose, which all handles to this object share; see [the example](crate::memory#failures-on-demand).
        ///
        /// During a fault, calls that waited before go on waiting. The releases of dropped guards are carried out when it ends.
        impl $type {
            /// Lets each call fail with `error` from now on. The call changes nothing, whatever the error says about its effect.
            ///
            /// A release, an unlock or a count-down, of a guard too, keeps [its promise](crate::guide::promises):
            ///
            /// - Where the error [is retryable](crate::Error::is_retryable), or its effect is
            ///   [unknown](crate::Effect::Unknown), the call gets [`OutcomeUnknown`](crate::Error::OutcomeUnknown), and is carried out
            ///   when the fault ends.
            /// - Any other error, as [`Error::server`](crate::Error::server), refuses it for good. The permits or the lock of such a guard
            ///   stay taken, until the lease is over if there is one.
            pub fn fail_with(&self, error: $crate::Error) {
                self.shared
                    .set_fault($crate::memory::faults::Fault::Fails(error));
            }

            /// Answers no call from now on, until it [recovers](Self::recover), as a server that hangs. Needs a tokio runtime with its timer.
            ///
            /// A timed call fails 5 s after its wait, any other after 30 s, as by the default settings of a client.
            /// That is [`Unavailable`](crate::Error::Unavailable), and it will not be carried out any more. A release, an
            /// unlock or a count-down is [`OutcomeUnknown`](crate::Error::OutcomeUnknown), and will be.
            pub fn stall(&self) {
                self.shared.set_fault($crate::memory::faults::Fault::Stalls);
            }

            /// Ends a fault. Calls that wait for an answer are carried out.
            pub fn recover(&self) {
                self.shared.set_fault($crate::memory::faults::Fault::None);
            }
        }
    };
}
pub(super) use fault_switch;
