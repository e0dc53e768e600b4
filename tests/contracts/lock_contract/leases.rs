//! How long a lock is held.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use redisson_semaphore::{Error, RemainingTtl};

use super::Fixture;
use super::support::{
    Handle, LIMIT, SHORT, assert_free, assert_held, assert_not_held, left, lock, within_limit,
};

const LONG: Duration = Duration::from_secs(3600);
/// A lease that does not end at once on a busy machine.
const BRIEF: Duration = Duration::from_secs(2);

/// Waits until the lock is free, without queueing for it.
async fn until_free(lock: &Handle) {
    let waiting = async {
        while lock.is_locked().await.unwrap() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, waiting)
        .await
        .expect("the lock does not become free");
}

pub(crate) async fn a_lease_ends(fixture: &impl Fixture) {
    let lock = fixture.fresh("ends");
    let start = Instant::now();
    lock.with_lease(SHORT).lock().await.unwrap();
    until_free(&lock).await;
    assert!(start.elapsed() + Duration::from_millis(2) >= SHORT);
    assert_free(&fixture.stranger(&lock)).await;
}

pub(crate) async fn a_lease_that_is_over_cannot_be_unlocked(fixture: &impl Fixture) {
    let lock = fixture.fresh("over");
    assert!(lock.with_lease(SHORT).try_lock().await.unwrap());
    until_free(&lock).await;
    assert_not_held(lock.unlock().await, &lock);
    let other = fixture.stranger(&lock);
    other.lock().await.unwrap();
    assert_not_held(lock.unlock().await, &lock);
    other.unlock().await.unwrap();
}

pub(crate) async fn a_lease_shows_what_is_left(fixture: &impl Fixture) {
    let lock = fixture.fresh("left");
    assert_eq!(lock.remaining_ttl().await.unwrap(), RemainingTtl::Missing);
    lock.with_lease(LONG).lock().await.unwrap();
    let (there, here) = (left(&lock).await, lock.lease().remaining().unwrap());
    assert!(there <= LONG && there > LONG - LIMIT, "{there:?}");
    assert!(here <= LONG && here > LONG - LIMIT, "{here:?}");
    lock.unlock().await.unwrap();
    assert_eq!(lock.remaining_ttl().await.unwrap(), RemainingTtl::Missing);
}

pub(crate) async fn without_a_lease_it_stays(fixture: &impl Fixture) {
    let lock = fixture.fresh("stays");
    lock.lock().await.unwrap();
    assert_ne!(lock.remaining_ttl().await.unwrap(), RemainingTtl::Missing);
    let lease = lock.lease();
    assert!(!lease.is_lost());
    assert!(lease.lost().now_or_never().is_none());
    lock.unlock().await.unwrap();
}

pub(crate) async fn a_longer_lease_puts_the_end_off_and_a_shorter_one_does_not(
    fixture: &impl Fixture,
) {
    let lock = fixture.fresh("longer");
    lock.with_lease(LONG).lock().await.unwrap();
    for shorter in [LONG / 2, SHORT] {
        lock.with_lease(shorter).lock().await.unwrap();
        assert!(left(&lock).await > LONG - LIMIT);
        assert!(lock.lease().remaining().unwrap() > LONG - LIMIT);
    }
    lock.with_lease(2 * LONG).lock().await.unwrap();
    assert!(left(&lock).await > 2 * LONG - LIMIT);
    assert_held(&lock, 4).await;
    lock.force_unlock().await.unwrap();
}

/// The holds may be released in any order, also while other calls are under way.
pub(crate) async fn giving_back_one_of_several_does_not_bring_the_end_nearer(
    fixture: &impl Fixture,
) {
    let lock = fixture.fresh("several");
    let first = lock.with_lease(LONG).guard().await.unwrap();
    let handle = Arc::clone(first.handle());
    handle.with_lease(10 * LONG).lock().await.unwrap();
    handle.with_lease(SHORT).lock().await.unwrap();
    let (locked, last, guard) = tokio::join!(lock.is_locked(), handle.unlock(), first.unlock());
    assert!(locked.unwrap());
    last.unwrap();
    guard.unwrap();
    assert!(left(&lock).await > 9 * LONG);
    assert!(handle.lease().remaining().unwrap() > 9 * LONG);
    assert_held(&handle, 1).await;
    handle.unlock().await.unwrap();
    assert_free(&lock).await;
}

pub(crate) async fn the_lease_tells_that_it_is_lost(fixture: &impl Fixture) {
    let lock = fixture.fresh("lost");
    lock.with_lease(BRIEF).lock().await.unwrap();
    let lease = lock.lease();
    assert!(!lease.is_lost());
    tokio::time::timeout(LIMIT, lease.lost())
        .await
        .expect("the loss is told");
    assert!(lease.is_lost());
    until_free(&lock).await;
    lock.lock().await.unwrap();
    assert!(lease.is_lost() && !lock.lease().is_lost());
    lock.unlock().await.unwrap();
}

pub(crate) async fn the_lease_of_an_unlocked_lock_is_not_lost(fixture: &impl Fixture) {
    let lock = fixture.fresh("unlocked");
    lock.with_lease(BRIEF).lock().await.unwrap();
    let lease = lock.lease();
    lock.unlock().await.unwrap();
    tokio::time::sleep(BRIEF).await;
    assert!(!lease.is_lost());
    assert_eq!(lease.remaining(), Some(Duration::ZERO));
}

pub(crate) async fn the_lease_of_a_forced_lock_is_lost_when_its_owner_learns_of_it(
    fixture: &impl Fixture,
) {
    let lock = fixture.fresh("learns");
    lock.lock().await.unwrap();
    let lease = lock.lease();
    fixture.stranger(&lock).force_unlock().await.unwrap();
    assert_not_held(lock.unlock().await, &lock);
    assert!(lease.is_lost() && lock.lease().is_lost());
}

pub(crate) async fn no_lease_without_a_hold(fixture: &impl Fixture) {
    let lock = fixture.fresh("nothing");
    assert!(!lock.lease().is_lost());
    assert_eq!(lock.lease().remaining(), Some(Duration::ZERO));
    let other = fixture.neighbour(&lock);
    other.lock().await.unwrap();
    assert_eq!(lock.lease().remaining(), Some(Duration::ZERO));
    other.unlock().await.unwrap();
}

async fn refused(lock: &Handle, lease: Duration) {
    let name = lock.name();
    for result in [
        lock.with_lease(lease).lock().await.map(|()| true),
        lock.with_lease(lease).try_lock().await,
        lock.with_lease(lease).try_lock_for(LIMIT).await,
        lock.with_lease(lease).guard().await.map(|_| true),
    ] {
        let error = result.expect_err("refused");
        assert!(
            matches!(&error, Error::InvalidDuration { name: of, value, .. } if of == name && *value == lease),
            "{error}"
        );
    }
    assert!(!lock.is_locked().await.unwrap());
}

pub(crate) async fn less_than_a_millisecond_is_refused(fixture: &impl Fixture) {
    let handle = fixture.fresh("short");
    refused(&handle, Duration::ZERO).await;
    refused(&handle, Duration::from_micros(999)).await;
    handle
        .with_lease(Duration::from_millis(1))
        .lock()
        .await
        .unwrap();
    lock(&fixture.stranger(&handle))
        .await
        .answer()
        .await
        .unwrap();
}

pub(crate) async fn more_than_can_be_counted_is_refused(fixture: &impl Fixture) {
    let lock = fixture.fresh("long");
    refused(&lock, Duration::MAX).await;
    refused(&lock, Duration::from_millis((1 << 53) + 1)).await;
    lock.with_lease(Duration::from_millis(1 << 53))
        .lock()
        .await
        .unwrap();
    assert!(left(&lock).await > LONG);
    lock.unlock().await.unwrap();
}

pub(crate) async fn without_a_lease_it_lasts_for_half_a_minute_at_a_time(fixture: &impl Fixture) {
    let lock = fixture.fresh("half-a-minute");
    let other = fixture.stranger(&lock);
    let most = Duration::from_secs(30);
    let is_renewed = |left: Duration| left <= most && left > most - LIMIT;
    lock.lock().await.unwrap();
    let (there, here) = (left(&other).await, lock.lease().remaining());
    assert!(is_renewed(there), "{there:?}");
    assert!(here.is_some_and(is_renewed), "{here:?}");
    // A shorter lease does not bring the end nearer, and ends with its own hold.
    lock.with_lease(SHORT).lock().await.unwrap();
    assert!(is_renewed(left(&other).await));
    assert!(lock.lease().remaining().is_some_and(is_renewed));
    lock.unlock().await.unwrap();
    assert!(is_renewed(left(&other).await));
    lock.unlock().await.unwrap();
    let hold = lock.hold(None).await.unwrap().expect("waited for");
    assert!(hold.lease().remaining().is_some_and(is_renewed));
    lock.unlock().await.unwrap();
    assert_eq!(hold.lease().remaining(), Some(Duration::ZERO));
}

pub(crate) async fn a_handle_tells_that_what_it_took_last_is_lost(fixture: &impl Fixture) {
    let lock = fixture.fresh("told-last");
    let other = fixture.neighbour(&lock);
    assert!(!lock.lease().is_lost());
    lock.with_lease(BRIEF).lock().await.unwrap();
    assert!(!lock.lease().is_lost());
    within_limit(async { lock.lease().lost().await }).await;
    // The loss stays visible after the handle has reported it, and after another owner has taken the lock.
    within_limit(async { other.lock().await.unwrap() }).await;
    let clone = Arc::clone(&lock);
    for handle in [&lock, &clone] {
        assert!(handle.lease().is_lost());
        within_limit(async { handle.lease().lost().await }).await;
        assert_eq!(handle.lease().remaining(), Some(Duration::ZERO));
    }
    other.unlock().await.unwrap();
    assert!(!other.lease().is_lost());
    lock.lock().await.unwrap();
    assert!(!lock.lease().is_lost());
    lock.unlock().await.unwrap();
    assert!(!lock.lease().is_lost());
}

pub(crate) async fn who_is_not_polled_behind_its_time_gets_nothing(fixture: &impl Fixture) {
    let lock = fixture.fresh("unpolled");
    let (holder, other) = (fixture.stranger(&lock), fixture.neighbour(&lock));
    holder.lock().await.unwrap();
    let mut late = Box::pin(lock.try_lock_for(SHORT));
    assert!(late.as_mut().now_or_never().is_none());
    tokio::time::sleep(2 * SHORT).await;
    holder.unlock().await.unwrap();
    within_limit(async { other.lock().await.unwrap() }).await;
    assert_eq!(late.await, Ok(false));
    other.unlock().await.unwrap();
}
