//! How many scripts the calls of one client cost, counted by the server.

use std::time::{Duration, Instant};

use crate::support::channel::Channel;
use crate::support::clients::{scripts, served};
use crate::support::monitor::Monitor;
use crate::support::server::RedisServer;
use crate::support::waiters::{channel, until_queued, until_subscribers};
use futures::future::join_all;
use redis::AsyncCommands;
use redisson_semaphore::{Client, Error, RSemaphore};

const HOUR: Duration = Duration::from_secs(3600);

/// A semaphore of a client that hands over for `window`, known to the server's script cache.
async fn semaphore(server: &RedisServer, permits: u32, window: Duration) -> RSemaphore {
    let client = Client::builder(server.url())
        .local_hand_off(window)
        .safety_interval(HOUR)
        .connect()
        .await
        .expect("the server has just been started");
    let semaphore = client.semaphore("counted");
    // A client that had set them would announce them.
    let () = server
        .connection()
        .await
        .set("counted", permits)
        .await
        .unwrap();
    let warm_up = client.semaphore("warm-up");
    warm_up.release(1).await.unwrap();
    semaphore
}

#[tokio::test]
async fn a_caller_alone_sends_one_script_a_call() {
    let server = RedisServer::start().await;
    let semaphore = semaphore(&server, 5, HOUR).await;
    let mut monitor = Monitor::start(&server).await;
    for _ in 0..10 {
        semaphore.acquire(2).await.unwrap();
        assert!(semaphore.try_acquire(1).await.unwrap());
        semaphore.release(3).await.unwrap();
    }
    assert_eq!(monitor.scripts().await, 30);
}

#[tokio::test]
async fn calls_made_together_travel_together() {
    let server = RedisServer::start().await;
    let semaphore = semaphore(&server, 1_000, HOUR).await;
    let before = scripts(&mut server.connection().await).await;
    let calls = (0..500).map(|_| semaphore.acquire(1));
    assert!(join_all(calls).await.iter().all(Result::is_ok));
    // The first call leaves at once; the others wait for it and follow, more and more at a time.
    let used = scripts(&mut server.connection().await).await - before;
    assert!((2..=8).contains(&used), "500 calls in {used} scripts");
    assert_eq!(semaphore.available_permits().await.unwrap(), 500);
}

/// Callers that wait one behind the other; each gives back what it got.
async fn relay(server: &RedisServer, semaphore: &RSemaphore, runners: usize) -> u64 {
    semaphore.acquire(1).await.unwrap();
    let running: Vec<_> = (0..runners)
        .map(|_| {
            let semaphore = semaphore.clone();
            tokio::spawn(async move {
                semaphore.acquire(1).await.unwrap();
                semaphore.release(1).await.unwrap();
            })
        })
        .collect();
    let mut connection = server.connection().await;
    until_subscribers(&mut connection, "redisson_sc:{counted}", 1).await;
    // In its turn behind all that the arrival of the runners has caused.
    assert_eq!(semaphore.available_permits().await.unwrap(), 0);
    let before = scripts(&mut server.connection().await).await;
    semaphore.release(1).await.unwrap();
    for runner in running {
        runner.await.unwrap();
    }
    assert_eq!(semaphore.available_permits().await.unwrap(), 1);
    scripts(&mut server.connection().await).await - before
}

#[tokio::test]
async fn permits_handed_over_within_the_process_cost_no_script() {
    let server = RedisServer::start().await;
    let semaphore = semaphore(&server, 1, HOUR).await;
    let used = relay(&server, &semaphore, 200).await;
    // The last release, the surplus entries that leave, and what the subscription may still cause.
    assert!(used <= 8, "200 hand-overs in {used} scripts");
}

#[tokio::test]
async fn a_window_of_zero_switches_the_hand_over_off() {
    let server = RedisServer::start().await;
    let semaphore = semaphore(&server, 1, Duration::ZERO).await;
    let used = relay(&server, &semaphore, 200).await;
    assert!(used >= 200, "200 releases in {used} scripts");
}

/// Many large requests in front, a small one behind them, and just enough for that: it must be found, and those who can't be
/// served must not be asked about again and again.
async fn small_behind_large(others: usize, release_meanwhile: bool) {
    let server = RedisServer::start().await;
    let semaphore = semaphore(&server, 3, HOUR).await;
    let mut elsewhere = Vec::new();
    for _ in 0..others {
        elsewhere.push(Channel::subscribe(&server, &channel("counted")).await);
    }
    let acquire = |permits| {
        let semaphore = semaphore.clone();
        tokio::spawn(async move { semaphore.acquire(permits).await })
    };
    let large: Vec<_> = (0..20).map(|_| acquire(5)).collect();
    let mut connection = server.connection().await;
    until_queued(&mut connection, "counted", large.len()).await;
    let listeners = others as u64 + 1;
    until_subscribers(&mut connection, &channel("counted"), listeners).await;
    semaphore.available_permits().await.unwrap();
    let before = scripts(&mut server.connection().await).await;
    let small = acquire(1);
    if release_meanwhile {
        let began = Instant::now();
        while !small.is_finished() {
            // The first ones block the queue for an eighth of a second.
            assert!(began.elapsed() < Duration::from_secs(2), "not found");
            semaphore.release(1).await.unwrap();
            assert!(semaphore.try_acquire(1).await.unwrap());
        }
    }
    served(small).await;
    assert_eq!(semaphore.available_permits().await.unwrap(), 2);
    let used = scripts(&mut server.connection().await).await - before;
    assert!(release_meanwhile || used <= 20, "{used} scripts");
    // Nobody else can be served.
    assert!(large.iter().all(|task| !task.is_finished()));
    let before = scripts(&mut server.connection().await).await;
    for _ in 0..5 {
        assert_eq!(semaphore.available_permits().await.unwrap(), 2);
    }
    let used = scripts(&mut server.connection().await).await - before;
    assert!(used <= 10, "{used} scripts for five questions");
}

#[tokio::test]
async fn a_small_request_behind_many_large_ones_is_found() {
    small_behind_large(0, false).await;
}

#[tokio::test]
async fn a_small_request_behind_many_large_ones_is_found_while_permits_come_and_go() {
    small_behind_large(0, true).await;
    small_behind_large(1, true).await;
}

#[tokio::test]
async fn a_failing_call_fails_alone() {
    let server = RedisServer::start().await;
    let semaphore = semaphore(&server, i32::MAX as u32 - 3, HOUR).await;
    let releases = join_all((0..10).map(|_| semaphore.release(1))).await;
    let done = releases.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!(done, 3);
    for refused in releases.into_iter().filter_map(Result::err) {
        let Error::OutOfRange {
            name,
            available,
            delta,
            ..
        } = refused
        else {
            panic!("{refused:?}");
        };
        assert_eq!(
            (name.as_str(), available, delta),
            ("counted", i64::from(i32::MAX), 1)
        );
    }
    let (added, tried) = tokio::join!(semaphore.add_permits(1), semaphore.try_acquire(1));
    assert!(matches!(added, Err(Error::OutOfRange { .. })) || tried.unwrap());
}
