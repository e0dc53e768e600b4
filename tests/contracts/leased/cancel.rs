//! Futures that are dropped: nothing is lost, nothing is left behind.

use std::time::Duration;

use tokio::time::sleep;

use super::Fixture;
use super::support::{Call, acquire, poll_times, take, until_held};

pub(crate) async fn calls_that_were_never_polled(fixture: &impl Fixture) {
    let semaphore = fixture.fresh(1);
    let one = take(&semaphore).await;
    drop(semaphore.acquire());
    drop(semaphore.try_acquire());
    drop(semaphore.release(one.id()));
    drop(semaphore.release_all());
    until_held(&semaphore, 1).await;
    assert!(semaphore.refresh(one.id()).await.unwrap());
}

pub(crate) async fn a_dropped_waiter_takes_nothing(fixture: &impl Fixture) {
    let semaphore = fixture.fresh(1);
    let one = take(&semaphore).await;
    acquire(&semaphore).await.abort().await;
    semaphore.release(one.id()).await.unwrap();
    let _ = take(&semaphore).await;
}

pub(crate) async fn dropped_between_two_that_wait(fixture: &impl Fixture) {
    let semaphore = fixture.fresh(1);
    let one = take(&semaphore).await;
    let first = acquire(&semaphore).await;
    let second = acquire(&semaphore).await;
    let third = acquire(&semaphore).await;
    second.abort().await;
    semaphore.release(one.id()).await.unwrap();
    let two = first.answer().await.unwrap();
    semaphore.release(two.id()).await.unwrap();
    let _ = third.answer().await.unwrap();
    until_held(&semaphore, 1).await;
}

pub(crate) async fn the_first_of_another_client_is_dropped(fixture: &impl Fixture) {
    let semaphore = fixture.fresh(1);
    let other = fixture.second(&semaphore);
    let one = take(&semaphore).await;
    let first = acquire(&other).await;
    let second = acquire(&semaphore).await;
    first.abort().await;
    other.release(one.id()).await.unwrap();
    let _ = second.answer().await.unwrap();
}

pub(crate) async fn dropped_after_every_number_of_polls(fixture: &impl Fixture) {
    let semaphore = fixture.fresh(1);
    for polls in 0..40 {
        let one = take(&semaphore).await;
        let released = async {
            sleep(Duration::from_micros(polls * 50)).await;
            semaphore.release(one.id()).await.unwrap()
        };
        let (waiter, released) =
            tokio::join!(poll_times(semaphore.acquire(), polls as usize), released);
        assert!(released);
        if let Some(two) = waiter {
            assert!(semaphore.release(two.unwrap().id()).await.unwrap());
        }
        until_held(&semaphore, 0).await;
    }
}

pub(crate) async fn a_release_that_is_dropped_is_carried_out(fixture: &impl Fixture) {
    let semaphore = fixture.fresh(1);
    for _ in 0..10 {
        let one = take(&semaphore).await;
        let _ = poll_times(semaphore.release(one.id()), 1).await;
        until_held(&semaphore, 0).await;
    }
}

pub(crate) async fn aborted_at_any_time(fixture: &impl Fixture) {
    let first = fixture.fresh(2);
    let second = fixture.second(&first);
    for round in 0..12_u64 {
        let mut calls = Vec::new();
        for number in 0..6 {
            let semaphore = [&first, &second][number % 2].clone();
            calls.push(
                Call::start(async move {
                    loop {
                        let permit = semaphore.permit().await.unwrap();
                        permit.release().await.unwrap();
                    }
                })
                .await,
            );
        }
        sleep(Duration::from_micros(300 * round)).await;
        for call in calls {
            let call: Call<()> = call;
            call.abort().await;
        }
        until_held(&first, 0).await;
    }
}
