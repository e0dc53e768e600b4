//! The classic recipes with foreign data in their keys, and with wrong settings.

use std::time::Duration;

use super::{connect, start};
use crate::layouts::{Handle, Layout, Shape};
use crate::support::clients::LIMIT;
use crate::support::cluster::ask;
use crate::support::server::RedisServer;
use crate::support::waiters::until;
use redis::AsyncCommands;
use redisson_semaphore::{Error, Lock as _};

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

#[tokio::test]
async fn names_of_further_keys_that_are_empty() {
    let (_server, _, client) = start().await;
    let semaphore = || client.fair_semaphore("name", 1);
    for semaphore in [
        semaphore().under_lock(""),
        semaphore().keys("", "b"),
        semaphore().keys("a", ""),
        semaphore().tokens(""),
    ] {
        let semaphore: Handle = std::sync::Arc::new(semaphore);
        for error in errors(&semaphore).await {
            let told = matches!(&error, Error::InvalidName { name, .. } if name == "name");
            assert!(told, "{error}");
        }
    }
}

/// A peer behind the limit stands in both zsets until it has seen that: it holds nothing.
#[tokio::test]
async fn a_peer_behind_the_limit_is_no_holder() {
    let (_server, mut redis, client) = start().await;
    let semaphore = Layout::Fair.make(&client, "behind", Shape::new(1));
    let held = semaphore.acquire().await.unwrap();
    let time: f64 = redis.zscore("behind", held.id()).await.unwrap();
    let _: () = redis.zadd("behind", "peer", time).await.unwrap();
    let _: () = redis.zadd("behind:owner", "peer", 77).await.unwrap();
    let holders = semaphore.holders().await.unwrap();
    let ids: Vec<_> = holders.iter().map(|holder| holder.id()).collect();
    assert_eq!(ids, [held.id()]);
}

#[tokio::test]
async fn slots_are_few() {
    let (_server, _, client) = start().await;
    let semaphore = |limit| Layout::Slots.make(&client, "most", Shape::new(limit));
    let error = semaphore(1025).try_acquire().await.unwrap_err();
    assert!(
        matches!(error, Error::InvalidLimit { limit: 1025, .. }),
        "{error}"
    );
    let held = semaphore(1024).try_acquire().await.unwrap().expect("free");
    assert_eq!(held.slot(), Some(1));
}

#[tokio::test]
async fn counters_at_their_end_restart_when_nobody_holds() {
    let (_server, mut redis, client) = start().await;
    let semaphore = Layout::Fair.make(&client, "end", Shape::new(3));
    for last in [(1_i64 << 53) - 1, i64::MAX] {
        let _: () = redis.set("end:counter", last).await.unwrap();
        let one = semaphore.try_acquire().await.unwrap().expect("free");
        let score: f64 = redis.zscore("end:owner", one.id()).await.unwrap();
        assert_eq!(score, 1.0, "it has not restarted");

        // The counter cannot restart while a permit is held: a score would be lost.
        let _: () = redis.set("end:counter", 1_i64 << 53).await.unwrap();
        let error = semaphore.try_acquire().await.unwrap_err();
        assert!(
            error.to_string().contains("counter is at its end"),
            "{error}"
        );
        assert_eq!(semaphore.holders().await.unwrap().len(), 1);
        assert!(semaphore.release(one.id()).await.unwrap());
    }
}

/// Under a lock no caller can stand between the counter and the zsets, so the counter restarts at once.
#[tokio::test]
async fn the_counter_under_a_lock_restarts_at_once() {
    let (_server, mut redis, client) = start().await;
    let locked = Layout::FairUnderLock.make(&client, "restart", Shape::new(1));
    for _ in 0..3 {
        let one = locked.try_acquire().await.unwrap().expect("free");
        let given = redis.get("restart:counter").await;
        assert_eq!(given, Ok(1));
        locked.release(one.id()).await.unwrap();
    }
}

/// Without a lock a peer may have a value of the counter that it has not entered yet, however old. If the counter began anew, the
/// peer would stand behind newcomers, and be the first among later callers.
#[tokio::test]
async fn the_counter_without_a_lock_goes_on_for_ever() {
    let (_server, mut redis, client) = start().await;
    let plain = Layout::Fair.make(&client, "goes-on", Shape::new(1));
    let _: () = redis.set("goes-on:counter", 6).await.unwrap();
    let one = plain.try_acquire().await.unwrap().expect("free");
    let given = redis.get("goes-on:counter").await;
    assert_eq!(given, Ok(7), "the peer's value is given out again");
    plain.release(one.id()).await.unwrap();
}

/// After the counter is deleted while permits are held, newcomers do not pass the holders.
#[tokio::test]
async fn a_counter_that_was_deleted_goes_on_behind_the_highest_score() {
    let (_server, mut redis, client) = start().await;
    let semaphore = Layout::Fair.make(&client, "gone", Shape::new(3));
    for _ in 0..2 {
        let _ = semaphore.try_acquire().await.unwrap().expect("free");
    }
    let _: () = redis.del("gone:counter").await.unwrap();
    let three = semaphore.try_acquire().await.unwrap().expect("free");
    let rank: usize = redis.zrank("gone:owner", three.id()).await.unwrap();
    assert_eq!(rank, 2);
    assert_eq!(redis.get::<_, i64>("gone:counter").await.unwrap(), 3);
}

#[tokio::test]
async fn strange_scores() {
    let (_server, mut redis, client) = start().await;
    for layout in [Layout::Timestamp, Layout::TimestampInSeconds, Layout::Fair] {
        let name = format!("s-{layout:?}");
        let semaphore = layout.make(&client, &name, Shape::new(3));
        for (id, score) in [
            ("low", "-inf"),
            ("minus", "-5"),
            ("zero", "0"),
            ("for-ever", "inf"),
        ] {
            for (key, score) in [(name.clone(), score), (format!("{name}:owner"), "1")] {
                let mut add = redis::cmd("ZADD");
                add.arg(&[&*key, score, id]);
                add.exec_async(&mut redis).await.unwrap();
            }
        }
        let holders = semaphore.holders().await.unwrap();
        let ids: Vec<_> = holders
            .iter()
            .map(|one| (one.id(), one.remaining()))
            .collect();
        assert_eq!(ids, [("for-ever", None)], "the others have expired");
        for _ in 0..2 {
            let free = semaphore.try_acquire().await.unwrap();
            assert!(free.is_some(), "one of three");
        }
        assert_eq!(semaphore.try_acquire().await.unwrap(), None);
        assert!(semaphore.refresh("for-ever").await.unwrap());
        let left: f64 = redis.zscore(&name, "for-ever").await.unwrap();
        assert_eq!(left, f64::INFINITY, "a refresh has set it back");
        assert!(semaphore.release("for-ever").await.unwrap());
        assert!(semaphore.try_acquire().await.unwrap().is_some());
    }
}

/// A peer whose clock is ahead keeps what it has for longer.
#[tokio::test]
async fn times_of_tomorrow_are_honoured() {
    let (_server, mut redis, client) = start().await;
    let semaphore = Layout::Timestamp.make(&client, "ahead", Shape::new(1));
    let (seconds, _): (u64, u64) = redis::cmd("TIME").query_async(&mut redis).await.unwrap();
    let tomorrow = (seconds + 86_400) * 1000;
    let _: () = redis.zadd("ahead", "peer", tomorrow).await.unwrap();
    assert_eq!(semaphore.try_acquire().await.unwrap(), None);
    let left = semaphore.holders().await.unwrap()[0].remaining().unwrap();
    assert!(left > Duration::from_secs(86_000), "{left:?}");
}

/// More owners than times, as another program's first step leaves them.
#[tokio::test]
async fn owners_without_a_time_are_nobody() {
    let (_server, mut redis, client) = start().await;
    for strays in [1_usize, 3, 700] {
        let name = format!("strays-{strays}");
        let owner = format!("{name}:owner");
        let semaphore = Layout::Fair.make(&client, &name, Shape::new(2));
        let one = semaphore.try_acquire().await.unwrap().expect("free");
        for number in 0..strays {
            let stray = format!("stray-{number}");
            let _: () = redis.zadd(&owner, stray, number as f64).await.unwrap();
        }
        let two = semaphore.acquire().await.unwrap();
        let left: Vec<String> = redis.zrange(&owner, 0, -1).await.unwrap();
        assert_eq!(left, [one.id(), two.id()]);
    }
}

/// So many that they are not removed at once; a try that is made meanwhile is not refused for it.
#[tokio::test]
async fn thousands_expire_at_the_same_time() {
    let (_server, mut redis, client) = start().await;
    for layout in [Layout::Timestamp, Layout::Fair] {
        let name = format!("thousands-{layout:?}");
        let semaphore = layout.make(&client, &name, Shape::new(1));
        let mut pipe = redis::pipe();
        for number in 0..3000 {
            let id = format!("old-{number}");
            pipe.zadd(&name, &id, number).ignore();
            pipe.zadd(format!("{name}:owner"), &id, number).ignore();
        }
        let () = pipe.query_async(&mut redis).await.unwrap();
        assert!(semaphore.try_acquire().await.unwrap().is_some());
        assert_eq!(redis.zcard::<_, u64>(&name).await.unwrap(), 1);
    }
}

#[tokio::test]
async fn keys_that_a_cluster_would_spread() {
    let cluster = RedisServer::options().setting("cluster-enabled", "yes");
    let server = cluster.start().await;
    let _: String = ask(&server, &["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).await;
    until("the cluster is up", LIMIT, async || {
        let info: String = ask(&server, &["CLUSTER", "INFO"]).await;
        info.contains("cluster_state:ok")
    })
    .await;
    let client = connect(&server).await;
    for layout in crate::layouts::ALL {
        let good = layout.make(&client, &format!("{{{layout:?}}}"), Shape::new(2));
        let permit = good.permit().await.unwrap();
        assert!(permit.release().await.unwrap(), "{layout:?}");
        let bad = layout.make(&client, &format!("bad-{layout:?}"), Shape::new(2));
        use Layout::{Set, Timestamp, TimestampInSeconds};
        if matches!(layout, Timestamp | TimestampInSeconds | Set) {
            // One key.
            assert!(bad.try_acquire().await.unwrap().is_some());
            continue;
        }
        for error in [
            bad.acquire().await.unwrap_err(),
            bad.try_acquire().await.unwrap_err(),
            bad.holders().await.unwrap_err(),
        ] {
            let Error::InvalidName { reason, .. } = &error else {
                panic!("{layout:?}: {error}");
            };
            assert!(reason.contains("slots"), "{layout:?}: {error}");
        }
    }
    let lock = client.string_lock("{a}");
    lock.guard().await.unwrap().unlock().await.unwrap();
}
