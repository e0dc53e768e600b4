//! What the cases share: calls in tasks of their own, and ways to tell that something holds.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::task::Poll;
use std::time::Duration;

use redisson_semaphore::{Error, Lock, Result};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::timeout;

pub(crate) type Handle = Arc<dyn Lock>;

/// By then everything has happened that is to happen at all.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A lease that is over soon.
pub(crate) const SHORT: Duration = Duration::from_millis(60);

/// For so long a call is watched that must not be answered.
const QUIET: Duration = Duration::from_millis(40);

/// Runs a case; fails it if it hangs.
pub(crate) async fn within_limit(case: impl Future<Output = ()>) {
    timeout(3 * LIMIT, case)
        .await
        .expect("the case does not come to an end");
}

/// Asserts that `lock` is held by its owner and by nobody else.
pub(crate) async fn assert_held(lock: &Handle, count: u32) {
    assert_eq!(lock.hold_count().await.unwrap(), count);
    assert_eq!(lock.is_held().await.unwrap(), count > 0);
    assert!(lock.is_locked().await.unwrap() || count == 0);
}

/// Waits until the lock can be taken, and gives it back: nobody has kept it, nobody waits for it.
pub(crate) async fn assert_free(lock: &Handle) {
    assert!(
        lock.try_lock_for(LIMIT).await.unwrap(),
        "the lock has been lost to somebody"
    );
    assert_held(lock, 1).await;
    lock.unlock().await.unwrap();
    assert!(!lock.is_locked().await.unwrap());
}

/// Asserts that an unlock was refused, by name and owner.
pub(crate) fn assert_not_held(result: Result<()>, lock: &Handle) {
    let error = result.expect_err("the lock was not held");
    assert!(
        matches!(&error, Error::NotHeld { name, owner } if name == lock.name() && owner == lock.owner()),
        "{error}"
    );
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

    /// Asserts that there is no answer, though the lock has answered something else meanwhile.
    pub(crate) async fn assert_waits(&mut self, lock: &Handle) {
        lock.is_locked().await.unwrap();
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

/// `lock` in a task.
pub(crate) async fn lock(lock: &Handle) -> Call<Result<()>> {
    let lock = Arc::clone(lock);
    Call::start(async move { lock.lock().await }).await
}

/// `try_lock_for` in a task.
pub(crate) async fn lock_for(lock: &Handle, wait: Duration) -> Call<Result<bool>> {
    let lock = Arc::clone(lock);
    Call::start(async move { lock.try_lock_for(wait).await }).await
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

/// Something that only one may use at a time, and a number that loses additions when two make them together.
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
