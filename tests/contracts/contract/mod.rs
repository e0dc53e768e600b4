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

/// A module `$suite` with one test a case. The cases stand in the modules of `$contract`. Those of `holdable` come with them by the
/// adapter of `$trait`.
macro_rules! suite_cases {
    ($contract:ident, $suite:ident, $setup:expr $(, $trait:ident)?; $($module:ident: [$($case:ident,)*])*) => {
        mod $suite {
            #[allow(unused_imports)]
            use super::*;
            $(holdable_cases! { $trait, $setup })?
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
        suite_cases! { contract, $suite, $setup, contract;
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
                smaller_requests_pass_a_larger_one,
                nobody_passes_one_that_fits,
                a_larger_one_is_not_starved,
                mixed_sizes_are_all_served,
                try_acquire_does_not_queue,
            ]
            ttl: [
                a_semaphore_vanishes_with_its_permits,
                a_time_to_live_is_not_set_on_an_existing_semaphore,
                changes_keep_the_time_to_live,
                a_vanished_semaphore_can_be_set_anew,
                waiters_outlive_the_semaphore,
                less_than_a_millisecond_is_refused,
                more_than_can_be_counted_is_refused,
            ]
            cancel: [
                a_dropped_waiter_does_not_hold_up_the_next,
                aborted_while_being_granted,
                lost_in_a_select,
                lost_in_a_timeout,
                churn,
            ]
            guards: [
                a_guard_tells_what_it_holds,
                a_guard_is_split_and_merged,
                a_part_of_merged_guards_leaves_the_rest,
                guards_that_do_not_fit_together_give_back_what_they_hold,
                a_release_that_fails_tells,
                guards_in_time_and_now,
                guards_of_nothing,
                guards_above_the_range,
                a_guard_of_one_that_has_vanished_makes_none,
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
