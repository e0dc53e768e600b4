//! Locks shared with the real Redisson: what one side leaves in Redis is what the other would have left, and each
//! reads the other's.

use std::time::Duration;

use crate::locks::{LONG, NEWEST, PATIENCE, World, as_java_says, channel, versions};
use crate::support::channel::Channel;
use crate::support::snapshot::snapshot;
use crate::support::waiters::until;
use redis::AsyncCommands;
use redisson_semaphore::{Error, RemainingTtl};
use serde_json::{Value, json};

/// Far less than the leases differ by.
const TOLERANCE: Duration = Duration::from_secs(8);

#[tokio::test]
async fn re_entry_is_counted_by_the_other_side() {
    for version in versions() {
        let world = World::start(version, LONG).await;
        let lock = world.rust.lock("door");
        let a = json!({"name": "door", "thread": "a"});
        let java = world.java_owner("a").await;
        for count in 1..=3 {
            world.java("lock", a.clone()).await;
            let fields: Vec<(String, u32)> = world.redis.clone().hgetall("door").await.unwrap();
            assert_eq!(fields, [(java.clone(), count)]);
            assert!(lock.is_held_by_owner(&java).await.unwrap());
        }
        assert!(!lock.is_held().await.unwrap() && lock.is_locked().await.unwrap());
        assert_eq!(lock.hold_count().await.unwrap(), 0);
        assert!(matches!(lock.unlock().await, Err(Error::NotHeld { .. })));
        assert_eq!(world.java("holdCount", a.clone()).await, json!(3));
        let RemainingTtl::Expires(left) = lock.remaining_ttl().await.unwrap() else {
            panic!("it expires");
        };
        assert!(left <= LONG && left + TOLERANCE > LONG);
        for _ in 0..3 {
            assert!(!lock.try_lock().await.unwrap());
            world.java("unlock", a.clone()).await;
        }
        assert!(!lock.is_held_by_owner(&java).await.unwrap());

        for _ in 0..3 {
            assert!(lock.try_lock().await.unwrap());
        }
        assert_eq!(world.java("isLocked", a.clone()).await, json!(true));
        assert_eq!(world.java("holdCount", a.clone()).await, json!(0));
        assert_eq!(
            world.java("isHeldByCurrentThread", a.clone()).await,
            json!(false)
        );
        let left = world.java("remainTimeToLive", a.clone()).await;
        let left = Duration::from_millis(left.as_u64().unwrap());
        assert!(left <= LONG && left + TOLERANCE > LONG);
        for _ in 0..3 {
            assert_eq!(world.java("isLocked", a.clone()).await, json!(true));
            let refused = world.java_error("unlock", a.clone()).await;
            assert_eq!(refused.class, "IllegalMonitorStateException");
            lock.unlock().await.unwrap();
        }
        assert_eq!(world.java("isLocked", a).await, json!(false));
    }
}

#[tokio::test]
async fn an_owner_of_the_asynchronous_methods_is_known_by_its_number() {
    for version in versions() {
        let world = World::start(version, LONG).await;
        let lock = world.rust.lock("door");
        let one = json!({"name": "door", "mode": "async", "threadId": 71});
        let other = json!({"name": "door", "mode": "async", "threadId": 72});
        world.java("lock", one.clone()).await;
        assert_eq!(
            world
                .java("isHeldByThread", json!({"name": "door", "threadId": 71}))
                .await,
            json!(true)
        );
        let owner = |number: u32| format!("{}:{number}", world.java_id);
        assert!(lock.is_held_by_owner(&owner(71)).await.unwrap());
        assert!(!lock.is_held_by_owner(&owner(72)).await.unwrap());
        assert_eq!(world.java("tryLock", other.clone()).await, json!(false));
        let refused = world.java_error("unlock", other).await;
        assert_eq!(refused.class, "IllegalMonitorStateException");
        world.java("unlock", one).await;

        let mine = lock.with_owner(71);
        mine.lock().await.unwrap();
        assert_eq!(mine.owner(), format!("{}:71", world.rust.id()));
        assert!(lock.is_held_by(71).await.unwrap());
        assert!(!lock.is_held_by(72).await.unwrap() && !lock.is_held().await.unwrap());
        assert_eq!(
            world
                .java("isHeldByThread", json!({"name": "door", "threadId": 71}))
                .await,
            json!(false)
        );
        mine.unlock().await.unwrap();
    }
}

/// One step of both sides; `lease` in milliseconds.
#[derive(Debug, Clone, Copy)]
enum Op {
    Lock,
    LockFor(u64),
    TryLock,
    TryLockFor(u64),
    Unlock,
    ForceUnlock,
}

impl Op {
    /// What Redisson answers, or the class of its exception.
    async fn by_java(self, world: &World) -> Value {
        let (op, more) = match self {
            Op::Lock => ("lock", json!({})),
            Op::LockFor(lease) => ("lock", json!({ "leaseMs": lease })),
            Op::TryLock => ("tryLock", json!({})),
            Op::TryLockFor(lease) => ("tryLock", json!({"waitMs": 0, "leaseMs": lease})),
            Op::Unlock => ("unlock", json!({})),
            Op::ForceUnlock => ("forceUnlock", json!({})),
        };
        let mut args = more;
        args["name"] = json!("java");
        args["thread"] = json!("a");
        match world.java.call(op, args).await {
            Ok(answer) => answer.value,
            Err(error) => json!(error.class),
        }
    }

    /// The same of ours, in Java's words.
    async fn by_rust(self, lock: &redisson_semaphore::RLock) -> Value {
        let lease = Duration::from_millis;
        let answer = match self {
            Op::Lock => lock.lock().await.map(|()| Value::Null),
            Op::LockFor(millis) => lock
                .with_lease(lease(millis))
                .lock()
                .await
                .map(|()| Value::Null),
            Op::TryLock => lock.try_lock().await.map(Value::from),
            Op::TryLockFor(millis) => lock
                .with_lease(lease(millis))
                .try_lock()
                .await
                .map(Value::from),
            Op::Unlock => lock.unlock().await.map(|()| Value::Null),
            Op::ForceUnlock => lock.force_unlock().await.map(Value::from),
        };
        as_java_says(answer)
    }
}

#[tokio::test]
async fn the_same_bytes() {
    // Sequences in which the leases agree; where ours are meant to differ, `RLock` says so.
    let sequences: [&[Op]; 6] = [
        &[
            Op::Unlock,
            Op::ForceUnlock,
            Op::Lock,
            Op::Unlock,
            Op::Unlock,
        ],
        &[
            Op::Lock,
            Op::TryLock,
            Op::Lock,
            Op::Unlock,
            Op::Unlock,
            Op::Unlock,
        ],
        &[
            Op::LockFor(100_000),
            Op::LockFor(200_000),
            Op::TryLockFor(60_000),
            Op::ForceUnlock,
        ],
        &[
            Op::TryLockFor(100_000),
            Op::Unlock,
            Op::LockFor(100_000),
            Op::Unlock,
        ],
        &[
            Op::Lock,
            Op::ForceUnlock,
            Op::Unlock,
            Op::TryLock,
            Op::ForceUnlock,
            Op::ForceUnlock,
        ],
        &[Op::LockFor(100_000), Op::Lock, Op::Unlock, Op::ForceUnlock],
    ];
    for version in versions() {
        let mut world = World::start(version, LONG).await;
        let lock = world.rust.lock("rust");
        let java_owner = world.java_owner("a").await;
        // By patterns, as they would be taken for JVMs that wait, and be left a share.
        let mut java_channel = Channel::pattern(&world.server, &channel("java")).await;
        let mut rust_channel = Channel::pattern(&world.server, &channel("rust")).await;
        for sequence in sequences {
            for (number, op) in sequence.iter().enumerate() {
                let what = format!("{version}: step {number} of {sequence:?}");
                assert_eq!(op.by_java(&world).await, op.by_rust(&lock).await, "{what}");
                let java = snapshot(&mut world.redis, "java").await;
                let mut rust = snapshot(&mut world.redis, "rust").await;
                for field in &mut rust.value {
                    *field = field.replace(lock.owner(), &java_owner);
                }
                // Redisson gives the holds that are left whatever lease its object had last.
                let partial = matches!(op, Op::Unlock) && java.kind == "hash";
                let tolerance = if partial { 10 * LONG } else { TOLERANCE };
                assert!(java.matches(&rust, tolerance), "{what}: {java:?}, {rust:?}");
                let payloads = |messages: Vec<crate::support::channel::Message>| -> Vec<String> {
                    // `+0` is the same number to a JVM.
                    let text = |payload: String| payload.trim_start_matches('+').to_owned();
                    let messages = messages.into_iter();
                    messages.map(|message| text(message.payload)).collect()
                };
                let java = payloads(java_channel.until_marker().await);
                assert_eq!(java, payloads(rust_channel.until_marker().await), "{what}");
            }
        }
    }
}

#[tokio::test]
async fn what_redisson_leaves_behind_is_all_that_is_left() {
    for version in versions() {
        let world = World::start(version, LONG).await;
        let lock = world.rust.fenced_lock("door");
        lock.lock_and_get_token().await.unwrap();
        lock.unlock().await.unwrap();
        world
            .java("lock", json!({"name": "door", "thread": "a"}))
            .await;
        world
            .java("unlock", json!({"name": "door", "thread": "a"}))
            .await;
        // Redisson removes its latch without waiting for that.
        until("only the token is left", PATIENCE, async || {
            let mut keys: Vec<String> = world.redis.clone().keys("*").await.unwrap();
            // Its record goes with others, or at the shutdown.
            keys.retain(|key| !key.starts_with("redisson_lock_once:"));
            keys == ["redisson_lock_token:{door}"]
        })
        .await;
    }
}

#[tokio::test]
async fn fencing_tokens_rise_across_both_sides() {
    let world = World::start(NEWEST, LONG).await;
    let lock = world.rust.fenced_lock("door");
    let a = json!({"name": "door", "thread": "a"});
    // Without a waiting time Redisson 4.7.0 does not answer while somebody else holds the lock, and with a short one it throws
    // where the machine is busy.
    let mut tries = a.clone();
    tries["waitMs"] = json!(2_000);
    assert_eq!(lock.token().await.unwrap(), None);
    for round in 0..3_u64 {
        let first = 5 * round;
        assert_eq!(lock.lock_and_get_token().await.unwrap(), first + 1);
        assert_eq!(world.java("getToken", a.clone()).await, json!(first + 1));
        assert_eq!(
            world.java("tryLockAndGetToken", tries.clone()).await,
            Value::Null
        );
        assert_eq!(
            lock.try_lock_and_get_token().await.unwrap(),
            Some(first + 2)
        );
        lock.unlock().await.unwrap();
        lock.unlock().await.unwrap();
        assert_eq!(
            world.java("lockAndGetToken", a.clone()).await,
            json!(first + 3)
        );
        assert_eq!(
            world.java("tryLockAndGetToken", tries.clone()).await,
            json!(first + 4)
        );
        assert_eq!(lock.try_lock_and_get_token().await.unwrap(), None);
        assert_eq!(lock.token().await.unwrap(), Some(first + 4));
        world.java("unlockFenced", a.clone()).await;
        world.java("unlockFenced", a.clone()).await;
        let guard = lock.guard().await.unwrap();
        assert_eq!(guard.token(), first + 5);
        guard.unlock().await.unwrap();
    }
}
