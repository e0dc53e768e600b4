//! Waiting: its end, and its order.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::{Fixture, Holdable, SHORT, assert_free, pass_on, release, take, take_for};
use crate::contract::call::{Call, LIMIT, Unguarded, join};
use crate::contract::support::assert_passed;

pub(crate) async fn a_release_wakes_a_waiter(fixture: &impl Fixture) {
    let holder = fixture.fresh().await;
    for waiter in fixture.others(&holder) {
        let held = holder.take().await;
        let mut waiting = take(&waiter).await;
        waiting.assert_waits(&holder).await;
        assert!(!holder.is_free().await);
        holder.give(&held).await;
        pass_on(waiting, &waiter).await;
        assert_free(&holder).await;
    }
}

/// Each one releases it at once.
pub(crate) async fn arrival_order(fixture: &impl Fixture) {
    let holder = fixture.fresh().await;
    for timed in [1, 2] {
        let held = holder.take().await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for number in 0..8 {
            let waiter = fixture.neighbour(&holder);
            let handle = waiter.clone();
            let waiting = Call::start(async move {
                match number % timed {
                    0 => handle.take_for(2 * LIMIT).await.expect("it is served"),
                    _ => handle.take().await,
                }
            })
            .await;
            let order = Arc::clone(&order);
            tasks.push(tokio::spawn(async move {
                let held = waiting.answer().await;
                order.lock().unwrap().push(number);
                waiter.give(&held).await;
            }));
        }
        holder.give(&held).await;
        join(tasks).await;
        assert_eq!(*order.lock().unwrap(), (0..8).collect::<Vec<_>>());
    }
}

pub(crate) async fn a_try_does_not_queue(fixture: &impl Fixture) {
    let holder = fixture.fresh().await;
    let waiter = fixture.neighbour(&holder);
    let held = holder.take().await;
    let waiting = take(&waiter).await;
    for other in fixture.others(&holder) {
        assert!(other.try_take().await.is_none());
    }
    holder.give(&held).await;
    pass_on(waiting, &waiter).await;
    assert_free(&holder).await;
}

pub(crate) async fn a_wait_of_zero_is_one_attempt(fixture: &impl Fixture) {
    let holder = fixture.fresh().await;
    let held = holder.take_for(Duration::ZERO).await.expect("it is free");
    for other in fixture.others(&holder) {
        assert!(other.take_for(Duration::ZERO).await.is_none());
    }
    holder.give(&held).await;
    assert_free(&holder).await;
}

pub(crate) async fn a_wait_that_runs_out_takes_nothing_later(fixture: &impl Fixture) {
    let holder = fixture.fresh().await;
    for waiter in fixture.others(&holder) {
        let held = holder.take().await;
        let start = Instant::now();
        let short = take_for(&waiter, SHORT).await;
        let next = fixture.neighbour(&holder);
        let long = take(&next).await;
        assert!(short.answer().await.is_none());
        assert_passed(start, SHORT);
        holder.give(&held).await;
        pass_on(long, &next).await;
        assert_free(&holder).await;
    }
}

pub(crate) async fn a_wait_without_end(fixture: &impl Fixture) {
    let holder = fixture.fresh().await;
    let waiter = fixture.stranger(&holder);
    let held = holder.take().await;
    let mut waiting = take_for(&waiter, Duration::MAX).await;
    waiting.assert_waits(&holder).await;
    holder.give(&held).await;
    assert!(waiting.answer().await.is_some());
}

/// A release that meets the deadline: the caller has it, or it is free.
pub(crate) async fn free_at_the_deadline(fixture: &impl Fixture) {
    let holder = fixture.fresh().await;
    let wait = Duration::from_millis(10);
    for round in 0..40 {
        let waiter = &fixture.others(&holder)[round as usize % 2];
        let held = holder.take().await;
        let waiting = take_for(waiter, wait).await;
        // From well before the deadline to well after it.
        sleep(wait * round / 20).await;
        holder.give(&held).await;
        if let Some(held) = waiting.answer().await {
            waiter.give(&held).await;
        }
        assert_free(&holder).await;
    }
}

/// Callers of two clients take it in all ways.
pub(crate) async fn callers_exclude_each_other(fixture: &impl Fixture) {
    let first = fixture.fresh().await;
    let number = Arc::new(Unguarded::default());
    let shared = fixture.others(&first);
    let tasks = (0..16).map(|task| {
        // A guard is a caller of its own; other calls have a handle of their own.
        let shared = shared[task % 2].clone();
        let own = fixture.others(&first)[task % 2].clone();
        let number = Arc::clone(&number);
        tokio::spawn(async move {
            for round in 0..15 {
                match (task + round) % 5 {
                    0 => {
                        let held = own.take().await;
                        number.add_one().await;
                        own.give(&held).await;
                    }
                    1 => {
                        let held = own.take_for(2 * LIMIT).await.expect("it is served");
                        number.add_one().await;
                        own.give(&held).await;
                    }
                    2 => {
                        let _guard = shared.guard().await;
                        number.add_one().await;
                    }
                    3 => {
                        let guard = shared.guard_for(2 * LIMIT).await.expect("it is served");
                        number.add_one().await;
                        release(&shared, guard).await;
                    }
                    _ => {
                        if let Some(_guard) = shared.try_guard().await {
                            number.add_one().await;
                        }
                    }
                }
            }
        })
    });
    join(tasks.collect()).await;
    assert_free(&first).await;
}
