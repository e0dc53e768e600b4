//! Helpers of the cases: calls in tasks of their own, and assertions.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use redisson_semaphore::{Permit, Result, Semaphore};
use tokio::task::yield_now;
use tokio::time::{interval, timeout};

use crate::holdable;

pub(crate) use super::call::{Call, LIMIT, Object, join};
pub(crate) use crate::support::polls::poll_times;

pub(crate) type Handle = Arc<dyn Semaphore>;

impl Object for Handle {
    async fn answers(&self) {
        self.available_permits().await.unwrap();
    }
}

/// The number of permits of a semaphore for `holdable`. All permits together make one hold.
const ALL: u32 = 2;

/// Semaphores for `holdable`.
pub(crate) struct Holdables<F>(pub(crate) F);

impl<F: super::Fixture> holdable::Fixture for Holdables<F> {
    type Handle = Handle;

    async fn fresh(&self) -> Handle {
        let semaphore = self.0.fresh("held");
        set(&semaphore, ALL).await;
        semaphore
    }

    fn neighbour(&self, of: &Handle) -> Handle {
        of.clone_handle()
    }

    fn stranger(&self, to: &Handle) -> Handle {
        self.0.second(to)
    }
}

impl holdable::Holdable for Handle {
    type Held = ();
    type Guard = Permit;

    fn take(&self) -> BoxFuture<'_, ()> {
        (**self).acquire(ALL).map(Result::unwrap).boxed()
    }

    fn try_take(&self) -> BoxFuture<'_, Option<()>> {
        let taken = (**self).try_acquire(ALL);
        taken.map(|taken| taken.unwrap().then_some(())).boxed()
    }

    fn take_for(&self, wait: Duration) -> BoxFuture<'_, Option<()>> {
        let taken = (**self).try_acquire_for(ALL, wait);
        taken.map(|taken| taken.unwrap().then_some(())).boxed()
    }

    fn give<'a>(&'a self, _: &'a ()) -> BoxFuture<'a, ()> {
        (**self).release(ALL).map(Result::unwrap).boxed()
    }

    fn guard(&self) -> BoxFuture<'_, Permit> {
        (**self).permit(ALL).map(Result::unwrap).boxed()
    }

    fn try_guard(&self) -> BoxFuture<'_, Option<Permit>> {
        (**self).try_permit(ALL).map(Result::unwrap).boxed()
    }

    fn guard_for(&self, wait: Duration) -> BoxFuture<'_, Option<Permit>> {
        (**self).permit_for(ALL, wait).map(Result::unwrap).boxed()
    }

    fn release(guard: Permit) -> BoxFuture<'static, ()> {
        guard.release().map(Result::unwrap).boxed()
    }

    fn forget(&self, guard: Permit) -> (Handle, ()) {
        assert_eq!(guard.forget(), ALL);
        (self.clone(), ())
    }

    fn is_free(&self) -> BoxFuture<'_, bool> {
        let available = (**self).available_permits();
        available
            .map(|available| available.unwrap() == i64::from(ALL))
            .boxed()
    }
}

/// Sets the first permits of a fresh semaphore.
pub(crate) async fn set(semaphore: &Handle, permits: u32) {
    assert!(
        semaphore.try_set_permits(permits).await.unwrap(),
        "{semaphore:?} existed"
    );
}

/// Asserts how many permits are available.
pub(crate) async fn assert_available(semaphore: &Handle, expected: i64) {
    assert_eq!(semaphore.available_permits().await.unwrap(), expected);
}

/// Asserts that the semaphore does not exist; creates it with `permits` if so.
pub(crate) async fn assert_missing_then_set(semaphore: &Handle, permits: u32) {
    assert!(
        !semaphore.release_if_exists(1).await.unwrap(),
        "{semaphore:?} exists"
    );
    set(semaphore, permits).await;
}

/// Waits until `total` permits can be taken together, asserts that there are no more, and releases them.
/// Permits may still be on their way back when this begins.
pub(crate) async fn assert_all_back(semaphore: &Handle, total: u32) {
    let back = semaphore.try_acquire_for(total, LIMIT).await.unwrap();
    let available = semaphore.available_permits().await.unwrap();
    assert!(back, "permits are lost: {available} of {total} are there");
    assert_eq!(available, 0, "there are more than {total}");
    semaphore.release(total).await.unwrap();
}

/// Waits until the semaphore has vanished. Each check releases one permit.
pub(crate) async fn until_missing(semaphore: &Handle) {
    let mut ticks = interval(Duration::from_millis(5));
    let missing = async {
        while semaphore.release_if_exists(1).await.unwrap() {
            ticks.tick().await;
        }
    };
    timeout(LIMIT, missing)
        .await
        .expect("the semaphore does not vanish");
}

/// `acquire` in a task.
pub(crate) async fn acquire(semaphore: &Handle, permits: u32) -> Call<Result<()>> {
    let semaphore = semaphore.clone();
    Call::start(async move { semaphore.acquire(permits).await }).await
}

/// Lets other tasks run.
pub(crate) async fn yields(times: usize) {
    for _ in 0..times {
        yield_now().await;
    }
}

/// The permits in use, as their holders count them.
#[derive(Default)]
pub(crate) struct Gauge(AtomicI64);

impl Gauge {
    /// Counts `permits` in; asserts that no more than `limit` are held together.
    pub(crate) fn enter(&self, permits: u32, limit: i64) {
        let held = self.0.fetch_add(permits.into(), Ordering::SeqCst) + i64::from(permits);
        assert!(held <= limit, "{held} permits are held, of {limit}");
    }

    pub(crate) fn exit(&self, permits: u32) {
        self.0.fetch_sub(permits.into(), Ordering::SeqCst);
    }
}

/// Repeatable random numbers (xorshift).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: usize) -> Self {
        Random((seed as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// From 0 to `bound` - 1.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as u32 % bound
    }
}

/// Asserts that at least `time` has passed since `start`, as far as clocks of milliseconds can tell.
pub(crate) fn assert_passed(start: Instant, time: Duration) {
    let passed = start.elapsed() + Duration::from_millis(2);
    assert!(passed >= time, "{passed:?} instead of {time:?}");
}
