//! What Redisson's own tests of its semaphore ask for, told anew.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redisson_semaphore::MAX_PERMITS;

use super::Fixture;
use super::support::*;

pub(crate) async fn acquire_after_add_permits(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("acquire-after-add");
    semaphore.add_permits(1).await.unwrap();
    let mut two = acquire(&semaphore, 2).await;
    two.assert_waits(&semaphore).await;
    acquire(&semaphore, 1).await.answer().await.unwrap();
    two.assert_waits(&semaphore).await;
    semaphore.release(1).await.unwrap();
    two.assert_waits(&semaphore).await;
    semaphore.add_permits(1).await.unwrap();
    two.answer().await.unwrap();
    assert_available(&semaphore, 0).await;
}

pub(crate) async fn zero_on_a_missing_semaphore(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("zero");
    let ten_minutes = Duration::from_secs(600);
    assert!(
        acquire_for(&semaphore, 0, ten_minutes)
            .await
            .answer()
            .await
            .unwrap()
    );
    semaphore.release(0).await.unwrap();
    assert_available(&semaphore, 0).await;
    assert_missing_then_set(&semaphore, 1).await;
}

pub(crate) async fn acquire_without_set_permits(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("acquire-without-set");
    semaphore.release(1).await.unwrap();
    semaphore.release(1).await.unwrap();
    acquire(&semaphore, 2).await.answer().await.unwrap();
    assert_available(&semaphore, 0).await;
}

pub(crate) async fn try_set_permits_only_once(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("try-set");
    assert!(semaphore.try_set_permits(10).await.unwrap());
    assert_available(&semaphore, 10).await;
    assert!(
        !fixture
            .second(&semaphore)
            .try_set_permits(15)
            .await
            .unwrap()
    );
    assert!(!semaphore.try_set_permits(15).await.unwrap());
    assert_available(&semaphore, 10).await;
}

pub(crate) async fn try_set_permits_with_a_time_to_live(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("try-set-ttl");
    let ttl = Duration::from_millis(700);
    let start = Instant::now();
    assert!(semaphore.try_set_permits_for(1, ttl).await.unwrap());
    let available = semaphore.available_permits().await.unwrap();
    if start.elapsed() < ttl / 2 {
        assert_eq!(available, 1);
    }
    until_missing(&semaphore).await;
    assert_passed(start, ttl);
    assert_available(&semaphore, 0).await;
}

pub(crate) async fn add_permits(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("add");
    set(&semaphore, 10).await;
    semaphore.acquire(10).await.unwrap();
    assert_available(&semaphore, 0).await;
    semaphore.add_permits(4).await.unwrap();
    assert_available(&semaphore, 4).await;
    semaphore.release(10).await.unwrap();
    assert_available(&semaphore, 14).await;
    semaphore.acquire(5).await.unwrap();
    assert_available(&semaphore, 9).await;
}

pub(crate) async fn reduce_permits(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("reduce");
    set(&semaphore, 10).await;
    semaphore.acquire(10).await.unwrap();
    semaphore.add_permits(-5).await.unwrap();
    assert_available(&semaphore, -5).await;
    semaphore.release(10).await.unwrap();
    assert_available(&semaphore, 5).await;
    semaphore.acquire(5).await.unwrap();
    assert_available(&semaphore, 0).await;
}

pub(crate) async fn blocking_acquire_of_several(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("blocking-n");
    set(&semaphore, 5).await;
    semaphore.acquire(3).await.unwrap();
    assert_available(&semaphore, 2).await;
    let mut four = acquire(&semaphore, 4).await;
    four.assert_waits(&semaphore).await;
    semaphore.release(1).await.unwrap();
    four.assert_waits(&semaphore).await;
    semaphore.release(1).await.unwrap();
    four.answer().await.unwrap();
    assert_available(&semaphore, 0).await;
}

pub(crate) async fn timed_acquire_of_several(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("timed-n");
    set(&semaphore, 5).await;
    assert!(semaphore.try_acquire(3).await.unwrap());
    assert!(!semaphore.try_acquire(4).await.unwrap());
    let mut four = acquire_for(&semaphore, 4, LIMIT).await;
    four.assert_waits(&semaphore).await;
    semaphore.release(1).await.unwrap();
    four.assert_waits(&semaphore).await;
    semaphore.release(1).await.unwrap();
    assert!(four.answer().await.unwrap());
    assert_available(&semaphore, 0).await;
}

pub(crate) async fn release_without_permits(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("release-without");
    semaphore.release(1).await.unwrap();
    assert_available(&semaphore, 1).await;
    assert!(!semaphore.try_set_permits(9).await.unwrap());
}

pub(crate) async fn drain_permits(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("drain");
    assert_eq!(semaphore.drain_permits().await.unwrap(), 0);
    set(&semaphore, 10).await;
    semaphore.acquire(3).await.unwrap();
    assert_eq!(semaphore.drain_permits().await.unwrap(), 7);
    assert_available(&semaphore, 0).await;
    assert_eq!(semaphore.drain_permits().await.unwrap(), 0);
}

pub(crate) async fn release_if_exists(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("release-if-exists");
    assert!(!semaphore.release_if_exists(1).await.unwrap());
    assert_available(&semaphore, 0).await;
    set(&semaphore, 10).await;
    semaphore.acquire(1).await.unwrap();
    assert!(semaphore.release_if_exists(1).await.unwrap());
    assert_available(&semaphore, 10).await;
}

/// Each of `handles` takes one permit, `loops` times; no two at the same time.
async fn exclude_each_other(semaphore: &Handle, handles: Vec<Handle>, loops: usize) {
    set(semaphore, 1).await;
    let expected = (handles.len() * loops) as i64;
    let number = Arc::new(Unguarded::default());
    let tasks = handles.into_iter().map(|semaphore| {
        let number = Arc::clone(&number);
        tokio::spawn(async move {
            for _ in 0..loops {
                semaphore.acquire(1).await.unwrap();
                number.add_one().await;
                semaphore.release(1).await.unwrap();
            }
        })
    });
    join(tasks.collect()).await;
    assert_eq!(number.get(), expected);
    assert_available(semaphore, 1).await;
}

pub(crate) async fn jobs_of_one_client(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("jobs");
    let jobs = vec![semaphore.clone(); 15];
    exclude_each_other(&semaphore, jobs, 1).await;
}

pub(crate) async fn loops_of_many_clients(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("loops");
    let clients = (0..16).map(|_| fixture.second(&semaphore)).collect();
    exclude_each_other(&semaphore, clients, 100).await;
}

pub(crate) async fn loops_of_many_clients_with_one_or_all_permits(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("one-or-all");
    set(&semaphore, MAX_PERMITS).await;
    let gauge = Arc::new(Gauge::default());
    let tasks = (0..4).map(|client| {
        let semaphore = fixture.second(&semaphore);
        let gauge = Arc::clone(&gauge);
        tokio::spawn(async move {
            let mut random = Random::new(client);
            for _ in 0..10 {
                let permits = [1, MAX_PERMITS][random.below(2) as usize];
                semaphore.acquire(permits).await.unwrap();
                gauge.enter(permits, MAX_PERMITS.into());
                yields(10).await;
                gauge.exit(permits);
                semaphore.release(permits).await.unwrap();
            }
        })
    });
    join(tasks.collect()).await;
    assert_available(&semaphore, MAX_PERMITS.into()).await;
}
