//! Guards.

use std::time::Duration;

use super::Fixture;
use super::support::{Call, until_held};

pub(crate) async fn a_guard_tells_what_it_holds(fixture: &impl Fixture) {
    let semaphore = fixture.fresh(1);
    for dropped in [true, false] {
        let permit = semaphore.permit().await.unwrap();
        assert_eq!(permit.semaphore().name(), semaphore.name());
        let holders = semaphore.holders().await.unwrap();
        assert_eq!(holders[0].id(), permit.id());
        assert_eq!(holders[0].slot(), permit.slot());
        let lease = permit.lease().clone();
        match dropped {
            true => drop(permit),
            false => assert!(permit.release().await.unwrap()),
        }
        until_held(&semaphore, 0).await;
        assert!(!lease.is_lost(), "it was given back");
    }
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

/// `release_all` ends only the permits that are held. The waiters that get these permits keep them.
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
