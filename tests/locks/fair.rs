//! The fair lock's own: its queue, and what becomes of a waiter that goes, is not heard of, or hears nothing.

use std::time::Duration;

use crate::served::served;
use crate::support::monitor::Monitor;
use crate::support::polls::polled;
use crate::support::proxy::{LOST_REPLIES, Proxy};
use crate::support::server::RedisServer;
use crate::support::waiters::{until, until_subscribers};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, ClientBuilder, Error, RFairLock, Result};
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

async fn until_gone(redis: &mut MultiplexedConnection, what: &str, keys: &[&str]) {
    until(what, LIMIT, async || {
        redis.exists::<_, u32>(keys).await.unwrap() == 0
    })
    .await;
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

/// Dropped before and behind each answer, and while the lock comes to it: neither a hold nor an entry stays, and the next one is served.
#[tokio::test]
async fn nothing_stays_of_a_waiter_that_is_dropped() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let (client, other) = (connect(server.url()).await, connect(server.url()).await);
    for polls in 0..12 {
        for unlocked in [false, true] {
            let what = format!("{polls} polls, unlocked meanwhile: {unlocked}");
            let (holder, dropped) = (other.fair_lock("door"), client.fair_lock("door"));
            holder.lock().await.unwrap();
            let unlocking = async {
                match unlocked {
                    true => holder.unlock().await.unwrap(),
                    // Its timer drops a call that would wait for ever.
                    false => tokio::task::yield_now().await,
                }
            };
            let bounded = timeout(Duration::from_millis(50), polled(dropped.lock(), polls));
            let (got, ()) = tokio::join!(bounded, unlocking);
            if let Ok(Some(answer)) = got {
                answer.unwrap();
                dropped.unlock().await.unwrap();
            }
            until_gone(&mut redis, &what, &[QUEUE, ENDS]).await;
            let next = client.fair_lock("door");
            let task = tokio::spawn(async move { next.guard().await?.unlock().await });
            if !unlocked {
                holder.unlock().await.unwrap();
            }
            served(&what, task).await;
            until_gone(&mut redis, &what, &["door", QUEUE, ENDS]).await;
        }
    }
}

/// Each script's reply in turn: the waiter holds the lock once, and leaves no entry; one that gives up holds nothing.
#[tokio::test]
async fn a_lost_reply_doubles_and_leaks_nothing() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let holder = connect(server.url()).await.fair_lock("door");
    for fate in LOST_REPLIES {
        for lost in 1..=6 {
            let what = format!("{fate:?} at script {lost}");
            let proxy = Proxy::start(&server).await;
            let client = connect(proxy.url()).await;
            holder.lock().await.unwrap();
            proxy.at_script(lost, fate);
            let late = client.fair_lock("door");
            let gives_up = late.try_lock_for(Duration::from_millis(20));
            assert!(!timeout(LIMIT, gives_up).await.unwrap().unwrap(), "{what}");
            until_gone(&mut redis, &what, &[QUEUE, ENDS]).await;
            let lock = client.fair_lock("door");
            let call = lock.clone();
            let task = tokio::spawn(async move { call.lock().await });
            until("it queues", LIMIT, async || {
                queue(&mut redis).await == [lock.owner()]
            })
            .await;
            holder.unlock().await.unwrap();
            served(&what, task).await;
            assert_eq!(lock.hold_count().await.unwrap(), 1, "{what}");
            lock.unlock().await.unwrap();
            until_gone(&mut redis, &what, &["door", QUEUE, ENDS]).await;
            client.shutdown().await.unwrap();
        }
    }
}

/// A message lets the first waiter in, and nothing else does.
#[tokio::test]
async fn an_unlock_wakes_the_first_waiter() {
    let server = RedisServer::start().await;
    let client = connect(server.url()).await;
    let holder = client.fair_lock("door");
    for force in [false, true] {
        holder.lock().await.unwrap();
        let lock = client.fair_lock("door");
        let first = waiting(&server, &lock, 0).await;
        match force {
            true => assert!(lock.force_unlock().await.unwrap()),
            false => holder.unlock().await.unwrap(),
        }
        served("the first waiter sleeps on", first).await;
        lock.unlock().await.unwrap();
    }
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

/// Whatever stands in a key, the error names it, and nothing has changed.
#[tokio::test]
async fn a_key_of_another_type_is_told() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = connect(server.url()).await;
    let lock = client.fair_lock("door");
    for key in ["door", QUEUE, ENDS] {
        let _: () = redis.set(key, "text").await.unwrap();
        if key == ENDS {
            let _: () = redis.rpush(QUEUE, NOBODY).await.unwrap();
        }
        for answer in [
            lock.lock().await,
            lock.try_lock().await.map(drop),
            lock.try_lock_for(HOUR).await.map(drop),
            lock.guard().await.map(drop),
        ] {
            let error = answer.expect_err("refused");
            assert!(
                matches!(&error, Error::WrongType { key: named, .. } if named == key),
                "{key}: {error}"
            );
        }
        assert_eq!(redis.get::<_, String>(key).await.unwrap(), "text");
        let _: () = redis.del(&[key, QUEUE]).await.unwrap();
    }
    let empty = client.fair_lock("").lock().await.unwrap_err();
    assert!(matches!(empty, Error::InvalidName { .. }), "{empty}");
    let lease = lock.with_lease(Duration::ZERO).lock().await.unwrap_err();
    assert!(matches!(lease, Error::InvalidDuration { .. }), "{lease}");
    assert!(lock.try_lock().await.unwrap());
    let free = client.fair_lock("free").unlock().await.unwrap_err();
    assert!(matches!(free, Error::NotHeld { .. }), "{free}");
}

/// A waiter has its share from each attempt on, and what others of the queue do costs it nothing.
#[tokio::test]
async fn calls_of_one_owner_do_not_shorten_the_time_of_others() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = connect(server.url()).await;
    let holder = client.fair_lock("door");
    holder.lock().await.unwrap();
    let shared = client.fair_lock("door").with_owner(7);
    let short = shared.clone();
    let wait = Duration::from_millis(200);
    let short = tokio::spawn(async move { short.try_lock_for(wait).await });
    until("it queues", LIMIT, async || {
        queue(&mut redis).await.len() == 1
    })
    .await;
    let long = shared.clone();
    let long = tokio::spawn(async move { long.lock().await });
    let behind = client.fair_lock("door");
    let last = waiting(&server, &behind, 1).await;
    assert_eq!(short.await.unwrap(), Ok(false));
    holder.unlock().await.unwrap();
    served("the owner's other call", long).await;
    let ends: i64 = redis.zscore(ENDS, behind.owner()).await.unwrap();
    let (now, _): (i64, i64) = redis::cmd("TIME").query_async(&mut redis).await.unwrap();
    assert!(ends > now * 1000 + 200_000, "its share is gone: {ends}");
    shared.unlock().await.unwrap();
    served("the last one", last).await;
}

/// The waiter behind a holder with a lease of its own learns when that ends.
#[tokio::test]
async fn the_end_of_a_lease_behind_a_turn_is_found() {
    let server = RedisServer::start().await;
    let client = connect(server.url()).await;
    let holder = client.fair_lock("door");
    holder.lock().await.unwrap();
    let leased = client
        .fair_lock("door")
        .with_lease(Duration::from_millis(300));
    let first = waiting(&server, &leased, 0).await;
    let second = waiting(&server, &client.fair_lock("door"), 1).await;
    holder.unlock().await.unwrap();
    served("the one with a lease", first).await;
    served("the one behind it", second).await;
}

/// A call that asks again when its owner has been there stands in the queue anew, and leaves it when it is dropped.
#[tokio::test]
async fn a_second_call_of_an_owner_leaves_its_place() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let (client, other) = (connect(server.url()).await, connect(server.url()).await);
    let holder = other.fair_lock("door");
    holder.lock().await.unwrap();
    let shared = client.fair_lock("door").with_owner(7);
    let first = waiting(&server, &shared, 0).await;
    let mut again = Box::pin(shared.lock());
    // It has asked, and sleeps.
    assert!(
        timeout(Duration::from_millis(50), &mut again)
            .await
            .is_err()
    );
    let between = other.fair_lock("door");
    let between_them = waiting(&server, &between, 1).await;
    holder.unlock().await.unwrap();
    served("the owner's first call", first).await;
    shared.unlock().await.unwrap();
    served("the one between", between_them).await;
    let asked = async {
        until("it stands there anew", LIMIT, async || {
            queue(&mut redis).await == [shared.owner()]
        })
        .await;
    };
    tokio::select! {
        answer = &mut again => panic!("it is held: {answer:?}"),
        () = asked => {}
    }
    drop(again);
    until_gone(&mut redis, "a place of nobody", &[QUEUE, ENDS]).await;
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

/// The first waiter knows of the holder's lease, and leaves; or a shorter lease is left to the holder: the one that is first then learns of it.
#[tokio::test]
async fn the_first_waiter_knows_the_lease_whatever_has_changed() {
    let server = RedisServer::start().await;
    let client = connect(server.url()).await;
    let second = Duration::from_secs(1);
    let (holder, leased) = (client.fair_lock("door"), client.fair_lock("door"));
    leased.with_lease(second).lock().await.unwrap();
    let head = waiting(&server, &client.fair_lock("door"), 0).await;
    let lock = client.fair_lock("door");
    let next = waiting(&server, &lock, 1).await;
    head.abort();
    served("behind one that has left", next).await;
    lock.unlock().await.unwrap();

    holder.with_lease(second).lock().await.unwrap();
    holder.lock().await.unwrap();
    let next = waiting(&server, &lock, 0).await;
    holder.unlock().await.unwrap();
    served("behind a shorter lease", next).await;
}
