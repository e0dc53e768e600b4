//! The fair lock's own: its queue, and what becomes of a waiter that goes, is not heard of, or hears nothing.

use std::time::Duration;

use crate::locks::served::served;
use crate::support::clients::scripts;
use crate::support::monitor::Monitor;
use crate::support::proxy::Proxy;
use crate::support::server::RedisServer;
use crate::support::waiters::{until, until_subscribers};
use futures::future::join_all;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, ClientBuilder, RFairLock, Result};
use tokio::task::JoinHandle;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(20);
const HOUR: Duration = Duration::from_secs(3600);
const QUEUE: &str = "redisson_lock_queue:{door}";
const ENDS: &str = "redisson_lock_timeout:{door}";
/// In the queue, and nobody is there.
const NOBODY: &str = "00000000-0000-0000-0000-000000000000:1";

fn builder(url: String) -> ClientBuilder {
    Client::builder(url)
        .response_timeout(Duration::from_millis(100))
        .lock_watchdog_timeout(HOUR)
        .safety_interval(HOUR)
}

async fn connect(url: String) -> Client {
    builder(url).connect().await.expect("the server runs")
}

async fn queue(redis: &mut MultiplexedConnection) -> Vec<String> {
    redis.lrange(QUEUE, 0, -1).await.unwrap()
}

/// `lock` in a task that stands in the queue behind so many others, and needs a message from now on.
async fn waiting(server: &RedisServer, lock: &RFairLock, others: usize) -> JoinHandle<Result<()>> {
    let redis = &mut server.connection().await;
    let mut monitor = Monitor::start(server).await;
    let call = lock.clone();
    let task = tokio::spawn(async move { call.lock().await });
    let channel = format!("redisson_lock__channel:{{door}}:{}", lock.owner());
    until("it queues", LIMIT, async || {
        queue(redis).await.len() == others + 1
    })
    .await;
    until_subscribers(redis, &channel, 1).await;
    let mut attempts = 0;
    until("it has tried behind its subscription", LIMIT, async || {
        let commands = monitor.until_marker().await.into_iter();
        let looks = commands.filter(|command| command.is_lua() && command.name == "HGET");
        attempts += looks
            .filter(|command| command.args[1] == lock.owner())
            .count();
        attempts >= 2
    })
    .await;
    task
}

#[tokio::test]
async fn a_lost_message_is_made_up_for_by_the_slow_check() {
    let server = RedisServer::start().await;
    let holder = connect(server.url()).await.fair_lock("door");
    holder.lock().await.unwrap();
    let proxy = Proxy::start(&server).await;
    let client = builder(proxy.url()).safety_interval(Duration::from_millis(200));
    let lock = client.connect().await.unwrap().fair_lock("door");
    let task = waiting(&server, &lock, 0).await;
    proxy.deafen();
    holder.unlock().await.unwrap();
    served("nobody looks", task).await;
    assert_eq!(lock.hold_count().await.unwrap(), 1);
}

/// The first one has not heard that the lock is free: when it leaves, the next one hears of it.
#[tokio::test]
async fn a_first_waiter_that_leaves_a_free_lock_wakes_the_next_one() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let (proxy, client) = (Proxy::start(&server).await, connect(server.url()).await);
    let holder = client.fair_lock("door");
    holder.lock().await.unwrap();
    let deaf = connect(proxy.url()).await.fair_lock("door");
    let first = waiting(&server, &deaf, 0).await;
    let lock = client.fair_lock("door");
    let next = waiting(&server, &lock, 1).await;
    proxy.deafen();
    holder.unlock().await.unwrap();
    assert!(!lock.is_locked().await.unwrap());
    assert!(!holder.try_lock().await.unwrap(), "others are first");
    first.abort();
    served("the next one sleeps on", next).await;
    assert_eq!(queue(&mut redis).await, [""; 0]);
}

/// Those that are gone are passed when their time is over, and not before.
#[tokio::test]
async fn a_waiter_whose_time_is_over_is_passed() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = connect(server.url()).await;
    let lock = client.fair_lock("door");
    let _: () = redis.rpush(QUEUE, NOBODY).await.unwrap();
    let _: () = redis.zadd(ENDS, NOBODY, 1e15).await.unwrap();
    assert!(!lock.try_lock().await.unwrap());
    let _: () = redis.zadd(ENDS, NOBODY, 1).await.unwrap();
    assert!(lock.try_lock().await.unwrap());
    assert_eq!(redis.exists::<_, u32>(&[QUEUE, ENDS]).await, Ok(0));
    lock.unlock().await.unwrap();
    // Nobody tells a waiter behind it, which looks at that time. The key of its end may be lost, too.
    let (now, _): (i64, i64) = redis::cmd("TIME").query_async(&mut redis).await.unwrap();
    for ends in [Some((now + 1) * 1000), None] {
        let _: () = redis.rpush(QUEUE, NOBODY).await.unwrap();
        if let Some(ends) = ends {
            let _: () = redis.zadd(ENDS, NOBODY, ends).await.unwrap();
        }
        let call = lock.clone();
        served(
            "behind nobody",
            tokio::spawn(async move { call.lock().await }),
        )
        .await;
        lock.unlock().await.unwrap();
        assert_eq!(redis.exists::<_, u32>(&[QUEUE, ENDS]).await, Ok(0));
    }
}

/// As in Redisson: each waiter's time begins when that of the one before it is over, and ends sooner when that one goes.
#[tokio::test]
async fn times_of_waiters_follow_each_other() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = builder(server.url()).fair_lock_wait_timeout(Duration::from_secs(7));
    let client = client.connect().await.unwrap();
    let holder = client.fair_lock("door");
    holder.lock().await.unwrap();
    let clock = async |redis: &mut MultiplexedConnection| {
        let time: (i64, i64) = redis::cmd("TIME").query_async(redis).await.unwrap();
        time.0 * 1000 + time.1 / 1000
    };
    let from = clock(&mut redis).await;
    let lock = client.fair_lock("door");
    let first = waiting(&server, &lock, 0).await;
    let ends: i64 = redis.zscore(ENDS, lock.owner()).await.unwrap();
    let to = clock(&mut redis).await;
    assert!((from..=to).contains(&(ends - 7_000)), "{ends}");
    let timed = client.fair_lock("door");
    let owner = timed.owner().to_owned();
    let call = async move { timed.try_lock_for(Duration::from_secs(20)).await };
    let second = tokio::spawn(call);
    until("both queue", LIMIT, async || {
        queue(&mut redis).await.len() == 2
    })
    .await;
    let after: i64 = redis.zscore(ENDS, &owner).await.unwrap();
    assert_eq!(after, ends + 7_000);
    assert_eq!(client.stats().waiting, 2);
    first.abort();
    until("the first one leaves", LIMIT, async || {
        queue(&mut redis).await == [&*owner]
    })
    .await;
    let after: i64 = redis.zscore(ENDS, &owner).await.unwrap();
    let now = clock(&mut redis).await;
    // Not before a share from then on.
    assert!((ends..=now + 7_000).contains(&after), "{after}");
    holder.unlock().await.unwrap();
    assert!(timeout(LIMIT, second).await.unwrap().unwrap().unwrap());
    assert_eq!(client.stats().waiting, 0);
}

/// A waiter whose own attempts lag behind those before it keeps its place when these are served.
#[tokio::test]
async fn a_grant_ends_nobodys_time() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = connect(server.url()).await;
    let holder = client.fair_lock("door");
    holder.lock().await.unwrap();
    let (one, two) = (client.fair_lock("door"), client.fair_lock("door"));
    let first = waiting(&server, &one, 0).await;
    let second = waiting(&server, &two, 1).await;
    let (now, _): (i64, i64) = redis::cmd("TIME").query_async(&mut redis).await.unwrap();
    let soon = now * 1000 + 60_000;
    let _: () = redis.zadd(ENDS, two.owner(), soon).await.unwrap();
    holder.unlock().await.unwrap();
    served("the first one", first).await;
    assert_eq!(redis.zscore(ENDS, two.owner()).await, Ok(Some(soon)));
    one.unlock().await.unwrap();
    served("the second one", second).await;
}

/// Waiters that leave at the same time do so by a few scripts, however many they are. Those behind them have the time that they leave.
#[tokio::test]
async fn many_waiters_leave_together() {
    const MANY: usize = 200;
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = connect(server.url()).await;
    client.fair_lock("door").lock().await.unwrap();
    let all = join_all((0..MANY).map(|_| {
        let lock = client.fair_lock("door");
        async move { lock.lock().await }
    }));
    let all = tokio::spawn(all);
    until("all queue", LIMIT, async || {
        queue(&mut redis).await.len() == MANY
    })
    .await;
    let lock = connect(server.url()).await.fair_lock("door");
    let _last = waiting(&server, &lock, MANY).await;
    let late: i64 = redis.zscore(ENDS, lock.owner()).await.unwrap();
    let before = scripts(&mut redis).await;
    all.abort();
    until("they leave", LIMIT, async || {
        queue(&mut redis).await == [lock.owner()]
    })
    .await;
    let cost = scripts(&mut redis).await - before;
    assert!(cost <= 5, "{cost} scripts");
    let soon: i64 = redis.zscore(ENDS, lock.owner()).await.unwrap();
    assert!(soon <= late - 300_000 * (MANY as i64 - 1), "{late}, {soon}");
    assert_eq!(redis.zcard::<_, u64>(ENDS).await, Ok(1));
}
