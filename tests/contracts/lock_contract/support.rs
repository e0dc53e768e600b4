//! What the cases share: calls in tasks of their own, and ways to tell that something holds.

use std::sync::Arc;
use std::time::Duration;

use redisson_semaphore::{Error, Lock, Result};
use tokio::time::timeout;

pub(crate) use crate::contract::call::{Call, LIMIT, Object, Unguarded, within_limit};
pub(crate) use crate::support::polls::poll_times;

pub(crate) type Handle = Arc<dyn Lock>;

impl Object for Handle {
    async fn answers(&self) {
        self.is_locked().await.unwrap();
    }
}

/// A lease that is over soon.
pub(crate) const SHORT: Duration = Duration::from_millis(60);

/// Asserts that `lock` is held by its owner and by nobody else.
pub(crate) async fn assert_held(lock: &Handle, count: u32) {
    assert_eq!(lock.hold_count().await.unwrap(), count);
    assert_eq!(lock.is_held().await.unwrap(), count > 0);
    assert!(lock.is_locked().await.unwrap() || count == 0);
}

/// Waits until the lock can be taken, and gives it back: nobody has kept it, nobody waits for it. Who was dropped while it asked may be
/// granted it for a moment.
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

/// Asserts that an unlock was refused, by name and owner.
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
