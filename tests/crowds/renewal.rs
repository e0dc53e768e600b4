//! The cost of renewing many locks.

use std::time::Duration;

use crate::support::clients::scripts;
use crate::support::server::RedisServer;
use crate::support::waiters::until;
use futures::stream::{self, StreamExt, TryStreamExt};
use redis::AsyncCommands;
use redisson_semaphore::Client;

const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn ten_thousand_locks_take_few_calls() {
    const LOCKS: usize = 10_000;
    const WATCHDOG: Duration = Duration::from_secs(15);
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = Client::builder(server.url())
        .lock_watchdog_timeout(WATCHDOG)
        .connect()
        .await
        .unwrap();
    let locks = (0..LOCKS).map(|number| client.lock(&format!("held-{number}")));
    let guards = locks.map(|lock| async move { lock.guard().await });
    // So few that no reply is late.
    let guards: Vec<_> = stream::iter(guards)
        .buffer_unordered(250)
        .try_collect()
        .await
        .unwrap();

    // The scripts that delete records are not counted.
    until("records are deleted", LIMIT, async || {
        let left: Vec<String> = redis.keys("redisson_lock_once:*").await.unwrap();
        left.len() < 64
    })
    .await;
    // A mark whose end is put off with theirs: each round of renewal is seen.
    let mut calls = Vec::new();
    for _ in 0..3 {
        let nearer = WATCHDOG.as_millis() as i64 * 3 / 4;
        let _: () = redis.pexpire("held-0", nearer).await.unwrap();
        until("it is renewed", LIMIT, async || {
            redis.pttl::<_, i64>("held-0").await.unwrap() > nearer
        })
        .await;
        calls.push(scripts(&mut redis).await);
    }
    // From one round to the next, wherever in them the mark stands.
    for pair in calls.windows(2) {
        let made = pair[1] - pair[0];
        assert!((1..=200).contains(&made), "{made} calls in a period");
    }
    let gone = guards.iter().filter(|guard| guard.is_lost());
    assert_eq!(gone.count(), 0);
    let mut ttls = redis::pipe();
    for number in 0..LOCKS {
        ttls.pttl(format!("held-{number}"));
    }
    let ttls: Vec<i64> = ttls.query_async(&mut redis).await.unwrap();
    assert!(ttls.iter().all(|ttl| *ttl > 0), "one was not renewed");
    // All at once, this process alone takes a lease's time in a debug build.
    let () = stream::iter(guards.into_iter().map(|guard| guard.unlock()))
        .buffer_unordered(250)
        .try_collect()
        .await
        .unwrap();
    let left: Vec<String> = redis.keys("held-*").await.unwrap();
    assert!(left.is_empty(), "{left:?}");
}
