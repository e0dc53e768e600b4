//! The contract of `Lock`: every case written once, run for every implementation.
//!
//! [`lock_suite!`] turns each case into a test of its own. A case that stands in no group below is dead code, which
//! does not compile here: so no implementation can miss one.

#![deny(dead_code)]

pub(crate) mod guards;
pub(crate) mod holding;
pub(crate) mod leases;
pub(crate) mod support;
pub(crate) mod waiting;

use std::sync::Arc;

use redisson_semaphore::{Lock, LockGuard};

/// Where an implementation comes from. It lives until the test ends, with all that the locks need.
pub(crate) trait Fixture {
    /// A handle to a lock that nobody holds, of a name used nowhere else.
    fn fresh(&self, hint: &str) -> Arc<dyn Lock>;

    /// A handle to the same lock for another owner of the same client.
    fn neighbour(&self, of: &Arc<dyn Lock>) -> Arc<dyn Lock>;

    /// A handle to the same lock for an owner that shares as little as possible: of another client, where there are
    /// clients.
    fn stranger(&self, to: &Arc<dyn Lock>) -> Arc<dyn Lock>;
}

/// The trait is object-safe; handles and guards go anywhere.
const _: () = {
    const fn anywhere<T: Send + Sync + 'static + ?Sized>() {}
    anywhere::<dyn Lock>();
    anywhere::<Arc<dyn Lock>>();
    anywhere::<LockGuard>();
};

/// `lock_suite!(name, setup)`: a module `name` with one test a case.
///
/// `setup` is an expression that gives a [`Fixture`]; it is evaluated for each test anew, in an async function, and may
/// `.await`. Locks that are not reentrant, or that several owners hold together, name the groups of cases that hold for them.
macro_rules! lock_suite {
    ($suite:ident, $setup:expr) => {
        lock_suite! { $suite, $setup; each exclusive reentrant exclusive_and_reentrant }
    };
    ($suite:ident, $setup:expr; $($group:ident)+) => {
        mod $suite {
            #[allow(unused_imports)]
            use super::*;
            $(lock_cases! { $group, $setup })+
        }
    };
}

/// The cases of a group.
macro_rules! lock_cases {
    (each, $setup:expr) => {
        suite_cases! { lock_contract, each, $setup, lock_contract;
            holding: [
                lock_and_unlock,
                only_the_owner_unlocks,
                unlock_of_a_free_lock,
                unlock_twice,
                handles_tell_name_and_owner,
                force_unlock_of_a_free_lock,
            ]
            leases: [
                a_lease_ends,
                a_handle_tells_that_what_it_took_last_is_lost,
                who_is_not_polled_behind_its_time_gets_nothing,
                a_lease_that_is_over_cannot_be_unlocked,
                a_lease_shows_what_is_left,
                without_a_lease_it_stays,
                the_lease_tells_that_it_is_lost,
                the_lease_of_an_unlocked_lock_is_not_lost,
                no_lease_without_a_hold,
                less_than_a_millisecond_is_refused,
                more_than_can_be_counted_is_refused,
            ]
            waiting: [
                the_end_of_a_lease_wakes_a_waiter,
                the_end_of_the_lease_of_one_who_waited_wakes_the_next,
            ]
            guards: [
                a_guard_unlocks_on_drop,
                a_guard_that_lost_its_lock_tells,
                a_guard_of_a_hold_that_was_given_back_releases_nothing,
                no_guard_in_time,
                a_guard_with_a_lease,
            ]
        }
    };
    // One owner holds the lock at a time, and a forced unlock frees it from anybody.
    (exclusive, $setup:expr) => {
        suite_cases! { lock_contract, exclusive, $setup;
            holding: [
                a_held_lock_is_refused_to_others,
            ]
            leases: [
                the_lease_of_a_forced_lock_is_lost_when_its_owner_learns_of_it,
            ]
            waiting: [
                force_unlock_wakes_a_waiter,
            ]
            guards: [
                guards_exclude_each_other,
            ]
        }
    };
    // An owner may hold the lock several times.
    (reentrant, $setup:expr) => {
        suite_cases! { lock_contract, reentrant, $setup;
            holding: [
                clones_are_one_owner,
                holds_are_counted,
                half_unlocked_is_still_locked,
            ]
            leases: [
                without_a_lease_it_lasts_for_half_a_minute_at_a_time,
                a_longer_lease_puts_the_end_off_and_a_shorter_one_does_not,
            ]
            waiting: [
                the_holder_passes_those_who_wait,
                two_calls_of_one_owner_wait_for_others_only,
                two_calls_of_one_owner_come_before_others,
            ]
            guards: [
                holds_that_go_in_any_order_leave_the_longest_lease,
                an_unlock_leaves_the_holds_of_guards_alone,
                a_hold_is_given_back_once,
                dropped_entries_are_given_back,
            ]
        }
    };
    (exclusive_and_reentrant, $setup:expr) => {
        suite_cases! { lock_contract, exclusive_and_reentrant, $setup;
            holding: [
                after_force_unlock_the_owner_holds_nothing,
            ]
            leases: [
                giving_back_one_of_several_does_not_bring_the_end_nearer,
            ]
            guards: [
                a_guard_of_a_hold_before_the_loss_gives_nothing_back,
                a_guard_is_entered_again_at_once,
                a_guard_that_lost_its_lock_is_not_entered_again,
            ]
        }
    };
}
