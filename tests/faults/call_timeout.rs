//! One bound on a whole call, where the server refuses for now and where a call has a time of its own; servers that are away are in
//! `tests/hazards`. Nothing but the bound ends these calls in time: they are repeated for an hour.

use std::time::Duration;

use crate::support::clients::{LIMIT, NEVER, until_stored};
use crate::support::proxy::Proxy;
use crate::support::server::RedisServer;
use crate::support::waiters::until;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::recipes::{SetSemaphore, StringLock};
use redisson_semaphore::{
    Client, ClientBuilder, Effect, Error, LeasedSemaphore as _, Lock as _, RCountDownLatch,
    RFairLock, RLock, RReadWriteLock, RSemaphore,
};
use tokio::time::timeout;

/// How long calls are told to wait.
const WAIT: Duration = Duration::from_millis(50);
/// How long a call may take besides: a server that is there has answered by then.
const BOUND: Duration = Duration::from_secs(3);

fn builder(url: String) -> ClientBuilder {
    crate::support::clients::builder(url)
        .retry_window(NEVER)
        .connect_timeout(Duration::from_millis(300))
        .lock_watchdog_timeout(NEVER)
}

/// One object of each kind, and what is held of it.
struct Objects {
    semaphore: RSemaphore,
    /// A release serves no caller that waits here.
    given: RSemaphore,
    lock: RLock,
    turn: RFairLock,
    prices: RReadWriteLock,
    held: RLock,
    latch: RCountDownLatch,
    recipe: SetSemaphore,
    id: String,
    string_lock: StringLock,
}

impl Objects {
    async fn set_up(client: &Client) -> Objects {
        let objects = Objects {
            semaphore: client.semaphore("seats"),
            given: client.semaphore("given"),
            lock: client.lock("door"),
            turn: client.fair_lock("turn"),
            prices: client.read_write_lock("prices"),
            held: client.lock("held"),
            latch: client.count_down_latch("done"),
            recipe: client.set_semaphore("places", 5),
            id: String::new(),
            string_lock: client.string_lock("gate"),
        };
        objects.semaphore.try_set_permits(5).await.unwrap();
        objects.given.try_set_permits(5).await.unwrap();
        objects.given.acquire(1).await.unwrap();
        objects.held.lock().await.unwrap();
        objects.latch.try_set_count(2).await.unwrap();
        let held = objects.recipe.acquire().await.unwrap();
        let id = held.id().to_owned();
        Objects { id, ..objects }
    }

    /// Calls that take something, each for a time.
    async fn take_for_a_time(&self) -> Vec<Error> {
        let reader = self.prices.read();
        let (semaphore, lock, turn, reader, recipe, string_lock) = tokio::join!(
            self.semaphore.permit_for(1, WAIT),
            self.lock.guard_for(WAIT),
            self.turn.guard_for(WAIT),
            reader.guard_for(WAIT),
            self.recipe.permit_for(WAIT),
            self.string_lock.guard_for(WAIT),
        );
        vec![
            semaphore.map(drop).unwrap_err(),
            lock.map(drop).unwrap_err(),
            turn.map(drop).unwrap_err(),
            reader.map(drop).unwrap_err(),
            recipe.map(drop).unwrap_err(),
            string_lock.map(drop).unwrap_err(),
        ]
    }

    /// Calls that take something, at once, and stand behind others.
    async fn take_now(&self) -> Vec<Error> {
        let (semaphore, lock, recipe, string_lock) = tokio::join!(
            self.semaphore.try_acquire(1),
            self.lock.try_lock(),
            self.recipe.try_acquire(),
            self.string_lock.try_lock(),
        );
        vec![
            semaphore.unwrap_err(),
            lock.unwrap_err(),
            recipe.unwrap_err(),
            string_lock.unwrap_err(),
        ]
    }

    /// Gives everything back that is held.
    async fn give(&self) -> Vec<Result<(), Error>> {
        let told = tokio::join!(
            self.given.release(1),
            self.held.unlock(),
            self.latch.count_down(),
            self.recipe.release(&self.id),
        );
        vec![told.0, told.1, told.2, told.3.map(drop)]
    }

    /// What was given is there, what was taken has been given back, and everything works.
    async fn are_as_they_should_be(&self, server: &RedisServer) {
        until_stored(server, "given", 5).await;
        until_stored(server, "seats", 5).await;
        until("nothing else is held", LIMIT, async || {
            self.held.is_locked().await == Ok(false)
                && self.lock.is_locked().await == Ok(false)
                && self.turn.is_locked().await == Ok(false)
                && self.prices.read().is_locked().await == Ok(false)
                && self.string_lock.is_locked().await == Ok(false)
                && self.recipe.holders().await == Ok(Vec::new())
                && self.latch.count().await == Ok(1)
        })
        .await;
        let all = self.semaphore.permit_for(5, LIMIT).await.unwrap();
        let both = (
            self.lock.guard_for(LIMIT).await.unwrap(),
            self.string_lock.guard_for(LIMIT).await.unwrap(),
        );
        assert!(all.is_some() && both.0.is_some() && both.1.is_some());
    }
}

fn assert_effect(errors: &[Error], effect: Effect) {
    for error in errors {
        assert!(error.is_unavailable(), "{error}");
        assert_eq!(error.effect(), effect, "{error}");
        assert_eq!(
            error.is_retryable(),
            effect == Effect::NotApplied,
            "{error}"
        );
    }
}

/// What it has answered so each time has not happened; of what is on its way once more when the time is over nobody knows.
#[tokio::test]
async fn while_the_server_refuses_for_now_calls_end_and_are_told_why() {
    let server = RedisServer::start().await;
    let client = builder(server.url()).call_timeout(BOUND);
    let client = client.connect().await.unwrap();
    let objects = Objects::set_up(&client).await;
    let mut control = server.connection().await;
    let needed = async |replicas: &str, control: &mut MultiplexedConnection| {
        let mut config = redis::cmd("CONFIG");
        config.arg("SET").arg("min-replicas-to-write").arg(replicas);
        let _: () = config.query_async(control).await.unwrap();
    };
    needed("1", &mut control).await;
    let all = async {
        tokio::join!(
            objects.take_for_a_time(),
            objects.take_now(),
            objects.semaphore.add_permits(1)
        )
    };
    let (mut told, tried, added) = timeout(LIMIT, all).await.expect("they are told");
    told.extend(tried);
    told.push(added.unwrap_err());
    let on_its_way = |error: &Error| matches!(error, Error::OutcomeUnknown { .. });
    let (_, refused): (Vec<_>, Vec<_>) = told.into_iter().partition(on_its_way);
    assert!(!refused.is_empty(), "a try takes a moment, a pause longer");
    for error in &refused {
        let Error::RefusedForNow { detail, .. } = error else {
            panic!("{error}");
        };
        assert!(detail.contains("NOREPLICAS"), "{error}");
    }
    assert_effect(&refused, Effect::NotApplied);
    needed("0", &mut control).await;
    for given in objects.give().await {
        given.unwrap();
    }
    objects.are_as_they_should_be(&server).await;
}

#[tokio::test]
async fn a_timed_call_has_a_bound_by_itself() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(&server).await;
    let client = builder(proxy.url()).connect().await.unwrap();
    let objects = Objects::set_up(&client).await;
    proxy.blackhole();
    let told = timeout(LIMIT, objects.take_for_a_time());
    assert_effect(&told.await.expect("they are told"), Effect::Unknown);
    proxy.clear();
    objects.give().await;
    objects.are_as_they_should_be(&server).await;
}
