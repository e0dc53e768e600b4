//! Guards: what is held is given back.

use std::sync::Arc;
use std::time::Duration;

use redisson_semaphore::RemainingTtl;

use super::Fixture;
use super::support::{Handle, LIMIT, SHORT, assert_free, assert_held, assert_not_held, lock};

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
    let lease = Duration::from_secs(5);
    let leased = other.guard_for_with_lease(SHORT, lease).await;
    assert!(leased.unwrap().is_none());
    drop(guard);
    assert!(other.guard_for(LIMIT).await.unwrap().is_some());
    assert_free(&lock).await;
    let leased = other.guard_for_with_lease(LIMIT, lease).await.unwrap();
    let leased = leased.expect("it is free");
    assert!(leased.lease().remaining().is_some_and(|left| left <= lease));
    leased.unlock().await.unwrap();
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

pub(crate) async fn a_guard_of_a_panicking_task(fixture: &impl Fixture) {
    let lock = fixture.fresh("panics");
    let guard = lock.guard().await.unwrap();
    let task = tokio::spawn(async move {
        let _guard = guard;
        std::panic::resume_unwind(Box::new("as the test wants it"));
    });
    assert!(task.await.unwrap_err().is_panic());
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

const HOUR: Duration = Duration::from_secs(3600);

async fn left(lock: &Handle) -> Duration {
    match lock.remaining_ttl().await.unwrap() {
        RemainingTtl::Expires(left) => left,
        other => panic!("no end: {other:?}"),
    }
}

pub(crate) async fn guards_that_go_in_any_order_keep_their_terms(fixture: &impl Fixture) {
    let lock = fixture.fresh("order");
    let first = lock.guard_with_lease(2 * HOUR).await.unwrap();
    let second = lock.guard_with_lease(4 * HOUR).await.unwrap();
    let third = lock.guard_with_lease(3 * HOUR).await.unwrap();
    second.unlock().await.unwrap();
    let third_alone = left(&lock).await;
    assert!(third_alone > 2 * HOUR && third_alone <= 3 * HOUR);
    drop(third);
    assert_held(&lock, 1).await;
    let first_alone = left(&lock).await;
    assert!(first_alone > HOUR && first_alone <= 2 * HOUR);
    assert!(!first.is_lost());
    first.unlock().await.unwrap();
    assert!(!lock.is_locked().await.unwrap());

    // A hold without a lease stays without one.
    let limited = lock.guard_with_lease(HOUR).await.unwrap();
    let kept = lock.guard().await.unwrap();
    limited.unlock().await.unwrap();
    let left = kept.lease().remaining();
    assert!(left.is_none_or(|left| left < HOUR), "the term of another");
    let ttl = lock.remaining_ttl().await.unwrap();
    assert!(!matches!(ttl, RemainingTtl::Expires(left) if left > HOUR / 2));
    kept.unlock().await.unwrap();
    assert_free(&fixture.stranger(&lock)).await;
}

pub(crate) async fn a_guard_of_a_hold_before_the_loss_gives_nothing_back(fixture: &impl Fixture) {
    let lock = fixture.fresh("before");
    let old = lock.guard().await.unwrap();
    fixture.stranger(&lock).force_unlock().await.unwrap();
    let new = lock.guard().await.unwrap();
    assert!(old.is_lost() && !new.is_lost());
    let again = lock.guard().await.unwrap();
    assert_not_held(old.unlock().await, &lock);
    assert_held(&lock, 2).await;
    new.unlock().await.unwrap();
    assert_held(&lock, 1).await;
    again.unlock().await.unwrap();
    assert_free(&fixture.stranger(&lock)).await;
}

pub(crate) async fn an_unlock_leaves_the_holds_of_guards_alone(fixture: &impl Fixture) {
    let lock = fixture.fresh("plain");
    lock.lock_with_lease(HOUR).await.unwrap();
    let guard = lock.guard_with_lease(3 * HOUR).await.unwrap();
    lock.unlock().await.unwrap();
    assert_held(&lock, 1).await;
    assert!(!guard.is_lost() && left(&lock).await > 2 * HOUR);
    lock.lock_with_lease(HOUR).await.unwrap();
    guard.unlock().await.unwrap();
    assert_held(&lock, 1).await;
    assert!(left(&lock).await <= HOUR);
    lock.unlock().await.unwrap();
    assert_not_held(lock.unlock().await, &lock);
    // Where there are only guards, one of them has nothing left to give back.
    let outer = lock.guard().await.unwrap();
    let inner = lock.guard().await.unwrap();
    lock.unlock().await.unwrap();
    assert_not_held(inner.unlock().await, &lock);
    assert_held(&lock, 1).await;
    assert!(!outer.is_lost());
    outer.unlock().await.unwrap();
    assert_free(&fixture.stranger(&lock)).await;
}

pub(crate) async fn a_hold_is_given_back_once(fixture: &impl Fixture) {
    let lock = fixture.fresh("once");
    let outer = lock.guard().await.unwrap();
    let hold = lock.hold(None, None).await.unwrap().expect("waited for");
    lock.unlock_hold(&hold).await.unwrap();
    assert_not_held(lock.unlock_hold(&hold).await, &lock);
    lock.unlock_hold_detached(&hold);
    assert_held(&lock, 1).await;
    assert!(!outer.is_lost());
    drop(outer);
    assert_free(&fixture.stranger(&lock)).await;
}
