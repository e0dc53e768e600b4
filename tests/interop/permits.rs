//! The semaphore with ids beside the real Redisson: whatever one side does, the other one sees, each releases what the other
//! has taken, and each wakes the other.

use std::time::Duration;

use crate::common::locks::newer_versions;
use crate::common::parked::{returned, served};
use crate::common::world::{Mode, NEWEST, World, channel};
use crate::support::clients::{LIMIT, builder};
use crate::support::gauge::Gauge;
use crate::support::monitor::Monitor;
use crate::support::peer::{JavaPeer, PendingCall, versions};
use crate::support::server::RedisServer;
use crate::support::snapshot::{snapshot, snapshot_all};
use crate::support::waiters::{until, until_subscribers};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Error, Held, RPermitExpirableSemaphore, RemainingTtl, Result};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// In milliseconds.
const HOUR: u64 = 3_600_000;
/// The end that Redisson writes for a permit without an end.
const ENDLESS: &str = "922337203685477";
/// The id of no permit.
const NOBODY: &str = "00112233445566778899aabbccddeeff";

/// The key of the permits that are held.
pub(crate) fn permits_key(name: &str) -> String {
    if name.contains('{') {
        format!("{name}:timeout")
    } else {
        format!("{{{name}}}:timeout")
    }
}

/// One side's view of a semaphore.
enum Side<'a> {
    Java(&'a JavaPeer, &'a str, Mode),
    Rust(RPermitExpirableSemaphore),
}

impl Side<'_> {
    /// An operation in Java's words, and its answer; `"refused"` for an error.
    async fn call(&self, op: &str, mut args: Value) -> Value {
        let semaphore = match self {
            Side::Java(peer, name, mode) => {
                (args["name"], args["mode"]) = (json!(name), json!(mode.word()));
                let answer = peer.call(op, args).await;
                return answer.map_or(json!("refused"), |answer| answer.value);
            }
            Side::Rust(semaphore) => semaphore.clone(),
        };
        let permits = args["permits"].as_i64();
        let unsigned = || permits.expect("a number") as u32;
        let lease = args["leaseMs"].as_u64().map(Duration::from_millis);
        let id = args["permit"].as_str().unwrap_or_default();
        let ids = strings(&args["ids"]);
        let leased = lease.map_or(semaphore.clone(), |lease| {
            semaphore.clone().with_lease(lease)
        });
        let answer = match op {
            "permitTryAcquire" => match permits {
                Some(_) => (leased.try_acquire_many(unsigned()).await)
                    .map(|held| json!(ids_of(&held.unwrap_or_default()))),
                None => (leased.try_acquire().await)
                    .map(|held| json!(held.map(|held| held.id().to_owned()))),
            },
            "permitRelease" => semaphore.release(id).await.map(|()| Value::Null),
            "permitTryRelease" if ids.is_empty() => {
                semaphore.try_release(id).await.map(Value::from)
            }
            "permitTryRelease" => semaphore.try_release_many(&ids).await.map(Value::from),
            "updateLeaseTime" => semaphore
                .update_lease_time(id, lease)
                .await
                .map(Value::from),
            "getLeaseTime" => semaphore.lease_time(id).await.map(|left| match left {
                RemainingTtl::Missing => json!("refused"),
                RemainingTtl::Persistent => json!(-1),
                RemainingTtl::Expires(left) => json!(left.as_millis() as u64),
            }),
            "permitsAvailable" => semaphore.available_permits().await.map(Value::from),
            "permitsAcquired" => semaphore.acquired_permits().await.map(Value::from),
            "permitsTotal" => semaphore.total_permits().await.map(Value::from),
            "permitsTrySet" => semaphore.try_set_permits(unsigned()).await.map(Value::from),
            "permitsSet" => semaphore
                .set_permits(unsigned())
                .await
                .map(|()| Value::Null),
            "permitsAdd" => semaphore
                .add_permits(unsigned() as i32)
                .await
                .map(|()| Value::Null),
            "permitsDelete" => semaphore.delete().await.map(Value::from),
            other => panic!("{other}"),
        };
        match answer {
            Err(Error::PermitNotHeld { .. }) => json!("refused"),
            answer => answer.unwrap(),
        }
    }

    async fn counts(&self) -> Vec<Value> {
        let mut counts = Vec::new();
        for op in ["permitsAvailable", "permitsAcquired", "permitsTotal"] {
            counts.push(self.call(op, json!({})).await);
        }
        counts
    }
}

fn strings(values: &Value) -> Vec<String> {
    let all = values.as_array().into_iter().flatten();
    all.map(|value| value.as_str().expect("a text").to_owned())
        .collect()
}

fn ids_of(held: &[Held]) -> Vec<String> {
    held.iter().map(|held| held.id().to_owned()).collect()
}

/// The state of the keys: the available permits, the numbers of permits that are held without an end and with one, and the keys
/// that have a time to live.
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

/// Carries out the operations of `by`. Returns what `by` sees and what stands in Redis. `other` must see the same counts.
async fn course(
    redis: &mut MultiplexedConnection,
    name: &str,
    by: &Side<'_>,
    other: &Side<'_>,
) -> Vec<String> {
    let (mut seen, mut ids) = (Vec::new(), Vec::<Vec<String>>::new());
    for step in 0..22 {
        let nth = |taken: usize| ids[taken][0].clone();
        let (side, op, args) = match step {
            0 => (by, "permitsTrySet", json!({"permits": 5})),
            1 => (by, "permitsTrySet", json!({"permits": 9})),
            2 => (by, "permitTryAcquire", json!({})),
            3 => (
                by,
                "permitTryAcquire",
                json!({"permits": 2, "leaseMs": HOUR}),
            ),
            4 => (
                by,
                "permitTryAcquire",
                json!({"permits": 3, "leaseMs": HOUR}),
            ),
            5 => (by, "getLeaseTime", json!({"permit": nth(0)})),
            6 => (by, "getLeaseTime", json!({"permit": nth(1)})),
            7 => (
                by,
                "updateLeaseTime",
                json!({"permit": nth(1), "leaseMs": 2 * HOUR}),
            ),
            8 => (
                by,
                "updateLeaseTime",
                json!({"permit": NOBODY, "leaseMs": HOUR}),
            ),
            9 => (other, "getLeaseTime", json!({"permit": nth(1)})),
            10 => (
                by,
                "permitTryRelease",
                json!({"ids": [nth(1), NOBODY.to_owned()]}),
            ),
            11 => (by, "permitsSet", json!({"permits": 4})),
            12 => (by, "permitsSet", json!({"permits": 2})),
            13 => (by, "permitsAdd", json!({"permits": 4})),
            14 => (by, "getLeaseTime", json!({"permit": NOBODY})),
            15 => (by, "permitTryAcquire", json!({"leaseMs": HOUR})),
            16 | 17 => (by, "permitRelease", json!({"permit": nth(0)})),
            18 => (by, "permitTryRelease", json!({"permit": nth(0)})),
            19 => (by, "permitTryRelease", json!({"ids": ids[1]})),
            // One side releases what the other has taken.
            20 => (other, "permitTryRelease", json!({"permit": nth(2)})),
            _ => (by, "permitsDelete", json!({})),
        };
        let answer = side.call(op, args).await;
        let said = match (op, answer) {
            ("permitTryAcquire", answer) => {
                let taken = match &answer {
                    Value::String(id) => vec![id.clone()],
                    several => strings(several),
                };
                let count = taken.len();
                ids.extend((count > 0).then_some(taken));
                format!("{count} taken")
            }
            // To the quarter of an hour.
            ("getLeaseTime", Value::Number(left)) if left != (-1).into() => {
                format!("{:?}", left.as_u64().map(|left| left.div_ceil(HOUR / 4)))
            }
            (_, answer) => answer.to_string(),
        };
        if step == 14 {
            for key in [name, &permits_key(name)] {
                let _: bool = redis.pexpire(key, 1_000_000).await.unwrap();
            }
        }
        let stands = stands(redis, name).await;
        let counts = by.counts().await;
        assert_eq!(counts, other.counts().await, "step {step} of {name}");
        seen.push(format!("{step}: {said}; {stands}; {counts:?}"));
    }
    assert_eq!(by.call("permitsDelete", json!({})).await, json!(false));
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn each_side_sees_what_the_other_one_does_and_both_do_the_same() {
    for version in newer_versions() {
        let mut world = World::start(version).await;
        for name in ["jobs", "{tag}:jobs", "two words, \"quotes\"", "Plätze-€"] {
            let ours = Side::Rust(world.rust.permit_expirable_semaphore(name));
            let mut all = Vec::new();
            for mode in Mode::BOTH {
                let theirs = Side::Java(&world.java, name, mode);
                all.push(course(&mut world.redis, name, &theirs, &ours).await);
                all.push(course(&mut world.redis, name, &ours, &theirs).await);
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
    returned("ours", call).await.unwrap()
}

async fn ended(call: PendingCall) -> Value {
    served("Java's", call).await.value
}

/// Starts a Java caller, and waits for its second look, which comes after its subscription.
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
    for version in newer_versions() {
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

/// The permit is not released: its lease ends.
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
    // A JVM that is killed has not released its permits.
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
        let mut gauge = Gauge::new(&world.redis, "gauge");
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
    // The permit counts, is listed, and can be released by its listed id.
    assert_eq!(ours.acquired_permits().await, Ok(1));
    let listed = ours.holders().await.unwrap();
    assert_eq!((listed.len(), listed[0].id().len()), (1, 64));
    ours.release(listed[0].id()).await.unwrap();
    assert_eq!(ours.available_permits().await, Ok(3));
    // The permit ends as others do.
    acquire(100).await;
    assert_eq!(granted(waits(&ours, 3)).await.len(), 3);
    // The JVM cannot release a permit of this crate, but it waits for one.
    let one = ours.holders().await.unwrap()[0].id().to_owned();
    let call = java.begin("permitAcquire", json!({"name": "old", "leaseMs": 1000}));
    let mut control = server.connection().await;
    until_subscribers(&mut control, &channel("old"), 1).await;
    ours.release(&one).await.unwrap();
    ended(call).await;
}

/// A busy client, whose callers pass permits on among themselves, leaves some to a JVM, of whose callers it knows nothing.
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
