//! The lock's contract for the lock that is shared through Redis, for the one with tokens, for the fair one, and for the string lock of
//! the classic recipes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::lock_contract::Fixture;
use crate::support::server::RedisServer;
use redisson_semaphore::{Client, Lock, Protocol};

#[derive(Clone, Copy)]
enum Kind {
    Plain,
    Fenced,
    Fair,
    StringLock,
}

/// A private server and two clients of it.
struct Redis {
    made: AtomicU32,
    first: Client,
    second: Client,
    kind: Kind,
    _server: RedisServer,
}

impl Redis {
    async fn start(kind: Kind, protocol: Protocol) -> Self {
        let server = RedisServer::start().await;
        let connect = || async {
            let client = Client::builder(server.url()).protocol(protocol);
            let client = client.connect().await;
            client.expect("the server has just been started")
        };
        Redis {
            made: AtomicU32::new(0),
            first: connect().await,
            second: connect().await,
            kind,
            _server: server,
        }
    }

    fn lock(&self, client: &Client, name: &str) -> Arc<dyn Lock> {
        match self.kind {
            Kind::Plain => Arc::new(client.lock(name)),
            Kind::Fenced => Arc::new(client.fenced_lock(name)),
            Kind::Fair => Arc::new(client.fair_lock(name)),
            Kind::StringLock => Arc::new(client.string_lock(name)),
        }
    }
}

impl Fixture for Redis {
    fn fresh(&self, hint: &str) -> Arc<dyn Lock> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        self.lock(&self.first, &format!("{hint}-{number}"))
    }

    fn neighbour(&self, of: &Arc<dyn Lock>) -> Arc<dyn Lock> {
        self.lock(&self.first, of.name())
    }

    fn stranger(&self, to: &Arc<dyn Lock>) -> Arc<dyn Lock> {
        self.lock(&self.second, to.name())
    }
}

lock_suite!(rlock, Redis::start(Kind::Plain, Protocol::Resp2).await);
lock_suite!(
    fenced_lock,
    Redis::start(Kind::Fenced, Protocol::Resp2).await
);
lock_suite!(by_resp3, Redis::start(Kind::Fenced, Protocol::Resp3).await);
lock_suite!(fair_lock, Redis::start(Kind::Fair, Protocol::Resp2).await);

/// The cases in which an owner holds the lock once: this one is not reentrant, and lasts for ten seconds at a time.
macro_rules! string_lock_suite {
    ($suite:ident, $setup:expr) => {
        suite_cases! { lock_contract, $suite, $setup;
            holding: [
                lock_and_unlock,
                a_held_lock_is_refused_to_others,
                only_the_owner_unlocks,
                unlock_of_a_free_lock,
                unlock_twice,
                handles_tell_name_and_owner,
                force_unlock_of_a_free_lock,
                jobs_of_many_owners,
                jobs_of_two_clients,
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
                the_lease_of_a_forced_lock_is_lost_when_its_owner_learns_of_it,
                no_lease_without_a_hold,
                less_than_a_millisecond_is_refused,
                more_than_can_be_counted_is_refused,
            ]
            waiting: [
                an_unlock_wakes_a_neighbour,
                an_unlock_wakes_a_stranger,
                force_unlock_wakes_a_waiter,
                the_end_of_a_lease_wakes_a_waiter,
                the_end_of_the_lease_of_one_who_waited_wakes_the_next,
                arrival_order,
                arrival_order_of_timed_and_untimed,
                try_lock_does_not_queue,
                a_wait_that_runs_out,
                a_wait_that_runs_out_takes_nothing_later,
                a_wait_of_zero_is_one_attempt,
                a_wait_without_end,
                a_lock_that_is_free_at_the_deadline,
            ]
            cancel: [
                calls_that_were_never_polled,
                a_dropped_waiter_takes_nothing,
                a_dropped_waiter_does_not_hold_up_the_next,
                dropped_after_every_number_of_polls,
                aborted_while_being_granted,
                an_unlock_that_is_dropped_is_carried_out,
                churn,
            ]
            guards: [
                a_guard_unlocks_on_drop,
                a_guard_unlocked_with_an_answer,
                an_unlock_that_is_never_polled_is_a_drop,
                a_guard_that_lost_its_lock_tells,
                a_guard_of_a_hold_that_was_given_back_releases_nothing,
                a_forgotten_guard_keeps_the_lock,
                no_guard_now,
                no_guard_in_time,
                a_guard_with_a_lease,
                a_guard_outlives_the_handle,
                a_guard_of_an_aborted_task,
                a_guard_of_a_panicking_task,
                a_guard_that_is_dropped_wakes_a_waiter,
                guards_exclude_each_other,
                guards_of_one_handle_serve_jobs_one_by_one,
            ]
        }
    };
}
string_lock_suite!(
    string_lock,
    Redis::start(Kind::StringLock, Protocol::Resp2).await
);
