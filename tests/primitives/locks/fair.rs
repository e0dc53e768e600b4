//! The fair lock's own: its queue, and what becomes of a waiter that goes, is not heard of, or hears nothing.

use std::time::Duration;

use crate::locks::served;
use crate::support::clients::{LIMIT, scripts, start_controlled};
use crate::support::monitor::Monitor;
use crate::support::proxy::Proxy;
use crate::support::server::RedisServer;
use crate::support::waiters::{until, until_subscribers};
use futures::future::join_all;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, ClientBuilder, RFairLock, Result};
use tokio::task::JoinHandle;

const HOUR: Duration = Duration::from_secs(3600);
const QUEUE: &str = "redisson_lock_queue:{door}";
const ENDS: &str = "redisson_lock_timeout:{door}";
fn builder(url: String) -> ClientBuilder {
    Client::builder(url)
        // Nothing is sent twice where the machine is slow.
        .response_timeout(LIMIT)
        .lock_watchdog_timeout(HOUR)
        .safety_interval(HOUR)
}

async fn connect(url: String) -> Client {
    builder(url).connect().await.expect("the server runs")
}

/// The server's time in milliseconds since 1970.
async fn clock(redis: &mut MultiplexedConnection) -> i64 {
    let time = redis::cmd("TIME").query_async(redis).await;
    let (seconds, micros): (i64, i64) = time.unwrap();
    seconds * 1000 + micros / 1000
}

async fn queue(redis: &mut MultiplexedConnection) -> Vec<String> {
    redis.lrange(QUEUE, 0, -1).await.unwrap()
}

/// `lock` in a task that stands in the queue behind `others` waiters, and needs a message from now on.
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

/// A step of the queue, as batches of other locks have them.
#[tokio::test]
async fn a_step_that_a_fair_lock_does_not_have_is_passed_over() {
    let (server, mut redis) = start_controlled().await;
    let script = concat!(
        include_str!("../../../lua/queue/record.lua"),
        include_str!("../../../lua/queue/entries.lua"),
        include_str!("../../../lua/lock/hold.lua"),
        include_str!("../../../lua/lock/fair.lua"),
    );
    let client = connect(server.url()).await;
    let mut call = redis::cmd("EVAL");
    call.arg(script).arg(6);
    call.arg(&["once", "door", "channel", QUEUE, ENDS, "notes"]);
    call.arg(&["PUBLISH", "0000000000000001", "60000", "0", client.id()]);
    call.arg(&["30000", "0:0", "60000", "0", "0"]);
    call.arg(&["take", "5", "30000", "300000", "check", "0", "0"]);
    let answer: String = call.query_async(&mut redis).await.unwrap();
    assert_eq!(answer, "done 0 -1 -1 -1 0 0 1:0:1 1 |");
}

/// The first one has not heard that the lock is free: when it leaves, the next one hears of it.
#[tokio::test]
async fn a_first_waiter_that_leaves_a_free_lock_wakes_the_next_one() {
    let (server, mut redis) = start_controlled().await;
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

/// As in Redisson: each waiter's time begins when that of the one before it is over.
#[tokio::test]
async fn times_of_waiters_follow_each_other() {
    let (server, mut redis) = start_controlled().await;
    let client = builder(server.url()).fair_lock_wait_timeout(Duration::from_secs(7));
    let client = client.connect().await.unwrap();
    client.fair_lock("door").lock().await.unwrap();
    let from = clock(&mut redis).await;
    let [one, two] = [client.fair_lock("door"), client.fair_lock("door")];
    let _first = waiting(&server, &one, 0).await;
    let ends: i64 = redis.zscore(ENDS, one.owner()).await.unwrap();
    assert!(
        (from..=clock(&mut redis).await).contains(&(ends - 7_000)),
        "{ends}"
    );
    let _second = waiting(&server, &two, 1).await;
    assert_eq!(
        redis.zscore(ENDS, two.owner()).await,
        Ok(Some(ends + 7_000))
    );
}

/// A waiter whose own attempts lag behind those before it keeps its place when these are served.
#[tokio::test]
async fn a_grant_ends_nobodys_time() {
    let (server, mut redis) = start_controlled().await;
    let client = connect(server.url()).await;
    let holder = client.fair_lock("door");
    holder.lock().await.unwrap();
    let (one, two) = (client.fair_lock("door"), client.fair_lock("door"));
    let first = waiting(&server, &one, 0).await;
    let second = waiting(&server, &two, 1).await;
    let soon = clock(&mut redis).await + 60_000;
    let _: () = redis.zadd(ENDS, two.owner(), soon).await.unwrap();
    holder.unlock().await.unwrap();
    served("the first one", first).await;
    assert_eq!(redis.zscore(ENDS, two.owner()).await, Ok(Some(soon)));
    one.unlock().await.unwrap();
    served("the second one", second).await;
}

/// As behind a failover that has lost a waiter's departure: no caller tries for the entry, and its time is not over for long.
#[tokio::test]
async fn a_free_lock_waits_for_ten_seconds_for_its_first_waiter() {
    let (server, mut redis) = start_controlled().await;
    let client = connect(server.url()).await;
    let holder = client.fair_lock("door");
    let left_over = format!("{}:1", client.id());
    holder.lock().await.unwrap();
    let _: () = redis.rpush(QUEUE, &left_over).await.unwrap();
    let in_an_hour = clock(&mut redis).await + 3_600_000;
    let _: () = redis.zadd(ENDS, &left_over, in_an_hour).await.unwrap();
    let from = clock(&mut redis).await;
    holder.unlock().await.unwrap();
    let ends: i64 = redis.zscore(ENDS, &left_over).await.unwrap();
    assert!(
        (from..=clock(&mut redis).await).contains(&(ends - 10_000)),
        "{ends}"
    );
    let lock = client.fair_lock("door");
    let next = tokio::spawn(async move { lock.lock().await });
    served("behind a place that nobody has", next).await;
    assert!(clock(&mut redis).await >= ends, "too soon");
}

/// Waiters that leave at the same time do so by a few scripts, however many they are. The waiters behind them have the time that they leave.
#[tokio::test]
async fn many_waiters_leave_together() {
    const MANY: usize = 200;
    let (server, mut redis) = start_controlled().await;
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

/// The list of waiters is deleted by hand, so nothing tells that others are first.
#[tokio::test]
async fn deleted_queue_leaves_no_ends_behind() {
    let (server, mut redis) = start_controlled().await;
    let client = connect(server.url()).await;
    let holder = client.fair_lock("door");
    holder.lock().await.unwrap();
    let lock = client.fair_lock("door");
    let next = waiting(&server, &lock, 0).await;
    let () = redis.del(QUEUE).await.unwrap();
    holder.unlock().await.unwrap();
    assert!(!redis.exists::<_, bool>(ENDS).await.unwrap());
    assert!(holder.try_lock().await.unwrap());
    holder.unlock().await.unwrap();
    next.abort();
}

/// The message that tells the next waiter of the end comes from the script that takes the lock.
#[tokio::test]
async fn the_first_waiter_learns_of_the_lease_of_the_next_holder() {
    const LEASE: Duration = Duration::from_secs(1);
    let (server, _) = start_controlled().await;
    let (near, far) = (connect(server.url()).await, connect(server.url()).await);
    let first = near.fair_lock("door");
    first.lock().await.unwrap();
    let brief = near.fair_lock("door").with_lease(LEASE);
    let second = waiting(&server, &brief, 0).await;
    let third = waiting(&server, &far.fair_lock("door"), 1).await;
    first.unlock().await.unwrap();
    served("it is the first one", second).await;
    // Nobody unlocks it, and nobody looks without a reason.
    served("the lease is over", third).await;
}

/// An owner that comes again sends a request and an unlock, and no more: it does not look for a turn that it has had.
#[tokio::test]
async fn a_caller_alone_sends_two_scripts_a_turn() {
    const TURNS: u64 = 10;
    let (server, mut redis) = start_controlled().await;
    let lock = connect(server.url()).await.fair_lock("door");
    lock.lock().await.unwrap();
    lock.unlock().await.unwrap();
    let before = scripts(&mut redis).await;
    for _ in 0..TURNS {
        lock.lock().await.unwrap();
        // The unlock would take along the rest of the call's work: this question comes behind that.
        assert!(lock.as_lock().is_held().await.unwrap());
        lock.unlock().await.unwrap();
    }
    assert!(!lock.is_locked().await.unwrap());
    let sent = scripts(&mut redis).await - before;
    assert!(sent <= 2 * TURNS + 1, "{sent} scripts");
}
