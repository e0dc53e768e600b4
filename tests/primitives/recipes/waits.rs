//! The classic recipes: what those who wait cost, what ends their waiting, and what guards cost.

use std::time::Duration;

use crate::layouts::{Layout, Shape};
use crate::support::clients::scripts;
use crate::support::monitor::Monitor;
use crate::support::server::RedisServer;
use crate::support::waiters::{until, until_listening};
use redis::AsyncCommands;
use redisson_semaphore::Client;
use tokio::time::{Instant, timeout};

const LIMIT: Duration = Duration::from_secs(20);

/// 256 callers of one process travel together.
#[tokio::test]
async fn calls_made_at_the_same_time_share_a_script() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = Client::connect(server.url()).await.unwrap();
    for layout in crate::layouts::ALL {
        let semaphore = layout.make(&client, &format!("many-{layout:?}"), Shape::new(256));
        semaphore.holders().await.unwrap();
        let before = scripts(&mut redis).await;
        let held = futures::future::join_all((0..256).map(|_| semaphore.acquire())).await;
        let acquired = scripts(&mut redis).await - before;
        assert!(
            acquired <= 4,
            "{layout:?}: {acquired} scripts for 256 acquisitions"
        );
        let ids: Vec<_> = held
            .into_iter()
            .map(|held| held.unwrap().id().to_owned())
            .collect();
        let releases = ids.iter().map(|id| semaphore.release(id));
        let released = futures::future::join_all(releases).await;
        assert!(released.into_iter().all(Result::unwrap));
        let all = scripts(&mut redis).await - before;
        assert!(all <= 8, "{layout:?}: {all} scripts for 256 pairs");
    }
}

/// One caller alone costs one script a call.
#[tokio::test]
async fn one_caller_alone_sends_one_script_a_call() {
    let server = RedisServer::start().await;
    let mut monitor = Monitor::start(&server).await;
    let client = Client::connect(server.url()).await.unwrap();
    for layout in crate::layouts::ALL {
        let semaphore = layout.make(&client, &format!("alone-{layout:?}"), Shape::new(2));
        semaphore.holders().await.unwrap();
        monitor.scripts().await;
        for _ in 0..10 {
            let held = semaphore.acquire().await.unwrap();
            semaphore.release(held.id()).await.unwrap();
        }
        assert_eq!(monitor.scripts().await, 20, "{layout:?}");
    }
}

/// Nobody publishes: the check finds what was released, at its pace and not faster.
#[tokio::test]
async fn a_silent_release_is_found_by_the_check() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = Client::connect(server.url()).await.unwrap();
    let check = Duration::from_millis(100);
    let semaphore = Layout::Timestamp.make(&client, "silent", Shape::new(1).check(check));
    let held = semaphore.acquire().await.unwrap();
    let waiters: Vec<_> = (0..50)
        .map(|_| {
            let waiter = semaphore.clone();
            tokio::spawn(async move { waiter.acquire().await })
        })
        .collect();
    until_listening(&mut redis, "silent", 1).await;
    semaphore.holders().await.unwrap();
    let (before, began) = (scripts(&mut redis).await, Instant::now());
    tokio::time::sleep(check * 10).await;
    let looks = scripts(&mut redis).await - before;
    // Between 75 and 100 ms each.
    let most = began.elapsed().as_millis() / 75 + 2;
    assert!(
        (1..=most).contains(&u128::from(looks)),
        "{looks} looks, at most {most}"
    );
    let _: () = redis.zrem("silent", held.id()).await.unwrap();
    until("one of them is served", LIMIT, async || {
        waiters.iter().filter(|waiter| waiter.is_finished()).count() == 1
    })
    .await;
}

/// Waiting for a peer's lock is no spinning.
#[tokio::test]
async fn a_lock_that_is_held_for_long_is_looked_at_with_growing_pauses() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = Client::connect(server.url()).await.unwrap();
    let check = Duration::from_millis(200);
    let semaphore = Layout::FairUnderLock.make(&client, "held", Shape::new(1).check(check));
    let _: () = redis.pset_ex("lock:held", "peer", 60_000).await.unwrap();
    let waiter = semaphore.clone();
    let waiter = tokio::spawn(async move { waiter.acquire().await });
    let began = Instant::now();
    let before = scripts(&mut redis).await;
    tokio::time::sleep(check * 8).await;
    let looks = scripts(&mut redis).await - before;
    // 1, 2, 4, 8 ... 128 ms, or half of that each; then half of the check's pace at least.
    let most = 10 + began.elapsed().as_millis() / 100;
    assert!(
        (4..=most).contains(&u128::from(looks)),
        "{looks} looks, at most {most}"
    );
    let _: () = redis.del("lock:held").await.unwrap();
    let held = timeout(LIMIT, waiter).await.expect("the lock is free");
    let _ = held.unwrap().unwrap();

    // When the lock's own time is over, it is free as well.
    semaphore.release_all().await.unwrap();
    let _: () = redis.pset_ex("lock:held", "peer", 50).await.unwrap();
    let rare = Shape::new(1).check(Duration::from_secs(3600));
    let semaphore = Layout::FairUnderLock.make(&client, "held", rare);
    let _ = timeout(LIMIT, semaphore.acquire())
        .await
        .expect("no end")
        .unwrap();
}

/// Hundreds of guards are refreshed together.
#[tokio::test]
async fn guards_are_refreshed_in_few_scripts() {
    let server = RedisServer::start().await;
    let client = Client::connect(server.url()).await.unwrap();
    let lease = Duration::from_millis(1500);
    let semaphore = Layout::Fair.make(&client, "kept", Shape::new(600).lease(lease));
    let mut monitor = Monitor::start(&server).await;
    let guards = futures::future::join_all((0..600).map(|_| semaphore.permit())).await;
    let guards: Vec<_> = guards.into_iter().map(Result::unwrap).collect();
    let batches = monitor.scripts().await;
    let began = Instant::now();
    tokio::time::sleep(lease * 2).await;
    let refreshes = monitor.scripts().await;
    let periods = began.elapsed().as_millis() as usize / 500 + 1;
    // Those that were taken together are refreshed together.
    assert!(batches < 20, "{batches} scripts for 600 guards");
    assert!(
        refreshes > 0 && refreshes <= periods * batches,
        "{refreshes} scripts"
    );
    assert!(guards.iter().all(|guard| !guard.is_lost()));
    assert_eq!(semaphore.holders().await.unwrap().len(), 600);
}
