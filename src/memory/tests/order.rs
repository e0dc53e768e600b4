//! The order of the waiters, and when a large request holds smaller ones up.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, advance, timeout};

use super::super::Semaphore;
use super::{Bell, MOMENT, poll_once, poll_with};
use crate::Semaphore as _;

/// A large request blocks for the first time when it has waited for so long, and for half as long as that.
const FIRST: Duration = Duration::from_millis(250);

#[tokio::test(start_paused = true)]
async fn smaller_requests_pass_a_larger_one_but_in_its_windows() {
    let semaphore = Semaphore::with_permits("s", 3);
    let mut large = pin!(semaphore.acquire(4));
    assert_waits!(large);
    advance(FIRST - MOMENT).await;
    semaphore.acquire(1).await.unwrap();
    advance(MOMENT).await;

    let mut newcomer = pin!(semaphore.acquire(1));
    assert_waits!(newcomer);
    semaphore.release(1).await.unwrap();
    assert_waits!(newcomer);
    assert_waits!(large);
    assert!(
        semaphore.try_acquire(1).await.unwrap(),
        "try_acquire takes what is free"
    );
    semaphore.release(1).await.unwrap();
    assert_waits!(newcomer);
    // The fourth serves the large one, and with it the others go on.
    semaphore.release(1).await.unwrap();
    answer!(large);
    assert_waits!(newcomer);
    semaphore.release(1).await.unwrap();
    answer!(newcomer);
    assert_eq!(semaphore.available_permits().await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn those_who_waited_longer_are_served_before_those_who_pass() {
    let semaphore = Semaphore::with_permits("s", 0);
    let mut large = pin!(semaphore.acquire(4));
    let mut two = pin!(semaphore.acquire(2));
    let mut three = pin!(semaphore.acquire(3));
    let mut one = pin!(semaphore.acquire(1));
    assert_waits!(large);
    assert_waits!(two);
    assert_waits!(three);
    assert_waits!(one);
    semaphore.release(3).await.unwrap();
    answer!(two);
    answer!(one);
    assert_waits!(three);
    assert_waits!(large);
}

#[tokio::test(start_paused = true)]
async fn a_window_ends_by_itself() {
    let semaphore = Semaphore::with_permits("s", 2);
    let mut large = pin!(semaphore.acquire(4));
    assert_waits!(large);
    advance(FIRST).await;
    let began = Instant::now();
    semaphore.acquire(1).await.unwrap();
    assert_eq!(began.elapsed(), FIRST / 2);
    assert_waits!(large);
}

/// Windows of many requests would add up.
#[tokio::test(start_paused = true)]
async fn behind_a_window_in_vain_nobody_blocks_for_twice_as_long() {
    let semaphore = Semaphore::with_permits("s", 2);
    let mut large = pin!(semaphore.acquire(4));
    assert_waits!(large);
    advance(FIRST / 2).await;
    let mut other = pin!(semaphore.acquire(4));
    assert_waits!(other);
    advance(FIRST / 2).await;
    semaphore.acquire(1).await.unwrap();
    // The other one's window has begun.
    let began = Instant::now();
    semaphore.acquire(1).await.unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_large_one_that_gives_up_lets_the_others_go_on() {
    let semaphore = Semaphore::with_permits("s", 2);
    let mut large = Box::pin(semaphore.acquire(4));
    assert_waits!(large);
    advance(FIRST).await;
    let mut small = pin!(semaphore.acquire(1));
    let bell = Arc::new(Bell::default());
    assert!(poll_with(small.as_mut(), &bell).is_pending());
    drop(large);
    assert_eq!(bell.rung(), 1);
    answer!(small);
}

#[tokio::test(start_paused = true)]
async fn they_go_on_with_nothing_where_the_semaphore_has_vanished() {
    let semaphore = Semaphore::new("s");
    let ttl = FIRST + MOMENT;
    assert!(semaphore.try_set_permits_for(2, ttl).await.unwrap());
    let mut large = Box::pin(semaphore.acquire(4));
    assert_waits!(large);
    advance(FIRST).await;
    let mut small = pin!(semaphore.acquire(1));
    assert_waits!(small);
    advance(MOMENT).await;
    drop(large);
    assert_waits!(small);
    // It is there anew, without a time to live.
    semaphore.release(1).await.unwrap();
    answer!(small);
}

#[tokio::test(start_paused = true)]
async fn a_timed_wait_does_not_pass_a_window_at_its_deadline() {
    let semaphore = Semaphore::with_permits("s", 2);
    let mut large = Box::pin(semaphore.acquire(4));
    assert_waits!(large);
    advance(FIRST).await;
    assert!(!semaphore.try_acquire_for(1, FIRST / 4).await.unwrap());
    assert!(
        semaphore.try_acquire_for(1, Duration::ZERO).await.unwrap(),
        "zero is try_acquire"
    );
}

#[tokio::test]
async fn a_long_queue_is_served_and_left_in_any_order() {
    let semaphore = Semaphore::with_permits("s", 0);
    let mut calls: Vec<_> = (0..20_000)
        .map(|_| Box::pin(semaphore.acquire(2)))
        .collect();
    for call in &mut calls {
        assert_waits!(call);
    }
    // Every third is dropped, from the middle.
    let mut index = 0;
    calls.retain(|_| {
        index += 1;
        index % 3 != 0
    });
    // 13,334 are left; each release of one permit serves every second time.
    let releases = async {
        for _ in 0..2 * calls.len() {
            semaphore.release(1).await.unwrap();
        }
    };
    timeout(Duration::from_secs(20), releases).await.unwrap();
    let all = futures::future::try_join_all(calls);
    timeout(Duration::from_secs(20), all)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(semaphore.available_permits().await.unwrap(), 0);
}
