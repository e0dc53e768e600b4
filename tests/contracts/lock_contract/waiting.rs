//! Who waits, who is woken, and in what order.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::Fixture;
use super::support::{Call, Handle, LIMIT, SHORT, assert_free, assert_held, lock, lock_for};

async fn unlocked_for(holder: &Handle, waiter: &Handle) {
    holder.lock().await.unwrap();
    let mut waiting = lock(waiter).await;
    waiting.assert_waits(holder).await;
    holder.unlock().await.unwrap();
    waiting.answer().await.unwrap();
    assert_held(waiter, 1).await;
    waiter.unlock().await.unwrap();
    assert_free(holder).await;
}

pub(crate) async fn an_unlock_wakes_a_neighbour(fixture: &impl Fixture) {
    let holder = fixture.fresh("neighbour");
    unlocked_for(&holder, &fixture.neighbour(&holder)).await;
}

pub(crate) async fn an_unlock_wakes_a_stranger(fixture: &impl Fixture) {
    let holder = fixture.fresh("stranger");
    unlocked_for(&holder, &fixture.stranger(&holder)).await;
}

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
        // By the lease's end, not by the slow check that comes after seconds.
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
        // A stranger's question might arrive before.
        first.assert_waits(&holder).await;
        let second = lock(&waiter).await;
        holder.unlock().await.unwrap();
        first.answer().await.unwrap();
        second.answer().await.unwrap();
        waiter.unlock().await.unwrap();
    }
}

/// Lets each waiter take the lock, note its number, and unlock; returns the numbers in order.
async fn served(waiting: Vec<(Handle, Call<bool>)>, holder: &Handle) -> Vec<usize> {
    let order = Arc::new(Mutex::new(Vec::new()));
    let tasks: Vec<_> = waiting
        .into_iter()
        .enumerate()
        .map(|(number, (handle, call))| {
            let order = Arc::clone(&order);
            tokio::spawn(async move {
                assert!(call.answer().await);
                order.lock().unwrap().push(number);
                handle.unlock().await.unwrap();
            })
        })
        .collect();
    holder.unlock().await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    Arc::into_inner(order).unwrap().into_inner().unwrap()
}

pub(crate) async fn arrival_order(fixture: &impl Fixture) {
    let holder = fixture.fresh("order");
    holder.lock().await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..8 {
        let waiter = fixture.neighbour(&holder);
        let handle = Arc::clone(&waiter);
        let call = Call::start(async move { handle.lock().await.is_ok() }).await;
        waiting.push((waiter, call));
    }
    assert_eq!(served(waiting, &holder).await, (0..8).collect::<Vec<_>>());
}

pub(crate) async fn arrival_order_of_timed_and_untimed(fixture: &impl Fixture) {
    let holder = fixture.fresh("mixed");
    holder.lock().await.unwrap();
    let mut waiting = Vec::new();
    for number in 0..8 {
        let waiter = fixture.neighbour(&holder);
        let handle = Arc::clone(&waiter);
        let call = Call::start(async move {
            if number % 2 == 0 {
                handle.try_lock_for(LIMIT).await.unwrap()
            } else {
                handle.lock().await.is_ok()
            }
        })
        .await;
        waiting.push((waiter, call));
    }
    assert_eq!(served(waiting, &holder).await, (0..8).collect::<Vec<_>>());
}

pub(crate) async fn try_lock_does_not_queue(fixture: &impl Fixture) {
    let holder = fixture.fresh("queue");
    let (waiter, other) = (fixture.neighbour(&holder), fixture.neighbour(&holder));
    holder.lock().await.unwrap();
    let waiting = lock(&waiter).await;
    assert!(!other.try_lock().await.unwrap());
    holder.unlock().await.unwrap();
    waiting.answer().await.unwrap();
    waiter.unlock().await.unwrap();
    assert_free(&other).await;
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
    // In whichever order: they are of different clients.
    futures::future::join_all(served).await;
    assert_free(&holder).await;
}

pub(crate) async fn a_wait_that_runs_out(fixture: &impl Fixture) {
    let holder = fixture.fresh("runs out");
    holder.lock().await.unwrap();
    for waiter in [fixture.neighbour(&holder), fixture.stranger(&holder)] {
        let start = Instant::now();
        assert!(!waiter.try_lock_for(SHORT).await.unwrap());
        assert!(start.elapsed() + Duration::from_millis(2) >= SHORT);
        let lease = Duration::from_secs(1);
        assert!(!waiter.with_lease(lease).try_lock_for(SHORT).await.unwrap());
    }
    holder.unlock().await.unwrap();
}

pub(crate) async fn a_wait_that_runs_out_takes_nothing_later(fixture: &impl Fixture) {
    let holder = fixture.fresh("later");
    let waiter = fixture.stranger(&holder);
    holder.lock().await.unwrap();
    assert!(!waiter.try_lock_for(SHORT).await.unwrap());
    holder.unlock().await.unwrap();
    assert_free(&holder).await;
    assert!(!waiter.is_held().await.unwrap());
}

pub(crate) async fn a_wait_of_zero_is_one_attempt(fixture: &impl Fixture) {
    let lock = fixture.fresh("zero");
    assert!(lock.try_lock_for(Duration::ZERO).await.unwrap());
    let other = fixture.stranger(&lock);
    assert!(!other.try_lock_for(Duration::ZERO).await.unwrap());
    lock.unlock().await.unwrap();
}

pub(crate) async fn a_wait_without_end(fixture: &impl Fixture) {
    let holder = fixture.fresh("no end");
    let waiter = fixture.stranger(&holder);
    holder.lock().await.unwrap();
    let waiting = lock_for(&waiter, Duration::MAX).await;
    holder.unlock().await.unwrap();
    assert!(waiting.answer().await.unwrap());
    waiter.unlock().await.unwrap();
}

pub(crate) async fn a_lock_that_is_free_at_the_deadline(fixture: &impl Fixture) {
    for round in 0..20 {
        let holder = fixture.fresh("deadline");
        let waiter = fixture.stranger(&holder);
        holder.lock().await.unwrap();
        let waiting = lock_for(&waiter, Duration::from_millis(round)).await;
        tokio::time::sleep(Duration::from_millis(round)).await;
        holder.unlock().await.unwrap();
        if waiting.answer().await.unwrap() {
            assert_held(&waiter, 1).await;
            waiter.unlock().await.unwrap();
        }
        assert_free(&holder).await;
    }
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
