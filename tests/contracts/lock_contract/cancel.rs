//! Dropped futures: nobody is left holding the lock, nobody waits for ever.

use std::sync::Arc;

use super::Fixture;
use super::support::{LIMIT, assert_free, assert_held, lock, poll_times};

pub(crate) async fn calls_that_were_never_polled(fixture: &impl Fixture) {
    let lock = fixture.fresh("never");
    drop(lock.lock());
    drop(lock.try_lock());
    drop(lock.guard());
    assert!(!lock.is_locked().await.unwrap());
    lock.lock().await.unwrap();
    drop(lock.unlock());
    drop(lock.force_unlock());
    assert_held(&lock, 1).await;
    lock.unlock().await.unwrap();
}

pub(crate) async fn a_dropped_waiter_takes_nothing(fixture: &impl Fixture) {
    let holder = fixture.fresh("dropped");
    for waiter in [fixture.neighbour(&holder), fixture.stranger(&holder)] {
        holder.lock().await.unwrap();
        let waiting = lock(&waiter).await;
        assert!(waiting.abort().await.is_none());
        holder.unlock().await.unwrap();
        assert_free(&holder).await;
        assert!(!waiter.is_held().await.unwrap());
    }
}

pub(crate) async fn a_dropped_waiter_does_not_hold_up_the_next(fixture: &impl Fixture) {
    let holder = fixture.fresh("next");
    let (first, second) = (fixture.neighbour(&holder), fixture.neighbour(&holder));
    holder.lock().await.unwrap();
    let (gone, waits) = (lock(&first).await, lock(&second).await);
    gone.abort().await;
    holder.unlock().await.unwrap();
    waits.answer().await.unwrap();
    second.unlock().await.unwrap();
}

pub(crate) async fn dropped_after_every_number_of_polls(fixture: &impl Fixture) {
    for polls in 0..30 {
        let holder = fixture.fresh("polls");
        let other = fixture.stranger(&holder);
        if polls % 2 == 0 {
            holder.lock().await.unwrap();
        }
        let taken = poll_times(other.lock(), polls).await;
        if polls % 2 == 0 {
            holder.unlock().await.unwrap();
        }
        if taken.is_some() {
            other.unlock().await.unwrap();
        }
        assert_free(&holder).await;
    }
}

pub(crate) async fn aborted_while_being_granted(fixture: &impl Fixture) {
    for _ in 0..30 {
        let holder = fixture.fresh("granted");
        let waiter = fixture.stranger(&holder);
        holder.lock().await.unwrap();
        let waiting = lock(&waiter).await;
        let unlock = {
            let holder = Arc::clone(&holder);
            tokio::spawn(async move { holder.unlock().await })
        };
        if waiting.abort().await.is_some() {
            waiter.unlock().await.unwrap();
        }
        unlock.await.unwrap().unwrap();
        assert_free(&holder).await;
    }
}

pub(crate) async fn an_unlock_that_is_dropped_is_carried_out(fixture: &impl Fixture) {
    let lock = fixture.fresh("unlock");
    let other = fixture.stranger(&lock);
    for polls in 1..6 {
        lock.lock().await.unwrap();
        poll_times(lock.unlock(), polls).await;
        assert_free(&other).await;
    }
}

pub(crate) async fn churn(fixture: &impl Fixture) {
    let lock = fixture.fresh("churn");
    let tasks: Vec<_> = (0..12)
        .map(|number| {
            let handle = if number % 2 == 0 {
                fixture.neighbour(&lock)
            } else {
                fixture.stranger(&lock)
            };
            tokio::spawn(async move {
                for polls in 0..40 {
                    let polls = (polls * 7 + number) % 13;
                    if let Some(guard) = poll_times(handle.guard(), polls).await {
                        drop(guard.unwrap());
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        tokio::time::timeout(LIMIT, task).await.unwrap().unwrap();
    }
    assert_free(&lock).await;
}
