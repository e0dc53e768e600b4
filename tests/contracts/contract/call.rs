//! A call in a task of its own, for the contract suites of all traits.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::timeout;

/// By then everything has happened that is to happen at all.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// For so long a call is watched that must not be answered.
const QUIET: Duration = Duration::from_millis(40);

/// What a call is made on.
pub(crate) trait Object {
    /// Asks it something, and returns when it has answered.
    async fn answers(&self);
}

/// A call in a task of its own.
pub(crate) struct Call<T>(JoinHandle<T>);

impl<T: Send + 'static> Call<T> {
    /// Starts a call, and returns when it has been polled once: it stands in line, if it has to wait.
    pub(crate) async fn start(call: impl Future<Output = T> + Send + 'static) -> Self {
        let (polled, seen) = oneshot::channel();
        let task = tokio::spawn(async move {
            let mut call = pin!(call);
            let first = poll_once(&mut call).await;
            // Nobody may be interested.
            let _ = polled.send(());
            match first {
                Poll::Ready(answer) => answer,
                Poll::Pending => call.await,
            }
        });
        seen.await.expect("the call panicked");
        Call(task)
    }

    /// Asserts that there is no answer, though the object has answered something else meanwhile.
    pub(crate) async fn assert_waits(&mut self, object: &impl Object) {
        object.answers().await;
        assert!(
            timeout(QUIET, &mut self.0).await.is_err(),
            "the call has been answered"
        );
    }

    /// The answer.
    pub(crate) async fn answer(self) -> T {
        timeout(LIMIT, self.0)
            .await
            .expect("the call still waits")
            .expect("the call panicked")
    }

    /// Drops the call, wherever it is; the answer if it was faster.
    pub(crate) async fn abort(self) -> Option<T> {
        self.0.abort();
        self.0.await.ok()
    }
}

/// Polls a future once, with the waker of the task.
pub(crate) async fn poll_once<F: Future + ?Sized>(future: &mut Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

/// Polls a future at most `times` times, and lets other tasks run in between.
pub(crate) async fn poll_times<F: Future>(future: F, times: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    for _ in 0..times {
        if let Poll::Ready(answer) = poll_once(&mut future).await {
            return Some(answer);
        }
        yield_now().await;
    }
    None
}
