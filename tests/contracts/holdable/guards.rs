//! Guards: their holds come back.

use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::task::yield_now;

use super::{Fixture, Holdable, SHORT, assert_free, guard, pass_on, release, take};
use crate::contract::call::LIMIT;
use crate::contract::support::assert_passed;
use crate::support::polls::poll_times;

pub(crate) async fn a_guard_releases_on_drop(fixture: &impl Fixture) {
    let holder = fixture.fresh().await;
    let guard = holder.guard().await;
    assert!(!holder.is_free().await);
    drop(guard);
    assert_free(&fixture.stranger(&holder)).await;
    assert_free(&holder).await;
}

pub(crate) async fn a_guard_released_with_an_answer(fixture: &impl Fixture) {
    let holder = fixture.fresh().await;
    let guard = holder.try_guard().await.expect("it is free");
    release(&holder, guard).await;
    // At once, and once only.
    assert!(holder.is_free().await);
    assert_free(&holder).await;
}

pub(crate) async fn a_release_that_is_never_polled_is_a_drop(fixture: &impl Fixture) {
    let holder = fixture.fresh().await;
    for polls in 0..3 {
        let guard = holder.guard().await;
        let _ = poll_times(release(&holder, guard), polls).await;
        assert_free(&holder).await;
    }
}

pub(crate) async fn a_forgotten_guard_keeps_its_hold(fixture: &impl Fixture) {
    let holder = fixture.fresh().await;
    let guard = holder.guard().await;
    let (owner, held) = holder.forget(guard);
    let waiter = fixture.stranger(&holder);
    assert!(waiter.try_take().await.is_none());
    let mut waiting = take(&waiter).await;
    waiting.assert_waits(&holder).await;
    owner.give(&held).await;
    pass_on(waiting, &waiter).await;
    assert_free(&holder).await;
}

pub(crate) async fn no_guard_now_or_in_time(fixture: &impl Fixture) {
    let holder = fixture.fresh().await;
    for other in fixture.others(&holder) {
        let guard = holder.guard().await;
        assert!(other.try_guard().await.is_none());
        assert!(other.guard_for(Duration::ZERO).await.is_none());
        let start = Instant::now();
        assert!(other.guard_for(SHORT).await.is_none());
        assert_passed(start, SHORT);
        drop(guard);
        assert!(other.guard_for(LIMIT).await.is_some());
        assert_free(&holder).await;
    }
}

pub(crate) async fn a_guard_wakes_waiters(fixture: &impl Fixture) {
    let holder = fixture.fresh().await;
    let guard = holder.guard().await;
    let [here, there] = fixture.others(&holder);
    let calls = [take(&here).await, take(&there).await];
    drop(guard);
    let passed = calls.into_iter().zip([&here, &there]);
    // In whichever order: they are of different clients.
    futures::future::join_all(passed.map(|(call, handle)| pass_on(call, handle))).await;
    assert_free(&holder).await;
}

pub(crate) async fn a_guard_outlives_its_handle(fixture: &impl Fixture) {
    let holder = fixture.fresh().await;
    let other = fixture.stranger(&holder);
    let guard = holder.guard().await;
    drop(holder);
    assert!(other.try_take().await.is_none());
    let waiting = take(&other).await;
    drop(guard);
    pass_on(waiting, &other).await;
    assert_free(&other).await;
}

pub(crate) async fn a_guard_of_an_aborted_task(fixture: &impl Fixture) {
    let holder = fixture.fresh().await;
    let (taken, seen) = oneshot::channel();
    let handle = holder.clone();
    let task = tokio::spawn(async move {
        let _guard = handle.guard().await;
        let _ = taken.send(());
        std::future::pending::<()>().await;
    });
    seen.await.unwrap();
    task.abort();
    assert_free(&fixture.stranger(&holder)).await;
}

pub(crate) async fn a_guard_of_a_panicking_task(fixture: &impl Fixture) {
    let holder = fixture.fresh().await;
    let guard = holder.guard().await;
    let task = tokio::spawn(async move {
        let _guard = guard;
        std::panic::resume_unwind(Box::new("as the test wants it"));
    });
    assert!(task.await.unwrap_err().is_panic());
    assert_free(&fixture.stranger(&holder)).await;
}

pub(crate) async fn a_dropped_call_for_a_guard(fixture: &impl Fixture) {
    let holder = fixture.fresh().await;
    for round in 0..30 {
        let held = holder.take().await;
        let waiting = guard(&fixture.others(&holder)[round % 2]).await;
        holder.give(&held).await;
        for _ in 0..round % 3 {
            yield_now().await;
        }
        drop(waiting.abort().await);
        assert_free(&holder).await;
    }
}
