//! Helpers of the cases: calls in tasks of their own, and assertions.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use redisson_semaphore::{Error, Lock, LockGuard, RemainingTtl, Result};
use tokio::time::timeout;

use crate::holdable;

pub(crate) use crate::contract::call::{Call, LIMIT, Object, within_limit};
pub(crate) use crate::support::polls::poll_times;

pub(crate) type Handle = Arc<dyn Lock>;

impl Object for Handle {
    async fn answers(&self) {
        self.is_locked().await.unwrap();
    }
}

/// Locks for `holdable`.
pub(crate) struct Holdables<F>(pub(crate) F);

impl<F: super::Fixture> holdable::Fixture for Holdables<F> {
    type Handle = Handle;

    async fn fresh(&self) -> Handle {
        self.0.fresh("held")
    }

    fn neighbour(&self, of: &Handle) -> Handle {
        self.0.neighbour(of)
    }

    fn stranger(&self, to: &Handle) -> Handle {
        self.0.stranger(to)
    }
}

impl holdable::Holdable for Handle {
    type Held = ();
    type Guard = LockGuard;

    fn take(&self) -> BoxFuture<'_, ()> {
        (**self).lock().map(Result::unwrap).boxed()
    }

    fn try_take(&self) -> BoxFuture<'_, Option<()>> {
        let taken = (**self).try_lock();
        taken.map(|taken| taken.unwrap().then_some(())).boxed()
    }

    fn take_for(&self, wait: Duration) -> BoxFuture<'_, Option<()>> {
        let taken = (**self).try_lock_for(wait);
        taken.map(|taken| taken.unwrap().then_some(())).boxed()
    }

    fn give<'a>(&'a self, _: &'a ()) -> BoxFuture<'a, ()> {
        (**self).unlock().map(Result::unwrap).boxed()
    }

    fn drop_calls_that_free_it(&self) {
        drop(self.force_unlock());
    }

    fn guard(&self) -> BoxFuture<'_, LockGuard> {
        (**self).guard().map(Result::unwrap).boxed()
    }

    fn try_guard(&self) -> BoxFuture<'_, Option<LockGuard>> {
        (**self).try_guard().map(Result::unwrap).boxed()
    }

    fn guard_for(&self, wait: Duration) -> BoxFuture<'_, Option<LockGuard>> {
        (**self).guard_for(wait).map(Result::unwrap).boxed()
    }

    fn release(guard: LockGuard) -> BoxFuture<'static, ()> {
        guard.unlock().map(Result::unwrap).boxed()
    }

    fn forget(&self, guard: LockGuard) -> (Handle, ()) {
        let owner = Arc::clone(guard.handle());
        assert!(!guard.forget().lease().is_lost());
        (owner, ())
    }

    fn is_free(&self) -> BoxFuture<'_, bool> {
        (**self).is_locked().map(|locked| !locked.unwrap()).boxed()
    }
}

/// A lease that is over soon.
pub(crate) const SHORT: Duration = Duration::from_millis(60);

/// Asserts that the owner of `lock` holds it `count` times.
pub(crate) async fn assert_held(lock: &Handle, count: u32) {
    assert_eq!(lock.hold_count().await.unwrap(), count);
    assert_eq!(lock.is_held().await.unwrap(), count > 0);
    assert!(lock.is_locked().await.unwrap() || count == 0);
}

/// Waits until the lock can be taken, and unlocks it. Asserts that no other owner keeps it then.
/// A call that was dropped may be granted the lock for a moment.
pub(crate) async fn assert_free(lock: &Handle) {
    assert!(
        lock.try_lock_for(LIMIT).await.unwrap(),
        "the lock has been lost to somebody"
    );
    assert_held(lock, 1).await;
    lock.unlock().await.unwrap();
    timeout(LIMIT, async {
        while lock.is_locked().await.unwrap() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
    .expect("somebody has taken the lock and keeps it");
}

/// The time until the lock's end, as the server sees it.
pub(crate) async fn left(lock: &Handle) -> Duration {
    match lock.remaining_ttl().await.unwrap() {
        RemainingTtl::Expires(left) => left,
        other => panic!("no end: {other:?}"),
    }
}

/// Asserts that an unlock failed, with the lock's name and owner in the error.
pub(crate) fn assert_not_held(result: Result<()>, lock: &Handle) {
    let error = result.expect_err("the lock was not held");
    assert!(
        matches!(&error, Error::NotHeld { name, owner, .. } if name == lock.name() && owner == lock.owner()),
        "{error}"
    );
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
