//! Each operation on a semaphore is seen by the other side: the real Redisson and this crate on one
//! server, in both directions.

use std::collections::BTreeSet;

use crate::common::course::Course;
use crate::common::operation::{Op, Outcome, Side};
use crate::common::world::{NEWEST, World, channel};
use crate::permits::permits_key;
use crate::support::channel::Channel;
use crate::support::clients::served;
use crate::support::peer::{SUPPORTED, versions};
use crate::support::snapshot::snapshot_all;
use crate::support::waiters::until_subscribers;
use redis::AsyncCommands;
use serde_json::json;

/// Names that need care on one side or the other.
const NAMES: [&str; 10] = [
    "seats",
    "{tag}:seats",
    "se{tag}ats",
    "a{b",
    "a}b",
    "{",
    "a:{}:b",
    "two words, \"quotes\" and \\",
    "Plätze-€-座席-🪑",
    "line\nbreak",
];

impl World {
    /// The acting side first.
    fn both_ways(&self) -> [(Side<'_>, Side<'_>); 2] {
        let (java, rust) = (Side::Java(&self.java), Side::Rust(&self.rust));
        [(java, rust), (rust, java)]
    }

    /// The keys that are left, other than this crate's records of its last calls and its queues, which vanish by themselves.
    async fn left_over(&mut self, prefix: &str) -> BTreeSet<String> {
        let keys = snapshot_all(&mut self.redis).await.into_keys();
        let is_record = |key: &String| {
            let queue = ["redisson_sc_queue:", "redisson_sc_notes:"];
            let record = key.starts_with("redisson_sc_once:") && key.ends_with(self.rust.id());
            key.contains(prefix) && (record || queue.iter().any(|start| key.starts_with(start)))
        };
        keys.filter(|key| !is_record(key)).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_side_sees_what_the_other_one_does() {
    for version in versions(&SUPPORTED) {
        let mut world = World::start(version).await;
        assert_eq!(world.java("version", json!({})).await, json!(version));
        for name in NAMES {
            for (by, seen_by) in world.both_ways() {
                let course = Course { by, seen_by, name };
                course.permits().await;
                if version == NEWEST {
                    course.names().await;
                    course.rename_nx().await;
                }
            }
        }
        assert_eq!(world.left_over("").await, BTreeSet::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_sides_map_names_alike() {
    let mut world = World::with_prefix(NEWEST, "app one:").await;
    permits_and_latches_too(&mut world).await;
    for name in NAMES {
        for (by, seen_by) in world.both_ways() {
            let course = Course { by, seen_by, name };
            course.permits().await;
            course.names().await;
        }
        let (java, rust) = (Side::Java(&world.java), Side::Rust(&world.rust));
        let course = Course {
            by: rust,
            seen_by: java,
            name,
        };
        course.rename_nx().await;
        redisson_forgets_to_map_the_new_name(&world, name).await;

        // The key, the channel, and what Redisson's display name is made from.
        let key = format!("app one:{name}");
        let mut messages = Channel::subscribe(&world.server, &channel(&key)).await;
        for (number, (by, _)) in world.both_ways().into_iter().enumerate() {
            assert_eq!(by.run(name, &Op::Release(1)).await, Outcome::Nothing);
            let value: usize = world
                .redis
                .clone()
                .get(&key)
                .await
                .expect("the server runs");
            assert_eq!(value, number + 1, "{} on {key:?}", by.name());
            until_told(&mut messages, value).await;
        }
        assert_eq!(java.run(name, &Op::Delete).await, Outcome::Flag(true));
        assert_eq!(
            world.left_over("app one:").await,
            BTreeSet::new(),
            "{name:?}"
        );
    }
}

async fn permits_and_latches_too(world: &mut World) {
    let ours = world.rust.permit_expirable_semaphore("mapped");
    ours.try_set_permits(1).await.unwrap();
    let id = world.java("permitAcquire", json!({"name": "mapped"})).await;
    let held = world.redis.zcard(permits_key("app one:mapped")).await;
    assert_eq!(held, Ok(1));
    ours.release(id.as_str().unwrap()).await.unwrap();
    let latch = world.rust.count_down_latch("latch");
    let args = json!({"name": "latch", "count": 1});
    world.java("trySetCount", args.clone()).await;
    let waits = tokio::spawn(async move { latch.wait().await });
    let channel = "redisson_countdownlatch__channel__{app one:latch}";
    until_subscribers(&mut world.redis, channel, 1).await;
    assert!(!waits.is_finished());
    world.java("countDown", args).await;
    served(waits).await;
    let () = redis::cmd("FLUSHDB")
        .query_async(&mut world.redis)
        .await
        .unwrap();
}

/// A message says how many permits there are: to Redisson "+2" is 2. Further messages may be for callers that are asleep: this
/// test counts as a listener, too.
async fn until_told(messages: &mut Channel, total: usize) {
    loop {
        let payload = messages.next().await.payload;
        if payload.trim_start_matches('+') == total.to_string() {
            return;
        }
    }
}

/// DIFFERENCE: Redisson's `renamenx` takes the new name as it is; `rename_nx` maps it.
async fn redisson_forgets_to_map_the_new_name(world: &World, name: &str) {
    let java = Side::Java(&world.java);
    let new = format!("{name}-new");
    assert_eq!(java.run(name, &Op::TrySet(1)).await, Outcome::Flag(true));
    assert_eq!(
        java.run(name, &Op::RenameNx(new.clone())).await,
        Outcome::Flag(true)
    );
    let mut redis = world.redis.clone();
    let unmapped: i64 = redis.del(&new).await.expect("the server runs");
    let mapped: i64 = redis
        .del(format!("app one:{new}"))
        .await
        .expect("the server runs");
    assert_eq!((unmapped, mapped), (1, 0), "renamenx to {new:?}");
}
