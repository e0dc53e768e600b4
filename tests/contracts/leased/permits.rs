//! Taking, giving back, listing: without waiting.

use std::collections::HashSet;

use redisson_semaphore::Error;

use super::Fixture;
use super::support::{held, take};

pub(crate) async fn as_many_as_the_limit(fixture: &impl Fixture) {
    let semaphore = fixture.fresh(3);
    assert_eq!(semaphore.limit().unwrap_or(3), 3);
    for _ in 0..3 {
        let _ = take(&semaphore).await;
    }
    assert_eq!(semaphore.try_acquire().await.unwrap(), None);
    assert_eq!(held(&semaphore).await, 3, "the one refused left something");
}

pub(crate) async fn each_has_an_id_of_its_own(fixture: &impl Fixture) {
    let semaphore = fixture.fresh(20);
    let mut ids = HashSet::new();
    for _ in 0..20 {
        ids.insert(take(&semaphore).await.id().to_owned());
    }
    assert_eq!(ids.len(), 20);
}

pub(crate) async fn holders_are_listed(fixture: &impl Fixture) {
    let semaphore = fixture.fresh(5);
    assert!(semaphore.holders().await.unwrap().is_empty());
    let one = take(&semaphore).await;
    let two = take(&fixture.second(&semaphore)).await;
    let holders = semaphore.holders().await.unwrap();
    let ids: HashSet<&str> = holders.iter().map(|holder| holder.id()).collect();
    assert_eq!(ids, HashSet::from([one.id(), two.id()]));
    for holder in &holders {
        let (left, lease) = (holder.remaining(), semaphore.lease());
        assert_eq!(left.is_some(), lease.is_some());
        assert!(left <= lease, "{left:?} are left of {lease:?}");
    }
    let slots = |held: &redisson_semaphore::Held| {
        let holder = holders.iter().find(|holder| holder.id() == held.id());
        (holder.unwrap().slot(), held.slot())
    };
    for (listed, granted) in [slots(&one), slots(&two)] {
        assert_eq!(listed, granted);
    }
}

pub(crate) async fn a_release_frees_one(fixture: &impl Fixture) {
    let semaphore = fixture.fresh(2);
    let one = take(&semaphore).await;
    let _two = take(&semaphore).await;
    assert!(semaphore.release(one.id()).await.unwrap());
    let three = take(&semaphore).await;
    assert_eq!(three.slot(), one.slot(), "the slot that fell free");
    assert_eq!(semaphore.try_acquire().await.unwrap(), None);
}

pub(crate) async fn a_second_release_is_told(fixture: &impl Fixture) {
    let semaphore = fixture.fresh(1);
    let one = take(&semaphore).await;
    assert!(semaphore.release(one.id()).await.unwrap());
    let two = take(&semaphore).await;
    assert!(!semaphore.release(one.id()).await.unwrap());
    assert_eq!(held(&semaphore).await, 1, "the other one's was released");
    assert!(semaphore.release(two.id()).await.unwrap());
}

/// Both releases travel together, behind another call.
pub(crate) async fn two_releases_of_one_at_once_free_one(fixture: &impl Fixture) {
    let semaphore = fixture.fresh(3);
    let (one, _two) = (take(&semaphore).await, take(&semaphore).await);
    let (other, first, second) = tokio::join!(
        semaphore.release("cafe"),
        semaphore.release(one.id()),
        semaphore.release(one.id()),
    );
    assert!(!other.unwrap());
    assert_ne!(first.unwrap(), second.unwrap());
    assert_eq!(held(&semaphore).await, 1);
}

pub(crate) async fn unknown_ids_are_told(fixture: &impl Fixture) {
    let semaphore = fixture.fresh(2);
    let one = take(&semaphore).await;
    for id in ["", "somebody", "with a space", "1"] {
        assert!(!semaphore.release(id).await.unwrap(), "{id:?}");
        assert!(!semaphore.refresh(id).await.unwrap(), "{id:?}");
    }
    assert_eq!(held(&semaphore).await, 1);
    assert!(semaphore.release(one.id()).await.unwrap());
}

pub(crate) async fn a_refresh_of_what_is_held(fixture: &impl Fixture) {
    let semaphore = fixture.fresh(1);
    let one = take(&semaphore).await;
    assert!(semaphore.refresh(one.id()).await.unwrap());
    assert!(fixture.second(&semaphore).refresh(one.id()).await.unwrap());
    semaphore.release(one.id()).await.unwrap();
    assert!(!semaphore.refresh(one.id()).await.unwrap());
    assert_eq!(held(&semaphore).await, 0, "a refresh made it a holder");
}

pub(crate) async fn release_all_frees_all(fixture: &impl Fixture) {
    let semaphore = fixture.fresh(4);
    assert_eq!(semaphore.release_all().await.unwrap(), 0);
    for _ in 0..3 {
        let _ = take(&semaphore).await;
    }
    assert_eq!(semaphore.release_all().await.unwrap(), 3);
    for _ in 0..4 {
        let _ = take(&semaphore).await;
    }
}

pub(crate) async fn handles_share_the_permits(fixture: &impl Fixture) {
    let semaphore = fixture.fresh(1);
    let other = fixture.second(&semaphore);
    assert_eq!(other.name(), semaphore.name());
    assert_eq!(other.limit().unwrap_or(1), 1);
    let one = take(&semaphore.clone_handle()).await;
    assert_eq!(other.try_acquire().await.unwrap(), None);
    assert!(other.release(one.id()).await.unwrap());
    let _ = take(&other).await;
}

pub(crate) async fn a_limit_of_zero_is_refused(fixture: &impl Fixture) {
    let semaphore = fixture.fresh(0);
    if semaphore.limit().is_none() {
        // It is not the handle's.
        return assert_eq!(semaphore.try_acquire().await.unwrap(), None);
    }
    let errors = [
        semaphore.acquire().await.unwrap_err(),
        semaphore.try_acquire().await.unwrap_err(),
        semaphore.release("a").await.unwrap_err(),
        semaphore.holders().await.unwrap_err(),
    ];
    for error in errors {
        assert!(
            matches!(&error, Error::InvalidLimit { name, limit: 0, .. } if name == semaphore.name()),
            "{error}"
        );
    }
    // Nobody to tell it to.
    semaphore.release_detached("a");
}

pub(crate) async fn a_limit_above_the_highest_is_refused(fixture: &impl Fixture) {
    let semaphore = fixture.fresh(u32::MAX);
    if semaphore.limit().is_none() {
        return drop(take(&semaphore).await);
    }
    for error in [
        semaphore.try_acquire().await.unwrap_err(),
        semaphore.acquire().await.unwrap_err(),
        semaphore.refresh("a").await.unwrap_err(),
        semaphore.release_all().await.unwrap_err(),
    ] {
        assert!(
            matches!(&error, Error::InvalidLimit { limit: u32::MAX, most, .. } if *most < u32::MAX),
            "{error}"
        );
    }
}

pub(crate) async fn permits_are_told_apart_where_that_is_said(fixture: &impl Fixture) {
    let semaphore = fixture.fresh(4);
    let second = fixture.second(&semaphore);
    let slots = |all: &[redisson_semaphore::Held]| -> Vec<_> {
        all.iter().map(redisson_semaphore::Held::slot).collect()
    };
    let mut all = Vec::new();
    for handle in [&semaphore, &second, &semaphore, &second] {
        all.push(take(handle).await);
    }
    if !fixture.has_slots() {
        assert_eq!(slots(&all), [None; 4]);
        return;
    }
    assert_eq!(slots(&all), [1, 2, 3, 4].map(Some));
    assert!(semaphore.refresh(all[1].id()).await.unwrap());
    for held in [&all[2], &all[0]] {
        assert!(semaphore.release(held.id()).await.unwrap());
    }
    let listed: Vec<_> = semaphore.holders().await.unwrap();
    let listed: HashSet<_> = listed.iter().map(|holder| holder.slot()).collect();
    assert_eq!(listed, HashSet::from([Some(2), Some(4)]));
    // The lowest one that is free.
    assert_eq!(
        slots(&[take(&second).await, take(&second).await]),
        [1, 3].map(Some)
    );
    assert_eq!(semaphore.release_all().await.unwrap(), 4);
    let permit = semaphore.permit().await.unwrap();
    assert_eq!(permit.slot(), Some(1));
}
