//! [`Faults`]: failures on demand, for tests of the code that meets them.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, timeout};

use crate::error::{Effect, Error, Result};
use crate::sync::Mutex;

/// How long a call waits for an answer besides its wait, as in Redis: one with a wait, and any other.
const TIMED_CALL: Duration = Duration::from_secs(5);
const RETRY_WINDOW: Duration = Duration::from_secs(30);

/// Why there is no answer.
const STALLED: &str = "it stalls, as it was told to";

/// The present faults.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fault {
    None,
    Fails(Error),
    Stalls,
}

/// The work that is left for the time after the faults.
type Owed = Box<dyn FnOnce() + Send>;

/// The fault switch of one object.
pub(super) struct Faults {
    /// Something is wrong: nothing is locked where nothing is.
    active: AtomicBool,
    fault: watch::Sender<Fault>,
    owed: Mutex<VecDeque<Owed>>,
}

impl Default for Faults {
    fn default() -> Self {
        Faults {
            active: AtomicBool::new(false),
            fault: watch::Sender::new(Fault::None),
            owed: Mutex::default(),
        }
    }
}

impl Faults {
    pub(super) fn fail_with(&self, error: Error) {
        self.set(Fault::Fails(error));
    }

    pub(super) fn stall(&self) {
        self.set(Fault::Stalls);
    }

    pub(super) fn recover(&self) {
        // Releases come before callers that wait for an answer.
        self.active.store(false, Ordering::SeqCst);
        loop {
            let owed = self.owed.lock().pop_front();
            match owed {
                Some(owed) => owed(),
                None => break,
            }
        }
        self.fault.send_replace(Fault::None);
    }

    fn set(&self, fault: Fault) {
        self.fault.send_replace(fault);
        self.active.store(true, Ordering::SeqCst);
    }

    fn is_active(&self) -> bool {
        self.active.load(Ordering::SeqCst)
    }

    /// Lets a call on `name` pass that waits for `wait` at the most (`None`: it does not, or without a limit), as soon as
    /// nothing is wrong.
    pub(super) async fn pass(&self, name: &str, wait: Option<Duration>) -> Result<()> {
        if !self.is_active() {
            return Ok(());
        }
        let limit = wait.map_or(RETRY_WINDOW, |wait| wait.saturating_add(TIMED_CALL));
        let began = Instant::now();
        let mut fault = self.fault.subscribe();
        let settled = fault.wait_for(|fault| *fault != Fault::Stalls);
        match timeout(limit, settled).await {
            Ok(Ok(fault)) => match &*fault {
                Fault::Fails(error) => Err(error.clone()),
                _ => Ok(()),
            },
            _ => Err(Error::Unavailable {
                name: name.to_owned(),
                waited: began.elapsed(),
                detail: STALLED.to_owned(),
            }),
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
        if !self.is_active() {
            return Ok(act());
        }
        let fails = match &*self.fault.borrow() {
            Fault::Fails(error) => Some(error.clone()),
            _ => None,
        };
        if let Some(error) = fails {
            if error.effect() == Effect::NotApplied && !error.is_retryable() {
                return Err(error);
            }
            self.owe(move || drop(act()));
            return Err(in_doubt(error, name, operation));
        }
        let (reply, answer) = oneshot::channel();
        self.owe(move || {
            let _ = reply.send(act());
        });
        let began = Instant::now();
        match timeout(RETRY_WINDOW, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            _ => Err(Error::OutcomeUnknown {
                name: name.to_owned(),
                operation,
                waited: began.elapsed(),
                detail: STALLED.to_owned(),
            }),
        }
    }

    /// The same without a caller: it happens now, or as soon as the fault ends.
    pub(super) fn owe(&self, act: impl FnOnce() + Send + 'static) {
        if self.is_active() {
            self.owed.lock().push_back(Box::new(act));
        } else {
            act();
        }
        // It may have recovered meanwhile.
        if !self.is_active() {
            let owed = self.owed.lock().pop_front();
            owed.into_iter().for_each(|owed| owed());
        }
    }
}

/// The error of an operation that has failed so and will be carried out.
fn in_doubt(error: Error, name: &str, operation: &'static str) -> Error {
    match error {
        Error::OutcomeUnknown { .. } => error,
        Error::Unavailable { name, detail, .. } | Error::RefusedForNow { name, detail, .. } => {
            Error::outcome_unknown(name, operation, detail)
        }
        other => Error::outcome_unknown(name, operation, other.to_string()),
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Faults")
            .field(&*self.fault.borrow())
            .finish()
    }
}

/// The switch as methods of an object, which has it at `self.$faults`.
macro_rules! fault_switch {
    ($type:ty: $($faults:ident).+) => {
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
                self.$($faults).+.fail_with(error);
            }

            /// Answers no call from now on, until it [recovers](Self::recover), as a server that hangs.
            ///
            /// A call fails as with the default settings of a client: a timed call 5 s after its wait, any other after 30 s.
            /// That is [`Unavailable`](crate::Error::Unavailable), and it will not be carried out any more; a release, an
            /// unlock or a count-down is [`OutcomeUnknown`](crate::Error::OutcomeUnknown), and will be. Needs a tokio runtime
            /// with its timer.
            pub fn stall(&self) {
                self.$($faults).+.stall();
            }

            /// Ends what [`fail_with`](Self::fail_with) or [`stall`](Self::stall) began. Calls that wait for an answer
            /// are carried out.
            pub fn recover(&self) {
                self.$($faults).+.recover();
            }
        }
    };
}
pub(super) use fault_switch;
