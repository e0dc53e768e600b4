//! Read-write locks: the contract of locks for the side that writes, and as far as it applies for the side that reads; and what the
//! two sides promise each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redisson_semaphore::{Client, Lock, RReadWriteLock};
use tokio::task::JoinHandle;

use crate::lock_contract::Fixture;
use crate::support::server::RedisServer;
use crate::support::waiters::until;

/// A private server, two clients of it, and one side of each lock.
struct Redis {
    made: AtomicU32,
    first: Client,
    second: Client,
    writes: bool,
    server: RedisServer,
}

impl Redis {
    async fn start(writes: bool) -> Self {
        let server = RedisServer::start().await;
        let connect = || async {
            let client = Client::builder(server.url()).connect().await;
            client.expect("the server has just been started")
        };
        Redis {
            made: AtomicU32::new(0),
            first: connect().await,
            second: connect().await,
            writes,
            server,
        }
    }

    fn side(&self, client: &Client, name: &str) -> Arc<dyn Lock> {
        let lock = client.read_write_lock(name);
        match self.writes {
            true => Arc::new(lock.write()),
            false => Arc::new(lock.read()),
        }
    }
}

impl Fixture for Redis {
    fn fresh(&self, hint: &str) -> Arc<dyn Lock> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        self.side(&self.first, &format!("{hint}-{number}"))
    }

    fn neighbour(&self, of: &Arc<dyn Lock>) -> Arc<dyn Lock> {
        self.side(&self.first, of.name())
    }

    fn stranger(&self, to: &Arc<dyn Lock>) -> Arc<dyn Lock> {
        self.side(&self.second, to.name())
    }
}

lock_suite!(writers, Redis::start(true).await);

// Without the cases in which one reader would keep another one out, or set the end of all holds.
lock_suite! { @cases readers, Redis::start(false).await;
    holding: [
        lock_and_unlock,
        unlock_of_a_free_lock,
        unlock_twice,
        clones_are_one_owner,
        handles_tell_name_and_owner,
        holds_are_counted,
        half_unlocked_is_still_locked,
        force_unlock_frees_it_from_anybody,
        force_unlock_of_a_free_lock,
        after_force_unlock_the_owner_holds_nothing,
    ]
    leases: [
        a_lease_ends,
        a_handle_tells_that_what_it_took_last_is_lost,
        a_lease_that_is_over_cannot_be_unlocked,
        a_lease_shows_what_is_left,
        without_a_lease_it_stays,
        without_a_lease_it_lasts_for_half_a_minute_at_a_time,
        a_hold_below_keeps_its_own_lease,
        the_lease_tells_that_it_is_lost,
        the_lease_of_an_unlocked_lock_is_not_lost,
        the_lease_of_a_forced_lock_is_lost_when_its_owner_learns_of_it,
        no_lease_without_a_hold,
        less_than_a_millisecond_is_refused,
        more_than_can_be_counted_is_refused,
    ]
    waiting: [
        a_wait_of_zero_is_one_attempt,
    ]
    cancel: [
        calls_that_were_never_polled,
        an_unlock_that_is_dropped_is_carried_out,
    ]
    guards: [
        a_guard_unlocks_on_drop,
        a_guard_unlocked_with_an_answer,
        an_unlock_that_is_never_polled_is_a_drop,
        a_guard_that_lost_its_lock_tells,
        a_guard_of_a_hold_that_was_given_back_releases_nothing,
        a_forgotten_guard_keeps_the_lock,
        a_guard_with_a_lease,
        a_guard_outlives_the_handle,
        a_guard_of_an_aborted_task,
        a_guard_of_a_panicking_task,
        holds_that_go_in_any_order_keep_their_terms,
        a_guard_of_a_hold_before_the_loss_gives_nothing_back,
        an_unlock_leaves_the_holds_of_guards_alone,
        a_hold_is_given_back_once,
        a_guard_is_entered_again_at_once,
        a_guard_that_lost_its_lock_is_not_entered_again,
        dropped_entries_are_given_back,
    ]
}
