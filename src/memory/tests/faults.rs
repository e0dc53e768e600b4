//! Trouble on purpose, while the clock stands still.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::Instant;

use crate::api::{LeasedPermit, LockGuard, Permit};
use crate::error::{Effect, Error, Result};
use crate::memory::{CountDownLatch, LeasedSemaphore, Lock, Semaphore};
use crate::{CountDownLatch as _, LeasedSemaphore as _, Lock as _, Semaphore as _};

const WAIT: Duration = Duration::from_secs(2);

/// Of what [`Twins::guards`] takes.
const NOTHING: (i64, bool, usize, i64) = (0, false, 0, 0);
const ALL: (i64, bool, usize, i64) = (2, true, 1, 1);

fn poll_once<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

struct Twins {
    semaphore: Semaphore,
    lock: Lock,
    leased: LeasedSemaphore,
    latch: CountDownLatch,
}

impl Twins {
    fn new() -> Twins {
        Twins {
            semaphore: Semaphore::with_permits("seats", 5),
            lock: Lock::new("door"),
            leased: LeasedSemaphore::new("places", 2, None),
            latch: CountDownLatch::new("done"),
        }
    }

    fn each(
        &self,
        semaphore: fn(&Semaphore),
        lock: fn(&Lock),
        leased: fn(&LeasedSemaphore),
        latch: fn(&CountDownLatch),
    ) {
        semaphore(&self.semaphore);
        lock(&self.lock);
        leased(&self.leased);
        latch(&self.latch);
    }

    fn fail_with(&self, error: &Error) {
        self.semaphore.fail_with(error.clone());
        self.lock.fail_with(error.clone());
        self.leased.fail_with(error.clone());
        self.latch.fail_with(error.clone());
    }

    /// Two permits of five, the lock, one of two places; and a count of one.
    async fn guards(&self) -> (Permit, LockGuard, LeasedPermit) {
        assert_eq!(self.latch.try_set_count(1).await, Ok(true));
        (
            self.semaphore.permit(2).await.unwrap(),
            self.lock.guard().await.unwrap(),
            self.leased.permit().await.unwrap(),
        )
    }

    /// The permits taken, the locks, the holds and the count.
    async fn taken(&self) -> (i64, bool, usize, i64) {
        (
            5 - self.semaphore.available_permits().await.unwrap(),
            self.lock.is_locked().await.unwrap(),
            self.leased.holders().await.unwrap().len(),
            self.latch.count().await.unwrap(),
        )
    }

    fn stall(&self) {
        self.each(
            Semaphore::stall,
            Lock::stall,
            LeasedSemaphore::stall,
            CountDownLatch::stall,
        );
    }

    fn recover(&self) {
        self.each(
            Semaphore::recover,
            Lock::recover,
            LeasedSemaphore::recover,
            CountDownLatch::recover,
        );
    }

    /// Calls that take or look, with a wait.
    async fn timed(&self) -> [Result<bool>; 4] {
        let (semaphore, lock, leased, latch) = tokio::join!(
            self.semaphore.permit_for(1, WAIT),
            self.lock.guard_for(WAIT),
            self.leased.permit_for(WAIT),
            self.latch.wait_for(WAIT),
        );
        [
            semaphore.map(|permit| permit.is_some()),
            lock.map(|guard| guard.is_some()),
            leased.map(|permit| permit.is_some()),
            latch,
        ]
    }

    /// And without.
    async fn others(&self) -> Vec<Result<bool>> {
        let now = tokio::join!(
            self.semaphore.try_acquire(1),
            self.lock.try_lock(),
            self.leased.try_acquire(),
            self.latch.try_set_count(1),
        );
        let waiting = tokio::join!(
            self.semaphore.acquire(1),
            self.lock.lock(),
            self.leased.acquire(),
            self.latch.wait()
        );
        let looking = tokio::join!(
            self.semaphore.available_permits(),
            self.lock.is_locked(),
            self.leased.holders(),
            self.latch.count(),
        );
        vec![
            now.0,
            now.1,
            now.2.map(|held| held.is_some()),
            now.3,
            waiting.0.map(|()| true),
            waiting.1.map(|()| true),
            waiting.2.map(|_| true),
            waiting.3.map(|()| true),
            looking.0.map(|_| true),
            looking.1,
            looking.2.map(|_| true),
            looking.3.map(|_| true),
        ]
    }
}

#[tokio::test(start_paused = true)]
async fn each_call_fails_as_it_was_told_to() {
    let twins = Twins::new();
    let error = Error::outcome_unknown("it", "a call", "on purpose");
    twins.fail_with(&error);
    let began = Instant::now();
    for told in twins.timed().await.into_iter().chain(twins.others().await) {
        assert_eq!(told, Err(error.clone()));
    }
    assert_eq!(twins.semaphore.release(1).await, Err(error.clone()));
    assert_eq!(twins.lock.unlock().await, Err(error.clone()));
    assert_eq!(twins.leased.release("it").await, Err(error.clone()));
    assert_eq!(twins.latch.count_down().await, Err(error.clone()));
    assert_eq!(began.elapsed(), Duration::ZERO);
    // An invalid call fails with its own error all the same.
    let invalid = twins.semaphore.acquire(u32::MAX).await.unwrap_err();
    assert!(invalid.is_invalid_argument());
    twins.recover();
    // Only the release has changed anything.
    assert_eq!(twins.taken().await, (-1, false, 0, 0));
    assert_eq!(twins.timed().await, [const { Ok(true) }; 4]);
}

#[tokio::test(start_paused = true)]
async fn who_is_not_answered_is_told_so_after_its_time() {
    let twins = Twins::new();
    twins.stall();
    let began = Instant::now();
    for told in twins.timed().await {
        let error = told.expect_err("nobody answers");
        assert!(error.is_retryable(), "{error}");
    }
    assert_eq!(began.elapsed(), WAIT + Duration::from_secs(5));
    for told in twins.others().await {
        assert!(told.expect_err("nobody answers").is_retryable());
    }
    let told = twins.semaphore.release(1).await.unwrap_err();
    assert_eq!(told.effect(), Effect::Unknown);
    assert!(told.is_unavailable());
    twins.recover();
    assert_eq!(
        twins.semaphore.available_permits().await,
        Ok(6),
        "it is carried out"
    );
    assert_eq!(twins.lock.is_locked().await, Ok(false), "nothing was taken");
}

#[tokio::test(start_paused = true)]
async fn what_is_owed_meanwhile_is_carried_out_at_the_end() {
    let twins = Twins::new();
    let guards = (
        twins.semaphore.permit(2).await.unwrap(),
        twins.lock.guard().await.unwrap(),
        twins.leased.permit().await.unwrap(),
    );
    let more = twins.semaphore.permit(1).await.unwrap();
    twins.latch.try_set_count(1).await.unwrap();
    twins.stall();
    drop(guards);
    {
        // Asked for, and dropped.
        let mut release = std::pin::pin!(more.release());
        assert!(poll_once(release.as_mut()).is_pending());
        let mut count_down = std::pin::pin!(twins.latch.count_down());
        assert!(poll_once(count_down.as_mut()).is_pending());
    }
    let mut waiting = std::pin::pin!(twins.semaphore.try_acquire(5));
    assert!(poll_once(waiting.as_mut()).is_pending());
    twins.recover();
    assert_eq!(waiting.await, Ok(true), "what is deferred comes first");
    assert_eq!(twins.lock.is_locked().await, Ok(false));
    assert!(twins.leased.holders().await.unwrap().is_empty());
    assert_eq!(twins.latch.count().await, Ok(0));
}

#[tokio::test(start_paused = true)]
async fn a_time_to_live_begins_when_the_call_is_carried_out() {
    let semaphore = Semaphore::new("seats");
    semaphore.stall();
    // There is nothing to be done.
    semaphore.release(0).await.unwrap();
    let mut setting = std::pin::pin!(semaphore.try_set_permits_for(1, WAIT));
    assert!(poll_once(setting.as_mut()).is_pending());
    tokio::time::advance(2 * WAIT).await;
    semaphore.recover();
    assert_eq!(setting.await, Ok(true));
    assert_eq!(semaphore.available_permits().await, Ok(1));
    tokio::time::advance(WAIT).await;
    assert_eq!(semaphore.available_permits().await, Ok(0));
}

/// Gives back what [`Twins::guards`] has taken, and counts down.
async fn given_back(twins: &Twins, guards: (Permit, LockGuard, LeasedPermit)) -> [Result<()>; 4] {
    [
        guards.0.release().await,
        guards.1.unlock().await,
        guards.2.release().await.map(|held| assert!(held)),
        twins.latch.count_down().await,
    ]
}

/// The caller cannot release it: it has no guard any more.
#[tokio::test(start_paused = true)]
async fn what_can_not_be_given_back_now_is_given_back_later() {
    let refused = Error::RefusedForNow {
        name: "it".to_owned(),
        detail: "on purpose".to_owned(),
    };
    let unfinished = Error::Unfinished {
        left: 1,
        waited: WAIT,
    };
    for error in [
        Error::unavailable("it", "on purpose"),
        refused,
        Error::outcome_unknown("it", "a call", "on purpose"),
        unfinished.clone(),
    ] {
        let twins = Twins::new();
        let guards = twins.guards().await;
        twins.fail_with(&error);
        for told in given_back(&twins, guards).await {
            let told = told.unwrap_err();
            assert!(matches!(told, Error::OutcomeUnknown { .. }), "{told}");
            let why = if error == unfinished {
                "shutdown"
            } else {
                "on purpose"
            };
            assert!(told.to_string().contains(why), "{told}");
        }
        twins.recover();
        assert_eq!(twins.taken().await, NOTHING, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_for_good_is_not_given_back() {
    let shut_down = Error::ShutDown {
        name: "it".to_owned(),
    };
    for error in [Error::server("it", "on purpose"), shut_down] {
        let twins = Twins::new();
        let guards = twins.guards().await;
        let dropped = (
            twins.semaphore.permit(1).await.unwrap(),
            twins.leased.permit().await.unwrap(),
        );
        twins.fail_with(&error);
        let owner = Arc::clone(guards.1.handle());
        for told in given_back(&twins, guards).await {
            assert_eq!(told, Err(error.clone()));
        }
        drop(dropped);
        twins.recover();
        assert_eq!(twins.taken().await, ALL, "{error}");
        // Its owner still has it.
        owner.unlock().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_lost_is_told() {
    let twins = Twins::new();
    let guard = twins.lock.guard().await.unwrap();
    let permit = twins.leased.permit().await.unwrap();
    let seats = twins.semaphore.permit(2).await.unwrap();
    twins.latch.try_set_count(3).await.unwrap();
    let both = async { tokio::join!(guard.lost(), permit.lost(), twins.latch.wait()) };
    let losing = async {
        tokio::task::yield_now().await;
        twins.each(
            Semaphore::lose,
            Lock::lose,
            LeasedSemaphore::lose,
            CountDownLatch::lose,
        );
    };
    let (((), (), passed), ()) = tokio::join!(both, losing);
    passed.unwrap();
    assert!(guard.is_lost() && permit.is_lost());
    assert!(matches!(guard.unlock().await, Err(Error::NotHeld { .. })));
    assert_eq!(permit.release().await, Ok(false));
    // Nobody's name stands on these: their guard gives nothing back, as in Redis.
    drop(seats);
    assert_eq!(twins.semaphore.exists().await, Ok(false));
}

#[tokio::test]
async fn every_handle_has_the_same_switch() {
    let lock = Lock::new("door");
    let other = lock.with_owner(7);
    lock.fail_with(Error::unavailable("door", "on purpose"));
    let any: Arc<dyn crate::Lock> = Arc::new(other.clone());
    any.try_lock().await.unwrap_err();
    other.recover();
    assert!(lock.try_lock().await.unwrap());
}

/// A guard that is dropped during a stall frees its permit behind it, and the waiter has it then.
#[tokio::test(start_paused = true)]
async fn a_permit_that_was_dropped_in_a_stall_serves_the_waiter() {
    let seats = Semaphore::with_permits("seats", 1);
    let guard = seats.permit(1).await.unwrap();
    let waits = tokio::spawn({
        let seats = seats.clone();
        async move { seats.acquire(1).await }
    });
    tokio::task::yield_now().await;
    seats.stall();
    drop(guard);
    seats.recover();
    let served = tokio::time::timeout(Duration::from_secs(60), waits).await;
    assert_eq!(served.expect("it is asleep").unwrap(), Ok(()));
}
