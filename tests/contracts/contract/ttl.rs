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

/// Sets a semaphore for a time, changes it, and waits until it vanishes all the same.
macro_rules! assert_keeps_time_to_live {
    ($fixture:ident, $permits:expr, |$semaphore:ident| $change:expr, leaving $available:expr) => {
        // One that lasts shows that the change counts the permits on.
        let $semaphore = $fixture.fresh("kept-long");
        assert!(
            $semaphore
                .try_set_permits_for($permits, LONG)
                .await
                .unwrap()
        );
        $change;
        assert_available(&$semaphore, $available).await;

        let $semaphore = $fixture.fresh("kept");
        let start = Instant::now();
        assert!($semaphore.try_set_permits_for($permits, TTL).await.unwrap());
        $change;
        until_missing(&$semaphore).await;
        assert_passed(start, TTL);
    };
}

pub(crate) async fn release_keeps_the_time_to_live(fixture: &dyn Fixture) {
    assert_keeps_time_to_live!(
        fixture, 3, |semaphore| semaphore.release(2).await.unwrap(), leaving 5
    );
}

pub(crate) async fn release_if_exists_keeps_the_time_to_live(fixture: &dyn Fixture) {
    assert_keeps_time_to_live!(
        fixture, 3, |semaphore| assert!(semaphore.release_if_exists(2).await.unwrap()), leaving 5
    );
}

pub(crate) async fn add_keeps_the_time_to_live(fixture: &dyn Fixture) {
    assert_keeps_time_to_live!(
        fixture,
        3,
        |semaphore| semaphore.add_permits(-5).await.unwrap(),
        leaving - 2
    );
    assert_keeps_time_to_live!(
        fixture, 3, |semaphore| semaphore.add_permits(5).await.unwrap(), leaving 8
    );
}

pub(crate) async fn acquire_keeps_the_time_to_live(fixture: &dyn Fixture) {
    assert_keeps_time_to_live!(
        fixture, 3, |semaphore| semaphore.acquire(3).await.unwrap(), leaving 0
    );
}

pub(crate) async fn drain_keeps_the_time_to_live(fixture: &dyn Fixture) {
    assert_keeps_time_to_live!(
        fixture, 3, |semaphore| assert_eq!(semaphore.drain_permits().await.unwrap(), 3), leaving 0
    );
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
