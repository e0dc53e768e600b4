//! Guards that release their permits, over `dyn Semaphore`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use redisson_semaphore::{Error, MAX_PERMITS, Permit};

use super::Fixture;
use super::support::*;

pub(crate) async fn a_guard_tells_what_it_holds(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("guard-tells");
    set(&semaphore, 3).await;
    let permit = semaphore.permit(2).await.unwrap();
    assert_eq!(permit.permits(), 2);
    assert_eq!(permit.semaphore().name(), semaphore.name());
    assert_available(permit.semaphore(), 1).await;
    permit.release().await.unwrap();
}

pub(crate) async fn a_guard_is_split_and_merged(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("guard-split");
    set(&semaphore, 6).await;
    let mut all = semaphore.permit(6).await.unwrap();
    assert!(all.split(7).is_none());
    assert_eq!(all.permits(), 6);
    let none = all.split(0).unwrap();
    let mut two = all.split(2).unwrap();
    let rest = all.split(4).unwrap();
    assert_eq!(
        (all.permits(), two.permits(), rest.permits(), none.permits()),
        (0, 2, 4, 0)
    );
    drop((all, none));
    assert_available(&semaphore, 0).await;
    rest.release().await.unwrap();
    assert_available(&semaphore, 4).await;
    // Guards of different handles to the same semaphore can be merged.
    let more = semaphore.clone_handle().permit(3).await.unwrap();
    two.merge(more);
    assert_eq!(two.permits(), 5);
    two.release().await.unwrap();
    assert_all_back(&semaphore, 6).await;
}

pub(crate) async fn a_part_of_merged_guards_leaves_the_rest(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("guard-part");
    set(&semaphore, 2).await;
    let mut both = semaphore.permit(1).await.unwrap();
    both.merge(semaphore.permit(1).await.unwrap());
    let part = both.split(1).unwrap();
    part.release().await.unwrap();
    assert!(!both.is_lost());
    assert_available(&semaphore, 1).await;
    both.release().await.unwrap();
    assert_all_back(&semaphore, 2).await;
}

pub(crate) async fn guards_that_do_not_fit_together_give_back_what_they_hold(
    fixture: &dyn Fixture,
) {
    let (one, other) = (fixture.fresh("guard-one"), fixture.fresh("guard-other"));
    for semaphore in [&one, &other] {
        set(semaphore, 3).await;
    }
    let merge = |mut one: Permit, other: Permit| {
        let merging = AssertUnwindSafe(|| one.merge(other));
        assert!(catch_unwind(merging).is_err(), "they are merged");
    };
    let permits = (one.permit(1).await.unwrap(), other.permit(2).await.unwrap());
    merge(permits.0, permits.1);
    assert_all_back(&one, 3).await;
    assert_all_back(&other, 3).await;
}

pub(crate) async fn a_release_that_fails_tells(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("guard-fails");
    set(&semaphore, 1).await;
    let permit = semaphore.permit(1).await.unwrap();
    semaphore.release(MAX_PERMITS).await.unwrap();
    let failure = permit.release().await.unwrap_err();
    assert!(
        matches!(failure, Error::OutOfRange { delta: 1, .. }),
        "{failure}"
    );
    assert_available(&semaphore, MAX_PERMITS.into()).await;
    // The failed release has used up the guard: no second release follows.
    semaphore.acquire(MAX_PERMITS).await.unwrap();
    assert_available(&semaphore, 0).await;
}

pub(crate) async fn guards_in_time_and_now(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("guard-some");
    set(&semaphore, 3).await;
    let now = semaphore.try_permit(1).await.unwrap().expect("there are 3");
    let soon = semaphore
        .permit_for(2, LIMIT)
        .await
        .unwrap()
        .expect("there are 2");
    assert_eq!((now.permits(), soon.permits()), (1, 2));
    assert_available(&semaphore, 0).await;

    let call = semaphore.clone();
    let mut later = Call::start(async move { call.permit_for(3, LIMIT).await }).await;
    later.assert_waits(&semaphore).await;
    drop(now);
    soon.release().await.unwrap();
    let later = later.answer().await.unwrap().expect("all 3 are back");
    assert_available(&semaphore, 0).await;
    drop(later);
    assert_all_back(&semaphore, 3).await;
}

pub(crate) async fn guards_of_nothing(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("guard-zero");
    let none = semaphore.permit(0).await.unwrap();
    assert_eq!(none.permits(), 0);
    drop(none);
    semaphore.permit(0).await.unwrap().release().await.unwrap();
    assert!(semaphore.try_permit(0).await.unwrap().is_some());
    assert!(semaphore.permit_for(0, LIMIT).await.unwrap().is_some());
    assert_missing_then_set(&semaphore, 1).await;
    assert_all_back(&semaphore, 1).await;
}

pub(crate) async fn guards_above_the_range(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("guard-range");
    let permits = MAX_PERMITS + 1;
    let refused = [
        semaphore.permit(permits).await.map(Some),
        semaphore.permit_for(permits, LIMIT).await,
        semaphore.try_permit(permits).await,
    ];
    for answer in refused {
        assert!(
            matches!(answer, Err(Error::InvalidPermits { .. })),
            "{answer:?}"
        );
    }
    assert_missing_then_set(&semaphore, 1).await;
}

pub(crate) async fn guards_from_many_tasks(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("guard-tasks");
    set(&semaphore, 4).await;
    let gauge = Arc::new(Gauge::default());
    let tasks = (0..32).map(|number| {
        let (semaphore, gauge) = (semaphore.clone(), Arc::clone(&gauge));
        tokio::spawn(async move {
            for round in 0..20 {
                let permits = 1 + (number + round) % 2;
                let held = semaphore.permit(permits).await.unwrap();
                gauge.enter(permits, 4);
                yields(1).await;
                gauge.exit(permits);
                match (number + round) % 3 {
                    0 => drop(held),
                    1 => held.release().await.unwrap(),
                    _ => semaphore.release(held.forget()).await.unwrap(),
                }
            }
        })
    });
    join(tasks.collect()).await;
    assert_all_back(&semaphore, 4).await;
}

pub(crate) async fn detached_releases(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("detached");
    set(&semaphore, 0).await;
    let all = acquire(&semaphore, 10).await;
    for _ in 0..10 {
        semaphore.release_detached(1);
    }
    all.answer().await.unwrap();
    assert_available(&semaphore, 0).await;
    // Works on a thread without a runtime, too.
    let outside = semaphore.clone();
    std::thread::spawn(move || outside.release_detached(3))
        .join()
        .unwrap();
    assert_all_back(&semaphore, 3).await;
}

pub(crate) async fn handles_share_the_permits(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("handles");
    let (clone, other) = (semaphore.clone_handle(), fixture.second(&semaphore));
    set(&semaphore, 3).await;
    clone.acquire(1).await.unwrap();
    other.acquire(1).await.unwrap();
    for handle in [&semaphore, &clone, &other] {
        assert_eq!(handle.name(), semaphore.name());
        assert_available(handle, 1).await;
    }
    let unrelated = fixture.fresh("handles");
    assert_ne!(unrelated.name(), semaphore.name());
    assert_missing_then_set(&unrelated, 8).await;
    assert_available(&semaphore, 1).await;
}

/// A guard of a semaphore that has vanished does not create it again, whether the guard is dropped or released.
pub(crate) async fn a_guard_of_one_that_has_vanished_makes_none(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("guard-outlives");
    // Long enough for three calls in a row on a busy machine.
    let ttl = Duration::from_secs(2);
    assert_eq!(semaphore.try_set_permits_for(10, ttl).await, Ok(true));
    let dropped = semaphore.permit(1).await.unwrap();
    let released = semaphore.permit(3).await.unwrap();
    until_missing(&semaphore).await;
    drop(dropped);
    assert_eq!(released.release().await, Ok(()));
    // A release that is still pending travels with this call or ahead of it.
    assert_eq!(semaphore.try_set_permits(10).await, Ok(true));
    assert_available(&semaphore, 10).await;
}
