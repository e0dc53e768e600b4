//! Locks shared with the real Redisson, held without a lease: they outlive pauses of the server on either side, and
//! a holder that is killed does not keep them.

use std::time::Duration;

use crate::locks::{PATIENCE, World, client, locking, returned, served, versions};
use crate::support::waiters::{until, until_passed};
use serde_json::json;

/// Both sides renew every third of it.
const WATCHDOG: Duration = Duration::from_millis(1800);

/// Longer than a period, shorter than what is left of the lock then.
const PAUSE: Duration = Duration::from_millis(900);

#[tokio::test]
async fn both_sides_outlive_pauses() {
    for version in versions() {
        let mut world = World::start(version, WATCHDOG).await;
        let (mine, javas) = (world.rust.lock("mine"), world.rust.lock("javas"));
        let guard = mine.guard().await.unwrap();
        world
            .java("lock", json!({"name": "javas", "thread": "a"}))
            .await;
        for _ in 0..3 {
            let _: () = redis::cmd("CLIENT")
                .arg("PAUSE")
                .arg(PAUSE.as_millis() as u64)
                .query_async(&mut world.redis)
                .await
                .unwrap();
            until_passed(&mut world.redis, WATCHDOG).await;
            assert!(!guard.is_lost(), "{version}");
            assert!(guard.handle().is_held().await.unwrap());
            assert!(javas.is_locked().await.unwrap(), "{version}");
            assert!(!javas.try_lock().await.unwrap());
            let name = json!({"name": "mine", "thread": "a"});
            assert_eq!(world.java("tryLock", name).await, json!(false));
        }
        guard.unlock().await.unwrap();
        world
            .java("unlock", json!({"name": "javas", "thread": "a"}))
            .await;
        // Renewed no more.
        until_passed(&mut world.redis, WATCHDOG).await;
        assert!(!mine.is_locked().await.unwrap() && !javas.is_locked().await.unwrap());
    }
}

#[tokio::test]
async fn a_killed_jvm_keeps_nothing() {
    for version in versions() {
        let mut world = World::start(version, WATCHDOG).await;
        world
            .java("lock", json!({"name": "door", "thread": "a"}))
            .await;
        let lock = world.rust.lock("door");
        let waits = locking(&lock);
        until_passed(&mut world.redis, WATCHDOG).await;
        assert!(!waits.is_finished(), "Java holds it");
        world.java.kill().await;
        // Nobody tells: the waiter looks when the time to live has ended.
        returned(version, waits).await.unwrap();
        assert!(lock.is_held().await.unwrap());
    }
}

#[tokio::test]
async fn a_killed_rust_process_keeps_nothing() {
    for version in versions() {
        let mut world = World::start(version, WATCHDOG).await;
        let url = world.server.url();
        // All that the process has going on ends at once: no guard is dropped in time to unlock.
        let process = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let held = process.spawn(async move {
            let client = redisson_semaphore::Client::builder(url)
                .lock_watchdog_timeout(WATCHDOG)
                .connect()
                .await
                .unwrap();
            let lock = client.lock("door");
            lock.lock().await.unwrap();
            lock
        });
        let lock = held.await.unwrap();
        let mut waits = world
            .java
            .begin("lock", json!({"name": "door", "thread": "a"}));
        until_passed(&mut world.redis, WATCHDOG).await;
        assert!(!waits.is_finished(), "it is renewed");
        process.shutdown_background();
        served(version, waits).await;
        let lease = lock.lease();
        until("the loss is known", PATIENCE, async || lease.is_lost()).await;
        let other = client(&world.server, WATCHDOG).await.lock("door");
        assert!(other.is_locked().await.unwrap());
        world
            .java("unlock", json!({"name": "door", "thread": "a"}))
            .await;
        assert!(!other.is_locked().await.unwrap());
    }
}
