//! Whatever one side does to a semaphore, the other one sees: the real Redisson 4.7.0 and this crate on one
//! server, in both directions.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::common::course::Course;
use crate::common::operation::{Op, Outcome, Side};
use crate::common::world::{NEWEST, World, channel};
use crate::support::channel::Channel;
use crate::support::snapshot::snapshot_all;
use redis::AsyncCommands;

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
            if ["queue", "notes"]
                .iter()
                .any(|of| key.starts_with(&format!("redisson_sc_{of}:")))
            {
                return key.contains(prefix);
            }
            let Some(rest) = key.strip_prefix("redisson_sc_once:") else {
                return false;
            };
            rest.contains(prefix) && rest.ends_with(self.rust.id())
        };
        keys.filter(|key| !is_record(key)).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_side_sees_what_the_other_one_does() {
    let mut world = World::start(NEWEST).await;
    for name in NAMES {
        for (by, seen_by) in world.both_ways() {
            let course = Course { by, seen_by, name };
            course.permits().await;
            course.newer_permits().await;
            course.expiry().await;
            course.names().await;
            course.rename_nx().await;
        }
    }
    assert_eq!(world.left_over("").await, BTreeSet::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn both_sides_map_names_alike() {
    let mut world = World::start_with_prefix(NEWEST, "app one:").await;
    for name in NAMES {
        for (by, seen_by) in world.both_ways() {
            let course = Course { by, seen_by, name };
            course.permits().await;
            course.newer_permits().await;
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

/// A message says how many permits there are: to Redisson "+2" is 2. There may be some of a later call for callers who are
/// asleep: this test is a listener, too.
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

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_semaphore_is_gone_for_both() {
    let world = World::start(NEWEST).await;
    for (by, seen_by) in world.both_ways() {
        let ttl = Duration::from_millis(50);
        let set = by.run("s", &Op::TrySetFor(3, ttl)).await;
        assert_eq!(set, Outcome::Flag(true), "{}", by.name());
        crate::support::waiters::until("it has expired", Duration::from_secs(20), async || {
            seen_by.run("s", &Op::Exists).await == Outcome::Flag(false)
        })
        .await;
        assert_eq!(by.run("s", &Op::Available).await, Outcome::Number(0));
        let taken = seen_by.run("s", &Op::TryAcquire(1)).await;
        assert_eq!(taken, Outcome::Flag(false), "{}", seen_by.name());
    }
}
