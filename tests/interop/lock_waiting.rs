//! Locks and read-write locks shared with the real Redisson: a waiter of one side is woken by the other, at once.

use std::time::Duration;

use crate::common::locks::{Kind, all_versions, exclusive, locking, newer_versions, versions};
use crate::common::parked::{Attempts, PATIENCE, returned, served};
use crate::common::waiting::TRIES;
use crate::common::world::{Mode, World};
use crate::support::waiters::until;
use redis::AsyncCommands;
use redisson_semaphore::Error;
use serde_json::json;

/// Far longer than a Java caller needs to fall asleep.
const QUIET: Duration = Duration::from_millis(200);

#[tokio::test]
async fn java_holds_and_rust_waits() {
    for version in all_versions() {
        let mut world = World::start(version).await;
        for (held, wanted) in exclusive(version) {
            for end in ["unlock", "forceUnlock"] {
                let what = format!("{version}: {held:?}, {wanted:?}, {end}");
                let held_by_java = held.args("door", "a");
                world.java("lock", held_by_java.clone()).await;
                let [lock, next] = [(); 2].map(|()| wanted.of(&world.rust, "door"));
                assert!(!lock.try_lock().await.unwrap(), "{what}");
                let (waits, neighbour) = (locking(&lock), locking(&next));
                wanted.until_listeners(&mut world, "door", 1).await;
                assert!(!waits.is_finished() && !neighbour.is_finished(), "{what}");
                world.java(end, held_by_java).await;
                returned(&what, waits).await.unwrap();
                assert!(lock.is_held().await.unwrap(), "{what}");
                if wanted == Kind::Read {
                    lock.unlock().await.unwrap();
                } else {
                    // The other one waits behind; Java wakes it, too.
                    let forced = world.java("forceUnlock", wanted.args("door", "b")).await;
                    assert_eq!(forced, json!(true), "{what}");
                }
                returned(&what, neighbour).await.unwrap();
                assert!(matches!(lock.unlock().await, Err(Error::NotHeld { .. })));
                assert!(next.force_unlock().await.unwrap());
            }
        }
    }
}

#[tokio::test]
async fn rust_holds_and_java_waits() {
    for version in all_versions() {
        let mut world = World::start(version).await;
        let mut attempts = Attempts::on_locks(&world.server).await;
        for (held, wanted) in exclusive(version) {
            for (mode, force) in Mode::BOTH
                .into_iter()
                .flat_map(|mode| [(mode, false), (mode, true)])
            {
                let what = format!("{version}: {held:?}, {wanted:?}, {mode:?}, force: {force}");
                let mut args = wanted.args("door", "a");
                (args["mode"], args["threadId"]) = (json!(mode.word()), json!(7));
                let lock = held.of(&world.rust, "door");
                lock.lock().await.unwrap();
                assert_eq!(world.java("tryLock", args.clone()).await, json!(false));
                // The last waiter has left.
                wanted.until_listeners(&mut world, "door", 0).await;
                let before = attempts.of("door").await;
                let mut waits = world.java.begin("lock", args.clone());
                attempts.until("door", before, TRIES).await;
                // Redisson's futures lose a message that comes between the second attempt and their sleep.
                tokio::time::sleep(QUIET).await;
                wanted.until_listeners(&mut world, "door", 1).await;
                assert!(!waits.is_finished(), "{what}");
                if force {
                    assert!(held.of(&world.rust, "door").force_unlock().await.unwrap());
                } else {
                    lock.unlock().await.unwrap();
                }
                served(&what, waits).await;
                let ours = wanted.of(&world.rust, "door");
                assert!(ours.is_locked().await.unwrap() && !ours.is_held().await.unwrap());
                world.java("unlock", args).await;
                assert!(!ours.is_locked().await.unwrap(), "{what}");
            }
        }
    }
}

#[tokio::test]
async fn a_wait_that_runs_out_takes_nothing() {
    for version in versions() {
        let world = World::start(version).await;
        let lock = world.rust.lock("door");
        let args = json!({"name": "door", "thread": "a", "waitMs": 1_000, "threadId": 7});
        lock.lock().await.unwrap();
        assert_eq!(world.java("tryLock", args.clone()).await, json!(false));
        lock.unlock().await.unwrap();
        assert_eq!(world.java("tryLock", args.clone()).await, json!(true));
        assert!(!lock.try_lock_for(QUIET).await.unwrap());
        world.java("unlock", args).await;
        assert!(!lock.is_locked().await.unwrap());
    }
}

/// The end of a lease is not announced: both sides look by themselves.
#[tokio::test]
async fn the_end_of_a_lease_wakes_the_other_side() {
    for version in versions() {
        let world = World::start(version).await;
        let lock = world.rust.lock("door");
        let (args, mut leased) = (Kind::Plain.args("door", "a"), Kind::Plain.args("door", "a"));
        leased["leaseMs"] = json!(300);
        world.java("lock", leased.clone()).await;
        returned("Java's lease is over", locking(&lock))
            .await
            .unwrap();
        let gone = world.java_error("unlock", args).await;
        assert_eq!(gone.class, "IllegalMonitorStateException");
        lock.unlock().await.unwrap();
        let lease = Duration::from_millis(300);
        lock.with_lease(lease).lock().await.unwrap();
        world.java("lock", leased).await;
        assert!(matches!(lock.unlock().await, Err(Error::NotHeld { .. })));
    }
}

#[tokio::test]
async fn readers_of_both_sides_hold_together() {
    for version in newer_versions() {
        let world = World::start(version).await;
        let lock = world.rust.read_write_lock("door");
        let [a, b] = ["a", "b"].map(|thread| Kind::Read.args("door", thread));
        world.java("lock", a.clone()).await;
        assert!(lock.read().try_lock().await.unwrap());
        assert_eq!(world.java("tryLock", b.clone()).await, json!(true));
        for reader in [a, b] {
            assert!(!lock.write().try_lock().await.unwrap());
            world.java("unlock", reader).await;
        }
        let writer = Kind::Write.args("door", "a");
        assert_eq!(world.java("tryLock", writer).await, json!(false));
        lock.read().unlock().await.unwrap();
        assert!(lock.write().try_lock().await.unwrap());
    }
}

/// All readers of a JVM go on when a writer in Rust has unlocked, or goes on as a reader, and when the lock passes on to a reader in Rust.
#[tokio::test]
async fn readers_of_both_sides_come_in_together() {
    for version in newer_versions() {
        let world = World::start(version).await;
        let readers = ["0", "1", "2", "3"].map(|thread| Kind::Read.args("door", thread));
        for end in ["unlock", "downgrade", "pass"] {
            let lock = world.rust.read_write_lock("door");
            lock.write().lock().await.unwrap();
            let waiting = readers.clone().map(|args| world.java.begin("lock", args));
            // The message to readers reaches only sleeping threads: Redisson keeps no token for the others.
            until("they sleep", PATIENCE, async || {
                world.java("parkedLockThreads", json!({})).await == json!(4)
            })
            .await;
            let reader = world.rust.read_write_lock("door").read();
            let passes = (end == "pass").then(|| locking(&reader));
            until("it waits", PATIENCE, async || {
                let queue = "redisson_rwlock_waiters:{door}";
                let queued: u64 = world.redis.clone().zcard(queue).await.unwrap();
                queued == u64::from(passes.is_some())
            })
            .await;
            if end == "downgrade" {
                lock.read().lock().await.unwrap();
            }
            lock.write().unlock().await.unwrap();
            for waits in waiting {
                served(&format!("{version}, {end}"), waits).await;
            }
            if let Some(passes) = passes {
                returned(end, passes).await.unwrap();
                reader.unlock().await.unwrap();
            }
            if end == "downgrade" {
                lock.read().unlock().await.unwrap();
            }
            assert!(!lock.write().try_lock().await.unwrap());
            for args in &readers {
                world.java("unlock", args.clone()).await;
            }
            assert!(!lock.read().is_locked().await.unwrap());
        }
    }
}

/// An expired hold of either side keeps no writer out when the other readers have gone.
#[tokio::test]
async fn one_of_several_reads_expires() {
    for version in newer_versions() {
        let world = World::start(version).await;
        let lock = world.rust.read_write_lock("door");
        let other = world.rust.read_write_lock("door");
        let short = Duration::from_millis(100);
        let (a, b) = (Kind::Read.args("door", "a"), Kind::Read.args("door", "b"));
        let mut leased = a.clone();
        leased["leaseMs"] = json!(100);
        let writer = Kind::Write.args("door", "a");
        let gone = async |owner: &str| {
            let hold = format!("{{door}}:{owner}:rwlock_timeout:1");
            until("it has run out", PATIENCE, async || {
                !world.redis.clone().exists::<_, bool>(&hold).await.unwrap()
            })
            .await;
        };
        // Java's hold expires, and the hold of Rust is released.
        lock.read().lock().await.unwrap();
        world.java("lock", leased).await;
        gone(&world.java_owner("a").await).await;
        assert!(!other.write().try_lock().await.unwrap());
        lock.read().unlock().await.unwrap();
        assert!(other.write().try_lock().await.unwrap(), "{version}");
        other.write().unlock().await.unwrap();
        // The hold of Rust expires, and Java's hold is released.
        lock.read().with_lease(short).lock().await.unwrap();
        world.java("lock", b.clone()).await;
        gone(lock.read().owner()).await;
        assert_eq!(world.java("tryLock", writer.clone()).await, json!(false));
        world.java("unlock", b.clone()).await;
        assert_eq!(
            world.java("tryLock", writer.clone()).await,
            json!(true),
            "{version}"
        );
        world.java("unlock", writer).await;
        // Java's hold is released, and the hold of Rust lasts.
        lock.read().lock().await.unwrap();
        world.java("lock", b.clone()).await;
        world.java("unlock", b).await;
        assert!(lock.read().is_held().await.unwrap() && !other.write().try_lock().await.unwrap());
        lock.read().unlock().await.unwrap();
        assert!(!lock.read().is_locked().await.unwrap());
    }
}
