//! Who waits, who is woken, and in which order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::time::timeout;

use super::Fixture;
use super::support::*;

pub(crate) async fn one_release_wakes_all_it_is_enough_for(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("wakes-several");
    let mut waiting = Vec::new();
    for _ in 0..4 {
        waiting.push(acquire(&semaphore, 1).await);
    }
    let mut last = acquire(&semaphore, 1).await;
    semaphore.release(4).await.unwrap();
    for call in waiting {
        call.answer().await.unwrap();
    }
    last.assert_waits(&semaphore).await;
    semaphore.release(3).await.unwrap();
    last.answer().await.unwrap();
    assert_available(&semaphore, 2).await;
}

pub(crate) async fn set_permits_wakes_waiters(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("set-wakes");
    let two = acquire(&semaphore, 2).await;
    let three = acquire(&semaphore, 3).await;
    assert!(semaphore.try_set_permits(6).await.unwrap());
    two.answer().await.unwrap();
    three.answer().await.unwrap();
    assert_available(&semaphore, 1).await;
}

pub(crate) async fn set_permits_for_a_time_wakes_waiters(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("set-for-wakes");
    let two = acquire(&semaphore, 2).await;
    assert!(
        semaphore
            .try_set_permits_for(3, Duration::from_secs(600))
            .await
            .unwrap()
    );
    two.answer().await.unwrap();
    assert_available(&semaphore, 1).await;
}

pub(crate) async fn release_if_exists_wakes_waiters(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("release-if-wakes");
    let mut two = acquire(&semaphore, 2).await;
    assert!(!semaphore.release_if_exists(2).await.unwrap());
    two.assert_waits(&semaphore).await;
    set(&semaphore, 0).await;
    assert!(semaphore.release_if_exists(2).await.unwrap());
    two.answer().await.unwrap();
}

pub(crate) async fn add_permits_wakes_waiters(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("add-wakes");
    let two = acquire(&semaphore, 2).await;
    let one = acquire(&semaphore, 1).await;
    semaphore.add_permits(3).await.unwrap();
    two.answer().await.unwrap();
    one.answer().await.unwrap();
    assert_available(&semaphore, 0).await;
}

pub(crate) async fn waiters_of_a_negative_counter(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("negative-wakes");
    semaphore.add_permits(-3).await.unwrap();
    let mut one = acquire(&semaphore, 1).await;
    semaphore.release(3).await.unwrap();
    one.assert_waits(&semaphore).await;
    semaphore.release(1).await.unwrap();
    one.answer().await.unwrap();
    assert_available(&semaphore, 0).await;
}

pub(crate) async fn drain_wakes_nobody(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("drain-wakes");
    semaphore.add_permits(-3).await.unwrap();
    let mut one = acquire(&semaphore, 1).await;
    assert_eq!(semaphore.drain_permits().await.unwrap(), -3);
    one.assert_waits(&semaphore).await;
    semaphore.release(1).await.unwrap();
    one.answer().await.unwrap();
}

pub(crate) async fn another_client_wakes_waiters(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("other-wakes");
    let other = fixture.second(&semaphore);
    let two = acquire(&semaphore, 2).await;
    other.release(2).await.unwrap();
    two.answer().await.unwrap();
    let one = acquire(&other, 1).await;
    semaphore.release(1).await.unwrap();
    one.answer().await.unwrap();
    assert_available(&semaphore, 0).await;
    assert_available(&other, 0).await;
}

pub(crate) async fn arrival_order(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("order");
    let (served, mut order) = mpsc::unbounded_channel();
    let mut calls = Vec::new();
    for number in 0..12 {
        let (semaphore, served) = (semaphore.clone(), served.clone());
        let call = async move {
            semaphore.acquire(1).await.unwrap();
            served.send(number).unwrap();
        };
        calls.push(Call::start(call).await);
    }
    for number in 0..12 {
        semaphore.release(1).await.unwrap();
        let next = timeout(LIMIT, order.recv())
            .await
            .expect("nobody is served");
        assert_eq!(next, Some(number));
    }
    for call in calls {
        call.answer().await;
    }
}

pub(crate) async fn arrival_order_of_timed_and_untimed(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("order-timed");
    let first = acquire_for(&semaphore, 2, LIMIT).await;
    let second = acquire(&semaphore, 2).await;
    let third = acquire_for(&semaphore, 2, 2 * LIMIT).await;
    let mut fourth = acquire(&semaphore, 2).await;
    semaphore.release(2).await.unwrap();
    assert!(first.answer().await.unwrap());
    semaphore.release(2).await.unwrap();
    second.answer().await.unwrap();
    semaphore.release(2).await.unwrap();
    assert!(third.answer().await.unwrap());
    fourth.assert_waits(&semaphore).await;
    semaphore.release(2).await.unwrap();
    fourth.answer().await.unwrap();
}

pub(crate) async fn smaller_requests_pass_a_larger_one(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("pass");
    let mut large = acquire(&semaphore, 5).await;
    let small = acquire(&semaphore, 2).await;
    semaphore.release(3).await.unwrap();
    small.answer().await.unwrap();
    acquire(&semaphore, 1).await.answer().await.unwrap();
    large.assert_waits(&semaphore).await;
    semaphore.release(5).await.unwrap();
    large.answer().await.unwrap();
    assert_available(&semaphore, 0).await;
}

pub(crate) async fn a_larger_one_is_not_starved(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("starve");
    // Its holders never go all at once.
    let holds = [61, 67, 71, 73, 79, 83, 89].map(Duration::from_millis);
    set(&semaphore, 7).await;
    let served = Arc::new(AtomicBool::new(false));
    let small = holds.map(|hold| {
        let (semaphore, served) = (semaphore.clone(), Arc::clone(&served));
        tokio::spawn(async move {
            while !served.load(Ordering::SeqCst) {
                semaphore.acquire(1).await.unwrap();
                tokio::time::sleep(hold).await;
                semaphore.release(1).await.unwrap();
            }
        })
    });
    while semaphore.available_permits().await.unwrap() > 0 {
        yields(1).await;
    }
    let large = acquire(&fixture.second(&semaphore), 7).await.answer().await;
    served.store(true, Ordering::SeqCst);
    large.unwrap();
    semaphore.release(7).await.unwrap();
    join(small.into()).await;
    assert_available(&semaphore, 7).await;
}

pub(crate) async fn mixed_sizes_are_all_served(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("mixed");
    set(&semaphore, 7).await;
    let gauge = Arc::new(Gauge::default());
    let tasks = (0..24).map(|number| {
        let (semaphore, gauge) = (semaphore.clone(), Arc::clone(&gauge));
        tokio::spawn(async move {
            let mut random = Random::new(number);
            for _ in 0..40 {
                let permits = 1 + random.below(7);
                semaphore.acquire(permits).await.unwrap();
                gauge.enter(permits, 7);
                yields(1).await;
                gauge.exit(permits);
                semaphore.release(permits).await.unwrap();
            }
        })
    });
    join(tasks.collect()).await;
    assert_available(&semaphore, 7).await;
}

pub(crate) async fn try_acquire_does_not_queue(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("try-not-queued");
    set(&semaphore, 2).await;
    let mut large = acquire(&semaphore, 3).await;
    assert!(!semaphore.try_acquire(3).await.unwrap());
    assert!(semaphore.try_acquire(2).await.unwrap());
    assert!(!semaphore.try_acquire(1).await.unwrap());
    semaphore.release(2).await.unwrap();
    large.assert_waits(&semaphore).await;
    semaphore.release(1).await.unwrap();
    large.answer().await.unwrap();
}

pub(crate) async fn a_wait_of_zero_is_one_attempt(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("zero-wait");
    assert!(!semaphore.try_acquire_for(1, Duration::ZERO).await.unwrap());
    set(&semaphore, 2).await;
    assert!(!semaphore.try_acquire_for(3, Duration::ZERO).await.unwrap());
    assert!(semaphore.try_acquire_for(2, Duration::ZERO).await.unwrap());
    assert_available(&semaphore, 0).await;
}

pub(crate) async fn a_wait_that_runs_out(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("runs-out");
    set(&semaphore, 1).await;
    let wait = Duration::from_millis(100);
    let start = Instant::now();
    assert!(
        !acquire_for(&semaphore, 2, wait)
            .await
            .answer()
            .await
            .unwrap()
    );
    assert_passed(start, wait);
    assert_available(&semaphore, 1).await;
}

pub(crate) async fn a_wait_that_runs_out_takes_nothing_later(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("nothing-later");
    set(&semaphore, 0).await;
    let short = acquire_for(&semaphore, 1, Duration::from_millis(50)).await;
    let long = acquire(&semaphore, 1).await;
    assert!(!short.answer().await.unwrap());
    semaphore.release(1).await.unwrap();
    long.answer().await.unwrap();
    semaphore.release(1).await.unwrap();
    assert_available(&semaphore, 1).await;
}

pub(crate) async fn a_wait_without_end(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("without-end");
    let mut waiting = acquire_for(&semaphore, 1, Duration::MAX).await;
    waiting.assert_waits(&semaphore).await;
    semaphore.release(1).await.unwrap();
    assert!(waiting.answer().await.unwrap());
}

/// A release that meets the deadline: the caller has the permit, or it is there.
pub(crate) async fn permits_at_the_deadline(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("deadline");
    set(&semaphore, 0).await;
    let wait = Duration::from_millis(10);
    for round in 0..60 {
        let call = acquire_for(&semaphore, 1, wait).await;
        // From well before the deadline to well after it.
        tokio::time::sleep(wait * round / 30).await;
        semaphore.release(1).await.unwrap();
        if !call.answer().await.unwrap() {
            assert!(
                semaphore.try_acquire_for(1, LIMIT).await.unwrap(),
                "lost in round {round}"
            );
        }
        assert_available(&semaphore, 0).await;
    }
}

pub(crate) async fn nobody_passes_one_that_fits(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("fits");
    set(&semaphore, 0).await;
    let large = acquire(&semaphore, 3).await;
    let mut small = acquire(&semaphore, 2).await;
    assert_available(&semaphore, 0).await;
    // Together these are enough for the first; the second one alone would be enough for the other.
    semaphore.release(1).await.unwrap();
    semaphore.release(2).await.unwrap();
    large.answer().await.unwrap();
    small.assert_waits(&semaphore).await;
    semaphore.release(2).await.unwrap();
    small.answer().await.unwrap();
    assert_available(&semaphore, 0).await;
}
