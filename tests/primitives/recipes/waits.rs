//! The classic recipes: what a waiter costs, and what ends its wait.

use std::time::Duration;

use super::{NEVER, acquire, connect, lock_as_peer, served, start, unlock_as_peer, waiter};
use crate::layouts::{self, Layout, Shape};
use crate::support::clients::{LIMIT, scripts};
use crate::support::waiters::{until, until_listening};
use redis::AsyncCommands;
use tokio::time::{Instant, sleep};

/// The release is not announced: the check finds it, at its pace and not faster.
#[tokio::test]
async fn a_silent_release_is_found_by_the_check() {
    let (_server, mut redis, client) = start().await;
    let check = Duration::from_millis(100);
    let semaphore = Layout::Timestamp.make(&client, "silent", Shape::new(1).check(check));
    let held = semaphore.acquire().await.unwrap();
    let waiters: Vec<_> = (0..50).map(|_| acquire(&semaphore)).collect();
    until_listening(&mut redis, "silent", 1).await;
    semaphore.holders().await.unwrap();
    let (before, began) = (scripts(&mut redis).await, Instant::now());
    sleep(check * 10).await;
    let looks = scripts(&mut redis).await - before;
    // Between 75 and 100 ms each.
    let most = began.elapsed().as_millis() / 75 + 2;
    assert!(
        (1..=most).contains(&u128::from(looks)),
        "{looks} looks, at most {most}"
    );
    let _: () = redis.zrem("silent", held.id()).await.unwrap();
    until("one of them is served", LIMIT, async || {
        waiters.iter().filter(|waiter| waiter.is_finished()).count() == 1
    })
    .await;
}

/// Waiting for a peer's lock is no spinning.
#[tokio::test]
async fn a_lock_that_is_held_for_long_is_looked_at_with_growing_pauses() {
    let (_server, mut redis, client) = start().await;
    let check = Duration::from_millis(200);
    let semaphore = Layout::FairUnderLock.make(&client, "held", Shape::new(1).check(check));
    lock_as_peer(&mut redis, "held", "peer").await;
    let waits = acquire(&semaphore);
    let began = Instant::now();
    let before = scripts(&mut redis).await;
    sleep(check * 8).await;
    let looks = scripts(&mut redis).await - before;
    // 1, 2, 4, 8 ... 128 ms, or half of that each; then half of the check's pace at least.
    let most = 10 + began.elapsed().as_millis() / 100;
    assert!(
        (4..=most).contains(&u128::from(looks)),
        "{looks} looks, at most {most}"
    );
    unlock_as_peer(&mut redis, "held").await;
    let _ = served(waits).await;

    // When the lock's own time is over, it is free as well.
    semaphore.release_all().await.unwrap();
    let _: () = redis.pset_ex("lock:held", "peer", 50).await.unwrap();
    let rare = Layout::FairUnderLock.make(&client, "held", Shape::new(1).check(NEVER));
    let _ = served(acquire(&rare)).await;
}

/// Its grant is over when it is held: nothing is taken back when the time of the grant has passed.
#[tokio::test]
async fn a_permit_that_was_waited_for_stays() {
    /// Longer than a grant that is not confirmed.
    const GRANT: Duration = Duration::from_millis(3500);
    let (server, _, client) = start().await;
    let other = connect(&server).await;
    let each = layouts::ALL.map(async |layout| {
        let make = |client| layout.make(client, &format!("{layout:?}"), Shape::new(1));
        let (one, semaphore) = (make(&client), make(&other));
        let first = one.acquire().await.unwrap();
        let waits = waiter(&semaphore).await;
        assert!(one.release(first.id()).await.unwrap());
        let held = served(waits).await;
        sleep(GRANT).await;
        assert_eq!(semaphore.try_acquire().await.unwrap(), None, "{layout:?}");
        assert!(semaphore.release(held.id()).await.unwrap(), "{layout:?}");
    });
    futures::future::join_all(each).await;
}
