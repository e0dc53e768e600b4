//! The semaphore with ids beside the real Redisson: whatever one side does, the other one sees, each releases what the other
//! has taken, and each wakes the other.

use std::time::Duration;

use crate::common::crowd::Gauge;
use crate::common::world::{Mode, NEWEST, World, channel};
use crate::support::clients::{LIMIT, builder};
use crate::support::monitor::Monitor;
use crate::support::peer::{CallResult, JavaPeer, PendingCall, versions};
use crate::support::server::RedisServer;
use crate::support::snapshot::{snapshot, snapshot_all};
use crate::support::waiters::{until, until_subscribers};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{
    Error, Held, NameMapper, RPermitExpirableSemaphore, RemainingTtl, Result,
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::timeout;

const HOUR: Duration = Duration::from_secs(3600);
/// What Redisson writes for a permit that does not end.
const ENDLESS: &str = "922337203685477";
/// The id of no permit.
const NOBODY: &str = "00112233445566778899aabbccddeeff";

/// Where the permits stand that are held.
fn permits_key(name: &str) -> String {
    if name.contains('{') {
        format!("{name}:timeout")
    } else {
        format!("{{{name}}}:timeout")
    }
}

/// One side's view of a semaphore.
#[derive(Clone)]
enum Side<'a> {
    Java(&'a JavaPeer, String, Mode),
    Rust(RPermitExpirableSemaphore),
}

impl Side<'_> {
    async fn java(&self, op: &str, mut args: Value) -> CallResult {
        let Side::Java(peer, name, mode) = self else {
            unreachable!("it is Java's")
        };
        args["name"] = json!(name);
        args["mode"] = json!(mode.word());
        peer.call(op, args).await
    }

    async fn value(&self, op: &str, args: Value) -> Value {
        let answer = self.java(op, args).await;
        answer.unwrap_or_else(|error| panic!("{op}: {error}")).value
    }

    /// So many, if they are free now; `None` for one, as the operations on one do.
    async fn take(&self, permits: Option<u32>, lease: Option<Duration>) -> Option<Vec<String>> {
        match self {
            Side::Java(..) => {
                let mut args = json!({});
                if let Some(permits) = permits {
                    args["permits"] = json!(permits);
                }
                if let Some(lease) = lease {
                    args["leaseMs"] = json!(lease.as_millis() as u64);
                }
                match self.value("permitTryAcquire", args).await {
                    Value::String(id) => Some(vec![id]),
                    Value::Array(ids) if !ids.is_empty() => Some(strings(&ids)),
                    _ => None,
                }
            }
            Side::Rust(semaphore) => {
                let mut semaphore = semaphore.clone();
                if let Some(lease) = lease {
                    semaphore = semaphore.with_lease(lease);
                }
                let held = match permits {
                    Some(permits) => semaphore.try_acquire_many(permits).await.unwrap(),
                    None => semaphore.try_acquire().await.unwrap().map(|one| vec![one]),
                };
                held.map(|held| held.iter().map(|held| held.id().to_owned()).collect())
            }
        }
    }

    async fn release(&self, id: &str) -> bool {
        match self {
            Side::Java(..) => self
                .java("permitRelease", json!({"permit": id}))
                .await
                .is_ok(),
            Side::Rust(semaphore) => match semaphore.release(id).await {
                Ok(()) => true,
                Err(Error::PermitNotHeld { .. }) => false,
                Err(error) => panic!("{error}"),
            },
        }
    }

    async fn try_release(&self, id: &str) -> bool {
        match self {
            Side::Java(..) => {
                let released = self.value("permitTryRelease", json!({"permit": id})).await;
                released.as_bool().expect("a boolean")
            }
            Side::Rust(semaphore) => semaphore.try_release(id).await.unwrap(),
        }
    }

    async fn try_release_all(&self, ids: &[String]) -> u64 {
        match self {
            Side::Java(..) => {
                let released = self.value("permitTryRelease", json!({"ids": ids})).await;
                released.as_u64().expect("a number")
            }
            Side::Rust(semaphore) => semaphore.try_release_many(ids).await.unwrap().into(),
        }
    }

    async fn prolong(&self, id: &str, lease: Duration) -> bool {
        match self {
            Side::Java(..) => {
                let args = json!({"permit": id, "leaseMs": lease.as_millis() as u64});
                let done = self.value("updateLeaseTime", args).await;
                done.as_bool().expect("a boolean")
            }
            Side::Rust(semaphore) => semaphore.update_lease_time(id, Some(lease)).await.unwrap(),
        }
    }

    /// In milliseconds; -1: it does not end, -2: there is no such permit.
    async fn left(&self, id: &str) -> i64 {
        match self {
            Side::Java(..) => match self.java("getLeaseTime", json!({"permit": id})).await {
                Ok(answer) => answer.value.as_i64().expect("a number"),
                Err(_) => -2,
            },
            Side::Rust(semaphore) => match semaphore.lease_time(id).await.unwrap() {
                RemainingTtl::Missing => -2,
                RemainingTtl::Persistent => -1,
                RemainingTtl::Expires(left) => left.as_millis() as i64,
            },
        }
    }

    /// Available, acquired, total.
    async fn counts(&self) -> [i64; 3] {
        match self {
            Side::Java(..) => {
                let mut counts = [0; 3];
                for (count, op) in
                    counts
                        .iter_mut()
                        .zip(["permitsAvailable", "permitsAcquired", "permitsTotal"])
                {
                    *count = self.value(op, json!({})).await.as_i64().expect("a number");
                }
                counts
            }
            Side::Rust(semaphore) => [
                semaphore.available_permits().await.unwrap(),
                semaphore.acquired_permits().await.unwrap(),
                semaphore.total_permits().await.unwrap(),
            ],
        }
    }

    async fn number(&self, op: &str, permits: i32) -> String {
        match self {
            Side::Java(..) => self
                .value(op, json!({"permits": permits}))
                .await
                .to_string(),
            Side::Rust(semaphore) => {
                let unsigned = || u32::try_from(permits).unwrap();
                match op {
                    "permitsTrySet" => {
                        let set = semaphore.try_set_permits(unsigned()).await.unwrap();
                        return set.to_string();
                    }
                    "permitsSet" => semaphore.set_permits(unsigned()).await.unwrap(),
                    _ => semaphore.add_permits(permits).await.unwrap(),
                }
                "null".to_owned()
            }
        }
    }

    async fn delete(&self) -> bool {
        match self {
            Side::Java(..) => {
                let deleted = self.value("permitsDelete", json!({})).await;
                deleted.as_bool().expect("a boolean")
            }
            Side::Rust(semaphore) => semaphore.delete().await.unwrap(),
        }
    }
}

fn strings(values: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    values.iter().map(text).collect()
}

/// The keys as they stand: what is available, how many permits are held without an end and with one, what has a time to
/// live.
async fn stands(redis: &mut MultiplexedConnection, name: &str) -> String {
    let counter = snapshot(redis, name).await;
    let key = permits_key(name);
    let held: Vec<(Vec<u8>, String)> = redis.zrange_withscores(&key, 0, -1).await.unwrap();
    assert!(held.iter().all(|(id, _)| id.len() == 16), "{held:?}");
    let endless = held.iter().filter(|(_, end)| end == ENDLESS).count();
    let life: i64 = redis.pttl(&key).await.unwrap();
    format!(
        "{:?} {} endless {endless} of {} {}",
        counter.value,
        counter.ttl.is_some(),
        held.len(),
        life > 0,
    )
}

/// What `by` does, as it sees it, as `other` sees it and as it stands in Redis.
async fn course(redis: &mut MultiplexedConnection, by: &Side<'_>, other: &Side<'_>) -> Vec<String> {
    let Side::Java(_, name, _) = [by, other]
        .into_iter()
        .find(|side| matches!(side, Side::Java(..)))
        .unwrap()
    else {
        unreachable!("one is Java's")
    };
    let (mut seen, mut ids) = (Vec::new(), Vec::<Vec<String>>::new());
    for step in 0..22 {
        let said = match step {
            0 => by.number("permitsTrySet", 5).await,
            1 => by.number("permitsTrySet", 9).await,
            2..=4 | 15 => {
                let (permits, lease) = match step {
                    2 => (None, None),
                    3 => (Some(2), Some(HOUR)),
                    4 => (Some(3), Some(HOUR)),
                    _ => (None, Some(HOUR)),
                };
                let taken = by.take(permits, lease).await;
                let said = format!("{:?}", taken.as_ref().map(Vec::len));
                ids.extend(taken);
                said
            }
            5 => (by.left(&ids[0][0]).await, by.left(NOBODY).await)
                .0
                .to_string(),
            6 => (by.left(&ids[1][0]).await > 3_500_000).to_string(),
            7 => by.prolong(&ids[1][0], 2 * HOUR).await.to_string(),
            8 => by.prolong(NOBODY, HOUR).await.to_string(),
            9 => (other.left(&ids[1][0]).await > 7_000_000).to_string(),
            10 => by
                .try_release_all(&[ids[1][0].clone(), NOBODY.to_owned()])
                .await
                .to_string(),
            11 => by.number("permitsSet", 4).await,
            12 => by.number("permitsSet", 2).await,
            13 => by.number("permitsAdd", 4).await,
            14 => {
                let key = permits_key(name);
                for key in [name, &key] {
                    let _: bool = redis.pexpire(key, 1_000_000).await.unwrap();
                }
                String::new()
            }
            16 => by.release(&ids[0][0]).await.to_string(),
            17 => format!(
                "{} {}",
                by.release(&ids[0][0]).await,
                by.try_release(&ids[0][0]).await
            ),
            18 => by.try_release_all(&ids[1].clone()).await.to_string(),
            // What one side has taken, the other one releases.
            19 => other.try_release(&ids[2][0]).await.to_string(),
            20 | 21 => by.delete().await.to_string(),
            _ => unreachable!("there are so many"),
        };
        let stands = stands(redis, name).await;
        let counts = by.counts().await;
        assert_eq!(counts, other.counts().await, "step {step} of {name}");
        seen.push(format!("{step}: {said}; {stands}; {counts:?}"));
    }
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn each_side_sees_what_the_other_one_does_and_both_do_the_same() {
    for version in versions(&[NEWEST, "3.52.0"]) {
        let mut world = World::start(version).await;
        for name in ["jobs", "{tag}:jobs", "two words, \"quotes\"", "Plätze-€"] {
            let ours = Side::Rust(world.rust.permit_expirable_semaphore(name));
            let mut all = Vec::new();
            for mode in Mode::BOTH {
                let theirs = Side::Java(&world.java, name.to_owned(), mode);
                all.push(course(&mut world.redis, &theirs, &ours).await);
                all.push(course(&mut world.redis, &ours, &theirs).await);
            }
            for other in &all[1..] {
                for (one, other) in all[0].iter().zip(other) {
                    assert_eq!(one, other, "{name}, {version}");
                }
            }
        }
        // Records of our last calls vanish by themselves; there is nothing else.
        for (key, left) in snapshot_all(&mut world.redis).await {
            assert!(key.starts_with("redisson_sc_leased_once:"), "{key}");
            assert!(
                key.ends_with(world.rust.id()) && left.ttl.is_some(),
                "{key}"
            );
        }
    }
}

fn waits(semaphore: &RPermitExpirableSemaphore, permits: u32) -> JoinHandle<Result<Vec<Held>>> {
    let semaphore = semaphore.clone();
    tokio::spawn(async move { semaphore.acquire_many(permits).await })
}

async fn granted(call: JoinHandle<Result<Vec<Held>>>) -> Vec<Held> {
    let ended = timeout(LIMIT, call).await.expect("ours is not woken");
    ended.unwrap().unwrap()
}

async fn ended(call: PendingCall) -> Value {
    let ended = timeout(LIMIT, call).await.expect("Java's is not woken");
    ended.unwrap().value
}

/// A Java caller that waits, and has looked behind its subscription: each looks twice.
async fn java_waits(
    world: &mut World,
    monitor: &mut Monitor,
    name: &str,
    args: Value,
) -> PendingCall {
    let mut args = args;
    args["name"] = json!(name);
    let call = world.java.begin("permitAcquire", args);
    let mut looks = 0;
    until("the JVM's caller waits", LIMIT, async || {
        let commands = monitor.until_marker().await;
        let scripts = commands.iter().filter(|command| {
            command.name.starts_with("EVAL")
                && !command.is_lua()
                && command.args.contains(&name.to_owned())
        });
        looks += scripts.count();
        looks >= 2
    })
    .await;
    // Its second look has been answered.
    world
        .java("permitsAvailable", json!({ "name": name }))
        .await;
    call
}

#[tokio::test(flavor = "multi_thread")]
async fn either_side_waits_and_the_other_one_wakes_it() {
    for version in versions(&[NEWEST, "3.52.0"]) {
        let mut world = World::start(version).await;
        for mode in Mode::BOTH {
            for permits in [1, 3] {
                let name = format!("{} {permits}", mode.word());
                let ours = world.rust.permit_expirable_semaphore(&name);
                assert!(ours.try_set_permits(permits).await.unwrap());
                // Java waits for what Rust holds.
                let held = ours.acquire_many(permits).await.unwrap();
                let ids: Vec<&str> = held.iter().map(Held::id).collect();
                let mut monitor = Monitor::start(&world.server).await;
                let args = json!({"permits": permits, "mode": mode.word(), "leaseMs": 3_600_000});
                let call = java_waits(&mut world, &mut monitor, &name, args).await;
                assert_eq!(ours.try_release_many(&ids).await, Ok(permits));
                let ids = ended(call).await;
                // Rust waits for what Java holds.
                let call = waits(&ours, permits);
                until_subscribers(&mut world.redis, &channel(&name), 1).await;
                ours.available_permits().await.unwrap();
                let args = json!({"name": name, "ids": ids, "mode": mode.word()});
                world.java("permitRelease", args).await;
                assert_eq!(granted(call).await.len(), permits as usize);
                assert_eq!(ours.available_permits().await, Ok(0));
            }
        }
    }
}

/// Nobody gives it back: it ends.
#[tokio::test(flavor = "multi_thread")]
async fn either_side_waits_for_the_end_of_a_lease() {
    let mut world = World::start(NEWEST).await;
    const LEASE: Duration = Duration::from_millis(700);
    for mode in Mode::BOTH {
        let name = mode.word();
        let ours = world.rust.permit_expirable_semaphore(name);
        ours.try_set_permits(1).await.unwrap();
        let held = ours.clone().with_lease(LEASE).acquire().await.unwrap();
        let args = json!({"name": name, "mode": name, "leaseMs": 700});
        let call = world.java.begin("permitAcquire", args);
        let id = ended(call).await;
        assert_eq!(ours.try_release(held.id()).await, Ok(false));
        let held = granted(waits(&ours, 1)).await;
        let args = json!({"name": name, "permit": id});
        assert_eq!(world.java("permitTryRelease", args).await, json!(false));
        assert_eq!(ours.try_release(held[0].id()).await, Ok(true));
    }
    // A JVM that is killed has not given back what it holds.
    let ours = world.rust.permit_expirable_semaphore("killed");
    ours.try_set_permits(2).await.unwrap();
    let args = json!({"name": "killed", "permits": 2, "leaseMs": 700});
    world.java("permitAcquire", args).await;
    let call = waits(&ours, 2);
    world.java.kill().await;
    granted(call).await;
    assert_eq!(world.redis.zcard(permits_key("killed")).await, Ok(2));
}

/// One release for many: each async caller of a JVM is started, and each blocked thread.
#[tokio::test(flavor = "multi_thread")]
async fn one_release_of_ours_wakes_all_of_a_jvm() {
    let mut world = World::start(NEWEST).await;
    for mode in Mode::BOTH {
        let name = mode.word();
        let ours = world.rust.permit_expirable_semaphore(name);
        ours.try_set_permits(10).await.unwrap();
        let held = ours.acquire_many(10).await.unwrap();
        let mut monitor = Monitor::start(&world.server).await;
        let mut calls = Vec::new();
        for _ in 0..10 {
            let args = json!({"mode": name});
            calls.push(java_waits(&mut world, &mut monitor, name, args).await);
        }
        let ids: Vec<&str> = held.iter().map(Held::id).collect();
        ours.release_many(&ids).await.unwrap();
        for call in calls {
            ended(call).await;
        }
    }
}

/// Fleets on both sides: never more holders than permits, and all of them get on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fleets_of_both_sides_never_hold_more_than_there_is() {
    const PERMITS: u32 = 3;
    for (version, mode) in [
        (NEWEST, Mode::Sync),
        (NEWEST, Mode::Async),
        ("3.52.0", Mode::Sync),
    ] {
        if !versions(&[version]).contains(&version) {
            continue;
        }
        let mut world = World::start(version).await;
        let ours = world.rust.permit_expirable_semaphore("fleet");
        ours.try_set_permits(PERMITS).await.unwrap();
        let mut gauge = Gauge::new(&world, "gauge");
        let theirs = world.java.begin(
            "crowd",
            json!({
                "name": "fleet", "object": "leased", "callers": 8, "loops": 12, "leaseMs": 60_000, "holdMicros": 1000,
                "gauge": "gauge", "mode": mode.word(),
            }),
        );
        let callers: Vec<_> = (0..8)
            .map(|number| {
                let (ours, mut gauge) = (ours.clone(), gauge.clone());
                tokio::spawn(async move {
                    for _ in 0..12 {
                        if number % 2 == 0 {
                            let guard = ours.permit().await.unwrap();
                            gauge.add(1).await;
                            gauge.add(-1).await;
                            assert!(guard.release().await.unwrap());
                        } else {
                            let held = ours.acquire_many(2).await.unwrap();
                            gauge.add(2).await;
                            gauge.add(-2).await;
                            let ids: Vec<&str> = held.iter().map(Held::id).collect();
                            ours.release_many(&ids).await.unwrap();
                        }
                    }
                })
            })
            .collect();
        for caller in callers {
            timeout(4 * LIMIT, caller)
                .await
                .expect("ours get on")
                .unwrap();
        }
        let theirs = timeout(4 * LIMIT, theirs).await.expect("theirs get on");
        assert_eq!(theirs.unwrap().value["acquisitions"], json!(96));
        let (now, most) = gauge.read().await;
        assert!(now == 0 && most <= PERMITS.into(), "{most} at a time");
        assert_eq!(ours.available_permits().await, Ok(PERMITS.into()));
        assert_eq!(world.redis.zcard(permits_key("fleet")).await, Ok(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_sides_map_names_alike() {
    let world = World::start_with_prefix(NEWEST, "app:").await;
    let ours = world.rust.permit_expirable_semaphore("mapped");
    ours.try_set_permits(1).await.unwrap();
    let id = world.java("permitAcquire", json!({"name": "mapped"})).await;
    let mut redis = world.redis.clone();
    assert_eq!(redis.zcard(permits_key("app:mapped")).await, Ok(1));
    ours.release(id.as_str().unwrap()).await.unwrap();
}

/// Redisson 3.16.8 writes the digits of an id instead of its bytes.
#[tokio::test(flavor = "multi_thread")]
async fn the_ids_of_old_redissons_are_told_apart() {
    let server = RedisServer::start().await;
    let java = JavaPeer::start("3.16.8", &server.url()).await;
    let ours = builder(server.url()).connect().await.unwrap();
    let ours = ours.permit_expirable_semaphore("old");
    ours.try_set_permits(3).await.unwrap();
    let acquire = async |lease: u64| {
        let args = json!({"name": "old", "leaseMs": lease});
        let id = java.call("permitAcquire", args).await.unwrap().value;
        id.as_str().unwrap().to_owned()
    };
    let id = acquire(3_600_000).await;
    for error in [
        ours.release(&id).await.unwrap_err(),
        ours.try_release_many(&[&id]).await.unwrap_err(),
        ours.update_lease_time(&id, None).await.unwrap_err(),
        ours.lease_time(&id).await.unwrap_err(),
    ] {
        let told =
            matches!(&error, Error::InvalidPermitId { reason, .. } if reason.contains("3.16.8"));
        assert!(told, "{error}");
    }
    // It counts, is listed, and can be released as it is listed.
    assert_eq!(ours.acquired_permits().await, Ok(1));
    let listed = ours.holders().await.unwrap();
    assert_eq!((listed.len(), listed[0].id().len()), (1, 64));
    ours.release(listed[0].id()).await.unwrap();
    assert_eq!(ours.available_permits().await, Ok(3));
    // It ends as others do.
    acquire(100).await;
    assert_eq!(granted(waits(&ours, 3)).await.len(), 3);
    // What we hold is not theirs to release, but they wait for it.
    let one = ours.holders().await.unwrap()[0].id().to_owned();
    let call = java.begin("permitAcquire", json!({"name": "old", "leaseMs": 1000}));
    let mut control = server.connection().await;
    until_subscribers(&mut control, &channel("old"), 1).await;
    ours.release(&one).await.unwrap();
    ended(call).await;
}

/// Names and mappers of the two keys and of the channel.
#[tokio::test(flavor = "multi_thread")]
async fn a_mapper_is_asked_once_for_all_keys() {
    let server = RedisServer::start().await;
    let client = builder(server.url())
        .name_mapper(NameMapper::prefix("test::"))
        .connect()
        .await
        .unwrap();
    let ours = client.permit_expirable_semaphore("one");
    ours.try_set_permits(1).await.unwrap();
    let held = ours.acquire().await.unwrap();
    let mut control = server.connection().await;
    let keys: Vec<String> = snapshot_all(&mut control).await.into_keys().collect();
    let record = format!("redisson_sc_leased_once:{{test::one}}:{}", client.id());
    assert_eq!(keys, [record.as_str(), "test::one", "{test::one}:timeout"]);
    ours.release(held.id()).await.unwrap();
}

/// A client of ours whose callers pass permits on among themselves leaves some to a JVM, of whose callers it knows nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_client_of_ours_keeps_no_jvm_out() {
    let world = World::start(NEWEST).await;
    let ours = world.rust.permit_expirable_semaphore("busy");
    ours.try_set_permits(1).await.unwrap();
    let busy: Vec<_> = (0..16)
        .map(|_| {
            let ours = ours.clone();
            tokio::spawn(async move {
                loop {
                    let held = ours.acquire().await.unwrap();
                    tokio::task::yield_now().await;
                    ours.release(held.id()).await.unwrap();
                }
            })
        })
        .collect();
    for mode in Mode::BOTH {
        let theirs = world.java.begin(
            "crowd",
            json!({"name": "busy", "object": "leased", "callers": 2, "loops": 2, "mode": mode.word()}),
        );
        let theirs = timeout(4 * LIMIT, theirs).await.expect("it is kept out");
        assert_eq!(theirs.unwrap().value["acquisitions"], json!(4));
    }
    for busy in busy {
        busy.abort();
    }
}
