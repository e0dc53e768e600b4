//! Permits that expire.

use std::time::Duration;

use redisson_semaphore::Error;
use tokio::time::{sleep, timeout};

use super::Expiring;
use super::support::{Call, Handle, LIMIT, acquire, held, take, until_held};

const LEASE: Duration = Duration::from_millis(250);
/// A lease of which a fifth is enough time for a call.
const UNHURRIED: Duration = Duration::from_secs(2);
/// A lease of which a quarter is enough time for a call, and shorter than the time before a first renewal.
const LATE: Duration = Duration::from_secs(4);

pub(crate) async fn a_permit_expires_and_a_waiter_gets_it(fixture: &impl Expiring) {
    // The lease is long enough that the second permit is still held when the test releases it.
    let lease = LEASE * 6;
    let semaphore = fixture.lasting(1, lease);
    let one = take(&semaphore).await;
    assert!(one.remaining().is_some_and(|left| left <= lease));
    let two = acquire(&fixture.second(&semaphore)).await;
    let two = two.answer().await.unwrap();
    assert_eq!(one.remaining(), Some(Duration::ZERO), "it came too early");
    assert!(semaphore.release(two.id()).await.unwrap());
}

/// The end of each permit serves the next waiter, whichever client the waiter belongs to.
pub(crate) async fn permits_that_end_one_by_one_serve_all_who_wait(fixture: &impl Expiring) {
    for clients in [1, 2] {
        let permits = 2 * clients;
        let semaphore = fixture.lasting(permits, UNHURRIED);
        for _ in 0..permits {
            let _ = take(&semaphore).await;
            sleep(UNHURRIED / 20).await;
        }
        let handles = [semaphore.clone(), fixture.second(&semaphore)];
        let mut waiting = Vec::new();
        for handle in handles
            .iter()
            .take(clients as usize)
            .cycle()
            .take(permits as usize)
        {
            let waiter = handle.clone();
            waiting.push(Call::start(async move { waiter.permit().await }).await);
        }
        // The guards keep their permits, so that no other permit ends.
        let mut guards = Vec::new();
        for call in waiting {
            guards.push(call.answer().await.unwrap());
        }
        assert!(guards.iter().all(|guard| !guard.is_lost()));
    }
}

pub(crate) async fn what_has_expired_can_be_neither_released_nor_refreshed(
    fixture: &impl Expiring,
) {
    let semaphore = fixture.lasting(1, LEASE);
    let one = take(&semaphore).await;
    let two = take(&fixture.lasting(1, LEASE)).await;
    until_held(&semaphore, 0).await;
    assert!(!semaphore.release(one.id()).await.unwrap());
    assert!(!semaphore.refresh(one.id()).await.unwrap());
    assert!(!semaphore.release(two.id()).await.unwrap(), "of another");
    assert_eq!(held(&semaphore).await, 0);
}

pub(crate) async fn a_refreshed_permit_lasts_longer(fixture: &impl Expiring) {
    let semaphore = fixture.lasting(2, Duration::from_secs(3600));
    let (one, two) = (take(&semaphore).await, take(&semaphore).await);
    // The remaining times of both permits at the same moment.
    let left = || async {
        let holders = semaphore.holders().await.unwrap();
        [&one, &two].map(|held| {
            let holder = holders.iter().find(|holder| holder.id() == held.id());
            holder.expect("it is held").remaining().unwrap()
        })
    };
    // Waits until both leases are shorter by at least 20 ms.
    let [full, _] = left().await;
    let latest = full - Duration::from_millis(20);
    while left().await.into_iter().any(|left| left > latest) {}
    assert!(semaphore.refresh(one.id()).await.unwrap());
    let [refreshed, other] = left().await;
    assert!(refreshed > other, "{refreshed:?} and {other:?}");
}

pub(crate) async fn a_guard_is_kept_beyond_its_lease(fixture: &impl Expiring) {
    // Long enough for a busy machine.
    let lease = LEASE * 6;
    let semaphore = fixture.lasting(1, lease);
    let permit = semaphore.permit().await.unwrap();
    let other = fixture.second(&semaphore);
    // The other caller waits for longer than the lease, and gets no permit.
    assert_eq!(other.try_acquire_for(lease * 2).await.unwrap(), None);
    assert!(!permit.is_lost());
    assert!(permit.release().await.unwrap());
}

pub(crate) async fn a_guard_whose_permit_is_taken_away_is_lost(fixture: &impl Expiring) {
    let semaphore = fixture.lasting(1, UNHURRIED);
    let permit = semaphore.permit().await.unwrap();
    assert!(!permit.is_lost());
    assert_eq!(fixture.second(&semaphore).release_all().await.unwrap(), 1);
    timeout(LIMIT, permit.lost())
        .await
        .expect("the guard is not told");
    assert!(permit.is_lost());
    assert!(permit.lease().is_lost());
}

pub(crate) async fn a_guard_whose_permit_somebody_releases_is_lost(fixture: &impl Expiring) {
    let semaphore = fixture.lasting(2, UNHURRIED);
    for releaser in [semaphore.clone(), fixture.second(&semaphore)] {
        let permit = semaphore.permit().await.unwrap();
        assert!(releaser.release(permit.id()).await.unwrap());
        timeout(LIMIT, permit.lost())
            .await
            .expect("the guard is not told");
        let lease = permit.lease().clone();
        assert!(!permit.release().await.unwrap());
        assert!(lease.is_lost());
    }
}

pub(crate) async fn a_refresh_tells_a_guard_that_it_is_lost(fixture: &impl Expiring) {
    let semaphore = fixture.lasting(1, Duration::from_secs(3600));
    let permit = semaphore.permit().await.unwrap();
    let other = fixture.second(&semaphore);
    assert!(other.release(permit.id()).await.unwrap());
    assert!(!semaphore.refresh(permit.id()).await.unwrap());
    assert!(permit.is_lost());
}

pub(crate) async fn a_guard_that_is_lost_releases_nothing(fixture: &impl Expiring) {
    let semaphore = fixture.lasting(1, UNHURRIED);
    let permit = semaphore.permit().await.unwrap();
    semaphore.release_all().await.unwrap();
    let other = fixture.second(&semaphore);
    let two = other.acquire().await.unwrap();
    assert!(!permit.release().await.unwrap());
    assert!(other.release(two.id()).await.unwrap());
}

pub(crate) async fn a_forgotten_permit_expires(fixture: &impl Expiring) {
    let semaphore = fixture.lasting(1, LEASE);
    let held = semaphore.permit().await.unwrap().forget();
    let waiter = acquire(&semaphore).await;
    let _ = waiter.answer().await.unwrap();
    assert!(!semaphore.release(held.id()).await.unwrap());
}

pub(crate) async fn a_lease_below_a_millisecond_is_refused(fixture: &impl Expiring) {
    for lease in [Duration::ZERO, Duration::from_micros(999)] {
        let semaphore = fixture.lasting(1, lease);
        let error = semaphore.try_acquire().await.unwrap_err();
        assert!(
            matches!(error, Error::InvalidDuration { value, .. } if value == lease),
            "{error}"
        );
    }
}

pub(crate) async fn a_lease_that_cannot_be_counted_is_refused(fixture: &impl Expiring) {
    let most = Duration::from_millis(1 << 53);
    for lease in [Duration::MAX, most + Duration::from_millis(1)] {
        let semaphore = fixture.lasting(1, lease);
        let error = semaphore.try_acquire().await.unwrap_err();
        assert!(
            matches!(error, Error::InvalidDuration { value, .. } if value == lease),
            "{error}"
        );
    }
    let semaphore = fixture.lasting(1, most);
    let one = take(&semaphore).await;
    assert!(one.remaining().is_some_and(|left| left > most / 2));
    assert!(semaphore.release(one.id()).await.unwrap());
}

/// `keep` renews a permit from its last known end, also late in the lease, and also when called twice.
pub(crate) async fn permits_that_are_kept_do_not_end(fixture: &impl Expiring) {
    // Each case has a semaphore of its own, so that no request of one case helps another.
    let [refreshed, twice, guarded] = [2, 1, 1].map(|limit| fixture.lasting(limit, UNHURRIED));
    let late = fixture.lasting(2, LATE);
    tokio::join!(
        kept_after_a_refresh_by_hand(&refreshed),
        kept_late(&late),
        kept_twice(&twice),
        guarded_beside_a_refresh_by_hand(&guarded)
    );
}

async fn kept_after_a_refresh_by_hand(semaphore: &Handle) {
    let held = take(semaphore).await;
    for _ in 0..5 {
        sleep(UNHURRIED * 3 / 10).await;
        assert!(semaphore.refresh(held.id()).await.unwrap());
    }
    let lease = semaphore.keep(&held);
    assert!(!lease.is_lost());
    sleep(UNHURRIED * 2).await;
    assert!(!lease.is_lost());
    // The same again: a permit that was kept for a while has not expired meanwhile.
    semaphore.unkeep(held.id());
    let lease = semaphore.keep(&held);
    sleep(UNHURRIED * 2).await;
    assert!(!lease.is_lost());
    semaphore.release_detached(held.id());
    until_held(semaphore, 0).await;
}

async fn guarded_beside_a_refresh_by_hand(semaphore: &Handle) {
    let guard = semaphore.permit().await.unwrap();
    assert!(semaphore.refresh(guard.id()).await.unwrap());
    sleep(UNHURRIED * 2).await;
    assert!(!guard.is_lost());
    assert_eq!(held(semaphore).await, 1);
}

async fn kept_late(semaphore: &Handle) {
    let guard = semaphore.permit().await.unwrap();
    let held = take(semaphore).await;
    sleep(LATE * 3 / 4).await;
    let lease = semaphore.keep(&held);
    sleep(LATE * 2).await;
    assert!(!lease.is_lost() && !guard.is_lost());
    assert!(semaphore.refresh(held.id()).await.unwrap());
    semaphore.release_detached(held.id());
}

/// A permit that is kept twice: both lease handles see the same lease.
async fn kept_twice(semaphore: &Handle) {
    let held = take(semaphore).await;
    let leases = [semaphore.keep(&held), semaphore.keep(&held)];
    sleep(UNHURRIED * 2).await;
    assert!(leases.iter().all(|lease| !lease.is_lost()));
    // Both lease handles learn of the release.
    assert!(semaphore.release(held.id()).await.unwrap());
    for lease in leases {
        timeout(LIMIT, lease.lost()).await.expect("one is not told");
    }
}
