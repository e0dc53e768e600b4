//! What the cases share.

use std::sync::Arc;
use std::time::Duration;

use redisson_semaphore::{Held, LeasedSemaphore, Result};
use tokio::time::{Instant, sleep};

pub(crate) use crate::contract::call::{Call, LIMIT, Object, join};
pub(crate) use crate::support::polls::poll_times;

pub(crate) type Handle = Arc<dyn LeasedSemaphore>;

impl Object for Handle {
    async fn answers(&self) {
        self.holders().await.unwrap();
    }
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

/// `acquire` in a task.
pub(crate) async fn acquire(semaphore: &Handle) -> Call<Result<Held>> {
    let waiter = semaphore.clone();
    let call = Call::start(async move { waiter.acquire().await }).await;
    // Answered behind the waiter's own question, which has got its place in the order by that.
    semaphore.holders().await.unwrap();
    semaphore.release("cafe").await.unwrap();
    call
}
