//! A waiter for a lock is served when its holder's lease has run out, whenever that has become known.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::Lock as _;
use crate::error::Result;
use crate::memory::Lock;

const SHORT: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(3600);

/// When a caller that waits already while `change` happens gets the lock.
async fn served_after(lock: &Lock, change: impl Future<Output = Result<()>>) -> Duration {
    let began = Instant::now();
    let other = lock.with_owner(9);
    let waiting = timeout(2 * LONG, other.lock());
    let (served, changed) = tokio::join!(waiting, change);
    changed.unwrap();
    served.expect("nobody told it").unwrap();
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn the_lease_of_one_who_waited_before() {
    let holder = Lock::new("door");
    let first = holder.with_owner(1).with_lease(SHORT);
    holder.lock().await.unwrap();
    let (taken, served) = tokio::join!(first.lock(), served_after(&holder, holder.unlock()));
    taken.unwrap();
    assert_eq!(served, SHORT);
}

#[tokio::test(start_paused = true)]
async fn a_shorter_lease_does_not_bring_the_end_nearer() {
    let holder = Lock::new("door");
    holder.with_lease(LONG).lock().await.unwrap();
    let again = holder.with_lease(SHORT);
    assert_eq!(served_after(&holder, again.lock()).await, LONG);
}

#[tokio::test(start_paused = true)]
async fn an_unlock_that_leaves_a_hold_does_not_bring_the_end_nearer() {
    let holder = Lock::new("door");
    holder.with_lease(SHORT).lock().await.unwrap();
    holder.with_lease(LONG).lock().await.unwrap();
    assert_eq!(served_after(&holder, holder.unlock()).await, LONG);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_left_unpolled_holds_up_nobody() {
    let holder = Lock::new("door");
    holder.with_lease(SHORT).lock().await.unwrap();
    let first = holder.with_owner(1).with_lease(SHORT);
    let mut unpolled = std::pin::pin!(first.lock());
    assert!(super::poll_once(unpolled.as_mut()).await.is_pending());
    let nothing = std::future::ready(Ok(()));
    assert_eq!(served_after(&holder, nothing).await, 2 * SHORT);
}

#[tokio::test(start_paused = true)]
async fn a_longer_lease_is_waited_for() {
    let holder = Lock::new("door");
    holder.with_lease(SHORT).lock().await.unwrap();
    let again = holder.with_lease(LONG);
    assert_eq!(served_after(&holder, again.lock()).await, LONG);
}
