//! Tests of details that the contract suite cannot see: single polls, the clock, and the windows of large requests.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures::FutureExt;
use tokio::time::advance;

use super::{CountDownLatch, LeasedSemaphore, Lock, Semaphore};
use crate::{
    CountDownLatch as _, Error, LeasedSemaphore as _, Lock as _, MAX_PERMITS, Semaphore as _,
};

const MOMENT: Duration = Duration::from_millis(1);

/// Counts how often it is woken.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Bell {
    fn rung(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

fn poll_with<F: Future>(future: Pin<&mut F>, bell: &Arc<Bell>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(&Waker::from(Arc::clone(bell))))
}

/// Asserts that a call has not been answered, polling it once.
macro_rules! assert_waits {
    ($future:expr) => {
        assert!(
            poll_once($future.as_mut()).await.is_pending(),
            "{} is done",
            stringify!($future)
        );
    };
}

/// Asserts that a call is answered by one poll, and gives the answer.
macro_rules! answer {
    ($future:expr) => {
        match poll_once($future.as_mut()).await {
            Poll::Ready(answer) => answer.unwrap(),
            Poll::Pending => panic!("{} waits", stringify!($future)),
        }
    };
}

mod faults;
mod leases;

mod lock;
mod order;
mod wakers;

#[tokio::test]
async fn a_grant_that_comes_back_to_a_full_counter_fills_it() {
    let semaphore = Semaphore::with_permits("s", 0);
    let mut first = Box::pin(semaphore.acquire(5));
    assert_waits!(first);
    semaphore.release(5).await.unwrap();
    semaphore.release(MAX_PERMITS - 2).await.unwrap();
    drop(first);
    assert_eq!(
        semaphore.available_permits().await.unwrap(),
        i64::from(MAX_PERMITS)
    );
}

#[tokio::test]
async fn the_waker_of_the_last_poll_is_woken_and_no_other() {
    let semaphore = Semaphore::with_permits("s", 0);
    let mut waiting = pin!(semaphore.acquire(1));
    let (old, new) = (Arc::new(Bell::default()), Arc::new(Bell::default()));
    assert!(poll_with(waiting.as_mut(), &old).is_pending());
    assert!(poll_with(waiting.as_mut(), &new).is_pending());
    semaphore.release(1).await.unwrap();
    assert_eq!((old.rung(), new.rung()), (0, 1));
    assert!(poll_with(waiting.as_mut(), &new).is_ready());
}

/// A waker that owns a call of the same semaphore, as a task's waker may own the task.
struct Owner(#[allow(dead_code)] std::sync::Mutex<Pin<Box<dyn Future<Output = ()> + Send>>>);

impl Wake for Owner {
    fn wake(self: Arc<Self>) {}
}

#[tokio::test]
async fn wakers_may_own_calls_of_the_semaphore() {
    let semaphore = Semaphore::with_permits("s", 0);
    let owner = || {
        let semaphore = semaphore.clone();
        let mut call = Box::pin(async move { semaphore.acquire(1).await.unwrap() });
        assert!(
            call.as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
                .is_pending()
        );
        Waker::from(Arc::new(Owner(std::sync::Mutex::new(call))))
    };
    let mut waiting = Box::pin(semaphore.acquire(1));
    assert!(
        waiting
            .as_mut()
            .poll(&mut Context::from_waker(&owner()))
            .is_pending()
    );
    // The first owner goes here, the second with the call.
    assert!(
        waiting
            .as_mut()
            .poll(&mut Context::from_waker(&owner()))
            .is_pending()
    );
    drop(waiting);
    semaphore.release(1).await.unwrap();
    assert_eq!(semaphore.available_permits().await.unwrap(), 1);
}

#[tokio::test]
async fn a_release_takes_effect_on_the_first_poll() {
    let semaphore = Semaphore::with_permits("s", 0);
    let mut release = Box::pin(semaphore.release(3));
    assert_eq!(semaphore.available_permits().await.unwrap(), 0);
    let _ = poll_once(release.as_mut()).await;
    drop(release);
    assert_eq!(semaphore.available_permits().await.unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn permits_granted_at_the_deadline_are_the_callers() {
    let semaphore = Semaphore::with_permits("s", 0);
    let wait = Duration::from_secs(1);
    let mut waiting = pin!(semaphore.try_acquire_for(2, wait));
    assert_waits!(waiting);
    advance(wait).await;
    semaphore.release(2).await.unwrap();
    assert!(answer!(waiting));
    assert_eq!(semaphore.available_permits().await.unwrap(), 0);
}

/// However short the wait is.
#[tokio::test]
async fn what_is_free_is_granted_in_time() {
    let wait = Duration::from_nanos(1);
    let semaphore = Semaphore::with_permits("s", 1);
    let lock = Lock::new("l");
    let latch = CountDownLatch::new("c");
    for _ in 0..100 {
        assert!(semaphore.try_acquire_for(1, wait).await.unwrap());
        semaphore.release(1).await.unwrap();
        assert!(lock.try_lock_for(wait).await.unwrap());
        lock.unlock().await.unwrap();
        assert!(latch.wait_for(wait).await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_to_live_ends_on_the_millisecond() {
    let semaphore = Semaphore::new("s");
    let ttl = Duration::from_micros(1_001);
    assert!(semaphore.try_set_permits_for(3, ttl).await.unwrap());
    assert!(!semaphore.try_set_permits_for(4, ttl).await.unwrap());
    advance(MOMENT).await;
    assert_eq!(semaphore.available_permits().await.unwrap(), 3);
    advance(MOMENT).await;
    assert_eq!(semaphore.available_permits().await.unwrap(), 0);
    assert!(!semaphore.release_if_exists(1).await.unwrap());
    assert!(semaphore.try_set_permits(4).await.unwrap());
    advance(ttl).await;
    assert_eq!(
        semaphore.available_permits().await.unwrap(),
        4,
        "the new one has no time to live"
    );
}

#[tokio::test(start_paused = true)]
async fn a_grant_dropped_after_the_semaphore_vanished_does_not_revive_it() {
    let semaphore = Semaphore::new("s");
    assert!(semaphore.try_set_permits_for(0, MOMENT).await.unwrap());
    let mut waiting = Box::pin(semaphore.acquire(1));
    assert_waits!(waiting);
    semaphore.release(1).await.unwrap();
    advance(MOMENT).await;
    drop(waiting);
    assert!(!semaphore.release_if_exists(1).await.unwrap());
}

#[tokio::test]
async fn a_name_that_no_object_can_have_is_refused_by_every_operation() {
    for name in ["", &"n".repeat(64 * 1024 + 1)] {
        refuses_all(name).await;
    }
    assert_eq!(
        Semaphore::new("n".repeat(64 * 1024))
            .available_permits()
            .await,
        Ok(0)
    );
}

async fn refuses_all(name: &str) {
    let nameless = Semaphore::new(name);
    macro_rules! assert_refused {
        ($($call:expr),* $(,)?) => {
            $(assert!(
                matches!($call.await, Err(Error::InvalidName { .. })),
                "{} was carried out", stringify!($call)
            );)*
        };
    }
    assert_refused!(
        nameless.try_set_permits(1),
        nameless.try_set_permits_for(1, MOMENT),
        nameless.acquire(0),
        nameless.try_acquire(0),
        nameless.try_acquire_for(0, MOMENT),
        nameless.try_acquire_for(0, Duration::ZERO),
        nameless.release(0),
        nameless.release_if_exists(0),
        nameless.add_permits(0),
        nameless.drain_permits(),
        nameless.available_permits(),
        nameless.permit(0),
        nameless.permit_for(0, MOMENT),
        nameless.try_permit(0),
    );
    let nameless = Lock::new(name);
    assert_refused!(
        nameless.lock(),
        nameless.try_lock(),
        nameless.try_lock_for(MOMENT),
        nameless.unlock(),
        nameless.force_unlock(),
        nameless.is_locked(),
        nameless.is_held(),
        nameless.hold_count(),
        nameless.remaining_ttl(),
        nameless.guard(),
        nameless.guard_for(MOMENT),
        nameless.try_guard(),
    );
    let nameless = LeasedSemaphore::new(name, 1, None);
    assert_refused!(
        nameless.acquire(),
        nameless.try_acquire(),
        nameless.try_acquire_for(MOMENT),
        nameless.release("id"),
        nameless.refresh("id"),
        nameless.holders(),
        nameless.release_all(),
        nameless.permit(),
        nameless.permit_for(MOMENT),
        nameless.try_permit(),
    );
    let nameless = CountDownLatch::new(name);
    assert_refused!(
        nameless.try_set_count(1),
        nameless.count_down(),
        nameless.count(),
        nameless.wait(),
        nameless.wait_for(MOMENT),
        nameless.wait_for(Duration::ZERO),
    );
}

#[test]
fn permits_are_given_back_outside_of_a_runtime() {
    let semaphore = Semaphore::with_permits("s", 1);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let permit = runtime.block_on(semaphore.permit(1)).unwrap();
    drop(runtime);
    drop(permit);
    for permits in [2, MAX_PERMITS, u32::MAX] {
        crate::api::Semaphore::release_detached(&semaphore, permits);
    }
    let mut available = pin!(semaphore.available_permits());
    let answer = available
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(
        answer,
        Poll::Ready(Ok(3)),
        "those that fit are back, the others only logged"
    );
}

#[test]
#[should_panic(expected = "more than 2147483647")]
fn more_permits_than_a_counter_holds_are_refused_at_once() {
    let _ = Semaphore::with_permits("s", MAX_PERMITS + 1);
}

#[tokio::test]
async fn futures_are_send() {
    fn send<T: Send>(future: T) -> T {
        future
    }
    let semaphore = Semaphore::with_permits("s", 1);
    send(semaphore.acquire(1)).await.unwrap();
    assert!(!send(semaphore.try_acquire_for(1, MOMENT)).await.unwrap());
    send(semaphore.release(1)).await.unwrap();
    send(semaphore.permit(1))
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
}

/// Its time is over, and it has not been polled since.
#[tokio::test(start_paused = true)]
async fn who_is_not_polled_behind_its_time_is_granted_nothing() {
    let semaphore = Semaphore::with_permits("late", 1);
    semaphore.acquire(1).await.unwrap();
    let mut late = Box::pin(semaphore.try_acquire_for(1, MOMENT));
    let mut later = Box::pin(semaphore.try_acquire_for(1, 100 * MOMENT));
    assert!(late.as_mut().now_or_never().is_none());
    assert!(later.as_mut().now_or_never().is_none());
    advance(2 * MOMENT).await;
    semaphore.release(1).await.unwrap();
    assert!(later.await.unwrap());
    semaphore.release(1).await.unwrap();
    assert!(semaphore.try_acquire(1).await.unwrap());
    semaphore.release(1).await.unwrap();
    assert!(!late.await.unwrap());
    assert_eq!(semaphore.available_permits().await.unwrap(), 1);

    let leased = LeasedSemaphore::new("late", 1, None);
    let held = leased.acquire().await.unwrap();
    let mut late = Box::pin(leased.try_acquire_for(MOMENT));
    assert!(late.as_mut().now_or_never().is_none());
    advance(2 * MOMENT).await;
    assert!(leased.release(held.id()).await.unwrap());
    let held = leased.try_acquire().await.unwrap().expect("it is free");
    assert!(late.await.unwrap().is_none());
    assert!(leased.release(held.id()).await.unwrap());
    assert!(leased.try_acquire().await.unwrap().is_some());
}
