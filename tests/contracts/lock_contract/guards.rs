//! Guards: each hold is released.

use std::sync::Arc;
use std::time::Duration;

use redisson_semaphore::Hold;

use super::Fixture;
use super::support::{
    Call, Handle, LIMIT, SHORT, assert_free, assert_held, assert_not_held, left, poll_times,
};

pub(crate) async fn a_guard_unlocks_on_drop(fixture: &impl Fixture) {
    let lock = fixture.fresh("drop");
    let guard = lock.guard().await.unwrap();
    assert_eq!(guard.handle().name(), lock.name());
    assert_ne!(guard.handle().owner(), lock.owner());
    assert!(!guard.is_lost());
    assert_held(guard.handle(), 1).await;
    assert_held(&lock, 0).await;
    drop(guard);
    assert_free(&fixture.stranger(&lock)).await;
}

pub(crate) async fn a_guard_that_lost_its_lock_tells(fixture: &impl Fixture) {
    let lock = fixture.fresh("lost");
    let guard = lock.with_lease(SHORT).guard().await.unwrap();
    tokio::time::timeout(LIMIT, guard.lost())
        .await
        .expect("the loss is told");
    assert!(guard.is_lost());
    let other = fixture.stranger(&lock);
    other.lock().await.unwrap();
    let owner = Arc::clone(guard.handle());
    assert_not_held(guard.unlock().await, &owner);
    // The unlock of a lost guard takes nothing from the new holder.
    let late = lock.guard_for(SHORT).await.unwrap();
    assert!(late.is_none());
    assert_held(&other, 1).await;
    other.unlock().await.unwrap();
}

pub(crate) async fn no_guard_in_time(fixture: &impl Fixture) {
    let lock = fixture.fresh("time");
    let guard = lock.guard().await.unwrap();
    let other = fixture.stranger(&lock);
    assert!(other.guard_for(SHORT).await.unwrap().is_none());
    let lease = Duration::from_secs(5);
    let leased = other.with_lease(lease);
    assert!(leased.guard_for(SHORT).await.unwrap().is_none());
    assert!(!leased.try_lock_for(SHORT).await.unwrap());
    drop(guard);
    assert!(other.guard_for(LIMIT).await.unwrap().is_some());
    assert_free(&lock).await;
    let leased = other.with_lease(lease).guard_for(LIMIT).await.unwrap();
    let leased = leased.expect("it is free");
    assert!(leased.lease().remaining().is_some_and(|left| left <= lease));
    leased.unlock().await.unwrap();
}

pub(crate) async fn a_guard_with_a_lease(fixture: &impl Fixture) {
    let lock = fixture.fresh("lease");
    let guard = lock.with_lease(LIMIT).guard().await.unwrap();
    let left = guard.lease().remaining().expect("it has an end");
    assert!(left <= LIMIT && left > LIMIT / 2);
    drop(guard);
    assert_free(&fixture.stranger(&lock)).await;
    let guard = lock.guard().await.unwrap();
    let lease = guard.lease().clone();
    guard.unlock().await.unwrap();
    assert!(!lease.is_lost());
}

pub(crate) async fn a_guard_of_a_hold_that_was_given_back_releases_nothing(fixture: &impl Fixture) {
    let lock = fixture.fresh("given-back");
    let dropped = lock.guard().await.unwrap();
    let owner = Arc::clone(dropped.handle());
    owner.unlock().await.unwrap();
    owner.lock().await.unwrap();
    drop(dropped);
    // The server answers this call after any request of the dropped guard.
    assert_held(&owner, 1).await;
    owner.unlock().await.unwrap();
    let told = lock.guard().await.unwrap();
    let owner = Arc::clone(told.handle());
    owner.unlock().await.unwrap();
    owner.lock().await.unwrap();
    assert_not_held(told.unlock().await, &owner);
    assert_held(&owner, 1).await;
    owner.unlock().await.unwrap();
    assert_free(&lock).await;
}

const HOUR: Duration = Duration::from_secs(3600);

/// Takes the lock once more for the owner of this handle.
async fn once_more(owner: &Handle, lease: Option<Duration>) -> Hold {
    let owner = lease.map_or_else(|| owner.clone(), |lease| owner.with_lease(lease));
    let hold = owner.hold(Some(Duration::ZERO)).await.unwrap();
    hold.expect("its owner has it")
}

pub(crate) async fn holds_that_go_in_any_order_leave_the_longest_lease(fixture: &impl Fixture) {
    let lock = fixture.fresh("order");
    let first = lock.with_lease(2 * HOUR).guard().await.unwrap();
    let owner = Arc::clone(first.handle());
    let second = once_more(&owner, Some(4 * HOUR)).await;
    let third = once_more(&owner, Some(3 * HOUR)).await;
    owner.unlock_hold(&second).await.unwrap();
    assert!(left(&lock).await > 3 * HOUR);
    owner.unlock_hold_detached(&third);
    assert_held(&owner, 1).await;
    let left_to_first = left(&lock).await;
    assert!(left_to_first > 3 * HOUR && left_to_first <= 4 * HOUR);
    assert!(!first.is_lost());
    first.unlock().await.unwrap();
    assert!(!lock.is_locked().await.unwrap());

    // A hold without a lease stays without one.
    let kept = lock.guard().await.unwrap();
    let owner = Arc::clone(kept.handle());
    let limited = once_more(&owner, Some(HOUR)).await;
    owner.unlock_hold(&limited).await.unwrap();
    assert!(!kept.is_lost());
    assert_held(&owner, 1).await;
    kept.unlock().await.unwrap();

    // A guard that is entered again has the lease of its handle.
    let limited = lock.with_lease(HOUR).guard().await.unwrap();
    let again = limited.again().await.unwrap();
    limited.unlock().await.unwrap();
    let alone = left(&lock).await;
    assert!(alone > HOUR / 2 && alone <= HOUR);
    again.unlock().await.unwrap();
    assert_free(&fixture.stranger(&lock)).await;
}

pub(crate) async fn a_guard_of_a_hold_before_the_loss_gives_nothing_back(fixture: &impl Fixture) {
    let lock = fixture.fresh("before");
    let old = lock.guard().await.unwrap();
    let owner = Arc::clone(old.handle());
    fixture.stranger(&lock).force_unlock().await.unwrap();
    let new = once_more(&owner, None).await;
    assert!(old.is_lost() && !new.lease().is_lost());
    let again = once_more(&owner, None).await;
    assert_not_held(old.unlock().await, &owner);
    assert_held(&owner, 2).await;
    owner.unlock_hold(&new).await.unwrap();
    assert_held(&owner, 1).await;
    owner.unlock_hold(&again).await.unwrap();
    assert_free(&fixture.stranger(&lock)).await;
}

pub(crate) async fn an_unlock_leaves_the_holds_of_guards_alone(fixture: &impl Fixture) {
    let lock = fixture.fresh("plain");
    let guard = lock.with_lease(3 * HOUR).guard().await.unwrap();
    let owner = Arc::clone(guard.handle());
    assert_not_held(lock.unlock().await, &lock);
    owner.with_lease(HOUR).lock().await.unwrap();
    owner.unlock().await.unwrap();
    assert_held(&owner, 1).await;
    assert!(!guard.is_lost() && left(&lock).await > 2 * HOUR);
    owner.with_lease(HOUR).lock().await.unwrap();
    guard.unlock().await.unwrap();
    assert_held(&owner, 1).await;
    owner.unlock().await.unwrap();
    assert_not_held(owner.unlock().await, &owner);
    // When an owner has only guards, a plain unlock takes the hold of one guard, which has nothing left to release.
    let outer = lock.guard().await.unwrap();
    let inner = outer.again().await.unwrap();
    let owner = Arc::clone(outer.handle());
    owner.unlock().await.unwrap();
    assert_not_held(inner.unlock().await, &owner);
    assert_held(&owner, 1).await;
    assert!(!outer.is_lost());
    outer.unlock().await.unwrap();
    assert_free(&fixture.stranger(&lock)).await;
}

pub(crate) async fn a_hold_is_given_back_once(fixture: &impl Fixture) {
    let lock = fixture.fresh("once");
    let outer = lock.guard().await.unwrap();
    let owner = Arc::clone(outer.handle());
    let hold = once_more(&owner, None).await;
    owner.unlock_hold(&hold).await.unwrap();
    assert_not_held(owner.unlock_hold(&hold).await, &owner);
    owner.unlock_hold_detached(&hold);
    assert_held(&owner, 1).await;
    assert!(!outer.is_lost());
    drop(outer);
    drop(owner);
    assert_free(&fixture.stranger(&lock)).await;
}

pub(crate) async fn guards_exclude_each_other(fixture: &impl Fixture) {
    let handle = fixture.fresh("exclude");
    let handles = [
        Arc::clone(&handle),
        fixture.neighbour(&handle),
        fixture.stranger(&handle),
    ];
    for held in &handles {
        let guard = held.guard().await.unwrap();
        for other in &handles {
            assert!(other.try_guard().await.unwrap().is_none());
            assert!(other.guard_for(SHORT).await.unwrap().is_none());
            assert!(!other.try_lock().await.unwrap());
        }
        let waits = Arc::clone(held);
        let mut waits = Call::start(async move { waits.guard().await }).await;
        waits.assert_waits(&handle).await;
        guard.unlock().await.unwrap();
        waits.answer().await.unwrap().unlock().await.unwrap();
        // A hold without a guard excludes guards, too.
        held.lock().await.unwrap();
        assert!(held.try_guard().await.unwrap().is_none());
        held.unlock().await.unwrap();
    }
    assert_free(&handle).await;
}

pub(crate) async fn a_guard_is_entered_again_at_once(fixture: &impl Fixture) {
    let lock = fixture.fresh("again");
    for outer_goes_first in [false, true] {
        let outer = lock.guard().await.unwrap();
        let waits = Arc::clone(&lock);
        let mut waits = Call::start(async move { waits.guard().await }).await;
        waits.assert_waits(&lock).await;
        // The inner guard passes a waiting caller.
        let inner = outer.again().await.unwrap();
        assert_eq!(inner.handle().owner(), outer.handle().owner());
        assert_held(inner.handle(), 2).await;
        let (first, last) = match outer_goes_first {
            true => (outer, inner),
            false => (inner, outer),
        };
        first.unlock().await.unwrap();
        waits.assert_waits(&lock).await;
        assert!(!last.is_lost());
        assert_held(last.handle(), 1).await;
        last.unlock().await.unwrap();
        waits.answer().await.unwrap().unlock().await.unwrap();
        assert_free(&lock).await;
    }
}

pub(crate) async fn a_guard_that_lost_its_lock_is_not_entered_again(fixture: &impl Fixture) {
    let lock = fixture.fresh("not again");
    let other = fixture.stranger(&lock);
    let known = lock.with_lease(SHORT).guard().await.unwrap();
    known.lost().await;
    assert_not_held(known.again().await.map(drop), known.handle());
    // A loss that the guard has not learned of: another owner holds the lock, or the lock is free.
    for is_free in [false, true] {
        let unknown = lock.guard_for(LIMIT).await.unwrap().expect("it ends");
        other.force_unlock().await.unwrap();
        if !is_free {
            other.lock().await.unwrap();
        }
        assert_not_held(unknown.again().await.map(drop), unknown.handle());
        assert!(unknown.is_lost());
        if !is_free {
            assert_held(&other, 1).await;
            other.unlock().await.unwrap();
        }
    }
    assert_free(&lock).await;
}

pub(crate) async fn dropped_entries_are_given_back(fixture: &impl Fixture) {
    let lock = fixture.fresh("dropped again");
    for polls in 0..12 {
        let outer = lock.guard().await.unwrap();
        drop(poll_times(outer.again(), polls).await);
        assert!(!outer.is_lost());
        outer.unlock().await.unwrap();
        assert_free(&fixture.stranger(&lock)).await;
    }
}
