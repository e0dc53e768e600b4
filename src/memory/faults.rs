//! [`Faults`]: failures on demand, for tests of the code that meets them.

use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use crate::error::{Effect, Error, Result};
use crate::sync::Mutex;

/// How long a call waits for an answer besides its wait, as in Redis: one with a wait, and any other.
const TIMED_CALL: Duration = Duration::from_secs(5);
const RETRY_WINDOW: Duration = Duration::from_secs(30);

/// Why there is no answer.
const STALLED: &str = "it stalls, as it was told to";

/// The present fault.
#[derive(Clone, PartialEq, Eq)]
enum Fault {
    None,
    Fails(Error),
    Stalls,
}

/// The work that is left for the time after the fault.
type Deferred = Box<dyn FnOnce() + Send>;

/// The fault switch of one object.
pub(super) struct Faults {
    fault: watch::Sender<Fault>,
    /// Locked while the fault ends.
    deferred: Mutex<Vec<Deferred>>,
}

impl Default for Faults {
    fn default() -> Self {
        Faults {
            fault: watch::Sender::new(Fault::None),
            deferred: Mutex::default(),
        }
    }
}

impl Faults {
    pub(super) fn fail_with(&self, error: Error) {
        self.fault.send_replace(Fault::Fails(error));
    }

    pub(super) fn stall(&self) {
        self.fault.send_replace(Fault::Stalls);
    }

    pub(super) fn recover(&self) {
        let mut deferred = self.deferred.lock();
        self.fault.send_if_modified(|fault| {
            *fault = Fault::None;
            false
        });
        let left = std::mem::take(&mut *deferred);
        drop(deferred);
        // Releases come before callers that wait for an answer: these are woken now.
        left.into_iter().for_each(|deferred| deferred());
        self.fault.send_modify(|_| ());
    }

    fn present(&self) -> Fault {
        self.fault.borrow().clone()
    }

    /// Lets a call on `name` pass that waits for `wait` at the most (`None`: it does not, or without a limit), as soon as
    /// nothing is wrong.
    pub(super) async fn pass(&self, name: &str, wait: Option<Duration>) -> Result<()> {
        if self.present() == Fault::Stalls {
            let waited = wait.map_or(RETRY_WINDOW, |wait| wait.saturating_add(TIMED_CALL));
            let mut fault = self.fault.subscribe();
            let over = fault.wait_for(|fault| *fault != Fault::Stalls);
            if timeout(waited, over).await.is_err() {
                return Err(Error::Unavailable {
                    name: name.to_owned(),
                    waited,
                    detail: STALLED.to_owned(),
                });
            }
        }
        match self.present() {
            Fault::Fails(error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Carries something out that must happen once its caller has asked for it, also when the caller goes: now, or as soon as
    /// the fault ends. Where calls fail its caller gets an error at once: that it will be, or that it is refused for good, and then it
    /// is not.
    pub(super) async fn carry_out<T: Send + 'static>(
        &self,
        name: &str,
        operation: &'static str,
        act: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        if let Fault::Fails(error) = self.present() {
            if error.effect() == Effect::NotApplied && !error.is_retryable() {
                return Err(error);
            }
            self.defer(move || drop(act()));
            return Err(match error {
                Error::OutcomeUnknown { .. } => error,
                other => Error::outcome_unknown(name, operation, other.to_string()),
            });
        }
        let (reply, mut answer) = oneshot::channel();
        self.defer(move || {
            let _ = reply.send(act());
        });
        // Where nothing is wrong no timer is needed.
        if let Ok(answer) = answer.try_recv() {
            return Ok(answer);
        }
        match timeout(RETRY_WINDOW, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            _ => Err(Error::OutcomeUnknown {
                name: name.to_owned(),
                operation,
                waited: RETRY_WINDOW,
                detail: STALLED.to_owned(),
            }),
        }
    }

    /// The same without a caller: it happens now, or as soon as the fault ends.
    pub(super) fn defer(&self, act: impl FnOnce() + Send + 'static) {
        let mut deferred = self.deferred.lock();
        if self.present() == Fault::None {
            drop(deferred);
            act();
        } else {
            deferred.push(Box::new(act));
        }
    }
}

/// The switch as methods of an object, which is sealed as all are.
macro_rules! fault_switch {
    ($type:ty) => {
        impl $crate::api::Sealed for $type {}

        /// Faults on purpose: for tests of what code does when there is trouble. All handles to this object share them, and
        /// they keep to tokio's clock, which a test may pause (`start_paused`).
        ///
        /// During any fault, calls that waited before go on waiting, and the releases of dropped guards are carried out
        /// when it ends.
        impl $type {
            /// Lets each call fail with `error` from now on, and changes nothing, whatever the error says about its effect; but a
            /// release, an unlock or a count-down, of a guard too, keeps [what is promised](crate::guide::promises) of it:
            ///
            /// - Where the error [is retryable](crate::Error::is_retryable), or its effect is
            ///   [unknown](crate::Effect::Unknown), the call gets [`OutcomeUnknown`](crate::Error::OutcomeUnknown), and is carried out
            ///   when the fault ends.
            /// - Any other error, as [`Error::server`](crate::Error::server), refuses it for good: the call gets that error, and is not
            ///   carried out later, either. The permits or the lock of such a guard stay taken, until the lease is over if there is one.
            ///
            /// ```
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> redisson_semaphore::Result<()> {
            /// use redisson_semaphore::{Error, Lock, memory};
            ///
            /// let door = memory::Lock::new("door");
            /// door.fail_with(Error::unavailable("door", "Redis is away"));
            /// assert!(door.try_lock().await.unwrap_err().is_unavailable());
            /// door.recover();
            /// assert!(door.try_lock().await?);
            /// # Ok(())
            /// # }
            /// ```
            pub fn fail_with(&self, error: $crate::Error) {
                self.shared.faults.fail_with(error);
            }

            /// Answers no call from now on, until it [recovers](Self::recover), as a server that hangs.
            ///
            /// A call fails as with the default settings of a client: a timed call 5 s after its wait, any other after 30 s.
            /// That is [`Unavailable`](crate::Error::Unavailable), and it will not be carried out any more; a release, an
            /// unlock or a count-down is [`OutcomeUnknown`](crate::Error::OutcomeUnknown), and will be. Needs a tokio runtime
            /// with its timer.
            pub fn stall(&self) {
                self.shared.faults.stall();
            }

            /// Ends what [`fail_with`](Self::fail_with) or [`stall`](Self::stall) began. Calls that wait for an answer
            /// are carried out.
            pub fn recover(&self) {
                self.shared.faults.recover();
            }
        }
    };
}
pub(super) use fault_switch;
