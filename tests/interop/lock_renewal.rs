//! Locks shared with the real Redisson, held without a lease: they outlive pauses of the server on either side, and
//! a holder that is killed does not keep them.

use std::time::Duration;

use crate::common::locks::{Kind, all_versions, locking, versions};
use crate::common::parked::{PATIENCE, returned, served};
use crate::common::world::{World, builder};
use crate::support::waiters::{until, until_it_rises};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use serde_json::json;

/// Both sides renew every third of it.
const WATCHDOG: Duration = Duration::from_secs(6);

/// Waits until a key is given more time than it had left.
async fn until_renewed(redis: &mut MultiplexedConnection, key: &str) {
    let left = async || redis.pttl(key).await.unwrap();
    until_it_rises(&format!("{key} is renewed"), PATIENCE, left).await;
}

#[tokio::test]
async fn both_sides_outlive_pauses() {
    // Longer than a period, shorter than what is left of the lock then.
    const PAUSE: Duration = Duration::from_millis(2_500);
    for version in versions() {
        let mut world = World::with_watchdog(version, WATCHDOG).await;
        let (mine, javas) = (world.rust.lock("mine"), world.rust.lock("javas"));
        let guard = mine.guard().await.unwrap();
        world.java("lock", Kind::Plain.args("javas", "a")).await;
        for _ in 0..3 {
            let _: () = redis::cmd("CLIENT")
                .arg("PAUSE")
                .arg(PAUSE.as_millis() as u64)
                .query_async(&mut world.redis)
                .await
                .unwrap();
            for key in ["mine", "javas"] {
                until_renewed(&mut world.redis, key).await;
            }
            assert!(!guard.is_lost(), "{version}");
            assert!(guard.handle().is_held().await.unwrap());
            assert!(!javas.try_lock().await.unwrap(), "{version}");
            let tried = world.java("tryLock", Kind::Plain.args("mine", "a")).await;
            assert_eq!(tried, json!(false));
        }
        guard.unlock().await.unwrap();
        world.java("unlock", Kind::Plain.args("javas", "a")).await;
        assert!(!mine.is_locked().await.unwrap() && !javas.is_locked().await.unwrap());
    }
}

/// For locks of each kind, with a waiter in Rust. A reader in Rust that is renewed beside it does not keep the dead reader alive.
#[tokio::test]
async fn a_killed_jvm_keeps_nothing() {
    for version in all_versions() {
        let mut world = World::with_watchdog(version, WATCHDOG).await;
        let kinds: &[(Kind, Kind)] = match version {
            "3.16.8" => &[(Kind::Plain, Kind::Plain)],
            _ => &[
                (Kind::Plain, Kind::Plain),
                (Kind::Fair, Kind::Fair),
                (Kind::Read, Kind::Write),
                (Kind::Write, Kind::Write),
            ],
        };
        let mut waiters = Vec::new();
        for (held, wanted) in kinds {
            let name = format!("{held:?}");
            world.java("lock", held.args(&name, "a")).await;
            let lock = wanted.of(&world.rust, &name);
            waiters.push((name, locking(&lock), lock));
        }
        for (name, waits, _) in &waiters {
            until_renewed(&mut world.redis, name).await;
            assert!(!waits.is_finished(), "{version}: Java holds {name}");
        }
        let java = world.java_owner("a").await;
        let reader = Kind::Read.of(&world.rust, "Read");
        assert!(reader.try_lock().await.unwrap());
        world.java.kill().await;
        // Nobody tells: each waiter looks when the time to live has ended.
        until("Java's read ends", PATIENCE, async || {
            let holds: Vec<String> = world.redis.keys(format!("*{java}:*")).await.unwrap();
            holds.is_empty()
        })
        .await;
        for (name, waits, lock) in waiters {
            if name == "Read" {
                assert!(!waits.is_finished() && reader.is_held().await.unwrap());
                reader.unlock().await.unwrap();
            }
            returned(&format!("{version}: {name}"), waits)
                .await
                .unwrap();
            assert!(lock.is_held().await.unwrap());
        }
    }
}

#[tokio::test]
async fn a_killed_rust_process_keeps_nothing() {
    for version in versions() {
        let mut world = World::with_watchdog(version, WATCHDOG).await;
        // All that the process has going on ends at once: no guard is dropped in time to unlock.
        let process = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let kinds = match version {
            "3.16.8" => vec![Kind::Plain],
            _ => vec![Kind::Plain, Kind::Fair],
        };
        let args = (kinds.iter().enumerate()).map(|(thread, kind)| {
            // A thread of its own for each lock that is waited for.
            kind.args(&format!("{kind:?}"), &thread.to_string())
        });
        let args: Vec<_> = args.collect();
        let connecting = builder(&world.server).lock_watchdog_timeout(WATCHDOG);
        let held = process.spawn(async move {
            let client = connecting.connect().await.unwrap();
            let locks = kinds
                .iter()
                .map(|kind| kind.of(&client, &format!("{kind:?}")));
            let locks: Vec<_> = locks.collect();
            for lock in &locks {
                lock.lock().await.unwrap();
            }
            locks
        });
        let locks = held.await.unwrap();
        let waiting = args
            .into_iter()
            .map(|args| (world.java.begin("lock", args.clone()), args));
        let mut waiting: Vec<_> = waiting.collect();
        for lock in &locks {
            until_renewed(&mut world.redis, lock.name()).await;
        }
        assert!(waiting.iter_mut().all(|(waits, _)| !waits.is_finished()));
        process.shutdown_background();
        for ((waits, args), lock) in waiting.into_iter().zip(locks) {
            served(version, waits).await;
            let lease = lock.lease();
            until("the loss is known", PATIENCE, async || lease.is_lost()).await;
            let other = world.rust.lock(lock.name());
            assert!(other.is_locked().await.unwrap());
            world.java("unlock", args).await;
            assert!(!other.is_locked().await.unwrap());
        }
    }
}
