//! Semaphores that vanish after a time.

use std::time::{Duration, Instant};

use redisson_semaphore::Error;

use super::Fixture;
use super::support::*;

/// Long enough for two calls in a row on a busy machine.
const TTL: Duration = Duration::from_millis(1000);
const LONG: Duration = Duration::from_secs(600);

pub(crate) async fn a_semaphore_vanishes_with_its_permits(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("vanishes");
    let start = Instant::now();
    assert!(semaphore.try_set_permits_for(3, TTL).await.unwrap());
    // Without a release in between, which might do the work.
    let mut ticks = tokio::time::interval(Duration::from_millis(5));
    while semaphore.available_permits().await.unwrap() != 0 {
        ticks.tick().await;
        assert!(start.elapsed() < LIMIT, "the permits do not vanish");
    }
    assert_passed(start, TTL);
    assert!(!semaphore.try_acquire(1).await.unwrap());
    assert_eq!(semaphore.drain_permits().await.unwrap(), 0);
    assert_missing_then_set(&semaphore, 2).await;
}

pub(crate) async fn a_time_to_live_is_not_set_on_an_existing_semaphore(fixture: &dyn Fixture) {
    let lasting = fixture.fresh("lasting");
    let fleeting = fixture.fresh("fleeting");
    set(&lasting, 2).await;
    assert!(!lasting.try_set_permits_for(9, TTL).await.unwrap());
    // It was set later: when it has gone, the other one would have gone too.
    assert!(fleeting.try_set_permits_for(9, TTL).await.unwrap());
    assert!(!fleeting.try_set_permits(9).await.unwrap());
    until_missing(&fleeting).await;
    assert_available(&lasting, 2).await;
}

/// Sets semaphores for a time, changes them, and waits until they vanish all the same.
pub(crate) async fn changes_keep_the_time_to_live(fixture: &dyn Fixture) {
    const CHANGES: [i64; 6] = [5, 5, -2, 8, 0, 0];
    let change = async |number: usize, semaphore: &Handle| match number {
        0 => semaphore.release(2).await.unwrap(),
        1 => assert!(semaphore.release_if_exists(2).await.unwrap()),
        2 => semaphore.add_permits(-5).await.unwrap(),
        3 => semaphore.add_permits(5).await.unwrap(),
        4 => semaphore.acquire(3).await.unwrap(),
        _ => assert_eq!(semaphore.drain_permits().await.unwrap(), 3),
    };
    let kept = CHANGES
        .iter()
        .enumerate()
        .map(|(number, available)| async move {
            // One that lasts shows that the change counts the permits on.
            let lasting = fixture.fresh("kept-long");
            assert!(lasting.try_set_permits_for(3, LONG).await.unwrap());
            change(number, &lasting).await;
            assert_available(&lasting, *available).await;

            let semaphore = fixture.fresh("kept");
            let start = Instant::now();
            assert!(semaphore.try_set_permits_for(3, TTL).await.unwrap());
            change(number, &semaphore).await;
            until_missing(&semaphore).await;
            assert_passed(start, TTL);
        });
    futures::future::join_all(kept).await;
}

pub(crate) async fn a_vanished_semaphore_can_be_set_anew(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("anew");
    assert!(semaphore.try_set_permits_for(3, TTL).await.unwrap());
    until_missing(&semaphore).await;
    assert!(semaphore.try_set_permits_for(2, LONG).await.unwrap());
    assert_available(&semaphore, 2).await;

    let lasting = fixture.fresh("anew-lasting");
    let fleeting = fixture.fresh("anew-fleeting");
    assert!(lasting.try_set_permits_for(3, TTL).await.unwrap());
    until_missing(&lasting).await;
    lasting.release(4).await.unwrap();
    // The time of the first does not apply to the second.
    assert!(fleeting.try_set_permits_for(1, TTL).await.unwrap());
    until_missing(&fleeting).await;
    assert_available(&lasting, 4).await;
}

pub(crate) async fn waiters_outlive_the_semaphore(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("outlived");
    assert!(semaphore.try_set_permits_for(1, TTL).await.unwrap());
    // Far more than the releases of the look-out can bring.
    let many = 1_000_000;
    let mut waiting = acquire(&semaphore, many).await;
    until_missing(&semaphore).await;
    waiting.assert_waits(&semaphore).await;
    set(&semaphore, many).await;
    waiting.answer().await.unwrap();
    assert_available(&semaphore, 0).await;
}

pub(crate) async fn less_than_a_millisecond_is_refused(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("no-time");
    for ttl in [
        Duration::ZERO,
        Duration::from_nanos(1),
        Duration::from_micros(999),
    ] {
        match semaphore.try_set_permits_for(1, ttl).await {
            Err(Error::InvalidDuration { name, value, .. }) => {
                assert_eq!((name.as_str(), value), (semaphore.name(), ttl));
            }
            other => panic!("{ttl:?}: {other:?}"),
        }
    }
    assert_missing_then_set(&semaphore, 1).await;
    assert!(
        semaphore
            .try_set_permits_for(1, Duration::ZERO)
            .await
            .is_err(),
        "it exists"
    );
    assert!(
        !semaphore
            .try_set_permits_for(1, Duration::from_millis(1))
            .await
            .unwrap()
    );
}

pub(crate) async fn more_than_can_be_counted_is_refused(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("too-long");
    let most = Duration::from_millis(1 << 53);
    for ttl in [Duration::MAX, most + Duration::from_millis(1)] {
        match semaphore.try_set_permits_for(1, ttl).await {
            Err(Error::InvalidDuration { name, value, .. }) => {
                assert_eq!((name.as_str(), value), (semaphore.name(), ttl));
            }
            other => panic!("{ttl:?}: {other:?}"),
        }
    }
    assert!(semaphore.try_set_permits_for(1, most).await.unwrap());
    assert_available(&semaphore, 1).await;
}
