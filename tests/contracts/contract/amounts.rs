//! Zero, the largest number, negative counters, and the bounds of 32 bits.

use std::time::Duration;

use redisson_semaphore::{Error, MAX_PERMITS};

use super::Fixture;
use super::support::*;

const MAX: i64 = MAX_PERMITS as i64;
const MIN: i64 = i32::MIN as i64;

/// All that succeeds with zero permits and leaves `expected` available.
async fn move_nothing(semaphore: &Handle, expected: i64) {
    semaphore.acquire(0).await.unwrap();
    assert!(semaphore.try_acquire(0).await.unwrap());
    assert!(semaphore.try_acquire_for(0, Duration::ZERO).await.unwrap());
    assert!(semaphore.try_acquire_for(0, LIMIT).await.unwrap());
    semaphore.release(0).await.unwrap();
    semaphore.release_detached(0);
    assert!(!semaphore.release_if_exists(0).await.unwrap());
    assert_available(semaphore, expected).await;
}

pub(crate) async fn zero_succeeds_at_once_and_changes_nothing(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("zero-amounts");
    move_nothing(&semaphore, 0).await;
    assert_missing_then_set(&semaphore, 5).await;
    move_nothing(&semaphore, 5).await;
    semaphore.add_permits(-7).await.unwrap();
    move_nothing(&semaphore, -2).await;
}

pub(crate) async fn zero_while_others_wait(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("zero-others-wait");
    set(&semaphore, 1).await;
    let mut two = acquire(&semaphore, 2).await;
    move_nothing(&semaphore, 1).await;
    two.assert_waits(&semaphore).await;
    semaphore.release(1).await.unwrap();
    two.answer().await.unwrap();
}

pub(crate) async fn add_zero_creates_the_semaphore(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("add-zero");
    semaphore.add_permits(0).await.unwrap();
    assert_available(&semaphore, 0).await;
    assert!(!semaphore.try_set_permits(3).await.unwrap());
    assert!(semaphore.release_if_exists(1).await.unwrap());
    semaphore.add_permits(0).await.unwrap();
    assert_available(&semaphore, 1).await;
}

pub(crate) async fn set_zero_creates_the_semaphore(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("set-zero");
    set(&semaphore, 0).await;
    assert_available(&semaphore, 0).await;
    assert!(!semaphore.try_set_permits(3).await.unwrap());
    assert!(!semaphore.try_acquire(1).await.unwrap());
    assert!(semaphore.release_if_exists(2).await.unwrap());
    assert_available(&semaphore, 2).await;
}

pub(crate) async fn too_many_permits_are_refused(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("too-many");
    macro_rules! assert_refused {
        ($($method:ident($permits:expr $(, $time:expr)?)),* $(,)?) => {$(
            match semaphore.$method($permits $(, $time)?).await {
                Err(Error::InvalidPermits { name, permits, .. }) => {
                    assert_eq!((name.as_str(), permits), (semaphore.name(), $permits));
                }
                other => panic!("{}: {other:?}", stringify!($method)),
            }
        )*};
    }
    for permits in [MAX_PERMITS + 1, u32::MAX] {
        assert_refused!(
            try_set_permits(permits),
            try_set_permits_for(permits, LIMIT),
            acquire(permits),
            try_acquire(permits),
            try_acquire_for(permits, Duration::ZERO),
            try_acquire_for(permits, LIMIT),
            release(permits),
            release_if_exists(permits),
        );
        semaphore.release_detached(permits);
    }
    assert_missing_then_set(&semaphore, 5).await;
    for permits in [MAX_PERMITS + 1, u32::MAX] {
        assert_refused!(
            try_set_permits(permits),
            acquire(permits),
            try_acquire(permits),
            release(permits),
            release_if_exists(permits),
        );
    }
    assert_available(&semaphore, 5).await;
}

pub(crate) async fn the_most_permits_can_be_moved_at_once(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("most");
    set(&semaphore, MAX_PERMITS).await;
    semaphore.acquire(MAX_PERMITS).await.unwrap();
    assert_available(&semaphore, 0).await;
    assert!(semaphore.release_if_exists(MAX_PERMITS).await.unwrap());
    assert!(semaphore.try_acquire(MAX_PERMITS).await.unwrap());
    semaphore.release(MAX_PERMITS).await.unwrap();
    assert!(semaphore.try_acquire_for(MAX_PERMITS, LIMIT).await.unwrap());
    semaphore.add_permits(i32::MAX).await.unwrap();
    assert_eq!(semaphore.drain_permits().await.unwrap(), MAX);
}

/// Asserts that a change was refused because its result does not fit.
macro_rules! assert_out_of_range {
    ($semaphore:ident.$method:ident($amount:expr), $counter:expr) => {
        match $semaphore.$method($amount).await {
            Err(Error::OutOfRange {
                name,
                available,
                delta,
                ..
            }) => {
                assert_eq!(name, $semaphore.name());
                assert_eq!((available, delta), ($counter, i64::from($amount)));
            }
            other => panic!("{}: {other:?}", stringify!($method)),
        }
        assert_available(&$semaphore, $counter).await;
    };
}

pub(crate) async fn a_sum_above_the_range_changes_nothing(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("overflow");
    set(&semaphore, MAX_PERMITS).await;
    assert_out_of_range!(semaphore.release(1), MAX);
    assert_out_of_range!(semaphore.release(MAX_PERMITS), MAX);
    assert_out_of_range!(semaphore.release_if_exists(1), MAX);
    assert_out_of_range!(semaphore.add_permits(1), MAX);
    assert_out_of_range!(semaphore.add_permits(i32::MAX), MAX);

    semaphore.acquire(3).await.unwrap();
    assert_out_of_range!(semaphore.release(4), MAX - 3);
    assert_out_of_range!(semaphore.add_permits(4), MAX - 3);
    semaphore.release(3).await.unwrap();
    assert_available(&semaphore, MAX).await;
}

pub(crate) async fn a_sum_below_the_range_changes_nothing(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("underflow");
    semaphore.add_permits(i32::MIN).await.unwrap();
    assert_available(&semaphore, MIN).await;
    assert_out_of_range!(semaphore.add_permits(-1), MIN);
    assert_out_of_range!(semaphore.add_permits(i32::MIN), MIN);
    semaphore.release(MAX_PERMITS).await.unwrap();
    assert_available(&semaphore, -1).await;
    assert_out_of_range!(semaphore.add_permits(i32::MIN), -1);
}

pub(crate) async fn negative_counters_grant_nothing(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("negative");
    semaphore.add_permits(-2).await.unwrap();
    assert_available(&semaphore, -2).await;
    assert!(!semaphore.try_acquire(1).await.unwrap());
    assert!(!semaphore.try_set_permits(5).await.unwrap());
    semaphore.release(2).await.unwrap();
    assert!(!semaphore.try_acquire(1).await.unwrap());
    assert!(semaphore.release_if_exists(1).await.unwrap());
    assert!(semaphore.try_acquire(1).await.unwrap());
    assert_available(&semaphore, 0).await;
}

pub(crate) async fn drain_of_a_negative_counter(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("drain-negative");
    semaphore.add_permits(-9).await.unwrap();
    assert_eq!(semaphore.drain_permits().await.unwrap(), -9);
    assert_available(&semaphore, 0).await;
    semaphore.release(1).await.unwrap();
    assert_available(&semaphore, 1).await;
}

pub(crate) async fn operations_that_do_not_create(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("not-created");
    assert_available(&semaphore, 0).await;
    assert_eq!(semaphore.drain_permits().await.unwrap(), 0);
    assert!(!semaphore.release_if_exists(3).await.unwrap());
    assert!(!semaphore.try_acquire(1).await.unwrap());
    assert!(
        !semaphore
            .try_acquire_for(1, Duration::from_millis(1))
            .await
            .unwrap()
    );
    assert_eq!(acquire(&semaphore, 1).await.abort().await, None);
    assert_missing_then_set(&semaphore, 3).await;
    assert_available(&semaphore, 3).await;
}

pub(crate) async fn a_counter_of_zero_exists(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("zero-exists");
    set(&semaphore, 2).await;
    semaphore.acquire(2).await.unwrap();
    assert!(!semaphore.try_set_permits(7).await.unwrap());
    assert_eq!(semaphore.drain_permits().await.unwrap(), 0);
    assert!(!semaphore.try_set_permits(7).await.unwrap());
    assert!(semaphore.release_if_exists(2).await.unwrap());
    assert_available(&semaphore, 2).await;
}

pub(crate) async fn all_or_nothing(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("all-or-nothing");
    set(&semaphore, 3).await;
    assert!(!semaphore.try_acquire(4).await.unwrap());
    assert!(semaphore.try_permit(4).await.unwrap().is_none());
    for wait in [Duration::ZERO, Duration::from_millis(5)] {
        assert!(!semaphore.try_acquire_for(4, wait).await.unwrap());
        assert!(semaphore.permit_for(4, wait).await.unwrap().is_none());
    }
    assert_available(&semaphore, 3).await;
    assert!(semaphore.try_acquire(3).await.unwrap());
    assert_available(&semaphore, 0).await;
}

/// The numbers of Redisson's own tests.
pub(crate) async fn each_change_counts_from_the_last(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("counts");
    set(&semaphore, 10).await;
    let other = fixture.second(&semaphore);
    assert!(!other.try_set_permits(15).await.unwrap());
    assert_available(&semaphore, 10).await;
    semaphore.acquire(10).await.unwrap();
    semaphore.add_permits(4).await.unwrap();
    assert_available(&semaphore, 4).await;
    semaphore.release(10).await.unwrap();
    assert_available(&semaphore, 14).await;
    semaphore.acquire(5).await.unwrap();
    assert_available(&semaphore, 9).await;
    assert!(semaphore.release_if_exists(1).await.unwrap());
    assert_available(&semaphore, 10).await;
    semaphore.acquire(3).await.unwrap();
    assert_eq!(semaphore.drain_permits().await.unwrap(), 7);
    assert_eq!(semaphore.drain_permits().await.unwrap(), 0);
    semaphore.add_permits(-5).await.unwrap();
    assert_available(&semaphore, -5).await;
    semaphore.release(10).await.unwrap();
    assert_available(&semaphore, 5).await;
    semaphore.acquire(5).await.unwrap();
    assert_available(&semaphore, 0).await;
}
