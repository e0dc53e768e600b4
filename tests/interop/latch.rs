//! The count-down latch beside the real Redisson: whatever one side does, the other one sees, and each wakes the other.

use std::time::Duration;

use crate::common::world::{Mode, NEWEST, World};
use crate::support::channel::Channel;
use crate::support::clients::{LIMIT, served};
use crate::support::monitor::Monitor;
use crate::support::peer::{JavaPeer, PendingCall};
use crate::support::server::RedisServer;
use crate::support::snapshot::{Snapshot, snapshot, snapshot_all};
use crate::support::waiters::{until, until_subscribers};
use redisson_semaphore::{NameMapper, RCountDownLatch, Result};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// `{job}:done` would lie in another slot than its channel, and is a legal latch all the same.
const NAMES: [&str; 4] = ["done", "{job}:done", "two words, \"quotes\"", "Plätze-€"];

fn channel(name: &str) -> String {
    format!("redisson_countdownlatch__channel__{{{name}}}")
}

/// One side's view of a latch.
enum Side<'a> {
    Java(&'a JavaPeer, &'a str, Mode),
    Rust(RCountDownLatch),
}

impl Side<'_> {
    async fn java(peer: &JavaPeer, op: &str, mode: Mode, mut args: Value) -> Value {
        args["mode"] = json!(mode.word());
        let answer = peer.call(op, args).await;
        answer.unwrap_or_else(|error| panic!("{op}: {error}")).value
    }

    async fn try_set(&self, count: u32) -> bool {
        match self {
            Side::Java(peer, name, mode) => {
                let args = json!({"name": name, "count": count});
                let set = Self::java(peer, "trySetCount", *mode, args).await;
                set.as_bool().expect("a boolean")
            }
            Side::Rust(latch) => latch.try_set_count(count).await.unwrap(),
        }
    }

    async fn down(&self) {
        match self {
            Side::Java(peer, name, mode) => {
                drop(Self::java(peer, "countDown", *mode, json!({ "name": name })).await);
            }
            Side::Rust(latch) => latch.count_down().await.unwrap(),
        }
    }

    async fn count(&self) -> i64 {
        match self {
            Side::Java(peer, name, mode) => {
                let count = Self::java(peer, "getCount", *mode, json!({ "name": name })).await;
                count.as_i64().expect("a number")
            }
            Side::Rust(latch) => latch.count().await.unwrap(),
        }
    }

    async fn opens_within(&self, wait: Duration) -> bool {
        match self {
            Side::Java(peer, name, mode) => {
                let millis = u64::try_from(wait.as_millis()).expect("short");
                let args = json!({"name": name, "waitMs": millis});
                let open = Self::java(peer, "await", *mode, args).await;
                open.as_bool().expect("a boolean")
            }
            Side::Rust(latch) => latch.wait_for(wait).await.unwrap(),
        }
    }

    async fn delete(&self) -> bool {
        match self {
            Side::Java(peer, name, mode) => {
                let args = json!({ "name": name });
                let deleted = Self::java(peer, "deleteLatch", *mode, args).await;
                deleted.as_bool().expect("a boolean")
            }
            Side::Rust(latch) => latch.delete().await.unwrap(),
        }
    }
}

/// What `by` does, as it sees it, as `other` sees it and as it stands in Redis; and what was published.
async fn course(world: &mut World, by: &Side<'_>, other: &Side<'_>, name: &str) -> Vec<String> {
    let mut record = Channel::subscribe(&world.server, &channel(name)).await;
    let mut seen = Vec::new();
    // Redisson makes its subscription within that time, and throws where a busy machine leaves it none.
    let short = Duration::from_secs(1);
    for step in 0..13 {
        let said = match step {
            0 | 7 => by.try_set(2).await.to_string(),
            1 => by.try_set(5).await.to_string(),
            2 => by.opens_within(short).await.to_string(),
            3 | 4 | 6 => {
                by.down().await;
                String::new()
            }
            // It is open already, and a JVM that has much to do takes its time to see that.
            5 | 12 => by.opens_within(LIMIT).await.to_string(),
            8 => {
                // A time to live that somebody has set is kept.
                redis::cmd("PEXPIRE")
                    .arg(&[name, "1000000"])
                    .exec_async(&mut world.redis)
                    .await
                    .unwrap();
                by.down().await;
                String::new()
            }
            9 | 10 => by.delete().await.to_string(),
            11 => by.try_set(0).await.to_string(),
            _ => unreachable!("there are so many"),
        };
        let Snapshot { kind, value, ttl } = snapshot(&mut world.redis, name).await;
        let counts = (by.count().await, other.count().await);
        assert_eq!(counts.0, counts.1, "step {step} of {name}");
        let ttl = ttl.is_some();
        seen.push(format!("{step}: {said} {kind} {value:?} {ttl} {counts:?}"));
    }
    by.down().await;
    let messages = record.until_marker().await;
    let payloads: Vec<_> = messages
        .into_iter()
        .map(|message| message.payload)
        .collect();
    seen.push(payloads.join(","));
    assert_eq!(other.count().await, 0, "behind the end");
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn each_side_sees_what_the_other_one_does_and_both_do_the_same() {
    let mut world = World::start(NEWEST).await;
    let rust = world.rust.clone();
    let java = JavaPeer::start(NEWEST, &world.server.url()).await;
    for name in NAMES {
        let ours = Side::Rust(rust.count_down_latch(name));
        let mut all = Vec::new();
        for mode in Mode::BOTH {
            let theirs = Side::Java(&java, name, mode);
            all.push(course(&mut world, &theirs, &ours, name).await);
        }
        let theirs = Side::Java(&java, name, Mode::Sync);
        all.push(course(&mut world, &ours, &theirs, name).await);
        assert_eq!(all[2], all[0], "{name}");
        assert_eq!(all[2], all[1], "{name}");
        assert_eq!(all[0].last().unwrap(), "1,0,1,1,1", "{name}");
    }
    // Records of our last calls vanish by themselves; there is nothing else.
    let left: Vec<_> = snapshot_all(&mut world.redis).await.into_iter().collect();
    for (key, left) in left {
        assert!(key.starts_with("redisson_countdownlatch_once:"), "{key}");
        assert!(key.ends_with(rust.id()) && left.ttl.is_some(), "{key}");
    }
}

fn rust_waits(latch: &RCountDownLatch) -> JoinHandle<Result<()>> {
    let latch = latch.clone();
    tokio::spawn(async move { latch.wait().await })
}

async fn ends(call: PendingCall) {
    timeout(LIMIT, call).await.expect("it is woken").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn both_wait_and_either_opens() {
    let mut world = World::start(NEWEST).await;
    for name in NAMES {
        for (number, mode) in [Mode::Sync, Mode::Async, Mode::Sync, Mode::Async]
            .into_iter()
            .enumerate()
        {
            let name = &*format!("{name} {number}");
            let latch = world.rust.count_down_latch(name);
            assert_eq!(latch.try_set_count(2).await, Ok(true), "{name}");
            let mut monitor = Monitor::start(&world.server).await;
            let ours: Vec<_> = (0..3).map(|_| rust_waits(&latch)).collect();
            let args = json!({"name": name, "mode": mode.word()});
            let mut theirs: Vec<_> = (0..3)
                .map(|_| world.java.begin("await", args.clone()))
                .collect();
            until_subscribers(&mut world.redis, &channel(name), 2).await;
            // Each caller of the JVM looks twice, the second time behind its subscription, and is told nothing of what
            // comes before it has seen that answer.
            let mut looks = 0;
            until("the JVM's callers wait", LIMIT, async || {
                let commands = monitor.until_marker().await;
                let gets = commands.iter().filter(|command| {
                    command.name == "GET" && !command.is_lua() && command.args == [name]
                });
                looks += gets.count();
                looks >= 6
            })
            .await;
            world.java("getCount", json!({ "name": name })).await;
            latch.count_down().await.unwrap();
            world.java("getCount", json!({ "name": name })).await;
            assert!(ours.iter().all(|ours| !ours.is_finished()), "too early");
            assert!(theirs.iter_mut().all(|theirs| !theirs.is_finished()));
            if number < 2 {
                latch.count_down().await.unwrap();
            } else {
                world.java("countDown", json!({ "name": name })).await;
            }
            for ours in ours {
                served(ours).await;
            }
            for theirs in theirs {
                ends(theirs).await;
            }
        }
    }
}

/// The count of a hundred: each party of both sides counts down once, and everybody waits for all.
#[tokio::test(flavor = "multi_thread")]
async fn parties_of_both_sides_meet() {
    let world = World::start(NEWEST).await;
    let latch = world.rust.count_down_latch("meeting");
    assert_eq!(latch.try_set_count(100).await, Ok(true));
    let ours = (0..50).map(|_| {
        let latch = latch.clone();
        tokio::spawn(async move {
            latch.count_down().await?;
            latch.wait().await
        })
    });
    let ours: Vec<_> = ours.collect();
    let theirs: Vec<_> = (0..50)
        .map(|_| {
            let args = |mode| json!({"name": "meeting", "mode": mode});
            // An async one would be left asleep by an opening between its second look and the answer to it.
            let waits = world.java.begin("await", args("sync"));
            (waits, world.java.begin("countDown", args("async")))
        })
        .collect();
    for ours in ours {
        served(ours).await;
    }
    for (waits, down) in theirs {
        ends(down).await;
        ends(waits).await;
    }
    assert_eq!(latch.exists().await, Ok(false));
}

#[tokio::test(flavor = "multi_thread")]
async fn both_sides_map_names_alike() {
    let server = RedisServer::start().await;
    let java = JavaPeer::start_with(NEWEST, &server.url(), &["--prefix", "app:"]).await;
    let client = crate::support::clients::builder(server.url())
        .name_mapper(NameMapper::prefix("app:"))
        .connect()
        .await
        .unwrap();
    let latch = client.count_down_latch("mapped");
    let args = json!({"name": "mapped", "count": 1});
    java.call("trySetCount", args).await.unwrap();
    let waits = rust_waits(&latch);
    let mut control = server.connection().await;
    until_subscribers(&mut control, &channel("app:mapped"), 1).await;
    until("it is there", LIMIT, async || latch.count().await == Ok(1)).await;
    java.call("countDown", json!({"name": "mapped"}))
        .await
        .unwrap();
    served(waits).await;
}
