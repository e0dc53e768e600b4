//! Futures dropped at any stage: no permit is lost, and none is created.

use std::time::Duration;

use tokio::time::timeout;

use super::Fixture;
use super::support::*;

pub(crate) async fn a_dropped_waiter_does_not_hold_up_the_next(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("next");
    set(&semaphore, 1).await;
    let large = acquire(&semaphore, 4).await;
    let two = acquire(&semaphore, 2).await;
    assert_eq!(large.abort().await, None);
    semaphore.release(1).await.unwrap();
    two.answer().await.unwrap();
    assert_available(&semaphore, 0).await;
}

pub(crate) async fn aborted_while_being_granted(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("granted");
    set(&semaphore, 0).await;
    for round in 0..40 {
        let mut calls = Vec::new();
        for _ in 0..6 {
            calls.push(acquire(&semaphore, 1).await);
        }
        let mut last = acquire(&semaphore, 4).await;
        semaphore.release(4).await.unwrap();
        yields(round % 4).await;
        let mut taken = 0;
        for call in calls {
            if let Some(answer) = call.abort().await {
                answer.unwrap();
                taken += 1;
            }
        }
        assert!(taken <= 4, "{taken} of 4 permits were taken");
        // The last caller gets the permits that the dropped callers did not take, and no more.
        if taken > 0 {
            last.assert_waits(&semaphore).await;
            semaphore.release(taken).await.unwrap();
        }
        last.answer().await.unwrap();
        assert_available(&semaphore, 0).await;
    }
}

pub(crate) async fn lost_in_a_select(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("select");
    set(&semaphore, 1).await;
    for round in 0..60 {
        semaphore.acquire(1).await.unwrap();
        let other = semaphore.clone();
        let release = tokio::spawn(async move {
            yields(round % 7).await;
            other.release(1).await.unwrap();
        });
        let taken = tokio::select! {
            answer = semaphore.acquire(1) => {
                answer.unwrap();
                true
            }
            () = yields(round % 5) => false,
        };
        release.await.unwrap();
        if taken {
            semaphore.release(1).await.unwrap();
        }
        assert_all_back(&semaphore, 1).await;
    }
}

pub(crate) async fn lost_in_a_timeout(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("timeout");
    set(&semaphore, 0).await;
    assert!(
        timeout(Duration::from_millis(20), semaphore.acquire(3))
            .await
            .is_err()
    );
    semaphore.release(3).await.unwrap();
    assert_all_back(&semaphore, 3).await;

    // A release and a timeout at about the same time.
    semaphore.acquire(3).await.unwrap();
    let wait = Duration::from_millis(5);
    for _ in 0..30 {
        let call = semaphore.clone();
        let call = Call::start(async move { timeout(wait, call.acquire(3)).await }).await;
        tokio::time::sleep(wait).await;
        semaphore.release(3).await.unwrap();
        match call.answer().await {
            Ok(answer) => answer.unwrap(),
            Err(_) => assert!(semaphore.try_acquire_for(3, LIMIT).await.unwrap(), "lost"),
        }
        assert_available(&semaphore, 0).await;
    }
}

/// Many tasks use all ways to acquire. Most of their calls may be dropped or time out at any stage.
pub(crate) async fn churn(fixture: &dyn Fixture) {
    let semaphore = fixture.fresh("churn");
    set(&semaphore, 5).await;
    let other = fixture.second(&semaphore);
    let gauge = std::sync::Arc::new(Gauge::default());
    let tasks = (0..40).map(|number| {
        let semaphore = if number % 4 == 0 {
            other.clone()
        } else {
            semaphore.clone()
        };
        let gauge = gauge.clone();
        tokio::spawn(async move {
            let mut random = Random::new(number);
            for _ in 0..60 {
                let permits = 1 + random.below(3);
                let patience = random.below(6) as usize;
                let wait = Duration::from_millis(random.below(4).into());
                let taken = match random.below(5) {
                    0 => poll_times(semaphore.acquire(permits), patience)
                        .await
                        .is_some(),
                    1 => timeout(wait, semaphore.acquire(permits)).await.is_ok(),
                    2 => semaphore.try_acquire_for(permits, wait).await.unwrap(),
                    3 => {
                        let call = acquire(&semaphore, permits).await;
                        yields(patience).await;
                        call.abort().await.is_some()
                    }
                    _ => {
                        semaphore.acquire(permits).await.unwrap();
                        true
                    }
                };
                if taken {
                    gauge.enter(permits, 5);
                    yields(1).await;
                    gauge.exit(permits);
                    semaphore.release(permits).await.unwrap();
                }
            }
        })
    });
    join(tasks.collect()).await;
    assert_all_back(&semaphore, 5).await;
    assert_all_back(&other, 5).await;
}
