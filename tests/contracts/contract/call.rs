//! A call in a task of its own, for the contract suites of all traits.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::timeout;

use crate::support::polls::poll_once;

/// The time after which a missing event counts as a failure.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// How long a test watches a call that must not return.
const QUIET: Duration = Duration::from_millis(40);

/// An object that calls are made on.
pub(crate) trait Object {
    /// Makes a call on the object, and returns when the object has answered.
    async fn answers(&self);
}

/// Starts a call in a task of its own, and returns after its first poll.
pub(crate) async fn start<T: Send + 'static>(
    call: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    let (polled, seen) = oneshot::channel();
    let task = tokio::spawn(async move {
        let mut call = pin!(call);
        let first = poll_once(&mut call).await;
        // The receiver is gone if the caller has dropped this future.
        let _ = polled.send(());
        match first {
            Poll::Ready(answer) => answer,
            Poll::Pending => call.await,
        }
    });
    seen.await.expect("the call panicked");
    task
}

/// A call in a task of its own.
pub(crate) struct Call<T>(JoinHandle<T>);

impl<T: Send + 'static> Call<T> {
    /// Starts a call, and returns after its first poll. A call that has to wait is queued by then.
    pub(crate) async fn start(call: impl Future<Output = T> + Send + 'static) -> Self {
        Call(start(call).await)
    }

    /// Asserts that the call has no answer, although the object has answered another call meanwhile.
    pub(crate) async fn assert_waits(&mut self, object: &impl Object) {
        object.answers().await;
        assert!(
            timeout(QUIET, &mut self.0).await.is_err(),
            "the call has been answered"
        );
    }

    /// The answer of the call.
    pub(crate) async fn answer(self) -> T {
        timeout(LIMIT, self.0)
            .await
            .expect("the call still waits")
            .expect("the call panicked")
    }

    /// Drops the call at any stage. Returns the answer if the call was faster.
    pub(crate) async fn abort(self) -> Option<T> {
        self.0.abort();
        self.0.await.ok()
    }
}

/// Runs a case, and fails if it hangs.
pub(crate) async fn within_limit(case: impl Future<Output = ()>) {
    timeout(3 * LIMIT, case)
        .await
        .expect("the case does not come to an end");
}

/// Waits for all tasks, and panics if one of them has panicked.
pub(crate) async fn join(tasks: Vec<JoinHandle<()>>) {
    for task in tasks {
        task.await.unwrap();
    }
}

/// A number for one user at a time: it panics on concurrent use, and two concurrent additions lose one.
#[derive(Default)]
pub(crate) struct Unguarded {
    inside: AtomicBool,
    number: AtomicI64,
}

impl Unguarded {
    pub(crate) async fn add_one(&self) {
        assert!(!self.inside.swap(true, Ordering::SeqCst), "two are inside");
        let before = self.get();
        yield_now().await;
        self.number.store(before + 1, Ordering::SeqCst);
        self.inside.store(false, Ordering::SeqCst);
    }

    pub(crate) fn get(&self) -> i64 {
        self.number.load(Ordering::SeqCst)
    }
}
