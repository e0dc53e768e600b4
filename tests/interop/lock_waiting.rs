//! Locks shared with the real Redisson: who waits on one side is woken by the other, at once.

use std::time::Duration;

use crate::locks::{Attempts, LONG, World, locking, returned, served, versions};
use redisson_semaphore::Error;
use serde_json::json;

/// Far longer than a Java caller needs to fall asleep.
const QUIET: Duration = Duration::from_millis(200);

/// The ways in which a Java caller waits for a lock, and gives it back.
const JAVA_WAITERS: [&str; 2] = ["sync", "async"];

#[tokio::test]
async fn java_holds_and_rust_waits() {
    for version in versions() {
        let mut world = World::start(version, LONG).await;
        let lock = world.rust.lock("door");
        for end in ["unlock", "forceUnlock"] {
            world
                .java("lock", json!({"name": "door", "thread": "a"}))
                .await;
            assert!(!lock.try_lock().await.unwrap());
            let waits = locking(&lock);
            let neighbour = locking(&world.rust.lock("door"));
            world.until_listeners("door", 1).await;
            assert!(!waits.is_finished() && !neighbour.is_finished());
            world
                .java(end, json!({"name": "door", "thread": "a"}))
                .await;
            returned("after Java's unlock", waits).await.unwrap();
            assert!(lock.is_held().await.unwrap());
            // The other one waits behind; Java wakes it, too.
            world.java("forceUnlock", json!({"name": "door"})).await;
            returned("after Java's forceUnlock", neighbour)
                .await
                .unwrap();
            assert!(matches!(lock.unlock().await, Err(Error::NotHeld { .. })));
            assert!(lock.force_unlock().await.unwrap());
        }
    }
}

#[tokio::test]
async fn rust_holds_and_java_waits() {
    for version in versions() {
        let mut world = World::start(version, LONG).await;
        let lock = world.rust.lock("door");
        let mut attempts = Attempts::count(&world.server).await;
        for mode in JAVA_WAITERS {
            for force in [false, true] {
                let what = format!("{version}, {mode}, force: {force}");
                let args = json!({"name": "door", "thread": "a", "threadId": 7, "mode": mode});
                lock.lock().await.unwrap();
                assert_eq!(world.java("tryLock", args.clone()).await, json!(false));
                // The last waiter has left.
                world.until_listeners("door", 0).await;
                attempts.skip().await;
                let mut waits = world.java.begin("lock", args.clone());
                attempts.until("door", 2).await;
                // Redisson's futures lose a message that comes between the second attempt and their sleep.
                tokio::time::sleep(QUIET).await;
                world.until_listeners("door", 1).await;
                assert!(!waits.is_finished(), "{what}");
                if force {
                    assert!(world.rust.lock("door").force_unlock().await.unwrap());
                } else {
                    lock.unlock().await.unwrap();
                }
                served(&what, waits).await;
                assert!(lock.is_locked().await.unwrap() && !lock.is_held().await.unwrap());
                world.java("unlock", args).await;
                assert!(!lock.is_locked().await.unwrap());
            }
        }
        lock.force_unlock().await.unwrap();
    }
}

/// With guards, and with other owners of the same client that want it, too: Java gets its turn.
#[tokio::test]
async fn java_gets_its_turn_among_owners_of_one_client() {
    for version in versions() {
        let mut world = World::start(version, LONG).await;
        let guard = world.rust.lock("door").guard().await.unwrap();
        let waits = world
            .java
            .begin("lock", json!({"name": "door", "thread": "a"}));
        world.until_listeners("door", 1).await;
        let greedy: Vec<_> = (0..4)
            .map(|_| {
                let lock = world.rust.lock("door");
                tokio::spawn(async move {
                    loop {
                        let guard = lock.guard().await.unwrap();
                        tokio::time::sleep(Duration::from_millis(1)).await;
                        drop(guard);
                    }
                })
            })
            .collect();
        drop(guard);
        served("among greedy owners", waits).await;
        for task in greedy {
            task.abort();
        }
        world
            .java("unlock", json!({"name": "door", "thread": "a"}))
            .await;
    }
}

#[tokio::test]
async fn a_wait_that_runs_out_takes_nothing() {
    for version in versions() {
        let world = World::start(version, LONG).await;
        let lock = world.rust.lock("door");
        let short = Duration::from_millis(100);
        let args = json!({"name": "door", "thread": "a", "waitMs": 1_000, "threadId": 7});
        lock.lock().await.unwrap();
        assert_eq!(world.java("tryLock", args.clone()).await, json!(false));
        lock.unlock().await.unwrap();
        assert_eq!(world.java("tryLock", args.clone()).await, json!(true));
        assert!(!lock.try_lock_for(short).await.unwrap());
        world.java("unlock", args).await;
        assert!(!lock.is_locked().await.unwrap());
    }
}

/// The end of a lease is not announced: both sides look by themselves.
#[tokio::test]
async fn the_end_of_a_lease_wakes_the_other_side() {
    for version in versions() {
        let world = World::start(version, LONG).await;
        let lock = world.rust.lock("door");
        let lease = Duration::from_millis(300);
        let leased = json!({"name": "door", "thread": "a", "leaseMs": 300});
        world.java("lock", leased.clone()).await;
        returned("Java's lease is over", locking(&lock))
            .await
            .unwrap();
        let gone = world
            .java_error("unlock", json!({"name": "door", "thread": "a"}))
            .await;
        assert_eq!(gone.class, "IllegalMonitorStateException");
        lock.unlock().await.unwrap();
        lock.with_lease(lease).lock().await.unwrap();
        world.java("lock", leased).await;
        assert!(matches!(lock.unlock().await, Err(Error::NotHeld { .. })));
    }
}
