//! Futures that are dropped wherever they are: nothing is lost, and nothing is left behind.

use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::sleep;

use super::{Fixture, Holdable, assert_free, guard, pass_on, release, take, take_for};
use crate::contract::call::{Call, LIMIT, Object, join};
use crate::support::polls::poll_times;

pub(crate) async fn calls_that_were_never_polled(fixture: &impl Fixture) {
    let holder = fixture.fresh().await;
    drop(holder.take());
    drop(holder.try_take());
    drop(holder.take_for(LIMIT));
    drop(holder.guard());
    drop(holder.try_guard());
    drop(holder.guard_for(LIMIT));
    holder.answers().await;
    assert!(holder.is_free().await);
    let held = holder.take().await;
    drop(holder.give(&held));
    holder.drop_calls_that_free_it();
    holder.answers().await;
    assert!(!holder.is_free().await);
    holder.give(&held).await;
    assert_free(&holder).await;
}

pub(crate) async fn a_dropped_waiter_takes_nothing(fixture: &impl Fixture) {
    let holder = fixture.fresh().await;
    for waiter in fixture.others(&holder) {
        let held = holder.take().await;
        let (untimed, timed) = (take(&waiter).await, take_for(&waiter, LIMIT).await);
        assert!(untimed.abort().await.is_none());
        assert!(timed.abort().await.is_none());
        holder.give(&held).await;
        assert_free(&holder).await;
    }
}

pub(crate) async fn a_dropped_waiter_does_not_hold_up_the_next(fixture: &impl Fixture) {
    let holder = fixture.fresh().await;
    for gone in fixture.others(&holder) {
        for next in fixture.others(&holder) {
            let held = holder.take().await;
            let (gone, waiting) = (take(&gone).await, take(&next).await);
            assert!(gone.abort().await.is_none());
            holder.give(&held).await;
            pass_on(waiting, &next).await;
        }
    }
}

pub(crate) async fn dropped_between_two_that_wait(fixture: &impl Fixture) {
    let holder = fixture.fresh().await;
    for between in fixture.others(&holder) {
        let (first, third) = (fixture.neighbour(&holder), fixture.neighbour(&holder));
        let held = holder.take().await;
        let one = take(&first).await;
        let two = take(&between).await;
        let three = take(&third).await;
        assert!(two.abort().await.is_none());
        holder.give(&held).await;
        pass_on(one, &first).await;
        pass_on(three, &third).await;
        assert_free(&holder).await;
    }
}

/// It becomes free before the call, while it is polled for the k-th time, and at any time.
pub(crate) async fn dropped_after_every_number_of_polls(fixture: &impl Fixture) {
    let holder = fixture.fresh().await;
    for polls in 0..30 {
        let waiter = &fixture.others(&holder)[polls % 2];
        if let Some(held) = poll_times(waiter.take(), polls).await {
            waiter.give(&held).await;
        }
        assert_free(&holder).await;

        let held = holder.take().await;
        let mut call = waiter.take();
        let early = poll_times(&mut call, 1 + polls / 2).await;
        assert!(early.is_none(), "two have it");
        holder.give(&held).await;
        if let Some(held) = poll_times(&mut call, polls % 3).await {
            waiter.give(&held).await;
        }
        drop(call);
        assert_free(&holder).await;

        let held = holder.take().await;
        let give = async {
            sleep(Duration::from_micros(polls as u64 * 50)).await;
            holder.give(&held).await;
        };
        let (taken, ()) = tokio::join!(poll_times(waiter.take(), polls), give);
        if let Some(held) = taken {
            waiter.give(&held).await;
        }
        assert_free(&holder).await;
    }
}

pub(crate) async fn aborted_while_being_granted(fixture: &impl Fixture) {
    let holder = fixture.fresh().await;
    for round in 0..30 {
        let waiter = &fixture.others(&holder)[round % 2];
        let held = holder.take().await;
        let waiting = take(waiter).await;
        let giver = holder.clone();
        let give = tokio::spawn(async move { giver.give(&held).await });
        for _ in 0..round % 4 {
            yield_now().await;
        }
        if let Some(held) = waiting.abort().await {
            waiter.give(&held).await;
        }
        give.await.unwrap();
        assert_free(&holder).await;
    }
}

pub(crate) async fn aborted_at_any_time(fixture: &impl Fixture) {
    let first = fixture.fresh().await;
    for round in 0..12 {
        let mut calls = Vec::new();
        for number in 0..6 {
            let handle = fixture.others(&first)[number % 2].clone();
            let call = async move {
                loop {
                    release(&handle, handle.guard().await).await;
                }
            };
            calls.push(Call::<()>::start(call).await);
        }
        sleep(Duration::from_micros(300 * round)).await;
        for call in calls {
            call.abort().await;
        }
        assert_free(&first).await;
    }
}

pub(crate) async fn churn(fixture: &impl Fixture) {
    let first = fixture.fresh().await;
    let tasks = (0..12).map(|number| {
        let handle = fixture.others(&first)[number % 2].clone();
        tokio::spawn(async move {
            for polls in 0..40 {
                drop(poll_times(handle.guard(), (polls * 7 + number) % 13).await);
            }
        })
    });
    join(tasks.collect()).await;
    assert_free(&first).await;
}

pub(crate) async fn a_release_that_is_dropped_is_carried_out(fixture: &impl Fixture) {
    let holder = fixture.fresh().await;
    for polls in 1..6 {
        for waiter in fixture.others(&holder) {
            let held = holder.take().await;
            let waiting = guard(&waiter).await;
            let _ = poll_times(holder.give(&held), polls).await;
            drop(waiting.answer().await);
            assert_free(&holder).await;
        }
    }
}
