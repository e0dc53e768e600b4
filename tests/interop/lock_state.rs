//! Locks shared with the real Redisson: what one side leaves in Redis is what the other would have left, and each
//! reads the other's.

use std::time::Duration;

use crate::common::locks::{Kind, as_java_says, newer_versions, versions};
use crate::common::parked::PATIENCE;
use crate::common::world::{LONG, NEWEST, World};
use crate::support::channel::Channel;
use crate::support::snapshot::{Snapshot, snapshot_all};
use crate::support::waiters::until;
use redis::AsyncCommands;
use redisson_semaphore::{Error, RLock, RReadWriteLock, RemainingTtl};
use serde_json::{Value, json};

/// Far less than the leases differ by.
const TOLERANCE: Duration = Duration::from_secs(8);

#[tokio::test]
async fn re_entry_is_counted_by_the_other_side() {
    for version in versions() {
        let world = World::start(version).await;
        let lock = world.rust.lock("door");
        let a = Kind::Plain.args("door", "a");
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
        let held = world.java("isHeldByCurrentThread", a.clone()).await;
        assert_eq!(held, json!(false));
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
        let world = World::start(version).await;
        let lock = world.rust.lock("door");
        let one = json!({"name": "door", "mode": "async", "threadId": 71});
        let other = json!({"name": "door", "mode": "async", "threadId": 72});
        world.java("lock", one.clone()).await;
        let held = async || world.java("isHeldByThread", one.clone()).await;
        assert_eq!(held().await, json!(true));
        let id = world.java("clientId", json!({})).await;
        let owner = |number: u32| format!("{}:{number}", id.as_str().expect("a text"));
        assert!(lock.is_held_by_owner(&owner(71)).await.unwrap());
        assert!(!lock.is_held_by_owner(&owner(72)).await.unwrap());
        assert_eq!(world.java("tryLock", other.clone()).await, json!(false));
        let refused = world.java_error("unlock", other).await;
        assert_eq!(refused.class, "IllegalMonitorStateException");
        world.java("unlock", one.clone()).await;

        let mine = lock.with_owner(71);
        mine.lock().await.unwrap();
        assert_eq!(mine.owner(), format!("{}:71", world.rust.id()));
        assert!(lock.is_held_by(71).await.unwrap());
        assert!(!lock.is_held_by(72).await.unwrap() && !lock.is_held().await.unwrap());
        assert_eq!(held().await, json!(false));
        mine.unlock().await.unwrap();
    }
}

/// One step of both sides: an owner, the kind of the lock, Redisson's word for the operation, and a lease in milliseconds.
#[derive(Debug, Clone, Copy)]
struct Step<'a> {
    owner: usize,
    kind: Kind,
    op: &'a str,
    lease: Option<u64>,
}

impl Step<'_> {
    fn read(text: &str) -> Step<'_> {
        let mut words = text.split_whitespace();
        Step {
            owner: words
                .next()
                .and_then(|word| word.parse().ok())
                .expect("0 or 1"),
            kind: match words.next() {
                Some("read") => Kind::Read,
                Some("write") => Kind::Write,
                _ => Kind::Plain,
            },
            op: words.next().expect("an operation"),
            lease: words.next().map(|word| word.parse().expect("a lease")),
        }
    }

    /// Redisson's answer, or the class of its exception.
    async fn by_java(self, world: &World) -> Value {
        let mut args = self.kind.args("java", &self.owner.to_string());
        if let Some(lease) = self.lease {
            args["leaseMs"] = json!(lease);
            if self.op == "tryLock" {
                args["waitMs"] = json!(0);
            }
        }
        match world.java.call(self.op, args).await {
            Ok(answer) => answer.value,
            Err(error) => json!(error.class),
        }
    }

    /// The answer of this crate, in Java's words.
    async fn by_rust(self, owner: &Owner) -> Value {
        let mut lock = owner.lock(self.kind);
        if let Some(millis) = self.lease {
            lock = lock.with_lease(Duration::from_millis(millis));
        }
        as_java_says(match self.op {
            "lock" => lock.lock().await.map(|()| Value::Null),
            "tryLock" => lock.try_lock().await.map(Value::from),
            "unlock" => lock.unlock().await.map(|()| Value::Null),
            "forceUnlock" => lock.force_unlock().await.map(Value::from),
            "isLocked" => lock.is_locked().await.map(Value::from),
            "holdCount" => lock.hold_count().await.map(Value::from),
            other => panic!("{other}"),
        })
    }
}

/// An owner of all kinds of locks named `rust`.
struct Owner {
    plain: RLock,
    both: RReadWriteLock,
    /// The thread of Java that does the same.
    java: String,
}

impl Owner {
    async fn new(world: &World, thread: &str) -> Owner {
        Owner {
            plain: world.rust.lock("rust"),
            both: world.rust.read_write_lock("rust"),
            java: world.java_owner(thread).await,
        }
    }

    fn lock(&self, kind: Kind) -> RLock {
        match kind {
            Kind::Read => self.both.read(),
            Kind::Write => self.both.write(),
            _ => self.plain.clone(),
        }
    }
}

/// The keys of the lock `name` with Java's names and owners. Records, and keys that Redisson removes later by itself, are left out.
async fn keys(world: &mut World, owners: &[Owner], name: &str) -> Vec<(String, Snapshot)> {
    let alike = |text: &str| {
        let mut text = text.replace("rust", "java");
        for owner in owners {
            for kind in [Kind::Plain, Kind::Read] {
                text = text.replace(owner.lock(kind).owner(), &owner.java);
            }
        }
        text
    };
    let own = |key: &str| {
        key.contains(name)
            && !["once:", "latch", "notes"]
                .iter()
                .any(|part| key.contains(part))
    };
    let all = snapshot_all(&mut world.redis).await.into_iter();
    let keys = all.filter(|(key, _)| own(key)).map(|(key, mut seen)| {
        seen.value = seen.value.iter().map(|one| alike(one)).collect();
        seen.value.sort();
        (alike(&key), seen)
    });
    let mut keys: Vec<_> = keys.collect();
    keys.sort_by(|one, two| one.0.cmp(&two.0));
    keys
}

/// The messages since the last time. `+0` is the same number to a JVM.
async fn payloads(channel: &mut Channel) -> Vec<String> {
    let messages = channel.until_marker().await.into_iter();
    let text = |payload: String| payload.trim_start_matches('+').to_owned();
    messages.map(|message| text(message.payload)).collect()
}

/// Sequences of steps, after each of which both sides have said, left and published the same.
async fn compare(version: &str, kind: Kind, sequences: &[&str]) {
    let mut world = World::start(version).await;
    let owners = [Owner::new(&world, "0").await, Owner::new(&world, "1").await];
    // By patterns: plain subscribers would be taken for JVMs that wait, and be left a share.
    let mut java_channel = Channel::pattern(&world.server, &kind.channel("java")).await;
    let mut rust_channel = Channel::pattern(&world.server, &kind.channel("rust")).await;
    for sequence in sequences {
        for (number, step) in sequence.split(';').map(Step::read).enumerate() {
            let what = format!("{version}: step {number} of {sequence}");
            let said = step.by_java(&world).await;
            assert_eq!(said, step.by_rust(&owners[step.owner]).await, "{what}");
            let java = keys(&mut world, &owners, "java").await;
            let rust = keys(&mut world, &owners, "rust").await;
            // Redisson gives the remaining holds the lease that its object had last.
            let tolerance = match (step.kind, step.op) {
                (Kind::Plain, "unlock") => 10 * LONG,
                _ if sequence.starts_with(TWICE) => 2 * LONG,
                _ => TOLERANCE,
            };
            let same = java.len() == rust.len()
                && (java.iter().zip(&rust))
                    .all(|(java, rust)| java.0 == rust.0 && java.1.matches(&rust.1, tolerance));
            assert!(same, "{what}: {java:#?}, {rust:#?}");
            let (mut java, rust) = (
                payloads(&mut java_channel).await,
                payloads(&mut rust_channel).await,
            );
            // This crate publishes a message here when a writer goes on as a reader.
            if sequence.starts_with(DOWNGRADE) && step.op == "unlock" && step.kind == Kind::Write {
                java = vec!["1".to_owned()];
            }
            // Redisson also announces a read-write lock that was free already.
            if kind == Kind::Plain || said != json!("IllegalMonitorStateException") {
                assert_eq!(java, rust, "{what}");
            }
        }
    }
}

/// A writer that enters twice has an end of its own here.
const TWICE: &str = "0 write lock; 0 write tryLock";
const DOWNGRADE: &str = "0 write lock 100000; 0 read lock 100000; 0 write unlock";

/// In sequences in which the leases agree. Where this crate's leases are meant to differ, `RLock` says so.
#[tokio::test]
async fn locks_leave_the_same_bytes() {
    for version in versions() {
        compare(
            version,
            Kind::Plain,
            &[
                "0 plain unlock; 0 plain forceUnlock; 0 plain lock; 0 plain unlock; 0 plain unlock",
                "0 plain lock; 0 plain tryLock; 0 plain lock; 0 plain unlock; 0 plain unlock; 0 plain unlock",
                "0 plain lock 100000; 0 plain lock 200000; 0 plain tryLock 300000; 0 plain forceUnlock",
                "0 plain tryLock 100000; 0 plain unlock; 0 plain lock 100000; 0 plain unlock",
                "0 plain lock; 0 plain forceUnlock; 0 plain unlock; 0 plain tryLock; 0 plain forceUnlock; 0 plain forceUnlock",
                "0 plain lock; 0 plain lock 100000; 0 plain unlock; 0 plain forceUnlock",
            ],
        )
        .await;
    }
}

#[tokio::test]
async fn read_write_locks_leave_the_same_bytes() {
    for version in newer_versions() {
        compare(
            version,
            Kind::Read,
            &[
                "0 read unlock; 0 write unlock; 0 read forceUnlock; 0 write forceUnlock; 0 read isLocked",
                "0 read lock; 1 read tryLock; 0 read lock; 0 read holdCount; 1 write tryLock; 0 read isLocked; 0 write isLocked; \
                 0 read unlock; 1 read unlock; 0 read unlock; 0 read unlock",
                "0 write lock; 1 read tryLock; 1 write tryLock; 1 read forceUnlock; 0 read isLocked; 0 write isLocked; \
                 1 write unlock; 0 write unlock",
                "0 read lock 100000; 0 read lock 60000; 1 read lock 200000; 1 read unlock; 0 read unlock; 1 write forceUnlock; \
                 1 read forceUnlock; 0 read unlock",
                "0 write lock 100000; 0 read lock 100000; 0 read isLocked; 0 read holdCount; 1 read tryLock; 0 read unlock; \
                 0 read isLocked; 0 write forceUnlock",
                &format!("{DOWNGRADE}; 1 read lock 150000; 0 read unlock; 1 read unlock"),
                &format!("{TWICE}; 0 write unlock; 0 write unlock; 0 write unlock"),
            ],
        )
        .await;
    }
}

#[tokio::test]
async fn what_redisson_leaves_behind_is_all_that_is_left() {
    for version in versions() {
        let world = World::start(version).await;
        let lock = world.rust.fenced_lock("door");
        lock.lock_and_get_token().await.unwrap();
        lock.unlock().await.unwrap();
        for op in ["lock", "unlock"] {
            world.java(op, Kind::Plain.args("door", "a")).await;
        }
        // Redisson removes its latch without waiting for that.
        until("only the token is left", PATIENCE, async || {
            let mut keys: Vec<String> = world.redis.clone().keys("*").await.unwrap();
            // The record goes with other records, or at the shutdown.
            keys.retain(|key| !key.starts_with("redisson_lock_once:"));
            keys == ["redisson_lock_token:{door}"]
        })
        .await;
    }
}

#[tokio::test]
async fn fencing_tokens_rise_across_both_sides() {
    let world = World::start(NEWEST).await;
    let lock = world.rust.fenced_lock("door");
    let a = Kind::Plain.args("door", "a");
    // Without a waiting time Redisson 4.7.0 does not answer while somebody else holds the lock, and with a short one it throws
    // where the machine is busy.
    let mut tries = a.clone();
    tries["waitMs"] = json!(2_000);
    let java = async |op: &str| world.java(op, a.clone()).await;
    let java_tries = async || world.java("tryLockAndGetToken", tries.clone()).await;
    assert_eq!(lock.token().await.unwrap(), None);
    for first in [0, 5, 10_u64] {
        assert_eq!(lock.lock_and_get_token().await.unwrap(), first + 1);
        assert_eq!(java("getToken").await, json!(first + 1));
        assert_eq!(java_tries().await, Value::Null);
        assert_eq!(lock.try_lock_and_get_token().await, Ok(Some(first + 2)));
        lock.unlock().await.unwrap();
        lock.unlock().await.unwrap();
        assert_eq!(java("lockAndGetToken").await, json!(first + 3));
        assert_eq!(java_tries().await, json!(first + 4));
        assert_eq!(lock.try_lock_and_get_token().await, Ok(None));
        assert_eq!(lock.token().await, Ok(Some(first + 4)));
        java("unlockFenced").await;
        java("unlockFenced").await;
        let guard = lock.guard().await.unwrap();
        assert_eq!(guard.token(), first + 5);
        guard.unlock().await.unwrap();
    }
}
