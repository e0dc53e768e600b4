//! The count-down latch beside the real Redisson: whatever one side does, the other one sees, and each wakes the other.

use std::time::Duration;

use crate::common::world::{Mode, NEWEST, World};
use crate::support::channel::Channel;
use crate::support::clients::{LIMIT, served};
use crate::support::monitor::Monitor;
use crate::support::peer::JavaPeer;
use crate::support::snapshot::{Snapshot, snapshot, snapshot_all};
use crate::support::waiters::{until, until_subscribers};
use redis::AsyncCommands;
use redisson_semaphore::{RCountDownLatch, Result};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

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
    /// The operation in Java's words, and its answer.
    async fn call(&self, op: &str, number: u64) -> Value {
        match self {
            Side::Java(peer, name, mode) => {
                let mut args = json!({"name": name, "mode": mode.word()});
                match op {
                    "trySetCount" => args["count"] = json!(number),
                    "await" => args["waitMs"] = json!(number),
                    _ => {}
                }
                let answer = peer.call(op, args).await;
                answer.unwrap_or_else(|error| panic!("{op}: {error}")).value
            }
            Side::Rust(latch) => match op {
                "trySetCount" => json!(latch.try_set_count(number as u32).await.unwrap()),
                "await" => json!(latch.wait_for(Duration::from_millis(number)).await.unwrap()),
                "countDown" => latch.count_down().await.map(|()| Value::Null).unwrap(),
                "getCount" => json!(latch.count().await.unwrap()),
                "deleteLatch" => json!(latch.delete().await.unwrap()),
                other => panic!("{other}"),
            },
        }
    }
}

/// Carries out the operations of `by`. Returns what `by` sees, what stands in Redis, and the messages. `other` must see the same count.
async fn course(world: &mut World, by: &Side<'_>, other: &Side<'_>, name: &str) -> Vec<String> {
    let mut record = Channel::subscribe(&world.server, &channel(name)).await;
    let mut seen = Vec::new();
    // Redisson makes its subscription within a second, and throws where a busy machine leaves it no time. A busy JVM may take a while
    // to see that a latch is open already.
    let (short, long) = (1_000, LIMIT.as_millis() as u64);
    for (step, (op, number)) in [
        ("trySetCount", 2),
        ("trySetCount", 5),
        ("await", short),
        ("countDown", 0),
        ("countDown", 0),
        ("await", long),
        ("countDown", 0),
        ("trySetCount", 2),
        ("countDown", 0),
        ("deleteLatch", 0),
        ("deleteLatch", 0),
        ("trySetCount", 0),
        ("await", long),
    ]
    .into_iter()
    .enumerate()
    {
        if step == 8 {
            // A time to live that somebody has set is kept.
            let _: bool = world.redis.pexpire(name, 1_000_000).await.unwrap();
        }
        let said = by.call(op, number).await;
        let Snapshot { kind, value, ttl } = snapshot(&mut world.redis, name).await;
        let (count, other) = (
            by.call("getCount", 0).await,
            other.call("getCount", 0).await,
        );
        assert_eq!(count, other, "step {step} of {name}");
        let ttl = ttl.is_some();
        seen.push(format!("{step}: {said} {kind} {value:?} {ttl} {count}"));
    }
    by.call("countDown", 0).await;
    let messages = record.until_marker().await.into_iter();
    let payloads: Vec<_> = messages.map(|message| message.payload).collect();
    seen.push(payloads.join(","));
    assert_eq!(other.call("getCount", 0).await, json!(0), "behind the end");
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

#[tokio::test(flavor = "multi_thread")]
async fn both_wait_and_either_opens() {
    let mut world = World::start(NEWEST).await;
    for name in NAMES {
        for (number, mode) in [Mode::BOTH, Mode::BOTH].concat().into_iter().enumerate() {
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
            // Each caller of the JVM looks twice, the second time behind its subscription. A message that comes before the second
            // answer does not reach the caller.
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
                crate::common::parked::served(name, theirs).await;
            }
        }
    }
}
