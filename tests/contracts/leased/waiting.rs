//! Waiting: what wakes it, in which order, and when it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tokio::task::yield_now;

use super::Fixture;
use super::support::{LIMIT, acquire, join, take, until_held};

pub(crate) async fn release_all_wakes_as_many_as_there_are_permits(fixture: &impl Fixture) {
    let semaphore = fixture.fresh(2);
    let _ = take(&semaphore).await;
    let _ = take(&semaphore).await;
    let one = acquire(&semaphore).await;
    let two = acquire(&semaphore).await;
    let mut three = acquire(&semaphore).await;
    fixture.second(&semaphore).release_all().await.unwrap();
    let _ = one.answer().await.unwrap();
    let two = two.answer().await.unwrap();
    three.assert_waits(&semaphore).await;
    semaphore.release(two.id()).await.unwrap();
    let _ = three.answer().await.unwrap();
}

pub(crate) async fn arrival_order_of_two_clients(fixture: &impl Fixture) {
    let semaphore = fixture.fresh(1);
    let other = fixture.second(&semaphore);
    let mut last = take(&semaphore).await;
    let mut waiters = Vec::new();
    for turn in [0, 1, 1, 0, 1, 0, 0, 1] {
        waiters.push(acquire([&semaphore, &other][turn]).await);
    }
    while !waiters.is_empty() {
        // By a client in turn that may have callers of its own further back.
        let releaser = [&semaphore, &other][waiters.len() % 2];
        releaser.release(last.id()).await.unwrap();
        last = waiters.remove(0).answer().await.unwrap();
        if let Some(next) = waiters.first_mut() {
            next.assert_waits(&semaphore).await;
        }
    }
}

pub(crate) async fn a_try_does_not_overtake_those_who_wait(fixture: &impl Fixture) {
    let semaphore = fixture.fresh(1);
    let other = fixture.second(&semaphore);
    // A client counts as waiting once it listens: it does after this.
    let one = take(&semaphore).await;
    let waiter = acquire(&semaphore).await;
    other.release(one.id()).await.unwrap();
    let two = waiter.answer().await.unwrap();
    semaphore.release(two.id()).await.unwrap();
    for _ in 0..10 {
        let one = take(&semaphore).await;
        let waiter = acquire(&semaphore).await;
        other.release(one.id()).await.unwrap();
        assert_eq!(other.try_acquire().await.unwrap(), None);
        let two = waiter.answer().await.unwrap();
        semaphore.release(two.id()).await.unwrap();
    }
}

pub(crate) async fn never_more_holders_than_permits(fixture: &impl Fixture) {
    let first = fixture.fresh(3);
    let second = fixture.second(&first);
    let now = Arc::new(AtomicI64::new(0));
    let mut tasks = Vec::new();
    for number in 0..16 {
        let semaphore = [&first, &second][number % 2].clone();
        let now = now.clone();
        tasks.push(tokio::spawn(async move {
            for turn in 0..15 {
                let permit = match turn % 3 {
                    0 => semaphore.try_permit().await.unwrap(),
                    1 => semaphore.permit_for(LIMIT).await.unwrap(),
                    _ => Some(semaphore.permit().await.unwrap()),
                };
                let Some(permit) = permit else { continue };
                let held = now.fetch_add(1, Ordering::SeqCst) + 1;
                assert!(held <= 3, "{held} hold at the same time");
                yield_now().await;
                now.fetch_sub(1, Ordering::SeqCst);
                if turn % 2 == 0 {
                    assert!(permit.release().await.unwrap());
                }
            }
        }));
    }
    join(tasks).await;
    until_held(&first, 0).await;
}
