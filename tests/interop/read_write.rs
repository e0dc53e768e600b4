//! Read-write locks shared with the real Redisson: both sides exclude and wake each other, count alike, and leave the same in Redis.

use std::time::Duration;

use crate::locks::{
    Attempts, LONG, NEWEST, PATIENCE, World, as_java_says, locking, returned, served,
};
use crate::support::channel::{Channel, Message};
use crate::support::peer;
use crate::support::snapshot::snapshot_all;
use crate::support::waiters::{until, until_passed, until_subscribers};
use futures::future::join_all;
use redis::AsyncCommands;
use redisson_semaphore::{RLock, RReadWriteLock};
use serde_json::{Value, json};

const TOLERANCE: Duration = Duration::from_secs(8);
const CHANNEL: &str = "redisson_rwlock:{door}";
/// Far longer than a Java caller needs to fall asleep.
const QUIET: Duration = Duration::from_millis(200);
const SIDES: [&str; 2] = ["read", "write"];

fn versions() -> Vec<&'static str> {
    peer::versions(&[NEWEST, "3.52.0"])
}

fn door(side: &str, thread: &str) -> Value {
    json!({"name": "door", "side": side, "thread": thread})
}

fn side(lock: &RReadWriteLock, side: &str) -> RLock {
    if side == "read" {
        lock.read()
    } else {
        lock.write()
    }
}

/// The combinations in which the second one has to wait for the first.
fn exclusive() -> impl Iterator<Item = (&'static str, &'static str)> {
    let all = SIDES
        .iter()
        .flat_map(|one| SIDES.iter().map(|two| (*one, *two)));
    all.filter(|both| *both != ("read", "read"))
}

#[tokio::test]
async fn java_holds_and_rust_waits() {
    for version in versions() {
        let mut world = World::start(version, LONG).await;
        let lock = world.rust.read_write_lock("door");
        for (held, wanted) in exclusive() {
            for end in ["unlock", "forceUnlock"] {
                let what = format!("{version}: {held}, {wanted}, {end}");
                world.java("lock", door(held, "a")).await;
                let wanted = side(&lock, wanted);
                assert!(!wanted.try_lock().await.unwrap(), "{what}");
                let waits = locking(&wanted);
                until_subscribers(&mut world.redis, CHANNEL, 1).await;
                assert!(!waits.is_finished(), "{what}");
                world.java(end, door(held, "a")).await;
                returned(&what, waits).await.unwrap();
                assert!(wanted.is_held().await.unwrap(), "{what}");
                wanted.unlock().await.unwrap();
            }
        }
        // Readers are together.
        world.java("lock", door("read", "a")).await;
        assert!(lock.read().try_lock().await.unwrap());
        assert_eq!(world.java("tryLock", door("read", "b")).await, json!(true));
        for thread in ["a", "b"] {
            assert!(!lock.write().try_lock().await.unwrap());
            world.java("unlock", door("read", thread)).await;
        }
        assert_eq!(
            world.java("tryLock", door("write", "a")).await,
            json!(false)
        );
        lock.read().unlock().await.unwrap();
        assert!(lock.write().try_lock().await.unwrap());
    }
}

#[tokio::test]
async fn rust_holds_and_java_waits() {
    for version in versions() {
        let mut world = World::start(version, LONG).await;
        let lock = world.rust.read_write_lock("door");
        let mut attempts = Attempts::count(&world.server).await;
        for (held, wanted) in exclusive() {
            for mode in ["sync", "async"] {
                for force in [false, true] {
                    let what = format!("{version}: {held}, {wanted}, {mode}, force: {force}");
                    let mut args = door(wanted, "a");
                    (args["mode"], args["threadId"]) = (json!(mode), json!(7));
                    let held = side(&lock, held);
                    held.lock().await.unwrap();
                    until_subscribers(&mut world.redis, CHANNEL, 0).await;
                    attempts.skip().await;
                    let mut waits = world.java.begin("lock", args.clone());
                    attempts.until("door", 2).await;
                    // Redisson's futures lose a message that comes between the second attempt and their sleep.
                    tokio::time::sleep(QUIET).await;
                    until_subscribers(&mut world.redis, CHANNEL, 1).await;
                    assert!(!waits.is_finished(), "{what}");
                    match force {
                        true => assert!(held.force_unlock().await.unwrap(), "{what}"),
                        false => held.unlock().await.unwrap(),
                    }
                    served(&what, waits).await;
                    assert!(side(&lock, wanted).is_locked().await.unwrap(), "{what}");
                    world.java("unlock", args).await;
                }
            }
        }
    }
}

/// All readers of a JVM go on when a writer of ours has unlocked, or goes on as a reader, and when the lock passes on to a reader of ours.
#[tokio::test]
async fn readers_of_both_sides_come_in_together() {
    for version in versions() {
        let world = World::start(version, LONG).await;
        for end in ["unlock", "downgrade", "pass"] {
            let lock = world.rust.read_write_lock("door");
            lock.write().lock().await.unwrap();
            let args =
                |thread: u32| json!({"name": "door", "side": "read", "thread": thread.to_string()});
            let waiting: Vec<_> = (0..4)
                .map(|thread| world.java.begin("lock", args(thread)))
                .collect();
            // The message to readers reaches only those who sleep: Redisson keeps no token for the others.
            until("they sleep", PATIENCE, async || {
                world.java("parkedLockThreads", json!({})).await == json!(4)
            })
            .await;
            let reader = world.rust.read_write_lock("door").read();
            let passes = (end == "pass").then(|| locking(&reader));
            if passes.is_some() {
                until("it waits", PATIENCE, async || {
                    let queue = "redisson_rwlock_waiters:{door}";
                    world.redis.clone().zcard::<_, u64>(queue).await.unwrap() == 1
                })
                .await;
            }
            if end == "downgrade" {
                lock.read().lock().await.unwrap();
            }
            lock.write().unlock().await.unwrap();
            for (thread, waits) in (0..).zip(waiting) {
                served(&format!("{version}, {end}: {thread}"), waits).await;
            }
            if let Some(passes) = passes {
                returned(end, passes).await.unwrap();
                reader.unlock().await.unwrap();
            }
            if end == "downgrade" {
                lock.read().unlock().await.unwrap();
            }
            assert!(!lock.write().try_lock().await.unwrap());
            for thread in 0..4 {
                world.java("unlock", args(thread)).await;
            }
            assert!(!lock.read().is_locked().await.unwrap());
        }
    }
}

/// One step of both sides, by one of two owners; leases in milliseconds.
#[derive(Debug, Clone, Copy)]
enum Op {
    Lock(&'static str),
    LockFor(&'static str, u64),
    TryLock(&'static str),
    Unlock(&'static str),
    Force(&'static str),
    IsLocked(&'static str),
    Count(&'static str),
}

impl Op {
    async fn by_java(self, world: &World, thread: &str) -> Value {
        let (op, side) = match self {
            Op::Lock(side) | Op::LockFor(side, _) => ("lock", side),
            Op::TryLock(side) => ("tryLock", side),
            Op::Unlock(side) => ("unlock", side),
            Op::Force(side) => ("forceUnlock", side),
            Op::IsLocked(side) => ("isLocked", side),
            Op::Count(side) => ("holdCount", side),
        };
        let mut args = json!({"name": "java", "side": side, "thread": thread});
        if let Op::LockFor(_, lease) = self {
            args["leaseMs"] = json!(lease);
        }
        match world.java.call(op, args).await {
            Ok(answer) => answer.value,
            Err(error) => json!(error.class),
        }
    }

    async fn by_rust(self, lock: &RReadWriteLock) -> Value {
        let lease = Duration::from_millis;
        let answer = match self {
            Op::Lock(of) => side(lock, of).lock().await.map(|()| Value::Null),
            Op::LockFor(of, millis) => {
                let side = side(lock, of).with_lease(lease(millis));
                side.lock().await.map(|()| Value::Null)
            }
            Op::TryLock(of) => side(lock, of).try_lock().await.map(Value::from),
            Op::Unlock(of) => side(lock, of).unlock().await.map(|()| Value::Null),
            Op::Force(of) => side(lock, of).force_unlock().await.map(Value::from),
            Op::IsLocked(of) => side(lock, of).is_locked().await.map(Value::from),
            Op::Count(of) => side(lock, of).hold_count().await.map(Value::from),
        };
        as_java_says(answer)
    }
}

/// The keys of one lock, called alike, and the messages.
#[tokio::test]
async fn the_same_bytes() {
    use Op::{Count, Force, IsLocked, Lock, LockFor, TryLock, Unlock};
    const R: &str = "read";
    const W: &str = "write";
    // Each step with its owner. A writer that enters twice has an end of its own here, and tells when it goes on as a reader.
    let sequences: [&[(u8, Op)]; 7] = [
        &[
            (0, Unlock(R)),
            (0, Unlock(W)),
            (0, Force(R)),
            (0, Force(W)),
            (0, IsLocked(R)),
        ],
        &[
            (0, Lock(R)),
            (1, TryLock(R)),
            (0, Lock(R)),
            (0, Count(R)),
            (1, TryLock(W)),
            (0, IsLocked(R)),
            (0, IsLocked(W)),
            (0, Unlock(R)),
            (1, Unlock(R)),
            (0, Unlock(R)),
            (0, Unlock(R)),
        ],
        &[
            (0, Lock(W)),
            (1, TryLock(R)),
            (1, TryLock(W)),
            (1, Force(R)),
            (0, IsLocked(R)),
            (0, IsLocked(W)),
            (1, Unlock(W)),
            (0, Unlock(W)),
        ],
        &[
            (0, LockFor(R, 100_000)),
            (0, LockFor(R, 60_000)),
            (1, LockFor(R, 200_000)),
            (1, Unlock(R)),
            (0, Unlock(R)),
            (1, Force(W)),
            (1, Force(R)),
            (0, Unlock(R)),
        ],
        &[
            (0, LockFor(W, 100_000)),
            (0, LockFor(R, 100_000)),
            (0, IsLocked(R)),
            (0, Count(R)),
            (1, TryLock(R)),
            (0, Unlock(R)),
            (0, IsLocked(R)),
            (0, Force(W)),
        ],
        &[
            (0, LockFor(W, 100_000)),
            (0, LockFor(R, 100_000)),
            (0, Unlock(W)),
            (1, LockFor(R, 150_000)),
            (0, Unlock(R)),
            (1, Unlock(R)),
        ],
        &[
            (0, Lock(W)),
            (0, TryLock(W)),
            (0, Unlock(W)),
            (0, Unlock(W)),
            (0, Unlock(W)),
        ],
    ];
    for version in versions() {
        let mut world = World::start(version, LONG).await;
        let locks = [0, 1].map(|_| world.rust.read_write_lock("rust"));
        let owners = [world.java_owner("0").await, world.java_owner("1").await];
        let mut java_channel = Channel::pattern(&world.server, "redisson_rwlock:{java}").await;
        let mut rust_channel = Channel::pattern(&world.server, "redisson_rwlock:{rust}").await;
        for (at, sequence) in sequences.iter().enumerate() {
            for (number, (who, op)) in sequence.iter().enumerate() {
                let what = format!("{version}: step {number} of {at}: {op:?}");
                let lock = &locks[usize::from(*who)];
                let by_java = op.by_java(&world, &who.to_string()).await;
                assert_eq!(by_java, op.by_rust(lock).await, "{what}");
                let mut all = snapshot_all(&mut world.redis).await;
                all.retain(|key, _| {
                    !key.contains("once:") && !key.contains("latch") && !key.contains("notes")
                });
                let (mut java, mut rust) = (Vec::new(), Vec::new());
                for (key, mut seen) in all {
                    let alike = |text: &str| {
                        let mut text = text.replace("rust", "java");
                        for (lock, owner) in locks.iter().zip(&owners) {
                            text = text.replace(lock.read().owner(), owner);
                        }
                        text
                    };
                    let of = if key.contains("rust") {
                        &mut rust
                    } else {
                        &mut java
                    };
                    seen.value = seen.value.iter().map(|one| alike(one)).collect();
                    seen.value.sort();
                    of.push((alike(&key), seen));
                }
                rust.sort_by(|one, two| one.0.cmp(&two.0));
                java.sort_by(|one, two| one.0.cmp(&two.0));
                let twice = at == 6;
                let tolerance = if twice { 2 * LONG } else { TOLERANCE };
                let same = java.len() == rust.len()
                    && java
                        .iter()
                        .zip(&rust)
                        .all(|(java, rust)| java.0 == rust.0 && java.1.matches(&rust.1, tolerance));
                assert!(same, "{what}: {java:#?}, {rust:#?}");
                let payloads = |messages: Vec<Message>| -> Vec<String> {
                    let text = |payload: String| payload.trim_start_matches('+').to_owned();
                    messages
                        .into_iter()
                        .map(|message| text(message.payload))
                        .collect()
                };
                let mut java = payloads(java_channel.until_marker().await);
                let rust = payloads(rust_channel.until_marker().await);
                if matches!(op, Op::Unlock("write")) && at == 5 {
                    java = vec!["1".to_owned()];
                }
                // Redisson announces what was free already.
                if by_java != json!("IllegalMonitorStateException") {
                    assert_eq!(java, rust, "{what}");
                }
            }
        }
    }
}

/// A hold that has run out keeps nobody from writing when the others have gone, whichever side it was of.
#[tokio::test]
async fn one_of_several_reads_expires() {
    for version in versions() {
        let world = World::start(version, LONG).await;
        let lock = world.rust.read_write_lock("door");
        let other = world.rust.read_write_lock("door");
        let short = Duration::from_millis(100);
        let mut leased = door("read", "a");
        leased["leaseMs"] = json!(100);
        let gone = async |owner: String| {
            let hold = format!("{{door}}:{owner}:rwlock_timeout:1");
            until("it has run out", PATIENCE, async || {
                !world.redis.clone().exists::<_, bool>(&hold).await.unwrap()
            })
            .await;
        };
        // Java's runs out, and ours goes.
        lock.read().lock().await.unwrap();
        world.java("lock", leased.clone()).await;
        gone(world.java_owner("a").await).await;
        assert!(!other.write().try_lock().await.unwrap());
        lock.read().unlock().await.unwrap();
        assert!(other.write().try_lock().await.unwrap(), "{version}");
        other.write().unlock().await.unwrap();
        // Ours runs out, and Java's goes.
        lock.read().with_lease(short).lock().await.unwrap();
        world.java("lock", door("read", "b")).await;
        gone(lock.read().owner().to_owned()).await;
        assert_eq!(
            world.java("tryLock", door("write", "a")).await,
            json!(false)
        );
        world.java("unlock", door("read", "b")).await;
        assert_eq!(
            world.java("tryLock", door("write", "a")).await,
            json!(true),
            "{version}"
        );
        world.java("unlock", door("write", "a")).await;
        // Java's goes, and ours lasts.
        lock.read().lock().await.unwrap();
        world.java("lock", door("read", "b")).await;
        world.java("unlock", door("read", "b")).await;
        assert!(lock.read().is_held().await.unwrap() && !other.write().try_lock().await.unwrap());
        lock.read().unlock().await.unwrap();
        assert!(!lock.read().is_locked().await.unwrap());
    }
}

/// A JVM is killed that reads or writes: its hold ends by itself, and waiters of ours are served.
#[tokio::test]
async fn a_killed_jvm_keeps_nothing() {
    const WATCHDOG: Duration = Duration::from_millis(1800);
    for version in versions() {
        for held in SIDES {
            let mut world = World::start(version, WATCHDOG).await;
            world.java("lock", door(held, "a")).await;
            let lock = world.rust.read_write_lock("door");
            let waits = locking(&lock.write());
            until_subscribers(&mut world.redis, CHANNEL, 1).await;
            until_passed(&mut world.redis, WATCHDOG).await;
            assert!(!waits.is_finished(), "{version}: Java holds it");
            // A reader of ours that is renewed does not keep the dead one alive.
            let reader = lock.read();
            if held == "read" {
                assert!(reader.try_lock().await.unwrap());
            }
            world.java.kill().await;
            if held == "read" {
                let owner = format!("{}:*", world.java_id);
                until("its hold ends", PATIENCE, async || {
                    let holds: Vec<String> =
                        world.redis.clone().keys(format!("*{owner}")).await.unwrap();
                    holds.is_empty()
                })
                .await;
                assert!(!waits.is_finished() && reader.is_held().await.unwrap());
                reader.unlock().await.unwrap();
            }
            returned(version, waits).await.unwrap();
            assert!(lock.write().is_held().await.unwrap());
        }
    }
}

/// Writers of both sides count in two steps, and readers of both sides see the number twice.
#[tokio::test]
async fn a_mixed_fleet_keeps_the_rules() {
    const LOOPS: u64 = 60;
    for version in versions() {
        let world = World::start(version, LONG).await;
        let _: () = world.redis.clone().set("counter", 0).await.unwrap();
        let crowd = json!({"name": "door", "counter": "counter", "loops": LOOPS, "callers": 3, "readers": 3});
        let java = world.java.begin("lockCrowd", crowd);
        let other = crate::locks::client(&world.server, LONG).await;
        let tasks = (0..6).map(|number| {
            let client = if number % 2 == 0 { &world.rust } else { &other };
            let lock = client.read_write_lock("door");
            let mut redis = world.redis.clone();
            tokio::spawn(async move {
                for _ in 0..LOOPS {
                    let writes = number < 3;
                    let side = if writes { lock.write() } else { lock.read() };
                    let guard = side.guard().await.unwrap();
                    let before: u64 = redis.get("counter").await.unwrap();
                    if writes {
                        let _: () = redis.set("counter", before + 1).await.unwrap();
                    } else {
                        let again: u64 = redis.get("counter").await.unwrap();
                        assert_eq!(before, again, "somebody writes beside a reader");
                    }
                    guard.unlock().await.unwrap();
                }
            })
        });
        for task in join_all(tasks).await {
            task.unwrap();
        }
        let limit = tokio::time::timeout(4 * PATIENCE, java).await;
        limit.expect("Java ends").unwrap();
        let counted: u64 = world.redis.clone().get("counter").await.unwrap();
        assert_eq!(counted, 6 * LOOPS, "{version}");
    }
}
