//! What the cases share.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use redisson_semaphore::{Held, LeasedSemaphore, Result};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::{Instant, sleep, timeout};

pub(crate) type Handle = Arc<dyn LeasedSemaphore>;

/// By then everything has happened that is to happen at all.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// For so long a call is watched that must not be answered.
const QUIET: Duration = Duration::from_millis(60);

/// Runs a case; fails it if it hangs.
pub(crate) async fn within_limit(case: impl Future<Output = ()>) {
    timeout(3 * LIMIT, case)
        .await
        .expect("the case does not come to an end");
}

/// How many permits are held.
pub(crate) async fn held(semaphore: &Handle) -> usize {
    semaphore.holders().await.unwrap().len()
}

/// A permit that must be there now.
pub(crate) async fn take(semaphore: &Handle) -> Held {
    let taken = semaphore.try_acquire().await.unwrap();
    taken.expect("a permit is free")
}

/// Waits until `count` permits are held; they may be on their way back still.
pub(crate) async fn until_held(semaphore: &Handle, count: usize) {
    let end = Instant::now() + LIMIT;
    loop {
        let seen = held(semaphore).await;
        if seen == count {
            return;
        }
        assert!(Instant::now() < end, "{seen} permits are held, not {count}");
        sleep(Duration::from_millis(2)).await;
    }
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

    /// Asserts that there is no answer, though the semaphore has answered something else meanwhile.
    pub(crate) async fn assert_waits(&mut self, semaphore: &Handle) {
        semaphore.holders().await.unwrap();
        let answered = timeout(QUIET, &mut self.0).await.is_ok();
        assert!(!answered, "the call has been answered");
    }

    /// The answer.
    pub(crate) async fn answer(self) -> T {
        timeout(LIMIT, self.0)
            .await
            .expect("the call still waits")
            .expect("the call panicked")
    }

    /// Drops the call, wherever it is.
    pub(crate) async fn abort(self) {
        self.0.abort();
        drop(self.0.await);
    }
}

/// `acquire` in a task.
pub(crate) async fn acquire(semaphore: &Handle) -> Call<Result<Held>> {
    let waiter = semaphore.clone();
    let call = Call::start(async move { waiter.acquire().await }).await;
    // Answered behind the waiter's own question, which has got its place in the order by that.
    semaphore.holders().await.unwrap();
    semaphore.refresh("nobody").await.unwrap();
    call
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

/// Waits for tasks; fails if one of them has.
pub(crate) async fn join(tasks: Vec<JoinHandle<()>>) {
    for task in tasks {
        task.await.unwrap();
    }
}
