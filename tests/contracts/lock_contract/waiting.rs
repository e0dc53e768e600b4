//! Waiting callers: which callers are woken, and in which order.

use std::time::{Duration, Instant};

use super::Fixture;
use super::support::{Call, LIMIT, SHORT, assert_free, assert_held, lock, lock_for};

pub(crate) async fn force_unlock_wakes_a_waiter(fixture: &impl Fixture) {
    let holder = fixture.fresh("forced");
    let waiter = fixture.stranger(&holder);
    holder.lock().await.unwrap();
    let mut waiting = lock(&waiter).await;
    waiting.assert_waits(&holder).await;
    assert!(fixture.neighbour(&holder).force_unlock().await.unwrap());
    waiting.answer().await.unwrap();
    waiter.unlock().await.unwrap();
}

pub(crate) async fn the_end_of_a_lease_wakes_a_waiter(fixture: &impl Fixture) {
    let holder = fixture.fresh("lease");
    for waiter in [fixture.neighbour(&holder), fixture.stranger(&holder)] {
        holder.with_lease(4 * SHORT).lock().await.unwrap();
        let start = Instant::now();
        lock(&waiter).await.answer().await.unwrap();
        // The end of the lease wakes the waiter, not the slow check that comes seconds later.
        assert!(start.elapsed() < Duration::from_secs(3));
        waiter.unlock().await.unwrap();
    }
}

pub(crate) async fn the_end_of_the_lease_of_one_who_waited_wakes_the_next(fixture: &impl Fixture) {
    let holder = fixture.fresh("passed on");
    for waiter in [fixture.neighbour(&holder), fixture.stranger(&holder)] {
        holder.lock().await.unwrap();
        let between = fixture.neighbour(&holder);
        let mut first =
            Call::start(async move { between.with_lease(4 * SHORT).lock().await }).await;
        // Without this check, the second waiter's request might arrive first, as it comes from another client.
        first.assert_waits(&holder).await;
        let second = lock(&waiter).await;
        holder.unlock().await.unwrap();
        first.answer().await.unwrap();
        second.answer().await.unwrap();
        waiter.unlock().await.unwrap();
    }
}

pub(crate) async fn the_holder_passes_those_who_wait(fixture: &impl Fixture) {
    let holder = fixture.fresh("passes");
    let waiters = [fixture.neighbour(&holder), fixture.stranger(&holder)];
    holder.lock().await.unwrap();
    let waiting = [lock(&waiters[0]).await, lock(&waiters[1]).await];
    holder.lock().await.unwrap();
    assert!(holder.try_lock_for(LIMIT).await.unwrap());
    assert_held(&holder, 3).await;
    for _ in 0..3 {
        holder.unlock().await.unwrap();
    }
    let served = waiters.iter().zip(waiting).map(|(waiter, call)| async {
        call.answer().await.unwrap();
        waiter.unlock().await.unwrap();
    });
    // The order is open, as the waiters belong to different clients.
    futures::future::join_all(served).await;
    assert_free(&holder).await;
}

pub(crate) async fn two_calls_of_one_owner_wait_for_others_only(fixture: &impl Fixture) {
    let holder = fixture.fresh("twice");
    for waiter in [fixture.neighbour(&holder), fixture.stranger(&holder)] {
        holder.lock().await.unwrap();
        let mut one = lock(&waiter).await;
        let two = lock_for(&waiter, LIMIT).await;
        let three = lock(&waiter).await;
        one.assert_waits(&holder).await;
        holder.unlock().await.unwrap();
        one.answer().await.unwrap();
        assert!(two.answer().await.unwrap(), "it holds the lock");
        three.answer().await.unwrap();
        assert_held(&waiter, 3).await;
        for left in [2, 1, 0] {
            waiter.unlock().await.unwrap();
            assert_held(&waiter, left).await;
        }
        assert_free(&holder).await;
    }
}

pub(crate) async fn two_calls_of_one_owner_come_before_others(fixture: &impl Fixture) {
    let holder = fixture.fresh("before");
    let (first, second) = (fixture.neighbour(&holder), fixture.neighbour(&holder));
    holder.lock().await.unwrap();
    let one = lock(&first).await;
    let mut between = lock(&second).await;
    let two = lock(&first).await;
    holder.unlock().await.unwrap();
    one.answer().await.unwrap();
    two.answer().await.unwrap();
    first.unlock().await.unwrap();
    between.assert_waits(&holder).await;
    first.unlock().await.unwrap();
    between.answer().await.unwrap();
    second.unlock().await.unwrap();
    assert_free(&holder).await;
}
