//! Guards: what is held is given back.

use std::sync::Arc;
use std::time::Duration;

use super::Fixture;
use super::support::{LIMIT, SHORT, assert_free, assert_held, assert_not_held, lock};

pub(crate) async fn a_guard_unlocks_on_drop(fixture: &impl Fixture) {
    let lock = fixture.fresh("drop");
    let guard = lock.guard().await.unwrap();
    assert_eq!(guard.lock().name(), lock.name());
    assert_eq!(guard.lock().owner(), lock.owner());
    assert!(!guard.is_lost());
    assert_held(&lock, 1).await;
    drop(guard);
    assert_free(&fixture.stranger(&lock)).await;
}

pub(crate) async fn a_guard_unlocked_with_an_answer(fixture: &impl Fixture) {
    let lock = fixture.fresh("answer");
    let guard = lock.try_guard().await.unwrap().expect("it is free");
    let lease = guard.lease().clone();
    guard.unlock().await.unwrap();
    assert!(!lock.is_locked().await.unwrap());
    assert!(!lease.is_lost());
}

pub(crate) async fn an_unlock_that_is_never_polled_is_a_drop(fixture: &impl Fixture) {
    let lock = fixture.fresh("unpolled");
    let guard = lock.guard().await.unwrap();
    drop(guard.unlock());
    assert_free(&fixture.stranger(&lock)).await;
}

pub(crate) async fn a_guard_that_lost_its_lock_tells(fixture: &impl Fixture) {
    let lock = fixture.fresh("lost");
    let guard = lock.guard_with_lease(SHORT).await.unwrap();
    tokio::time::timeout(LIMIT, guard.lost())
        .await
        .expect("the loss is told");
    assert!(guard.is_lost());
    let other = fixture.stranger(&lock);
    other.lock().await.unwrap();
    assert_not_held(guard.unlock().await, &lock);
    // Dropping one that is lost takes nothing from the one who holds it now.
    let late = lock.guard_for(SHORT).await.unwrap();
    assert!(late.is_none());
    assert_held(&other, 1).await;
    other.unlock().await.unwrap();
}

pub(crate) async fn a_forgotten_guard_keeps_the_lock(fixture: &impl Fixture) {
    let lock = fixture.fresh("forgotten");
    let hold = lock.guard().await.unwrap().forget();
    assert!(!hold.lease().is_lost());
    assert_held(&lock, 1).await;
    lock.unlock().await.unwrap();
    assert_free(&fixture.stranger(&lock)).await;
}

pub(crate) async fn no_guard_now(fixture: &impl Fixture) {
    let lock = fixture.fresh("now");
    let _guard = lock.guard().await.unwrap();
    assert!(fixture.stranger(&lock).try_guard().await.unwrap().is_none());
}

pub(crate) async fn no_guard_in_time(fixture: &impl Fixture) {
    let lock = fixture.fresh("time");
    let guard = lock.guard().await.unwrap();
    let other = fixture.stranger(&lock);
    assert!(other.guard_for(SHORT).await.unwrap().is_none());
    let lease = Some(Duration::from_secs(5));
    assert!(other.guarded(Some(SHORT), lease).await.unwrap().is_none());
    drop(guard);
    assert!(other.guard_for(LIMIT).await.unwrap().is_some());
    assert_free(&lock).await;
}

pub(crate) async fn a_guard_with_a_lease(fixture: &impl Fixture) {
    let lock = fixture.fresh("lease");
    let guard = lock.guard_with_lease(LIMIT).await.unwrap();
    let left = guard.lease().remaining().expect("it has an end");
    assert!(left <= LIMIT && left > LIMIT / 2);
    drop(guard);
    assert_free(&fixture.stranger(&lock)).await;
}

pub(crate) async fn a_guard_outlives_the_handle(fixture: &impl Fixture) {
    let lock = fixture.fresh("outlives");
    let other = fixture.stranger(&lock);
    let guard = lock.guard().await.unwrap();
    drop(lock);
    assert!(!other.try_lock().await.unwrap());
    drop(guard);
    assert_free(&other).await;
}

pub(crate) async fn a_guard_of_an_aborted_task(fixture: &impl Fixture) {
    let lock = fixture.fresh("aborted");
    let (taken, seen) = tokio::sync::oneshot::channel();
    let task = tokio::spawn({
        let lock = Arc::clone(&lock);
        async move {
            let _guard = lock.guard().await.unwrap();
            let _ = taken.send(());
            std::future::pending::<()>().await;
        }
    });
    seen.await.unwrap();
    task.abort();
    assert_free(&fixture.stranger(&lock)).await;
}

pub(crate) async fn a_guard_that_is_dropped_wakes_a_waiter(fixture: &impl Fixture) {
    let holder = fixture.fresh("wakes");
    for waiter in [fixture.neighbour(&holder), fixture.stranger(&holder)] {
        let guard = holder.guard().await.unwrap();
        let waiting = lock(&waiter).await;
        drop(guard);
        waiting.answer().await.unwrap();
        waiter.unlock().await.unwrap();
    }
}

pub(crate) async fn a_guard_of_a_hold_that_was_given_back_releases_nothing(fixture: &impl Fixture) {
    let lock = fixture.fresh("given-back");
    let dropped = lock.guard().await.unwrap();
    lock.unlock().await.unwrap();
    let told = lock.guard().await.unwrap();
    drop(dropped);
    // Answered behind what the guard asks for, if anything.
    assert_held(&lock, 1).await;
    lock.unlock().await.unwrap();
    lock.lock().await.unwrap();
    assert_not_held(told.unlock().await, &lock);
    assert_held(&lock, 1).await;
    lock.unlock().await.unwrap();
    assert_free(&lock).await;
}
