//! Read-write locks: holds that end by themselves, renewal, and contents that other programs have written.

use std::time::Duration;

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, Error, RLock, RReadWriteLock};
use tokio::time::timeout;

use super::{WATCHDOG, lost, served, until_renewed};
use crate::support::clients::{LIMIT, start_controlled};
use crate::support::server::RedisServer;
use crate::support::waiters::{until, until_in_queue};

const NEVER: Duration = Duration::from_secs(24 * 60 * 60);

/// Nothing is looked for by the slow check.
async fn client(server: &RedisServer, watchdog: Duration) -> Client {
    let client = Client::builder(server.url()).lock_watchdog_timeout(watchdog);
    client.safety_interval(NEVER).connect().await.unwrap()
}

async fn start() -> (RedisServer, MultiplexedConnection, Client) {
    let server = RedisServer::start().await;
    let client = client(&server, Duration::from_secs(30)).await;
    let redis = server.connection().await;
    (server, redis, client)
}

fn sides(lock: &RReadWriteLock) -> [RLock; 2] {
    [lock.read(), lock.write()]
}

#[tokio::test]
async fn the_end_of_the_longest_read_lets_a_writer_in() {
    let (server, _, one) = start().await;
    let two = client(&server, Duration::from_secs(30)).await;
    let lease = Duration::from_millis;
    one.read_write_lock("door")
        .read()
        .with_lease(lease(100))
        .lock()
        .await
        .unwrap();
    two.read_write_lock("door")
        .read()
        .with_lease(lease(400))
        .lock()
        .await
        .unwrap();
    for client in [&one, &two] {
        let write = client.read_write_lock("door").write();
        assert!(
            timeout(LIMIT, write.try_lock_for(LIMIT))
                .await
                .unwrap()
                .unwrap()
        );
        write.unlock().await.unwrap();
    }
}

#[tokio::test]
async fn each_hold_is_renewed() {
    let (server, mut redis) = start_controlled().await;
    let client = client(&server, WATCHDOG).await;
    let lock = client.read_write_lock("door");
    let guard = lock.read().guard().await.unwrap();
    let again = guard.again().await.unwrap();
    let owner = guard.handle().owner();
    let hold = |number: u32| format!("{{door}}:{owner}:rwlock_timeout:{number}");
    // One that was deleted comes back.
    let _: () = redis.del(hold(1)).await.unwrap();
    until_renewed(&mut redis, &hold(2), WATCHDOG).await;
    for key in ["door".to_owned(), hold(1), hold(2)] {
        let left: i64 = redis.pttl(&key).await.unwrap();
        assert!(
            left > 0 && left <= WATCHDOG.as_millis() as i64,
            "{key}: {left}"
        );
    }
    assert!(!guard.is_lost() && !again.is_lost());
    let write = client.read_write_lock("door").write();
    assert!(!write.try_lock().await.unwrap());
    // A hold that is taken away is lost, and its guard knows.
    let _: () = redis.hdel("door", owner).await.unwrap();
    lost(again.lease()).await;
    drop((guard, again));
    let writer = write.guard().await.unwrap();
    until_renewed(&mut redis, "door", WATCHDOG).await;
    assert!(!writer.is_lost() && lock.write().is_locked().await.unwrap());
    writer.unlock().await.unwrap();
}

#[tokio::test]
async fn a_hash_without_a_mode_is_held_by_somebody() {
    let (_server, mut redis, client) = start().await;
    let lock = client.read_write_lock("door");
    for mode in [None, Some("nothing"), Some("")] {
        let _: () = redis.hset("door", "somebody:1", 1).await.unwrap();
        if let Some(mode) = mode {
            let _: () = redis.hset("door", "mode", mode).await.unwrap();
        }
        for side in sides(&lock) {
            assert!(!side.try_lock().await.unwrap() && !side.is_locked().await.unwrap());
            assert!(!side.try_lock_for(Duration::from_millis(20)).await.unwrap());
            assert!(!side.force_unlock().await.unwrap());
            assert!(matches!(side.unlock().await, Err(Error::NotHeld { .. })));
        }
        assert_eq!(
            redis.hlen::<_, usize>("door").await.unwrap(),
            1 + usize::from(mode.is_some())
        );
        let _: () = redis.del("door").await.unwrap();
        assert!(lock.write().try_lock().await.unwrap());
        lock.write().unlock().await.unwrap();
    }
}

/// The lock lasts as long as the longest of its owner's reads, also when it writes once more.
#[tokio::test]
async fn a_second_write_does_not_shorten_a_read() {
    let (_server, mut redis, one) = start().await;
    let lock = one.read_write_lock("door");
    let [read, write] = sides(&lock);
    write.lock().await.unwrap();
    let leases = [30, 7200].map(Duration::from_secs);
    for lease in leases {
        read.with_lease(lease).lock().await.unwrap();
    }
    let least = 2 * 3_600_000 - 60_000;
    write
        .with_lease(Duration::from_secs(5))
        .lock()
        .await
        .unwrap();
    assert!(redis.pttl::<_, i64>("door").await.unwrap() > least);
    write.unlock().await.unwrap();
    assert!(redis.pttl::<_, i64>("door").await.unwrap() > least);
}

/// More readers than one command takes: the dead of them do not keep the last one from unlocking, and all can be forced.
#[tokio::test]
async fn thousands_of_readers_are_unlocked() {
    let (_server, mut redis, client) = start().await;
    let lock = client.read_write_lock("door");
    for forced in [false, true] {
        let mut readers = redis::pipe();
        readers.hset("door", "mode", "read").ignore();
        for number in 0..5000 {
            readers.hset("door", format!("dead:{number}"), 1).ignore();
        }
        readers.pexpire("door", 30_000).ignore();
        let _: () = readers.query_async(&mut redis).await.unwrap();
        let reader = lock.read().guard().await.unwrap();
        match forced {
            true => assert_eq!(lock.read().force_unlock().await, Ok(true)),
            false => assert_eq!(reader.unlock().await, Ok(())),
        }
        assert!(!redis.exists::<_, bool>("door").await.unwrap());
    }
}

/// They share a channel.
#[tokio::test]
async fn a_name_with_braces_is_another_lock() {
    let (_server, _, client) = start().await;
    let names = ["door", "{door}"];
    let locks = names.map(|name| client.read_write_lock(name).write());
    for lock in &locks {
        assert_eq!(lock.try_lock().await, Ok(true));
    }
    for lock in &locks {
        assert_eq!(lock.hold_count().await, Ok(1));
    }
}

/// A grant that was confirmed lasts for the lease that was asked for, also where the reader's own key says so.
#[tokio::test]
async fn a_read_that_was_waited_for_has_its_whole_lease() {
    const LEASE: Duration = Duration::from_secs(3600);
    let (server, mut redis, one) = start().await;
    let two = client(&server, Duration::from_secs(30)).await;
    let [read, write] = sides(&one.read_write_lock("door"));
    write.lock().await.unwrap();
    let reader = two.read_write_lock("door").read().with_lease(LEASE);
    let call = reader.clone();
    let waits = tokio::spawn(async move { call.lock().await });
    until_in_queue(&mut redis, "redisson_rwlock_waiters:{door}", 1).await;
    write.unlock().await.unwrap();
    served("the writer has gone", waits).await;
    let whole = LEASE.as_millis() as i64 / 2;
    until("its key lasts as long", LIMIT, async || {
        let keys: Vec<String> = redis.keys("*rwlock_timeout:*").await.unwrap();
        keys.len() == 1 && redis.pttl::<_, i64>(&keys[0]).await.unwrap() > whole
    })
    .await;
    assert_eq!(read.is_locked().await, Ok(true));
    reader.unlock().await.unwrap();
}
