//! Guards.

use std::time::Duration;

use super::Fixture;
use super::support::{Call, acquire, held, take, until_held};

pub(crate) async fn a_guard_gives_back_on_drop(fixture: &impl Fixture) {
    let semaphore = fixture.fresh(1);
    let permit = semaphore.permit().await.unwrap();
    assert_eq!(held(&semaphore).await, 1);
    let lease = permit.lease().clone();
    drop(permit);
    until_held(&semaphore, 0).await;
    assert!(!lease.is_lost(), "it was given back");
}

pub(crate) async fn a_guard_released_with_an_answer(fixture: &impl Fixture) {
    let semaphore = fixture.fresh(1);
    let permit = semaphore.permit().await.unwrap();
    let holders = semaphore.holders().await.unwrap();
    assert_eq!(holders[0].id(), permit.id());
    assert_eq!(holders[0].slot(), permit.slot());
    assert!(permit.release().await.unwrap());
    assert_eq!(held(&semaphore).await, 0);
}

pub(crate) async fn a_release_that_is_never_polled_is_a_drop(fixture: &impl Fixture) {
    let semaphore = fixture.fresh(1);
    let permit = semaphore.permit().await.unwrap();
    drop(permit.release());
    until_held(&semaphore, 0).await;
}

pub(crate) async fn a_forgotten_guard_keeps_the_permit(fixture: &impl Fixture) {
    let semaphore = fixture.fresh(1);
    let permit = semaphore.permit().await.unwrap();
    let held = permit.forget();
    assert_eq!(semaphore.try_acquire().await.unwrap(), None);
    assert!(semaphore.release(held.id()).await.unwrap());
}

pub(crate) async fn no_guard_now_or_in_time(fixture: &impl Fixture) {
    let semaphore = fixture.fresh(1);
    let permit = semaphore.try_permit().await.unwrap();
    assert!(permit.is_some());
    assert!(semaphore.try_permit().await.unwrap().is_none());
    let short = Duration::from_millis(20);
    assert!(semaphore.permit_for(short).await.unwrap().is_none());
    drop(permit);
    let limit = super::support::LIMIT;
    assert!(semaphore.permit_for(limit).await.unwrap().is_some());
}

pub(crate) async fn a_guard_wakes_a_waiter(fixture: &impl Fixture) {
    let semaphore = fixture.fresh(1);
    let permit = semaphore.permit().await.unwrap();
    let here = acquire(&semaphore).await;
    let there = acquire(&fixture.second(&semaphore)).await;
    drop(permit);
    let one = here.answer().await.unwrap();
    semaphore.release_detached(one.id());
    let _ = there.answer().await.unwrap();
}

pub(crate) async fn a_guard_outlives_its_handle(fixture: &impl Fixture) {
    let semaphore = fixture.fresh(1);
    let second = fixture.second(&semaphore);
    let permit = semaphore.permit().await.unwrap();
    drop(semaphore);
    assert_eq!(permit.semaphore().name(), second.name());
    drop(permit);
    until_held(&second, 0).await;
    let _ = take(&second).await;
}

pub(crate) async fn a_guard_shows_what_is_left(fixture: &impl Fixture) {
    let semaphore = fixture.fresh(1);
    let permit = semaphore.permit().await.unwrap();
    let most = semaphore.lease();
    let listed = fixture.second(&semaphore).holders().await.unwrap();
    for left in [permit.lease().remaining(), listed[0].remaining()] {
        assert_eq!(left.is_some(), most.is_some(), "{left:?}");
        assert!(left <= most && left != Some(Duration::ZERO), "{left:?}");
    }
    let lease = permit.lease().clone();
    let held = permit.forget();
    assert!(!lease.is_lost());
    assert_eq!(lease.remaining().is_some(), most.is_some());
    assert!(semaphore.release(held.id()).await.unwrap());
}

/// Those whom a release of all serves are none of those who lose something by it.
pub(crate) async fn a_release_of_all_serves_guards_that_stay(fixture: &impl Fixture) {
    const PERMITS: u32 = 3;
    let semaphore = fixture.fresh(PERMITS);
    let mut lost = Vec::new();
    for _ in 0..PERMITS {
        lost.push(fixture.second(&semaphore).permit().await.unwrap());
    }
    let mut waiting = Vec::new();
    for _ in 0..PERMITS {
        let waiter = semaphore.clone();
        waiting.push(Call::start(async move { waiter.permit().await }).await);
        semaphore.holders().await.unwrap();
    }
    assert_eq!(semaphore.release_all().await.unwrap(), u64::from(PERMITS));
    for call in waiting {
        let guard = call.answer().await.unwrap();
        assert!(!guard.is_lost());
        assert!(guard.release().await.unwrap());
    }
    for guard in lost {
        assert!(!guard.release().await.unwrap());
    }
}
