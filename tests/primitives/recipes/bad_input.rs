//! The classic recipes and what nobody should find in their keys or give them as settings.

use std::time::Duration;

use crate::layouts::{Handle, Layout, Shape};
use crate::support::server::RedisServer;
use crate::support::snapshot::snapshot_all;
use crate::support::waiters::until;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, Error, Lock as _};

const LIMIT: Duration = Duration::from_secs(20);

struct World {
    client: Client,
    redis: MultiplexedConnection,
    _server: RedisServer,
}

impl World {
    async fn new() -> World {
        let server = RedisServer::start().await;
        World {
            client: Client::connect(server.url()).await.unwrap(),
            redis: server.connection().await,
            _server: server,
        }
    }
}

/// The error of every operation.
async fn errors(semaphore: &Handle) -> Vec<Error> {
    vec![
        semaphore.acquire().await.unwrap_err(),
        semaphore.try_acquire().await.unwrap_err(),
        semaphore.try_acquire_for(LIMIT).await.unwrap_err(),
        semaphore.release("a").await.unwrap_err(),
        semaphore.refresh("a").await.unwrap_err(),
        semaphore.holders().await.unwrap_err(),
        semaphore.release_all().await.unwrap_err(),
    ]
}

async fn held(semaphore: &Handle) -> usize {
    semaphore.holders().await.unwrap().len()
}

#[tokio::test]
async fn names_that_are_empty() {
    let world = World::new().await;
    for layout in crate::layouts::ALL {
        for error in errors(&layout.make(&world.client, "", Shape::new(1))).await {
            assert!(matches!(error, Error::InvalidName { .. }), "{error}");
        }
    }
    let fair = |semaphore: redisson_semaphore::recipes::FairSemaphore| -> Handle {
        std::sync::Arc::new(semaphore)
    };
    let semaphore = || world.client.fair_semaphore("name", 1);
    for semaphore in [
        semaphore().under_lock(""),
        semaphore().keys("", "b"),
        semaphore().keys("a", ""),
        semaphore().tokens(""),
    ] {
        for error in errors(&fair(semaphore)).await {
            assert!(
                matches!(&error, Error::InvalidName { name, .. } if name == "name"),
                "{error}"
            );
        }
    }
    let error = world.client.string_lock("").lock().await.unwrap_err();
    assert!(matches!(error, Error::InvalidName { .. }), "{error}");
}

#[tokio::test]
async fn limits_out_of_range() {
    let world = World::new().await;
    for (layout, limit) in [
        (Layout::Timestamp, 0),
        (Layout::Fair, 1 << 31),
        (Layout::Set, u32::MAX),
        (Layout::Slots, 1025),
    ] {
        for error in errors(&layout.make(&world.client, "a", Shape::new(limit))).await {
            assert!(
                matches!(error, Error::InvalidLimit { limit: told, .. } if told == limit),
                "{error}"
            );
        }
    }
    let most = Layout::Slots.make(&world.client, "most", Shape::new(1024));
    let held = most.try_acquire().await.unwrap().expect("free");
    assert_eq!(held.slot(), Some(1));
}

/// What nobody of ours can have put there is not called free, and not deleted along with what is held.
#[tokio::test]
async fn a_slot_of_another_type_is_not_taken_for_a_free_one() {
    let mut world = World::new().await;
    let _: () = world.redis.set("listed:1", "somebody").await.unwrap();
    for key in ["listed:300", "lock:alone"] {
        let _: () = world.redis.hset(key, "field", "value").await.unwrap();
    }
    let before = snapshot_all(&mut world.redis).await;

    // Its second page.
    let semaphore = Layout::Slots.make(&world.client, "listed", Shape::new(300));
    let lock = world.client.string_lock("alone");
    for (error, key) in [
        (semaphore.holders().await.unwrap_err(), "listed:300"),
        (semaphore.release_all().await.unwrap_err(), "listed:300"),
        (lock.is_locked().await.unwrap_err(), "lock:alone"),
        (lock.hold_count().await.unwrap_err(), "lock:alone"),
        (lock.remaining_ttl().await.unwrap_err(), "lock:alone"),
        (lock.force_unlock().await.unwrap_err(), "lock:alone"),
    ] {
        assert!(
            matches!(&error, Error::WrongType { key: told, .. } if told == key),
            "{error}"
        );
    }
    assert_eq!(snapshot_all(&mut world.redis).await, before);
}

#[tokio::test]
async fn counters_at_their_end_restart_when_nobody_holds() {
    let mut world = World::new().await;
    let semaphore = Layout::Fair.make(&world.client, "end", Shape::new(3));
    for last in [(1_i64 << 53) - 1, i64::MAX] {
        let _: () = world.redis.set("end:counter", last).await.unwrap();
        let one = semaphore.try_acquire().await.unwrap().expect("free");
        let score: f64 = world.redis.zscore("end:owner", one.id()).await.unwrap();
        assert_eq!(score, 1.0, "it has not restarted");

        // While somebody holds it can't: a score would be lost.
        let _: () = world.redis.set("end:counter", 1_i64 << 53).await.unwrap();
        let error = semaphore.try_acquire().await.unwrap_err();
        assert!(
            error.to_string().contains("counter is at its end"),
            "{error}"
        );
        assert_eq!(held(&semaphore).await, 1);
        assert!(semaphore.release(one.id()).await.unwrap());
    }
}

/// Under a lock nobody can stand between the counter and the zsets, so it restarts at once.
#[tokio::test]
async fn the_counter_under_a_lock_restarts_at_once() {
    let mut world = World::new().await;
    let locked = Layout::FairUnderLock.make(&world.client, "restart", Shape::new(1));
    for _ in 0..3 {
        let one = locked.try_acquire().await.unwrap().expect("free");
        assert_eq!(
            world.redis.get::<_, i64>("restart:counter").await.unwrap(),
            1
        );
        locked.release(one.id()).await.unwrap();
    }
}

/// Without a lock a peer may have been given a value and not have entered it yet, however long ago: if newcomers began
/// anew, he would stand behind them, and be the first among those who come later. (How long a key has been idle does not
/// tell: a server keeps that once for all keys that hold the same small number.)
#[tokio::test]
async fn the_counter_without_a_lock_goes_on_for_ever() {
    let mut world = World::new().await;
    let lease = Duration::from_millis(900);
    let plain = Layout::Fair.make(&world.client, "goes-on", Shape::new(1).lease(lease));
    // The number under another key, and nobody has used it since the server began.
    let _: () = world.redis.set("other", 6).await.unwrap();
    until("the number is idle", LIMIT, async || {
        let idle: u64 = redis::cmd("OBJECT")
            .arg(&["IDLETIME", "other"])
            .query_async(&mut world.redis.clone())
            .await
            .unwrap();
        idle >= 3
    })
    .await;
    let _: () = world.redis.set("goes-on:counter", 5).await.unwrap();
    let _: i64 = world.redis.incr("goes-on:counter", 1).await.unwrap();
    let one = plain.try_acquire().await.unwrap().expect("free");
    let given: i64 = world.redis.get("goes-on:counter").await.unwrap();
    assert_eq!(given, 7, "the peer's value is given out again");
    plain.release(one.id()).await.unwrap();
}

/// Whoever has deleted the counter while permits are held must not let newcomers pass those who hold.
#[tokio::test]
async fn a_counter_that_was_deleted_goes_on_behind_the_highest_score() {
    let mut world = World::new().await;
    let semaphore = Layout::Fair.make(&world.client, "gone", Shape::new(3));
    for _ in 0..2 {
        let _ = semaphore.try_acquire().await.unwrap().expect("free");
    }
    let _: () = world.redis.del("gone:counter").await.unwrap();
    let three = semaphore.try_acquire().await.unwrap().expect("free");
    let rank: usize = world.redis.zrank("gone:owner", three.id()).await.unwrap();
    assert_eq!(rank, 2);
    assert_eq!(world.redis.get::<_, i64>("gone:counter").await.unwrap(), 3);
}

#[tokio::test]
async fn strange_scores() {
    let mut world = World::new().await;
    for layout in [Layout::Timestamp, Layout::TimestampInSeconds, Layout::Fair] {
        println!("{layout:?}");
        let _: () = redis::cmd("FLUSHALL")
            .query_async(&mut world.redis)
            .await
            .unwrap();
        let semaphore = layout.make(&world.client, "s", Shape::new(3));
        // NaN is what Redis itself refuses.
        let nan: redis::RedisResult<()> = redis::cmd("ZADD")
            .arg(&["s", "nan", "nan"])
            .query_async(&mut world.redis)
            .await;
        assert!(nan.is_err());
        for (id, score) in [
            ("low", "-inf"),
            ("minus", "-5"),
            ("zero", "0"),
            ("for-ever", "inf"),
        ] {
            for key in ["s", "s:owner"] {
                let score = if key == "s" { score } else { "1" };
                let _: () = redis::cmd("ZADD")
                    .arg(&[key, score, id])
                    .query_async(&mut world.redis)
                    .await
                    .unwrap();
            }
        }
        let holders = semaphore.holders().await.unwrap();
        let ids: Vec<_> = holders
            .iter()
            .map(|one| (one.id(), one.remaining()))
            .collect();
        assert_eq!(ids, [("for-ever", None)], "the others have expired");
        let _ = semaphore
            .try_acquire()
            .await
            .unwrap()
            .expect("one of three");
        let _ = semaphore
            .try_acquire()
            .await
            .unwrap()
            .expect("one of three");
        assert_eq!(semaphore.try_acquire().await.unwrap(), None);
        assert!(semaphore.refresh("for-ever").await.unwrap());
        let left: f64 = world.redis.zscore("s", "for-ever").await.unwrap();
        assert_eq!(left, f64::INFINITY, "a refresh has set it back");
        assert!(semaphore.release("for-ever").await.unwrap());
        assert!(semaphore.try_acquire().await.unwrap().is_some());
    }
}

/// A peer whose clock is ahead keeps what it has for longer.
#[tokio::test]
async fn times_of_tomorrow_are_honoured() {
    let mut world = World::new().await;
    let semaphore = Layout::Timestamp.make(&world.client, "ahead", Shape::new(1));
    let (seconds, _): (u64, u64) = redis::cmd("TIME")
        .query_async(&mut world.redis)
        .await
        .unwrap();
    let tomorrow = (seconds + 86_400) * 1000;
    let _: () = world.redis.zadd("ahead", "peer", tomorrow).await.unwrap();
    assert_eq!(semaphore.try_acquire().await.unwrap(), None);
    let left = semaphore.holders().await.unwrap()[0].remaining().unwrap();
    assert!(left > Duration::from_secs(86_000), "{left:?}");
}

/// More owners than times, as another program's first step leaves them.
#[tokio::test]
async fn owners_without_a_time_are_nobody() {
    let mut world = World::new().await;
    for strays in [1_usize, 3, 700] {
        let name = format!("strays-{strays}");
        let owner = format!("{name}:owner");
        let semaphore = Layout::Fair.make(&world.client, &name, Shape::new(2));
        let one = semaphore.try_acquire().await.unwrap().expect("free");
        for number in 0..strays {
            let stray = format!("stray-{number}");
            let _: () = world
                .redis
                .zadd(&owner, stray, number as f64)
                .await
                .unwrap();
        }
        let two = semaphore.acquire().await.unwrap();
        let left: Vec<String> = world.redis.zrange(&owner, 0, -1).await.unwrap();
        assert_eq!(left, [one.id(), two.id()]);
    }
}

/// So many that they are not removed at once; a try that is made meanwhile is not refused for it.
#[tokio::test]
async fn thousands_expire_at_the_same_time() {
    let mut world = World::new().await;
    for layout in [Layout::Timestamp, Layout::Fair] {
        let name = format!("thousands-{layout:?}");
        let semaphore = layout.make(&world.client, &name, Shape::new(1));
        let mut pipe = redis::pipe();
        for number in 0..3000 {
            let id = format!("old-{number}");
            pipe.zadd(&name, &id, number).ignore();
            pipe.zadd(format!("{name}:owner"), &id, number).ignore();
        }
        let () = pipe.query_async(&mut world.redis).await.unwrap();
        assert!(semaphore.try_acquire().await.unwrap().is_some());
        assert_eq!(world.redis.zcard::<_, u64>(&name).await.unwrap(), 1);
    }
}

#[tokio::test]
async fn a_lowered_limit_waits_until_enough_have_gone() {
    let world = World::new().await;
    for layout in crate::layouts::ALL {
        let name = format!("lowered-{layout:?}");
        let check = Duration::from_millis(10);
        let high = layout.make(&world.client, &name, Shape::new(4).check(check));
        let low = layout.make(&world.client, &name, Shape::new(1).check(check));
        let mut ids = Vec::new();
        for _ in 0..4 {
            ids.push(
                high.try_acquire()
                    .await
                    .unwrap()
                    .expect("free")
                    .id()
                    .to_owned(),
            );
        }
        assert_eq!(low.try_acquire().await.unwrap(), None);
        let waiter = low.clone();
        let waiter = tokio::spawn(async move { waiter.acquire().await });
        // The last one is that of the lowest slot.
        for id in ids.iter().rev() {
            assert!(!waiter.is_finished(), "{layout:?}");
            assert!(high.release(id).await.unwrap());
        }
        let got = tokio::time::timeout(LIMIT, waiter).await;
        let _ = got.expect("it still waits").unwrap().unwrap();
    }
}

#[tokio::test]
async fn keys_that_a_cluster_would_spread() {
    let server = RedisServer::options()
        .setting("cluster-enabled", "yes")
        .start()
        .await;
    let mut redis = server.connection().await;
    let _: () = redis::cmd("CLUSTER")
        .arg(&["ADDSLOTSRANGE", "0", "16383"])
        .query_async(&mut redis)
        .await
        .unwrap();
    let ready = async || {
        let info: String = redis::cmd("CLUSTER")
            .arg("INFO")
            .query_async(&mut redis.clone())
            .await
            .unwrap();
        info.contains("cluster_state:ok")
    };
    until("the cluster is up", LIMIT, ready).await;
    let client = Client::connect(server.url()).await.unwrap();
    for layout in crate::layouts::ALL {
        let good = layout.make(&client, &format!("{{{layout:?}}}"), Shape::new(2));
        let permit = good.permit().await.unwrap();
        assert!(permit.release().await.unwrap(), "{layout:?}");
        let bad = layout.make(&client, &format!("bad-{layout:?}"), Shape::new(2));
        if matches!(
            layout,
            Layout::Timestamp | Layout::TimestampInSeconds | Layout::Set
        ) {
            // One key.
            assert!(bad.try_acquire().await.unwrap().is_some());
            continue;
        }
        for error in [
            bad.acquire().await.unwrap_err(),
            bad.try_acquire().await.unwrap_err(),
            bad.holders().await.unwrap_err(),
        ] {
            assert!(
                matches!(&error, Error::InvalidName { reason, .. } if reason.contains("slots")),
                "{layout:?}: {error}"
            );
        }
    }
    let lock = client.string_lock("{a}");
    lock.guard().await.unwrap().unlock().await.unwrap();
}
