//! Holds of a lock: their owner, their number, and the right to unlock.

use std::sync::Arc;

use super::Fixture;
use super::support::{assert_free, assert_held, assert_not_held};

pub(crate) async fn lock_and_unlock(fixture: &impl Fixture) {
    let lock = fixture.fresh("cycles");
    for _ in 0..2 {
        assert!(!lock.is_locked().await.unwrap());
        lock.lock().await.unwrap();
        assert_held(&lock, 1).await;
        lock.unlock().await.unwrap();
    }
    assert_free(&lock).await;
}

pub(crate) async fn a_held_lock_is_refused_to_others(fixture: &impl Fixture) {
    let lock = fixture.fresh("refused");
    let others = [fixture.neighbour(&lock), fixture.stranger(&lock)];
    assert!(lock.try_lock().await.unwrap());
    for other in &others {
        assert!(!other.try_lock().await.unwrap());
        assert!(other.is_locked().await.unwrap());
        assert!(!other.is_held().await.unwrap());
        assert_eq!(other.hold_count().await.unwrap(), 0);
    }
    assert_held(&lock, 1).await;
    lock.unlock().await.unwrap();
    for other in &others {
        assert_free(other).await;
    }
}

pub(crate) async fn only_the_owner_unlocks(fixture: &impl Fixture) {
    let lock = fixture.fresh("owner");
    lock.lock().await.unwrap();
    for other in [fixture.neighbour(&lock), fixture.stranger(&lock)] {
        assert_not_held(other.unlock().await, &other);
    }
    assert_held(&lock, 1).await;
    lock.unlock().await.unwrap();
}

pub(crate) async fn unlock_of_a_free_lock(fixture: &impl Fixture) {
    let lock = fixture.fresh("free");
    assert_not_held(lock.unlock().await, &lock);
    assert!(!lock.is_locked().await.unwrap());
    assert_free(&lock).await;
}

pub(crate) async fn unlock_twice(fixture: &impl Fixture) {
    let lock = fixture.fresh("twice");
    lock.lock().await.unwrap();
    lock.unlock().await.unwrap();
    assert_not_held(lock.unlock().await, &lock);
}

pub(crate) async fn clones_are_one_owner(fixture: &impl Fixture) {
    let lock = fixture.fresh("clones");
    let clone = Arc::clone(&lock);
    assert_eq!(lock.owner(), clone.owner());
    lock.lock().await.unwrap();
    assert!(clone.try_lock().await.unwrap());
    assert_held(&lock, 2).await;
    clone.unlock().await.unwrap();
    clone.unlock().await.unwrap();
    assert_free(&fixture.neighbour(&lock)).await;
}

pub(crate) async fn handles_tell_name_and_owner(fixture: &impl Fixture) {
    let lock = fixture.fresh("names");
    let (neighbour, stranger) = (fixture.neighbour(&lock), fixture.stranger(&lock));
    assert_eq!(lock.name(), neighbour.name());
    assert_eq!(lock.name(), stranger.name());
    assert_ne!(lock.owner(), neighbour.owner());
    assert_ne!(lock.owner(), stranger.owner());
    assert_ne!(neighbour.owner(), stranger.owner());
}

pub(crate) async fn holds_are_counted(fixture: &impl Fixture) {
    let lock = fixture.fresh("count");
    assert_held(&lock, 0).await;
    lock.lock().await.unwrap();
    assert_held(&lock, 1).await;
    lock.unlock().await.unwrap();
    assert_held(&lock, 0).await;
    for count in 1..=5 {
        assert!(lock.try_lock().await.unwrap());
        assert_held(&lock, count).await;
    }
    for count in (0..5).rev() {
        lock.unlock().await.unwrap();
        assert_held(&lock, count).await;
    }
    assert_not_held(lock.unlock().await, &lock);
}

pub(crate) async fn half_unlocked_is_still_locked(fixture: &impl Fixture) {
    let lock = fixture.fresh("half");
    let other = fixture.stranger(&lock);
    assert!(lock.try_lock().await.unwrap());
    assert!(lock.try_lock().await.unwrap());
    lock.unlock().await.unwrap();
    assert!(!other.try_lock().await.unwrap());
    lock.unlock().await.unwrap();
    assert!(other.try_lock().await.unwrap());
    other.unlock().await.unwrap();
}

pub(crate) async fn force_unlock_of_a_free_lock(fixture: &impl Fixture) {
    let lock = fixture.fresh("force free");
    assert!(!lock.force_unlock().await.unwrap());
    assert_free(&lock).await;
}

pub(crate) async fn after_force_unlock_the_owner_holds_nothing(fixture: &impl Fixture) {
    let lock = fixture.fresh("forced");
    let other = fixture.stranger(&lock);
    lock.lock().await.unwrap();
    lock.lock().await.unwrap();
    assert!(other.force_unlock().await.unwrap());
    assert!(!lock.is_locked().await.unwrap());
    assert!(other.try_lock().await.unwrap());
    assert_not_held(lock.unlock().await, &lock);
    assert_held(&other, 1).await;
    other.unlock().await.unwrap();
    lock.lock().await.unwrap();
    assert_held(&lock, 1).await;
    lock.unlock().await.unwrap();
    assert_free(&other).await;
}
