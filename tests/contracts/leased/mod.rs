//! The contract of `LeasedSemaphore`: every case written once, run for every implementation.
//!
//! [`leased_suite!`] turns each case into a test of its own. [`expiring_suite!`] does so for the cases about permits that expire.
//! A case in no list is dead code, which does not compile here.

#![deny(dead_code)]

pub(crate) mod expiry;
pub(crate) mod guards;
pub(crate) mod permits;
pub(crate) mod support;
pub(crate) mod waiting;

use std::sync::Arc;
use std::time::Duration;

use redisson_semaphore::{LeasedPermit, LeasedSemaphore};

/// The source of an implementation. It lives until the test ends, with all that the semaphores need.
pub(crate) trait Fixture {
    /// A handle to a semaphore of a name used nowhere else.
    fn fresh(&self, limit: u32) -> Arc<dyn LeasedSemaphore>;

    /// A handle to the same semaphore that shares as little as possible with `of`. It belongs to another client
    /// where there are clients.
    fn second(&self, of: &Arc<dyn LeasedSemaphore>) -> Arc<dyn LeasedSemaphore>;

    /// Whether permits have slots that distinguish them.
    fn has_slots(&self) -> bool;
}

/// An implementation whose permits expire.
pub(crate) trait Expiring: Fixture {
    /// As [`fresh`](Fixture::fresh), with permits that last for `lease`.
    fn lasting(&self, limit: u32, lease: Duration) -> Arc<dyn LeasedSemaphore>;
}

/// The trait is object-safe; handles and guards are `Send`, `Sync` and `'static`.
const _: () = {
    const fn anywhere<T: Send + Sync + 'static + ?Sized>() {}
    anywhere::<dyn LeasedSemaphore>();
    anywhere::<Arc<dyn LeasedSemaphore>>();
    anywhere::<LeasedPermit>();
};

/// `leased_suite!(name, setup)`: a module `name` with one test for each case. The expression `setup` gives a
/// [`Fixture`]. It is evaluated for each test anew, and may `.await`.
macro_rules! leased_suite {
    ($suite:ident, $setup:expr) => {
        suite_cases! { leased, $suite, $setup, leased;
            permits: [
                as_many_as_the_limit,
                each_has_an_id_of_its_own,
                holders_are_listed,
                a_release_frees_one,
                a_second_release_is_told,
                two_releases_of_one_at_once_free_one,
                unknown_ids_are_told,
                a_refresh_of_what_is_held,
                release_all_frees_all,
                handles_share_the_permits,
                a_limit_of_zero_is_refused,
                a_limit_above_the_highest_is_refused,
                permits_are_told_apart_where_that_is_said,
            ]
            waiting: [
                release_all_wakes_as_many_as_there_are_permits,
                arrival_order_of_two_clients,
                a_try_does_not_overtake_those_who_wait,
                never_more_holders_than_permits,
            ]
            guards: [
                a_guard_tells_what_it_holds,
                a_guard_shows_what_is_left,
                a_release_of_all_serves_guards_that_stay,
            ]
        }
    };
}

/// As [`leased_suite!`], for an [`Expiring`] fixture.
macro_rules! expiring_suite {
    ($suite:ident, $setup:expr) => {
        suite_cases! { leased, $suite, $setup;
            expiry: [
                a_permit_expires_and_a_waiter_gets_it,
                permits_that_end_one_by_one_serve_all_who_wait,
                what_has_expired_can_be_neither_released_nor_refreshed,
                a_refreshed_permit_lasts_longer,
                a_guard_is_kept_beyond_its_lease,
                a_guard_whose_permit_is_taken_away_is_lost,
                a_guard_that_is_lost_releases_nothing,
                a_guard_whose_permit_somebody_releases_is_lost,
                a_refresh_tells_a_guard_that_it_is_lost,
                a_forgotten_permit_expires,
                permits_that_are_kept_do_not_end,
                a_lease_below_a_millisecond_is_refused,
                a_lease_that_cannot_be_counted_is_refused,
            ]
        }
    };
}
