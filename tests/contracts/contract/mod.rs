//! The contract of `Semaphore`: every case written once, run for every implementation.
//!
//! [`contract_suite!`] turns each case into a test of its own. A case that stands in no list below is
//! dead code, which does not compile here: so no implementation can miss one.

#![deny(dead_code)]

pub(crate) mod amounts;
pub(crate) mod call;
pub(crate) mod cancel;
pub(crate) mod guards;
pub(crate) mod load;
pub(crate) mod support;
pub(crate) mod ttl;
pub(crate) mod waiting;

use std::sync::Arc;

use redisson_semaphore::{Permit, Semaphore};

/// Where an implementation comes from. It lives until the test ends, with all that the semaphores need.
pub(crate) trait Fixture {
    /// A handle to a semaphore that does not exist, of a name used nowhere else.
    fn fresh(&self, hint: &str) -> Arc<dyn Semaphore>;

    /// A handle to the same semaphore that shares as little as possible with `of`: that of another
    /// client, where there are clients.
    fn second(&self, of: &Arc<dyn Semaphore>) -> Arc<dyn Semaphore>;
}

/// The trait is object-safe; handles and guards go anywhere.
const _: () = {
    const fn anywhere<T: Send + Sync + 'static + ?Sized>() {}
    anywhere::<dyn Semaphore>();
    anywhere::<Arc<dyn Semaphore>>();
    anywhere::<Permit>();
};

/// A module `$suite` with one test a case. The cases stand in the modules of `$contract`.
macro_rules! suite_cases {
    ($contract:ident, $suite:ident, $setup:expr; $($module:ident: [$($case:ident,)*])*) => {
        mod $suite {
            $(mod $module {
                #[allow(unused_imports)]
                use super::super::*;
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let fixture = $setup;
                    let case = $crate::$contract::$module::$case(&fixture);
                    $crate::contract::call::within_limit(case).await;
                })*
            })*
        }
    };
}

/// `contract_suite!(name, setup)`: a module `name` with one test a case.
///
/// `setup` is an expression that gives a [`Fixture`]; it is evaluated for each test anew, in an async
/// function, and may `.await`.
macro_rules! contract_suite {
    ($suite:ident, $setup:expr) => {
        suite_cases! { contract, $suite, $setup;
            amounts: [
                zero_succeeds_at_once_and_changes_nothing,
                zero_while_others_wait,
                add_zero_creates_the_semaphore,
                set_zero_creates_the_semaphore,
                too_many_permits_are_refused,
                the_most_permits_can_be_moved_at_once,
                a_sum_above_the_range_changes_nothing,
                a_sum_below_the_range_changes_nothing,
                negative_counters_grant_nothing,
                drain_of_a_negative_counter,
                operations_that_do_not_create,
                a_counter_of_zero_exists,
                all_or_nothing,
                each_change_counts_from_the_last,
            ]
            waiting: [
                one_release_wakes_all_it_is_enough_for,
                set_permits_wakes_waiters,
                set_permits_for_a_time_wakes_waiters,
                release_if_exists_wakes_waiters,
                add_permits_wakes_waiters,
                waiters_of_a_negative_counter,
                drain_wakes_nobody,
                another_client_wakes_waiters,
                arrival_order,
                arrival_order_of_timed_and_untimed,
                smaller_requests_pass_a_larger_one,
                nobody_passes_one_that_fits,
                a_larger_one_is_not_starved,
                mixed_sizes_are_all_served,
                try_acquire_does_not_queue,
                a_wait_of_zero_is_one_attempt,
                a_wait_that_runs_out,
                a_wait_that_runs_out_takes_nothing_later,
                a_wait_without_end,
                permits_at_the_deadline,
            ]
            ttl: [
                a_semaphore_vanishes_with_its_permits,
                a_time_to_live_is_not_set_on_an_existing_semaphore,
                release_keeps_the_time_to_live,
                release_if_exists_keeps_the_time_to_live,
                add_keeps_the_time_to_live,
                acquire_keeps_the_time_to_live,
                drain_keeps_the_time_to_live,
                a_vanished_semaphore_can_be_set_anew,
                waiters_outlive_the_semaphore,
                less_than_a_millisecond_is_refused,
                more_than_can_be_counted_is_refused,
            ]
            cancel: [
                calls_that_were_never_polled,
                a_dropped_waiter_takes_nothing,
                a_dropped_waiter_does_not_hold_up_the_next,
                dropped_between_two_that_wait,
                dropped_after_every_number_of_polls,
                aborted_while_being_granted,
                lost_in_a_select,
                lost_in_a_timeout,
                a_release_that_is_dropped_is_carried_out,
                churn,
            ]
            guards: [
                a_guard_gives_back_on_drop,
                a_guard_tells_what_it_holds,
                a_guard_is_split_and_merged,
                guards_that_do_not_fit_together_give_back_what_they_hold,
                a_guard_released_with_an_answer,
                a_release_that_is_never_polled_is_a_drop,
                a_release_that_fails_tells,
                a_forgotten_guard_keeps_the_permits,
                no_guard_in_time,
                no_guard_now,
                guards_in_time_and_now,
                guards_of_nothing,
                guards_above_the_range,
                a_guard_wakes_waiters,
                a_guard_outlives_the_handle,
                a_guard_of_one_that_has_vanished_makes_none,
                a_guard_of_an_aborted_task,
                a_guard_of_a_panicking_task,
                a_dropped_call_for_a_guard,
                guards_from_many_tasks,
                detached_releases,
                handles_share_the_permits,
            ]
            load: [
                never_more_holders_than_permits,
                two_clients_share_the_permits,
                a_signal_between_two_sides,
            ]
        }
    };
}
