//! Waiting callers: which callers are woken, and in which order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

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
    // The holders never release all at once: each hold has another length.
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
