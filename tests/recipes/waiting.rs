//! The classic recipes: what those who wait cost, what ends their waiting, and who is kept while the server is away.

use std::time::Duration;

use crate::layouts::{Layout, Shape};
use crate::support::clients::scripts;
use crate::support::monitor::Monitor;
use crate::support::server::RedisServer;
use crate::support::waiters::{until, until_listening};
use redis::AsyncCommands;
use redisson_semaphore::{Client, Error};
use tokio::time::{Instant, timeout};

use crate::support::proxy::Proxy;

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

/// The first in line is in a process that has died: the others are held up for a bounded time.
#[tokio::test]
async fn a_process_that_dies_while_it_waits_holds_nobody_up_for_long() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let proxy = Proxy::start(&server).await;
    let dying = Client::connect(proxy.url()).await.unwrap();
    let alive = Client::connect(server.url()).await.unwrap();
    let check = Duration::from_millis(100);
    let shape = Shape::new(1).check(check);
    let [dying, alive] = [&dying, &alive].map(|client| Layout::Fair.make(client, "dying", shape));
    let held = alive.acquire().await.unwrap();
    let first = tokio::spawn({
        let dying = dying.clone();
        async move { dying.acquire().await }
    });
    until("it stands in line", LIMIT, async || {
        redis
            .clone()
            .exists("redisson_sc_recipe_queue:fair:{dying}")
            .await
            .unwrap()
    })
    .await;
    until_listening(&mut redis, "dying", 1).await;
    proxy.blackhole();
    let second = alive.clone();
    let second = tokio::spawn(async move { second.acquire().await });
    until_listening(&mut redis, "dying", 2).await;
    let began = Instant::now();
    assert!(alive.release(held.id()).await.unwrap());
    let _ = timeout(LIMIT, second)
        .await
        .expect("held up for ever")
        .unwrap()
        .unwrap();
    // 0.5 s and three times the check; not a lease.
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    drop(first);
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

/// While the server does not answer a guard is kept for as long as its time lasts, and is told lost then.
#[tokio::test]
async fn a_guard_is_lost_in_time_while_the_server_is_silent() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(&server).await;
    let builder = Client::builder(proxy.url()).response_timeout(Duration::from_millis(200));
    let client = builder.connect().await.unwrap();
    let lease = Duration::from_millis(1200);
    let semaphore = Layout::Fair.make(&client, "silent", Shape::new(1).lease(lease));
    let permit = semaphore.permit().await.unwrap();
    proxy.blackhole();
    let began = Instant::now();
    timeout(LIMIT, permit.lost())
        .await
        .expect("it is never told");
    assert!(
        began.elapsed() <= lease + Duration::from_secs(1),
        "too late"
    );
    assert!(
        began.elapsed() >= lease / 2,
        "it had been refreshed a moment ago"
    );
    proxy.clear();
    let other = Client::connect(server.url()).await.unwrap();
    let other = Layout::Fair.make(&other, "silent", Shape::new(1).lease(lease));
    let theirs = timeout(LIMIT, other.acquire())
        .await
        .expect("it expires")
        .unwrap();
    assert!(!permit.release().await.unwrap());
    assert!(other.refresh(theirs.id()).await.unwrap());
}

/// A short silence is nothing to a guard.
#[tokio::test]
async fn a_guard_outlives_a_short_silence() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(&server).await;
    let builder = Client::builder(proxy.url()).response_timeout(Duration::from_millis(200));
    let client = builder.connect().await.unwrap();
    let lease = Duration::from_secs(3);
    let semaphore = Layout::Fair.make(&client, "short", Shape::new(1).lease(lease));
    let permit = semaphore.permit().await.unwrap();
    let opened = proxy.opened();
    proxy.blackhole();
    until("a refresh goes wrong", LIMIT, async || {
        proxy.opened() > opened
    })
    .await;
    proxy.clear();
    tokio::time::sleep(lease * 2).await;
    assert!(!permit.is_lost());
    assert!(permit.release().await.unwrap());
}

/// A server that comes back with its data: those who wait go on, and those who hold are kept.
#[tokio::test]
async fn a_restart_of_the_server_loses_nobody() {
    let mut server = RedisServer::options().appendonly().start().await;
    let client = Client::connect(server.url()).await.unwrap();
    let semaphore = Layout::Fair.make(&client, "restart", Shape::new(1));
    let permit = semaphore.permit().await.unwrap();
    let waiter = semaphore.clone();
    let waiter = tokio::spawn(async move { waiter.permit().await });
    let mut redis = server.connection().await;
    until_listening(&mut redis, "restart", 1).await;
    server.restart().await;
    assert!(timeout(LIMIT, permit.release()).await.unwrap().unwrap());
    let permit = timeout(LIMIT, waiter).await.expect("it sleeps on");
    assert!(permit.unwrap().unwrap().release().await.unwrap());
}

/// The client ends: those who wait are told, what dropped guards owe is carried out, the line is left.
#[tokio::test]
async fn shutdown_ends_waiting_and_carries_out_what_is_owed() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = Client::connect(server.url()).await.unwrap();
    let semaphore = Layout::Fair.make(&client, "end", Shape::new(2));
    let guards = [
        semaphore.permit().await.unwrap(),
        semaphore.permit().await.unwrap(),
    ];
    let waiter = semaphore.clone();
    let waiter = tokio::spawn(async move { waiter.acquire().await });
    until_listening(&mut redis, "end", 1).await;
    drop(guards);
    let served = timeout(LIMIT, waiter).await.unwrap().unwrap().unwrap();
    let first = semaphore.acquire().await.unwrap();
    let waiter = semaphore.clone();
    let waiter = tokio::spawn(async move { waiter.acquire().await });
    until("it waits", LIMIT, async || {
        redis
            .clone()
            .exists("redisson_sc_recipe_queue:fair:{end}")
            .await
            .unwrap()
    })
    .await;
    // Answered behind the waiter's own request: nothing of it is on its way.
    semaphore.holders().await.unwrap();
    semaphore.release_detached(served.id());
    semaphore.release_detached(first.id());
    client.shutdown().await.unwrap();
    let waited = timeout(LIMIT, waiter).await.unwrap().unwrap();
    if let Err(error) = waited {
        assert!(matches!(error, Error::ShutDown { .. }), "{error}");
        let left: u64 = redis.zcard("end").await.unwrap();
        assert_eq!(left, 0, "what is owed was not carried out");
    }
    let line: bool = redis
        .exists("redisson_sc_recipe_queue:fair:{end}")
        .await
        .unwrap();
    assert!(!line);
    for error in [
        semaphore.acquire().await.unwrap_err(),
        semaphore.try_acquire().await.unwrap_err(),
        semaphore.release("a").await.unwrap_err(),
    ] {
        assert!(matches!(error, Error::ShutDown { .. }), "{error}");
    }
}
