//! Many tasks at once.

use std::sync::Arc;

use super::Fixture;
use super::support::*;

/// Each of `handles` takes and gives back one of `total` permits, `loops` times.
async fn take_turns(semaphore: &Handle, handles: Vec<Handle>, loops: usize, total: u32) {
    set(semaphore, total).await;
    let gauge = Arc::new(Gauge::default());
    let tasks = handles.into_iter().map(|semaphore| {
        let gauge = Arc::clone(&gauge);
        tokio::spawn(async move {
            for _ in 0..loops {
                semaphore.acquire(1).await.unwrap();
                gauge.enter(1, total.into());
                yields(1).await;
                gauge.exit(1);
                semaphore.release(1).await.unwrap();
            }
        })
    });
    join(tasks.collect()).await;
    assert_available(semaphore, total.into()).await;
}

pub(crate) async fn never_more_holders_than_permits(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("holders");
    let handles = vec![semaphore.clone(); 100];
    take_turns(&semaphore, handles, 100, 3).await;
}

pub(crate) async fn two_clients_share_the_permits(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("two-clients");
    let other = fixture.second(&semaphore);
    let handles = [vec![semaphore.clone(); 20], vec![other; 20]].concat();
    take_turns(&semaphore, handles, 50, 3).await;
}

/// One side only releases, the other only acquires, and nobody holds anything.
pub(crate) async fn a_signal_between_two_sides(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("signal");
    let other = fixture.second(&semaphore);
    let receivers = (0..10).map(|_| {
        let semaphore = semaphore.clone();
        tokio::spawn(async move {
            for _ in 0..60 {
                semaphore.acquire(1).await.unwrap();
            }
        })
    });
    let receivers: Vec<_> = receivers.collect();
    for _ in 0..200 {
        other.release(3).await.unwrap();
    }
    join(receivers).await;
    assert_available(&semaphore, 0).await;
}
