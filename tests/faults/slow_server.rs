//! A server that stops answering: calls end with an error that says so, and those that nobody waits for
//! do not fill the memory; what is owed is carried out when it answers again.

use std::pin::pin;
use std::time::Duration;

use crate::support::clients::{LIMIT, builder, served, stored};
use crate::support::server::RedisServer;
use crate::support::waiters::{until, waiter};
use futures::future::join_all;
use redisson_semaphore::{Effect, Error};
use tokio::time::{Instant, timeout};

/// What a frozen server may cost in all, however many calls are made meanwhile.
const MOST_MEMORY: u64 = 48 << 20;

/// This process's memory in use, in bytes.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.expect("it is told").trim().trim_end_matches(" kB");
    kilobytes.parse::<u64>().expect("a number") << 10
}

/// Polls once, which queues the call, and drops it.
async fn abandon<T>(call: impl Future<Output = T>) {
    let mut call = pin!(call);
    std::future::poll_fn(|cx| std::task::Poll::Ready(call.as_mut().poll(cx).is_ready())).await;
}

#[tokio::test]
async fn calls_that_nobody_waits_for_do_not_fill_the_memory() {
    const GUARDS: u32 = 20_000;
    const ROUNDS: u32 = 300_000;
    let mut server = RedisServer::start().await;
    let client = builder(server.url())
        .response_timeout(Duration::from_secs(60))
        .local_hand_over(Duration::ZERO)
        .connect()
        .await
        .unwrap();
    let semaphore = client.semaphore("frozen");
    semaphore.try_set_permits(GUARDS).await.unwrap();
    let guards = join_all((0..GUARDS).map(|_| semaphore.permit(1))).await;
    assert_eq!(stored(&server, "frozen").await, ["0"]);

    server.freeze();
    let before = memory();
    drop(guards);
    for round in 0..ROUNDS {
        abandon(semaphore.try_acquire(1 + round % 7)).await;
        abandon(semaphore.acquire(1 + round % 7)).await;
        abandon(semaphore.available_permits()).await;
        abandon(semaphore.release(1 + round % 2)).await;
        if round % 1000 == 0 {
            tokio::task::yield_now().await;
        }
    }
    let grown = memory().saturating_sub(before);
    server.thaw();
    assert!(grown < MOST_MEMORY, "{grown} bytes more");

    let released = i64::from(GUARDS) + i64::from(ROUNDS) * 3 / 2;
    let all = async || semaphore.available_permits().await == Ok(released);
    until("all releases are carried out", LIMIT, all).await;
    client.shutdown().await.unwrap();
    assert_eq!(stored(&server, "frozen").await, [released.to_string()]);
}

#[tokio::test]
async fn callers_that_wait_are_told_when_the_window_has_passed() {
    const CALLERS: usize = 5_000;
    let mut server = RedisServer::start().await;
    let client = builder(server.url())
        .retry_window(Duration::from_millis(500))
        .connect()
        .await
        .unwrap();
    let semaphore = client.semaphore("told");
    semaphore.try_set_permits(10).await.unwrap();
    server.freeze();
    let calls = (0..CALLERS).map(async |number| match number % 4 {
        0 => semaphore.acquire(1).await.unwrap_err(),
        1 => semaphore.try_acquire(2).await.unwrap_err(),
        2 => semaphore.add_permits(-1).await.unwrap_err(),
        _ => semaphore.expire(LIMIT).await.unwrap_err(),
    });
    let told = timeout(LIMIT, join_all(calls)).await.expect("they end");
    server.thaw();
    let unsure = told
        .iter()
        .filter(|error| error.effect() == Effect::Unknown)
        .count();
    assert!(unsure < CALLERS, "not all of them can have been sent");
    for error in told {
        assert!(
            matches!(
                error,
                Error::Unavailable { .. } | Error::OutcomeUnknown { .. }
            ),
            "{error}"
        );
    }
    // What was sent is settled, and the rest does not happen any more.
    until("the server answers again", LIMIT, async || {
        semaphore.available_permits().await.is_ok()
    })
    .await;
    let left = semaphore.available_permits().await.unwrap();
    let removed = 10 - left;
    assert!(
        (0..=i64::try_from(unsure).unwrap()).contains(&removed),
        "{removed} permits were taken away, and {unsure} calls unsure"
    );
}

/// A release that is owed waits for as long as it takes; those behind it do not.
#[tokio::test]
async fn calls_behind_what_is_owed_are_told_in_time() {
    const CALLS: u32 = 8;
    let window = Duration::from_millis(2500);
    let mut server = RedisServer::start().await;
    let client = builder(server.url())
        .retry_window(window)
        .connect_timeout(Duration::from_millis(300))
        .connect()
        .await
        .unwrap();
    let semaphore = client.semaphore("behind");
    semaphore.try_set_permits(1).await.unwrap();
    let guard = semaphore.permit(1).await.unwrap();
    server.freeze();
    drop(guard);
    let calls = (0..CALLS).map(|number| {
        let semaphore = semaphore.clone();
        async move {
            tokio::time::sleep(Duration::from_millis(125) * (number + 1)).await;
            let begun = Instant::now();
            semaphore.available_permits().await.unwrap_err();
            begun.elapsed().saturating_sub(window)
        }
    });
    let late: Duration = join_all(calls).await.iter().sum();
    server.thaw();
    assert!(
        late < CALLS * Duration::from_millis(250),
        "{late:?} too late in all"
    );
}

/// Longer than the response time-out, so that calls are repeated on connections that nobody answers either.
#[tokio::test]
async fn a_server_that_is_frozen_for_a_while() {
    let mut server = RedisServer::start().await;
    let mut control = server.connection().await;
    let client = builder(server.url()).connect().await.unwrap();
    let semaphore = client.semaphore("stopped");
    semaphore.try_set_permits(3).await.unwrap();
    let waiting = waiter(&mut control, &semaphore, 20).await;
    for round in 1..=3 {
        server.freeze();
        let frozen = Instant::now();
        let calls = async { tokio::join!(semaphore.acquire(1), semaphore.release(2)) };
        let mut calls = pin!(calls);
        while frozen.elapsed() < Duration::from_millis(700) {
            let soon = timeout(Duration::from_millis(20), &mut calls).await;
            assert!(soon.is_err(), "nobody answers: {soon:?}");
        }
        server.thaw();
        let answers = timeout(LIMIT, calls).await.expect("they are answered");
        assert_eq!(answers, (Ok(()), Ok(())));
        assert_eq!(stored(&server, "stopped").await, [(3 + round).to_string()]);
    }
    semaphore.release(14).await.unwrap();
    served(waiting).await;
    assert_eq!(stored(&server, "stopped").await, ["0"]);
}
