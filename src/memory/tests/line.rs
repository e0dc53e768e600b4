//! The order of the line, and for how long it may be broken.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{advance, timeout};

use super::super::Semaphore;
use super::{Bell, MOMENT, poll_once, poll_with};
use crate::api::PASSING_LIMIT;

#[tokio::test(start_paused = true)]
async fn smaller_requests_pass_a_larger_one_until_the_limit() {
    let semaphore = Semaphore::with_permits("s", 3);
    let mut large = pin!(semaphore.acquire(4));
    assert_waits!(large);
    // Nobody has passed yet: waiting alone does not count.
    advance(2 * PASSING_LIMIT).await;
    semaphore.acquire(1).await.unwrap();
    advance(PASSING_LIMIT - MOMENT).await;
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
    semaphore.release(2).await.unwrap();
    assert_waits!(newcomer);
    // The fourth serves the large one, and with it the line goes on.
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
async fn the_limit_counts_for_each_from_its_own_first_time() {
    let semaphore = Semaphore::with_permits("s", 0);
    let mut large = Box::pin(semaphore.acquire(9));
    assert_waits!(large);
    semaphore.release(1).await.unwrap();
    semaphore.acquire(1).await.unwrap();
    advance(PASSING_LIMIT / 2).await;
    let mut later = Box::pin(semaphore.acquire(8));
    assert_waits!(later);
    semaphore.release(2).await.unwrap();
    semaphore.acquire(1).await.unwrap();
    advance(PASSING_LIMIT / 2).await;

    // The first stops the line; when it goes, the second has half of its time left.
    let mut small = Box::pin(semaphore.acquire(1));
    assert_waits!(small);
    drop(large);
    answer!(small);
    advance(PASSING_LIMIT / 2 - MOMENT).await;
    semaphore.release(1).await.unwrap();
    semaphore.acquire(1).await.unwrap();
    advance(MOMENT).await;
    semaphore.release(1).await.unwrap();
    let mut small = Box::pin(semaphore.acquire(1));
    assert_waits!(small);
}

#[tokio::test(start_paused = true)]
async fn a_large_one_that_gives_up_lets_the_stopped_line_go_on() {
    let semaphore = Semaphore::with_permits("s", 2);
    let mut large = Box::pin(semaphore.acquire(4));
    assert_waits!(large);
    semaphore.acquire(1).await.unwrap();
    advance(PASSING_LIMIT).await;
    let mut small = pin!(semaphore.acquire(1));
    let bell = Arc::new(Bell::default());
    assert!(poll_with(small.as_mut(), &bell).is_pending());
    drop(large);
    assert_eq!(bell.rung(), 1);
    answer!(small);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_line_goes_on_with_nothing_where_the_semaphore_has_vanished() {
    let semaphore = Semaphore::new("s");
    let ttl = PASSING_LIMIT + MOMENT;
    assert!(semaphore.try_set_permits_for(2, ttl).await.unwrap());
    let mut large = Box::pin(semaphore.acquire(4));
    assert_waits!(large);
    semaphore.acquire(1).await.unwrap();
    advance(PASSING_LIMIT).await;
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
async fn a_timed_wait_does_not_jump_a_stopped_line_at_its_deadline() {
    let semaphore = Semaphore::with_permits("s", 2);
    let mut large = Box::pin(semaphore.acquire(4));
    assert_waits!(large);
    semaphore.acquire(1).await.unwrap();
    advance(PASSING_LIMIT).await;
    assert!(!semaphore.try_acquire_for(1, PASSING_LIMIT).await.unwrap());
    assert!(
        semaphore.try_acquire_for(1, Duration::ZERO).await.unwrap(),
        "zero is try_acquire"
    );
}

#[tokio::test]
async fn a_long_line_is_served_and_left_in_any_order() {
    let semaphore = Semaphore::with_permits("s", 0);
    let mut calls: Vec<_> = (0..20_000)
        .map(|_| Box::pin(semaphore.acquire(2)))
        .collect();
    for call in &mut calls {
        assert_waits!(call);
    }
    // Every third is dropped, from the middle of the line.
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
    for call in &mut calls {
        answer!(call);
    }
    assert_eq!(semaphore.available_permits().await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn all_who_are_passed_together_have_the_same_limit() {
    let semaphore = Semaphore::with_permits("s", 0);
    let mut nine = Box::pin(semaphore.acquire(9));
    let mut eight = Box::pin(semaphore.acquire(8));
    let mut one = Box::pin(semaphore.acquire(1));
    assert_waits!(nine);
    assert_waits!(eight);
    assert_waits!(one);
    semaphore.release(2).await.unwrap();
    answer!(one);
    advance(PASSING_LIMIT).await;

    // Either of the two stops the line by itself.
    let mut small = pin!(semaphore.acquire(1));
    assert_waits!(small);
    drop(nine);
    assert_waits!(small);
    drop(eight);
    answer!(small);
}
