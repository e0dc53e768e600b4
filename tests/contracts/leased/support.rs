//! Helpers of the cases.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use redisson_semaphore::{Held, LeasedPermit, LeasedSemaphore, Result};
use tokio::time::{Instant, sleep};

use crate::holdable;

pub(crate) use crate::contract::call::{Call, LIMIT, Object, join};

pub(crate) type Handle = Arc<dyn LeasedSemaphore>;

impl Object for Handle {
    async fn answers(&self) {
        self.holders().await.unwrap();
    }
}

/// Semaphores of one permit for `holdable`.
pub(crate) struct Holdables<F>(pub(crate) F);

impl<F: super::Fixture> holdable::Fixture for Holdables<F> {
    type Handle = Handle;

    async fn fresh(&self) -> Handle {
        self.0.fresh(1)
    }

    fn neighbour(&self, of: &Handle) -> Handle {
        of.clone_handle()
    }

    fn stranger(&self, to: &Handle) -> Handle {
        self.0.second(to)
    }
}

impl holdable::Holdable for Handle {
    type Held = Held;
    type Guard = LeasedPermit;

    fn take(&self) -> BoxFuture<'_, Held> {
        (**self).acquire().map(Result::unwrap).boxed()
    }

    fn try_take(&self) -> BoxFuture<'_, Option<Held>> {
        (**self).try_acquire().map(Result::unwrap).boxed()
    }

    fn take_for(&self, wait: Duration) -> BoxFuture<'_, Option<Held>> {
        (**self).try_acquire_for(wait).map(Result::unwrap).boxed()
    }

    fn give<'a>(&'a self, held: &'a Held) -> BoxFuture<'a, ()> {
        let released = (**self).release(held.id());
        released.map(|held| assert!(held.unwrap())).boxed()
    }

    fn drop_calls_that_free_it(&self) {
        drop(self.release_all());
    }

    fn guard(&self) -> BoxFuture<'_, LeasedPermit> {
        (**self).permit().map(Result::unwrap).boxed()
    }

    fn try_guard(&self) -> BoxFuture<'_, Option<LeasedPermit>> {
        (**self).try_permit().map(Result::unwrap).boxed()
    }

    fn guard_for(&self, wait: Duration) -> BoxFuture<'_, Option<LeasedPermit>> {
        (**self).permit_for(wait).map(Result::unwrap).boxed()
    }

    fn release(guard: LeasedPermit) -> BoxFuture<'static, ()> {
        guard.release().map(|held| assert!(held.unwrap())).boxed()
    }

    fn forget(&self, guard: LeasedPermit) -> (Handle, Held) {
        (self.clone(), guard.forget())
    }

    fn is_free(&self) -> BoxFuture<'_, bool> {
        let holders = (**self).holders();
        holders.map(|holders| holders.unwrap().is_empty()).boxed()
    }
}

/// How many permits are held.
pub(crate) async fn held(semaphore: &Handle) -> usize {
    semaphore.holders().await.unwrap().len()
}

/// Takes a permit that must be free now.
pub(crate) async fn take(semaphore: &Handle) -> Held {
    let taken = semaphore.try_acquire().await.unwrap();
    taken.expect("a permit is free")
}

/// Waits until `count` permits are held. Releases may still be under way.
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
    // The server answers these calls after the waiter's request, so the waiter is in the queue by then.
    semaphore.holders().await.unwrap();
    semaphore.release("cafe").await.unwrap();
    call
}
