//! A waiter for a permit with an id is served when one has expired.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::poll_once;
use crate::memory::{LeasedSemaphore, Lock};
use crate::{LeasedSemaphore as _, Lock as _};

const LEASE: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(3600);

#[tokio::test(start_paused = true)]
async fn one_that_is_left_unpolled_holds_up_nobody() {
    let places = LeasedSemaphore::new("places", 1, Some(LEASE));
    let began = Instant::now();
    let _ = places.acquire().await.unwrap();
    let mut unpolled = pin!(places.acquire());
    assert!(poll_once(unpolled.as_mut()).await.is_pending());
    let served = timeout(LONG, places.acquire()).await;
    let _ = served.expect("nobody looked").unwrap();
    // Its own permit has expired, too.
    assert_eq!(began.elapsed(), 2 * LEASE);
}

#[tokio::test(start_paused = true)]
async fn who_waits_behind_is_told_that_a_permit_is_not_kept_any_more() {
    let places = LeasedSemaphore::new("places", 1, Some(LEASE));
    let place = places.permit().await.unwrap();
    let began = Instant::now();
    let mut unpolled = pin!(places.acquire());
    assert!(poll_once(unpolled.as_mut()).await.is_pending());
    let forget = async { place.forget() };
    let (served, _) = tokio::join!(timeout(LONG, places.acquire()), forget);
    let _ = served.expect("nobody looked").unwrap();
    assert_eq!(began.elapsed(), 2 * LEASE);
}

/// The hold without an end goes first, behind the time of the other one.
#[tokio::test(start_paused = true)]
async fn the_release_of_an_endless_hold_leaves_the_other_one() {
    let lock = Lock::new("door");
    let endless = lock.hold(None).await.unwrap().unwrap();
    let short = lock.with_lease(Duration::from_millis(100));
    let short = short.hold(None).await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    lock.unlock_hold(&endless).await.unwrap();
    assert_eq!(lock.hold_count().await, Ok(1));
    assert!(!short.lease().is_lost());
}
