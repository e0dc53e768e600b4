//! The semaphore with ids that is shared with Redisson: what it does, what it costs, and what it makes of nonsense.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant, SystemTime};

use crate::support::channel::Channel;
use crate::support::clients::{LIMIT, builder, connect, limited, scripts, stored};
use crate::support::monitor::{Command, Monitor};
use crate::support::polls::poll_once;
use crate::support::refusals::assert_clear;
use crate::support::server::RedisServer;
use crate::support::snapshot::{Snapshot, snapshot_all};
use crate::support::waiters::{channel, until, until_subscribers};
use futures::future::join_all;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{
    Client, Error, ExpireCondition, Held, Lease, LeasedSemaphore, NameMapper,
    RPermitExpirableSemaphore, RemainingTtl, Result,
};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Over before anything happens.
const SHORT: Duration = Duration::from_millis(30);
const HOUR: Duration = Duration::from_secs(3600);
/// What Redisson writes for a permit that does not end.
const ENDLESS: &str = "922337203685477";
/// In it stands the window in which a large request has blocked smaller ones.
const NOTES: &str = "redisson_sc_leased_notes:{jobs}";
/// The id of no permit.
const NOBODY: &str = "00112233445566778899aabbccddeeff";

fn permits_key(name: &str) -> String {
    format!("{{{name}}}:timeout")
}

/// A server, a client, and a semaphore of so many permits.
async fn start(permits: u32) -> (RedisServer, Client, RPermitExpirableSemaphore) {
    let server = RedisServer::start().await;
    let client = connect(server.url()).await;
    let semaphore = client.permit_expirable_semaphore("jobs");
    assert_eq!(semaphore.try_set_permits(permits).await, Ok(true));
    (server, client, semaphore)
}

/// Available, acquired, total.
async fn counts(semaphore: &RPermitExpirableSemaphore) -> [i64; 3] {
    [
        semaphore.available_permits().await.unwrap(),
        semaphore.acquired_permits().await.unwrap(),
        semaphore.total_permits().await.unwrap(),
    ]
}

fn ids(held: &[Held]) -> Vec<&str> {
    held.iter().map(Held::id).collect()
}

/// A caller in a task that waits when this returns.
async fn waiter(
    control: &mut MultiplexedConnection,
    semaphore: &RPermitExpirableSemaphore,
    permits: u32,
) -> JoinHandle<Result<Vec<Held>>> {
    let call = semaphore.clone();
    let task = tokio::spawn(async move { call.acquire_many(permits).await });
    until_subscribers(control, &channel(semaphore.name()), 1).await;
    // Answered behind the waiter's own questions.
    semaphore.available_permits().await.unwrap();
    task
}

async fn granted(task: JoinHandle<Result<Vec<Held>>>) -> Vec<Held> {
    timeout(LIMIT, task)
        .await
        .expect("it is not served")
        .unwrap()
        .unwrap()
}

/// Puts `count` permits there whose time is over, as a process that has died leaves them.
async fn leave_expired(control: &mut MultiplexedConnection, count: usize) {
    for first in (0..count).step_by(5000) {
        let mut command = redis::cmd("ZADD");
        command.arg(permits_key("jobs"));
        for number in first..count.min(first + 5000) {
            command.arg(1000 + number).arg(format!("{number:016}"));
        }
        command.exec_async(control).await.unwrap();
    }
    let _: i64 = control.decr("jobs", count).await.unwrap();
}

/// All that stands there, but for records.
async fn objects(control: &mut MultiplexedConnection) -> BTreeMap<String, Snapshot> {
    let mut all = snapshot_all(control).await;
    all.retain(|key, _| !key.starts_with("redisson_sc_leased_once:"));
    all
}

/// Until the first of those that are held has ended.
async fn until_one_is_over(control: &mut MultiplexedConnection) {
    let first: Vec<(Vec<u8>, u64)> = control
        .zrange_withscores(permits_key("jobs"), 0, 0)
        .await
        .unwrap();
    until("it is over", LIMIT, async || {
        let (seconds, micros): (u64, u64) = redis::cmd("TIME").query_async(control).await.unwrap();
        seconds * 1000 + micros / 1000 > first[0].1
    })
    .await;
}

#[tokio::test]
async fn permits_are_taken_and_given_back_by_id() {
    let (server, _client, jobs) = start(5).await;
    let mut control = server.connection().await;
    assert_eq!(jobs.try_set_permits(9).await, Ok(false));
    let one = jobs.acquire().await.unwrap();
    assert!(one.id().len() == 32 && one.remaining().is_none() && one.slot().is_none());
    assert!(
        one.id()
            .bytes()
            .all(|digit| b"0123456789abcdef".contains(&digit))
    );
    let some = jobs
        .clone()
        .with_lease(HOUR)
        .try_acquire_many(3)
        .await
        .unwrap()
        .unwrap();
    assert!(
        some.iter()
            .all(|held| held.remaining().is_some_and(|left| left <= HOUR))
    );
    assert_eq!(jobs.try_acquire_many(2).await.unwrap(), None);
    assert_eq!(jobs.try_acquire_many_for(2, SHORT).await.unwrap(), None);
    assert_eq!(counts(&jobs).await, [1, 4, 5]);
    assert_eq!(
        jobs.lease_time(one.id()).await,
        Ok(RemainingTtl::Persistent)
    );
    let left = jobs.lease_time(some[0].id()).await.unwrap();
    assert!(matches!(left, RemainingTtl::Expires(left) if left <= HOUR && left > HOUR / 2));
    assert_eq!(jobs.lease_time(NOBODY).await, Ok(RemainingTtl::Missing));
    // In Redis: bytes, and whole milliseconds.
    let stored: Vec<(Vec<u8>, String)> = control
        .zrange_withscores(permits_key("jobs"), 0, -1)
        .await
        .unwrap();
    assert!(
        stored
            .iter()
            .all(|(id, end)| id.len() == 16 && end.bytes().all(|c| c.is_ascii_digit()))
    );
    assert_eq!(stored[3].1, ENDLESS);
    // All or none.
    let mut bad = ids(&some);
    bad.push(NOBODY);
    assert_eq!(jobs.try_release_many(&bad).await, Ok(0));
    let error = jobs.release_many(&bad).await.unwrap_err();
    assert!(
        matches!(&error, Error::PermitNotHeld { id, .. } if id == NOBODY),
        "{error}"
    );
    assert_eq!(
        jobs.try_release_many(&[some[0].id(), some[0].id()]).await,
        Ok(1),
        "it is one"
    );
    assert!(matches!(
        jobs.release_many(&ids(&some)).await,
        Err(Error::PermitNotHeld { .. })
    ));
    jobs.release_many(&ids(&some[1..])).await.unwrap();
    jobs.release(&one.id().to_uppercase()).await.unwrap();
    let error = jobs.release(one.id()).await.unwrap_err();
    assert!(
        matches!(&error, Error::PermitNotHeld { id, .. } if id == one.id()),
        "{error}"
    );
    assert_clear(&error, "jobs");
    assert_eq!(counts(&jobs).await, [5, 0, 5]);
    // Nothing is nothing.
    assert_eq!(jobs.acquire_many(0).await.unwrap(), []);
    assert_eq!(jobs.try_acquire_many(0).await.unwrap(), Some(Vec::new()));
    assert_eq!(jobs.try_release_many(&[""; 0]).await, Ok(0));
    jobs.release_many(&[""; 0]).await.unwrap();
}

/// Nobody has learned that none of them were, or is there who could give back the others.
#[tokio::test]
async fn several_of_which_one_is_not_held_are_given_back_without_it_where_their_caller_has_gone() {
    let (_server, _client, jobs) = start(3).await;
    for answered in [false, true] {
        let held = jobs.acquire_many(3).await.unwrap();
        let mut some = ids(&held);
        some.push(NOBODY);
        let mut release = Box::pin(jobs.release_many(&some));
        assert!(poll_once(&mut release.as_mut()).await.is_pending());
        if answered {
            assert_eq!(jobs.available_permits().await, Ok(0), "behind the answer");
        }
        drop(release);
        until("the others are back", LIMIT, async || {
            jobs.available_permits().await == Ok(3)
        })
        .await;
    }
}

/// As Redisson's own tests have it.
#[tokio::test]
async fn numbers_of_permits() {
    let (_server, _client, jobs) = start(10).await;
    jobs.set_permits(15).await.unwrap();
    jobs.set_permits(15).await.unwrap();
    jobs.set_permits(5).await.unwrap();
    jobs.clone().with_lease(HOUR).acquire_many(3).await.unwrap();
    assert_eq!(counts(&jobs).await, [2, 3, 5]);
    jobs.set_permits(3).await.unwrap();
    assert_eq!(counts(&jobs).await, [0, 3, 3]);
    jobs.set_permits(2).await.unwrap();
    assert_eq!(counts(&jobs).await, [-1, 3, 2]);
    jobs.add_permits(5).await.unwrap();
    assert_eq!(jobs.available_permits().await, Ok(4));
    jobs.add_permits(-9).await.unwrap();
    assert_eq!(jobs.available_permits().await, Ok(-5));
    assert_eq!(jobs.release_all().await, Ok(3));
    assert_eq!(counts(&jobs).await, [-2, 0, -2]);
    // The bounds.
    jobs.set_permits(i32::MAX as u32).await.unwrap();
    let error = jobs.add_permits(1).await.unwrap_err();
    let told = matches!(error, Error::OutOfRange { available, delta: 1, .. } if available == i64::from(i32::MAX));
    assert!(told, "{error}");
    for result in [
        jobs.set_permits(1 << 31).await,
        jobs.try_set_permits(u32::MAX).await.map(drop),
    ] {
        assert!(
            matches!(result, Err(Error::InvalidPermits { .. })),
            "{result:?}"
        );
    }
}

#[tokio::test]
async fn leases_are_changed_and_end() {
    let (_server, _client, jobs) = start(3).await;
    let brief = jobs.clone().with_lease(Duration::from_secs(2));
    let endless = jobs.acquire().await.unwrap();
    let some = brief.acquire_many(2).await.unwrap();
    assert_eq!(jobs.update_lease_time(NOBODY, Some(HOUR)).await, Ok(false));
    assert_eq!(
        jobs.update_lease_time(some[0].id(), Some(HOUR)).await,
        Ok(true)
    );
    // The other one ends; who waits for it is told by nobody.
    let next = timeout(LIMIT, jobs.acquire())
        .await
        .expect("it is woken")
        .unwrap();
    assert_eq!(some[1].remaining(), Some(Duration::ZERO), "too early");
    for id in [some[1].id(), NOBODY] {
        assert_eq!(jobs.update_lease_time(id, Some(HOUR)).await, Ok(false));
        assert_eq!(jobs.try_release(id).await, Ok(false));
        assert_eq!(jobs.try_release_many(&[some[0].id(), id]).await, Ok(0));
    }
    assert_eq!(jobs.update_lease_time(some[0].id(), None).await, Ok(true));
    assert_eq!(
        jobs.lease_time(some[0].id()).await,
        Ok(RemainingTtl::Persistent)
    );
    assert_eq!(
        jobs.update_lease_time(endless.id(), Some(Duration::from_millis(1)))
            .await,
        Ok(true)
    );
    until("it ends", LIMIT, async || {
        jobs.acquired_permits().await == Ok(2)
    })
    .await;
    jobs.release_many(&[some[0].id(), next.id()]).await.unwrap();
    assert_eq!(counts(&jobs).await, [3, 0, 3]);
}

#[tokio::test]
async fn those_who_hold_are_listed_page_by_page() {
    let (server, _client, jobs) = start(2000).await;
    let mut control = server.connection().await;
    let mut all = HashSet::new();
    for handle in [jobs.clone(), jobs.clone().with_lease(HOUR)] {
        for _ in 0..3 {
            let held = handle.acquire_many(201).await.unwrap();
            all.extend(held.iter().map(|held| held.id().to_owned()));
        }
    }
    let listed = jobs.holders().await.unwrap();
    assert_eq!(listed.len(), 1206);
    let seen: HashSet<_> = listed.iter().map(|holder| holder.id().to_owned()).collect();
    assert_eq!(seen, all);
    let endless = listed.iter().filter(|holder| holder.remaining().is_none());
    assert_eq!(endless.count(), 603);
    assert!(listed.iter().all(|holder| holder.remaining() <= Some(HOUR)));
    // Taken away from all of them, not in one go.
    let before = scripts(&mut control).await;
    assert_eq!(jobs.release_all().await, Ok(1206));
    assert_eq!(scripts(&mut control).await - before, 2);
    assert_eq!(jobs.available_permits().await, Ok(2000));
    assert_eq!(jobs.holders().await.unwrap(), []);
}

#[tokio::test]
async fn both_keys_are_one_object() {
    let server = RedisServer::start().await;
    let client = builder(server.url())
        .name_mapper(NameMapper::prefix("app:"))
        .connect()
        .await
        .unwrap();
    let mut control = server.connection().await;
    let jobs = client.permit_expirable_semaphore("jobs").with_lease(HOUR);
    assert!(!jobs.exists().await.unwrap() && !jobs.object().touch().await.unwrap());
    assert!(!jobs.expire(HOUR).await.unwrap() && !jobs.clear_expire().await.unwrap());
    assert!(matches!(
        jobs.object().rename("new").await,
        Err(Error::NoSuchObject { .. })
    ));
    jobs.try_set_permits(3).await.unwrap();
    let held = jobs.acquire().await.unwrap();
    assert!(jobs.exists().await.unwrap() && jobs.object().touch().await.unwrap());
    let size = jobs.object().size_in_memory().await.unwrap();
    let counter: u64 = redis::cmd("MEMORY")
        .arg(&["USAGE", "app:jobs"])
        .query_async(&mut control)
        .await
        .unwrap();
    assert!(size > counter);
    let lives = async |control: &mut MultiplexedConnection, name: &str| -> [i64; 2] {
        let key = permits_key(&format!("app:{name}"));
        [
            control.pttl(format!("app:{name}")).await.unwrap(),
            control.pttl(key).await.unwrap(),
        ]
    };
    assert!(!jobs.expire_if(HOUR, ExpireCondition::Set).await.unwrap());
    assert_eq!(lives(&mut control, "jobs").await, [-1, -1]);
    assert!(jobs.expire_if(HOUR, ExpireCondition::NotSet).await.unwrap());
    assert!(
        !jobs
            .expire_if(2 * HOUR, ExpireCondition::Less)
            .await
            .unwrap()
    );
    assert!(
        jobs.expire_at_if(SystemTime::now() + 2 * HOUR, ExpireCondition::Greater)
            .await
            .unwrap()
    );
    for life in lives(&mut control, "jobs").await {
        assert!(life > 7_000_000, "{life}");
    }
    // The permits take the counter's time to live over, at each acquisition.
    let _: bool = control.persist(permits_key("app:jobs")).await.unwrap();
    let _ = jobs.acquire().await.unwrap();
    assert!(lives(&mut control, "jobs").await[1] > 7_000_000);
    assert!(matches!(
        jobs.remaining_ttl().await,
        Ok(RemainingTtl::Expires(_))
    ));
    assert!(jobs.clear_expire().await.unwrap() && !jobs.clear_expire().await.unwrap());
    assert_eq!(lives(&mut control, "jobs").await, [-1, -1]);
    assert!(matches!(
        jobs.expire(Duration::ZERO).await,
        Err(Error::InvalidDuration { .. })
    ));
    // Who waits under the new name is told.
    let new = client.permit_expirable_semaphore("new");
    let call = new.clone();
    let waits = tokio::spawn(async move { call.acquire_many(1).await });
    until_subscribers(&mut control, &channel("app:new"), 1).await;
    new.available_permits().await.unwrap();
    let renamed = jobs.object().rename("new").await.unwrap();
    granted(waits).await;
    assert_eq!(renamed.lease(), Some(HOUR));
    assert_eq!(counts(&renamed).await, [0, 3, 3]);
    assert_eq!(counts(&jobs).await, [0, 0, 0]);
    assert_eq!(jobs.try_release(held.id()).await, Ok(false));
    assert_eq!(renamed.try_release(held.id()).await, Ok(true));
    jobs.try_set_permits(1).await.unwrap();
    assert!(renamed.object().rename_nx("jobs").await.unwrap().is_none());
    jobs.object().unlink().await.unwrap();
    let back = renamed
        .object()
        .rename_nx("jobs")
        .await
        .unwrap()
        .expect("it is free");
    assert_eq!(counts(&back).await, [1, 2, 3]);
    // Over another one, of which nothing is left.
    new.try_set_permits(1).await.unwrap();
    let _ = new.acquire().await.unwrap();
    assert_eq!(back.release_all().await, Ok(2));
    assert_eq!(
        counts(&back.object().rename("new").await.unwrap()).await,
        [3, 0, 3]
    );
    assert!(new.delete().await.unwrap() && !new.delete().await.unwrap());
    let left: Vec<_> = snapshot_all(&mut control).await.into_keys().collect();
    assert!(
        left.iter()
            .all(|key| key.starts_with("redisson_sc_leased_once:")
                || key.starts_with("redisson_sc_leased_notes:")),
        "{left:?}"
    );
}

#[tokio::test]
async fn nonsense_is_told_and_changes_nothing() {
    let (server, client, jobs) = start(2).await;
    let mut control = server.connection().await;
    let held = jobs.acquire().await.unwrap();
    let before = objects(&mut control).await;
    for id in [
        "",
        "nobody",
        "123",
        "12 4",
        "zz",
        "+1",
        "ä€",
        &"0".repeat(99_999),
    ] {
        for error in [
            jobs.release(id).await.unwrap_err(),
            jobs.try_release(id).await.unwrap_err(),
            jobs.try_release_many(&[held.id(), id]).await.unwrap_err(),
            jobs.update_lease_time(id, None).await.unwrap_err(),
            jobs.lease_time(id).await.unwrap_err(),
        ] {
            assert!(matches!(error, Error::InvalidPermitId { .. }), "{error}");
            assert_clear(&error, "jobs");
        }
    }
    // Other programs' ids may have any length.
    assert_eq!(jobs.try_release("1234").await, Ok(false));
    for lease in [Duration::ZERO, Duration::from_micros(999), Duration::MAX] {
        let brief = jobs.clone().with_lease(lease);
        for error in [
            brief.acquire().await.unwrap_err(),
            brief.try_acquire_many(0).await.unwrap_err(),
            brief.permit().await.unwrap_err(),
            jobs.update_lease_time(held.id(), Some(lease))
                .await
                .unwrap_err(),
        ] {
            assert!(
                matches!(error, Error::InvalidDuration { value, .. } if value == lease),
                "{error}"
            );
        }
    }
    let many = vec![held.id(); 1025];
    for error in [
        jobs.acquire_many(1025).await.unwrap_err(),
        jobs.try_acquire_many(u32::MAX).await.unwrap_err(),
        jobs.try_release_many(&many).await.unwrap_err(),
    ] {
        assert!(
            matches!(error, Error::TooManyAtOnce { most: 1024, .. }),
            "{error}"
        );
        assert_clear(&error, "jobs");
    }
    assert_eq!(
        jobs.try_acquire_many(3).await.unwrap(),
        None,
        "more than there are"
    );
    for name in ["", &"x".repeat(70_000)] {
        let odd = client.permit_expirable_semaphore(name);
        for error in [
            odd.acquire().await.unwrap_err(),
            odd.release(NOBODY).await.unwrap_err(),
            odd.available_permits().await.unwrap_err(),
            odd.set_permits(1).await.unwrap_err(),
            odd.holders().await.unwrap_err(),
            odd.delete().await.unwrap_err(),
            odd.expire(HOUR).await.unwrap_err(),
        ] {
            assert!(matches!(error, Error::InvalidName { .. }), "{error}");
        }
    }
    assert_eq!(objects(&mut control).await, before);
    // A lease that is too long to be written as a time is no lease.
    let endless = jobs
        .clone()
        .with_lease(Duration::from_millis(1 << 53))
        .acquire()
        .await
        .unwrap();
    assert_eq!(
        jobs.lease_time(endless.id()).await,
        Ok(RemainingTtl::Persistent)
    );
}

/// One of the keys was deleted by hand, or has expired: nothing that is held is lost, and nothing is given out twice.
#[tokio::test]
async fn keys_that_are_out_of_step() {
    let (server, client, jobs) = start(5).await;
    let mut control = server.connection().await;
    let held = jobs.clone().with_lease(HOUR).acquire_many(3).await.unwrap();
    let _: () = control.del("jobs").await.unwrap();
    assert_eq!(counts(&jobs).await, [0, 3, 0]);
    assert_eq!(jobs.try_acquire().await.unwrap(), None);
    let brief = permits_key("jobs");
    let _: () = control.zadd(&brief, "ended", 1000).await.unwrap();
    // What has ended meanwhile is no reason to say that it exists.
    assert_eq!(jobs.try_set_permits(5).await, Ok(true));
    assert_eq!(counts(&jobs).await, [2, 3, 5]);
    jobs.release(held[0].id()).await.unwrap();
    let _: () = control.del("jobs").await.unwrap();
    jobs.set_permits(5).await.unwrap();
    assert_eq!(counts(&jobs).await, [3, 2, 5]);
    let _: () = control.del("jobs").await.unwrap();
    jobs.release(held[1].id()).await.unwrap();
    assert_eq!(counts(&jobs).await, [1, 1, 2]);
    // The permits are gone: their holder is told, and the number can be put right.
    jobs.set_permits(5).await.unwrap();
    let guard = client
        .permit_expirable_semaphore("jobs")
        .with_lease(Duration::from_millis(600))
        .permit()
        .await
        .unwrap();
    let _: () = control.del(&brief).await.unwrap();
    timeout(LIMIT, guard.lost())
        .await
        .expect("the guard is told");
    assert_eq!(jobs.try_release(held[2].id()).await, Ok(false));
    assert_eq!(counts(&jobs).await, [3, 0, 3]);
    jobs.set_permits(5).await.unwrap();
    assert_eq!(counts(&jobs).await, [5, 0, 5]);
    assert!(!guard.release().await.unwrap());
    assert_eq!(counts(&jobs).await, [5, 0, 5]);
}

/// Messages: how many are available, then a zero for each further one; and nothing where none is.
#[tokio::test]
async fn what_is_published() {
    let server = RedisServer::start().await;
    let client = connect(server.url()).await;
    let mut control = server.connection().await;
    let mut record = Channel::subscribe(&server, &channel("jobs")).await;
    let jobs = client.permit_expirable_semaphore("jobs");
    let told = async |record: &mut Channel| -> String {
        let messages = record.until_marker().await;
        let payloads: Vec<_> = messages
            .into_iter()
            .map(|message| message.payload)
            .collect();
        payloads.join(",")
    };
    jobs.try_set_permits(3).await.unwrap();
    assert_eq!(told(&mut record).await, "3,0,0");
    let held = jobs.acquire_many(3).await.unwrap();
    jobs.release(held[0].id()).await.unwrap();
    jobs.release(held[0].id()).await.unwrap_err();
    assert_eq!(told(&mut record).await, "1");
    jobs.release_many(&ids(&held[1..])).await.unwrap();
    assert_eq!(told(&mut record).await, "3,0");
    jobs.add_permits(-4).await.unwrap();
    jobs.add_permits(1).await.unwrap();
    assert_eq!(told(&mut record).await, "", "none is available");
    jobs.set_permits(200).await.unwrap();
    assert_eq!(told(&mut record).await, format!("200{}", ",0".repeat(63)));
    jobs.set_permits(2).await.unwrap();
    leave_expired(&mut control, 2).await;
    assert_eq!(jobs.available_permits().await, Ok(2));
    assert_eq!(told(&mut record).await, "2,0");
}

/// What the server does for a caller who is alone, behind the first call of its script.
#[tokio::test]
async fn what_a_caller_alone_costs() {
    let (server, _client, jobs) = start(2).await;
    let leased = jobs.clone().with_lease(HOUR);
    let mut monitor = Monitor::start(&server).await;
    let mut commands = async || {
        let commands = monitor.until_marker().await;
        let of_scripts = commands.into_iter().filter(Command::is_lua);
        of_scripts
            .map(|command| command.name)
            .collect::<Vec<_>>()
            .join(" ")
    };
    for jobs in [&jobs, &leased] {
        let held = jobs.acquire().await.unwrap();
        assert_eq!(commands().await, "EXISTS GET PTTL TIME SET INCRBY ZADD");
        jobs.release(held.id()).await.unwrap();
        let given = "EXISTS GET ZSCORE TIME PUBLISH SET INCRBY ZREM";
        assert_eq!(commands().await, given);
    }
    // One that has ended stays where it is as long as nobody needs it.
    let mut control = server.connection().await;
    let ends = jobs.clone().with_lease(Duration::from_millis(1));
    let over = ends.acquire().await.unwrap();
    until_one_is_over(&mut control).await;
    let held = jobs.acquire().await.unwrap();
    assert_eq!(control.zcard(permits_key("jobs")).await, Ok(2));
    let other = jobs.try_acquire().await.unwrap().expect("it is over");
    assert_eq!(control.zcard(permits_key("jobs")).await, Ok(2));
    assert_eq!(jobs.try_release(over.id()).await, Ok(false));
    jobs.release(held.id()).await.unwrap();
    jobs.release(other.id()).await.unwrap();
    assert_eq!(counts(&jobs).await, [2, 0, 2]);
    // One that is over is given back, though its holder is told that it was not held any more.
    let over = ends.acquire().await.unwrap();
    until_one_is_over(&mut control).await;
    assert_eq!(jobs.try_release(over.id()).await, Ok(false));
    assert_eq!(stored(&server, "jobs").await, ["2"]);
    assert_eq!(control.exists(permits_key("jobs")).await, Ok(false));
}

/// Three hundred callers of one client: they ask together, and one release costs one script.
#[tokio::test]
async fn a_crowd_of_one_client_asks_together() {
    let (server, client, jobs) = start(300).await;
    let mut control = server.connection().await;
    let before = scripts(&mut control).await;
    let all: Vec<_> = (0..300)
        .map(|_| {
            let jobs = jobs.clone();
            tokio::spawn(async move { jobs.acquire_many(1).await })
        })
        .collect();
    let mut held = Vec::new();
    for one in all {
        held.extend(granted(one).await);
    }
    let taken = scripts(&mut control).await - before;
    assert!(taken <= 30, "{taken} scripts for 300 permits");
    let calls: Vec<_> = (0..300)
        .map(|_| {
            let jobs = jobs.clone();
            tokio::spawn(async move { jobs.acquire_many(1).await })
        })
        .collect();
    until_subscribers(&mut control, &channel("jobs"), 1).await;
    until("all of them wait", LIMIT, async || {
        client.stats().waiting == 300
    })
    .await;
    jobs.available_permits().await.unwrap();
    // One at a time: nobody but the first asks.
    let before = scripts(&mut control).await;
    let elsewhere = connect(server.url())
        .await
        .permit_expirable_semaphore("jobs");
    for (number, one) in held.iter().take(20).enumerate() {
        elsewhere.release(one.id()).await.unwrap();
        until("one is served", LIMIT, async || {
            client.stats().waiting == 299 - number as u64
        })
        .await;
    }
    let each = scripts(&mut control).await - before;
    assert!(each <= 20 * 3, "{each} scripts for 20 releases");
    // All the others at once.
    let before = scripts(&mut control).await;
    elsewhere.release_many(&ids(&held[20..])).await.unwrap();
    for call in calls {
        granted(call).await;
    }
    let rest = scripts(&mut control).await - before;
    assert!(rest <= 8, "{rest} scripts for 280 permits");
}

/// Smaller requests may pass a larger one for a while; then it is served. One that is larger than all stops nobody.
#[tokio::test]
async fn a_large_request_is_passed_for_a_while() {
    let (server, _client, jobs) = start(3).await;
    let mut control = server.connection().await;
    let began = Instant::now();
    let hopeless = waiter(&mut control, &jobs, 4).await;
    let mut held = jobs.acquire_many(3).await.unwrap();
    let large = waiter(&mut control, &jobs, 3).await;
    // A small one is always there; the permits come back one by one.
    while !large.is_finished() {
        let small = waiter(&mut control, &jobs, 1).await;
        let one = held.remove(0);
        jobs.release(one.id()).await.unwrap();
        until("it is served, or blocked", LIMIT, async || {
            let blocked: Option<String> = control.hget(NOTES, "block").await.unwrap();
            let blocked = blocked.is_some_and(|window| !window.is_empty());
            small.is_finished() || large.is_finished() || blocked
        })
        .await;
        if small.is_finished() {
            held.extend(granted(small).await);
        } else {
            small.abort();
            // The queue is blocked: nobody takes what the large one waits for.
            assert!(
                began.elapsed() >= Duration::from_millis(250),
                "it blocks at once"
            );
        }
        assert!(began.elapsed() < LIMIT, "the large one is passed for ever");
        if held.is_empty() {
            break;
        }
    }
    granted(large).await;
    assert!(!hopeless.is_finished());
    hopeless.abort();
}

/// The permits that a dead process has left come back a thousand at a time.
#[tokio::test]
async fn a_hundred_thousand_that_have_ended_come_back_in_bits() {
    const COUNT: usize = 100_000;
    let server = RedisServer::start().await;
    // Nothing is sent twice where the machine is slow.
    let client = builder(server.url()).response_timeout(LIMIT);
    let client = client.connect().await.unwrap();
    let jobs = client.permit_expirable_semaphore("jobs");
    let permits = u32::try_from(COUNT).unwrap();
    assert_eq!(jobs.try_set_permits(permits).await, Ok(true));
    let mut control = server.connection().await;
    // An announcement may come meanwhile, and take some out.
    let before = scripts(&mut control).await;
    leave_expired(&mut control, COUNT).await;
    // The numbers are right at once.
    assert_eq!(counts(&jobs).await, [COUNT as i64, 0, COUNT as i64]);
    let left: usize = control.zcard(permits_key("jobs")).await.unwrap();
    let sent = (scripts(&mut control).await - before) as usize;
    assert!(
        left >= COUNT - sent * 1024,
        "{left} are left after {sent} scripts: too many at once"
    );
    // So many at a time are there at once, however few have been taken out.
    assert_eq!(
        jobs.try_acquire_many(1024)
            .await
            .unwrap()
            .map(|held| held.len()),
        Some(1024)
    );
    let before = scripts(&mut control).await;
    until("all are taken out", LIMIT, async || {
        jobs.available_permits().await.unwrap();
        control.zcard(permits_key("jobs")).await == Ok(1024)
    })
    .await;
    let needed = scripts(&mut control).await - before;
    assert!((90..=100).contains(&needed), "{needed} scripts");
    assert_eq!(stored(&server, "jobs").await, [(COUNT - 1024).to_string()]);
}

/// Ten thousand guards: one script renews 250, so a hundred thousand cost 400 a period.
#[tokio::test]
async fn guards_are_renewed_together() {
    const LEASE: Duration = Duration::from_secs(6);
    let server = RedisServer::start().await;
    // Nothing is sent twice where the machine is slow.
    let client = builder(server.url())
        .lock_watchdog_timeout(LEASE)
        .response_timeout(LIMIT)
        .connect()
        .await
        .unwrap();
    let mut control = server.connection().await;
    let jobs = client.permit_expirable_semaphore("jobs");
    jobs.try_set_permits(10_000).await.unwrap();
    let leased = jobs.clone().with_lease(LEASE);
    let mut leases = Vec::new();
    for _ in 0..10 {
        for held in leased.acquire_many(1000).await.unwrap() {
            leases.push(leased.keep(&held));
        }
    }
    let mut monitor = Monitor::start(&server).await;
    let ends = async |control: &mut MultiplexedConnection| -> f64 {
        let first: Vec<(Vec<u8>, f64)> = control
            .zrange_withscores(permits_key("jobs"), 0, 0)
            .await
            .unwrap();
        first[0].1
    };
    let first = ends(&mut control).await;
    until("all are renewed", LIMIT, async || {
        ends(&mut control).await > first + 1000.0
    })
    .await;
    let commands = monitor.until_marker().await;
    let needed = commands.iter().filter(|one| one.is_script()).count();
    // Eight are under way at a time, and at first the server does not know the script.
    assert!((40..=48).contains(&needed), "{needed} scripts");
    assert!(leases.iter().all(|lease| !lease.is_lost()));
    // Nobody renews what nobody keeps.
    assert_eq!(jobs.release_all().await, Ok(10_000));
    let lost = join_all(leases.iter().map(Lease::lost));
    timeout(LIMIT, lost).await.expect("their renewal tells");
    assert_eq!(control.zcard(permits_key("jobs")).await, Ok(0));
}

/// A guard without a lease of its handle lasts as long as the client's locks.
#[tokio::test]
async fn a_guard_lasts_for_the_watchdogs_time() {
    let server = RedisServer::start().await;
    let client = builder(server.url())
        .lock_watchdog_timeout(Duration::from_millis(900))
        .connect()
        .await
        .unwrap();
    let other = connect(server.url())
        .await
        .permit_expirable_semaphore("jobs");
    let jobs = client.permit_expirable_semaphore("jobs");
    jobs.try_set_permits(1).await.unwrap();
    let guard = jobs.permit().await.unwrap();
    assert_eq!(client.stats().held_permits, 1);
    assert!(
        guard
            .lease()
            .remaining()
            .is_some_and(|left| left <= Duration::from_millis(900))
    );
    assert_eq!(
        other
            .try_acquire_for(Duration::from_millis(2000))
            .await
            .unwrap(),
        None
    );
    assert!(!guard.is_lost());
    // A guard whose lease somebody shortens by hand is renewed all the same.
    assert_eq!(
        other
            .update_lease_time(guard.id(), Some(Duration::from_millis(600)))
            .await,
        Ok(true)
    );
    assert_eq!(
        other
            .try_acquire_for(Duration::from_millis(1500))
            .await
            .unwrap(),
        None
    );
    assert!(!guard.is_lost());
    // Its client dies: the permit comes back by itself.
    let held = guard.forget();
    let taken = timeout(LIMIT, other.acquire())
        .await
        .expect("it ends")
        .unwrap();
    assert_eq!(jobs.try_release(held.id()).await, Ok(false));
    other.release(taken.id()).await.unwrap();
}

/// What comes back by itself when its process dies goes on doing so, whatever lasts for ever beside it.
#[tokio::test]
async fn a_refresh_does_not_make_a_guards_permit_endless() {
    let (_server, _client, semaphore) = start(2).await;
    let endless = semaphore.acquire().await.unwrap();
    let guard = semaphore.permit().await.unwrap();
    let leased: &dyn LeasedSemaphore = &semaphore;
    for id in [endless.id(), guard.id()] {
        assert_eq!(leased.refresh(id).await, Ok(true));
    }
    let left = async |id| semaphore.lease_time(id).await.unwrap();
    assert_eq!(left(endless.id()).await, RemainingTtl::Persistent);
    assert!(matches!(left(guard.id()).await, RemainingTtl::Expires(_)));
}

/// What the documentation says that a user needs is enough.
#[tokio::test]
async fn a_user_with_what_is_documented_can_do_all() {
    let (server, client) = limited(
        "resetchannels ~mine ~{mine}:timeout ~redisson_sc*:{mine}* &redisson_sc*:{mine}* +ping \
         +eval +evalsha +get +set +incrby +exists +del +publish +pubsub +subscribe +unsubscribe \
         +time +pttl +pexpire +zadd +zrem +zscore +zmscore +zcount +zcard +zrange +zrangebyscore +zscan \
         +hget +hmget +hset +hdel +hexists +hgetall",
    )
    .await;
    let mut control = server.connection().await;
    let jobs = client.permit_expirable_semaphore("mine");
    assert_eq!(jobs.try_set_permits(2).await, Ok(true));
    let _: bool = control.pexpire("mine", 1_000_000).await.unwrap();
    let held = jobs.acquire_many(2).await.unwrap();
    let waits = waiter(&mut control, &jobs, 1).await;
    jobs.release(held[0].id()).await.unwrap();
    let one = granted(waits).await.remove(0);
    assert_eq!(jobs.update_lease_time(one.id(), Some(HOUR)).await, Ok(true));
    jobs.lease_time(one.id()).await.unwrap();
    assert_eq!(jobs.holders().await.unwrap().len(), 2);
    assert_eq!(
        jobs.try_release_many(&[one.id(), held[1].id()]).await,
        Ok(2)
    );
    let guard = jobs
        .clone()
        .with_lease(Duration::from_secs(2))
        .permit()
        .await
        .unwrap();
    // It is renewed.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(!guard.is_lost() && guard.release().await.unwrap());
    jobs.set_permits(5).await.unwrap();
    jobs.add_permits(1).await.unwrap();
    assert_eq!(jobs.total_permits().await, Ok(6));
    assert_eq!(jobs.release_all().await, Ok(0));
    assert_eq!(jobs.delete().await, Ok(true));
    client.shutdown().await.unwrap();
}
