//! The contract of everything that callers hold: semaphores, permits with ids, locks. Each case is written once. The suites of the three
//! traits contain all of them, for an object that one caller holds at a time.

#![deny(dead_code)]

pub(crate) mod cancel;
pub(crate) mod guards;
pub(crate) mod waiting;

use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::{Instant, sleep};

use crate::contract::call::{Call, LIMIT, Object};

/// A wait that is over soon.
const SHORT: Duration = Duration::from_millis(60);

/// A handle. Each method calls that of the trait at once, so a future that is dropped unpolled is one of the trait.
pub(crate) trait Holdable: Object + Clone + Send + Sync + 'static {
    /// A hold without a guard.
    type Held: Send + 'static;
    type Guard: Send + 'static;

    fn take(&self) -> BoxFuture<'_, Self::Held>;
    fn try_take(&self) -> BoxFuture<'_, Option<Self::Held>>;
    fn take_for(&self, wait: Duration) -> BoxFuture<'_, Option<Self::Held>>;
    /// Releases a hold of this handle.
    fn give<'a>(&'a self, held: &'a Self::Held) -> BoxFuture<'a, ()>;
    /// Makes calls that free the object from all holders, and drops them unpolled.
    fn drop_calls_that_free_it(&self) {}

    fn guard(&self) -> BoxFuture<'_, Self::Guard>;
    fn try_guard(&self) -> BoxFuture<'_, Option<Self::Guard>>;
    fn guard_for(&self, wait: Duration) -> BoxFuture<'_, Option<Self::Guard>>;
    fn release(guard: Self::Guard) -> BoxFuture<'static, ()>;
    /// The hold of a forgotten guard, and the handle that releases it.
    fn forget(&self, guard: Self::Guard) -> (Self, Self::Held);

    /// Whether nobody holds it.
    fn is_free(&self) -> BoxFuture<'_, bool>;
}

/// Where objects come from.
pub(crate) trait Fixture {
    type Handle: Holdable;

    /// A handle to an object that nobody holds.
    async fn fresh(&self) -> Self::Handle;

    /// A handle for another caller of the same client.
    fn neighbour(&self, of: &Self::Handle) -> Self::Handle;

    /// A handle for a caller of another client, where there are clients.
    fn stranger(&self, to: &Self::Handle) -> Self::Handle;

    /// One of each.
    fn others(&self, of: &Self::Handle) -> [Self::Handle; 2] {
        [self.neighbour(of), self.stranger(of)]
    }
}

/// `take` in a task.
async fn take<H: Holdable>(handle: &H) -> Call<H::Held> {
    let handle = handle.clone();
    Call::start(async move { handle.take().await }).await
}

/// `take_for` in a task.
async fn take_for<H: Holdable>(handle: &H, wait: Duration) -> Call<Option<H::Held>> {
    let handle = handle.clone();
    Call::start(async move { handle.take_for(wait).await }).await
}

/// `guard` in a task.
async fn guard<H: Holdable>(handle: &H) -> Call<H::Guard> {
    let handle = handle.clone();
    Call::start(async move { handle.guard().await }).await
}

/// Releases a guard of this handle.
fn release<H: Holdable>(_: &H, guard: H::Guard) -> BoxFuture<'static, ()> {
    H::release(guard)
}

/// Waits for an answer and releases the hold.
async fn pass_on<H: Holdable>(call: Call<H::Held>, handle: &H) {
    handle.give(&call.answer().await).await;
}

/// Waits until the object can be taken, and releases it: nobody has kept it, and nobody takes it behind that. A caller that was dropped
/// may have it for a moment.
async fn assert_free<H: Holdable>(handle: &H) {
    let held = handle.take_for(LIMIT).await;
    handle.give(&held.expect("somebody has kept it")).await;
    let end = Instant::now() + LIMIT;
    while !handle.is_free().await {
        assert!(Instant::now() < end, "somebody keeps it, or has made more");
        sleep(Duration::from_millis(1)).await;
    }
}

/// A module `holdable` with one test a case, for the suite of another trait, whose `Holdables` adapts its fixture.
macro_rules! holdable_cases {
    ($contract:ident, $setup:expr) => {
        suite_cases! { holdable, holdable, $crate::$contract::support::Holdables($setup);
            waiting: [
                a_release_wakes_a_waiter,
                arrival_order,
                a_try_does_not_queue,
                a_wait_of_zero_is_one_attempt,
                a_wait_that_runs_out_takes_nothing_later,
                a_wait_without_end,
                free_at_the_deadline,
                callers_exclude_each_other,
            ]
            cancel: [
                calls_that_were_never_polled,
                a_dropped_waiter_takes_nothing,
                a_dropped_waiter_does_not_hold_up_the_next,
                dropped_between_two_that_wait,
                dropped_after_every_number_of_polls,
                aborted_while_being_granted,
                aborted_at_any_time,
                churn,
                a_release_that_is_dropped_is_carried_out,
            ]
            guards: [
                a_guard_releases_on_drop,
                a_guard_released_with_an_answer,
                a_release_that_is_never_polled_is_a_drop,
                a_forgotten_guard_keeps_its_hold,
                no_guard_now_or_in_time,
                a_guard_wakes_waiters,
                a_guard_outlives_its_handle,
                a_guard_of_an_aborted_task,
                a_guard_of_a_panicking_task,
                a_dropped_call_for_a_guard,
            ]
        }
    };
}
