//! The semaphore with ids that is shared with Redisson: what it does, what it costs, and what it makes of nonsense.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, SystemTime};

use crate::support::clients::{LIMIT, builder, scripts, stored};
use crate::support::monitor::Monitor;
use crate::support::polls::poll_once;
use crate::support::refusals::assert_clear;
use crate::support::server::RedisServer;
use crate::support::snapshot::{Snapshot, snapshot_all};
use crate::support::waiters::{channel, until, until_subscribers};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{
    Client, Error, ExpireCondition, Held, LeasedSemaphore, NameMapper, RPermitExpirableSemaphore,
    RemainingTtl, Result,
};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Over before anything happens.
const SHORT: Duration = Duration::from_millis(30);
const HOUR: Duration = Duration::from_secs(3600);
/// The id of no permit.
const NOBODY: &str = "00112233445566778899aabbccddeeff";

fn permits_key(name: &str) -> String {
    format!("{{{name}}}:timeout")
}

/// A server, a client that sends nothing twice where the machine is slow, and a semaphore of so many permits.
async fn start(permits: u32) -> (RedisServer, Client, RPermitExpirableSemaphore) {
    let server = RedisServer::start().await;
    let client = builder(server.url()).response_timeout(LIMIT);
    let client = client.connect().await.unwrap();
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

/// All keys but for records.
async fn objects(control: &mut MultiplexedConnection) -> BTreeMap<String, Snapshot> {
    let mut all = snapshot_all(control).await;
    all.retain(|key, _| !key.starts_with("redisson_sc_leased_once:"));
    all
}

/// The rest of what each call answers is in `tests/contracts` and, beside Redisson, in `tests/interop/permits.rs`.
#[tokio::test]
async fn permits_are_taken_and_given_back_by_id() {
    let (_server, _client, jobs) = start(5).await;
    let one = jobs.acquire().await.unwrap();
    let hexadecimal = |digit: u8| b"0123456789abcdef".contains(&digit);
    assert!(one.id().len() == 32 && one.id().bytes().all(hexadecimal));
    assert!(one.remaining().is_none() && one.slot().is_none());
    let some = jobs.clone().with_lease(HOUR).acquire_many(3).await.unwrap();
    let ends = |held: &Held| held.remaining().is_some_and(|left| left <= HOUR);
    assert!(some.iter().all(ends));
    assert_eq!(jobs.try_acquire_many(2).await.unwrap(), None);
    assert_eq!(jobs.try_acquire_many_for(2, SHORT).await.unwrap(), None);
    // All or none.
    let not_held = |told: Result<()>, of: &str| {
        let error = told.unwrap_err();
        assert_clear(&error, "jobs");
        assert!(
            matches!(&error, Error::PermitNotHeld { id, .. } if id == of),
            "{error}"
        );
    };
    let mut bad = ids(&some);
    bad.push(NOBODY);
    assert_eq!(jobs.try_release_many(&bad).await, Ok(0));
    not_held(jobs.release_many(&bad).await, NOBODY);
    let twice = [some[0].id(); 2];
    assert_eq!(jobs.try_release_many(&twice).await, Ok(1), "it is one");
    not_held(jobs.release_many(&ids(&some)).await, some[0].id());
    jobs.release_many(&ids(&some[1..])).await.unwrap();
    jobs.release(&one.id().to_uppercase()).await.unwrap();
    not_held(jobs.release(one.id()).await, one.id());
    assert_eq!(counts(&jobs).await, [5, 0, 5]);
    // Nothing is nothing.
    assert_eq!(jobs.acquire_many(0).await.unwrap(), []);
    assert_eq!(jobs.try_acquire_many(0).await.unwrap(), Some(Vec::new()));
    assert_eq!(jobs.try_release_many(&[""; 0]).await, Ok(0));
    jobs.release_many(&[""; 0]).await.unwrap();
}

/// The caller has gone before it learned of the refusal: the permits that are held are released without the other one.
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

#[tokio::test]
async fn numbers_of_permits_have_bounds() {
    let (_server, _client, jobs) = start(5).await;
    jobs.clone().with_lease(HOUR).acquire_many(3).await.unwrap();
    jobs.set_permits(2).await.unwrap();
    assert_eq!(counts(&jobs).await, [-1, 3, 2]);
    jobs.add_permits(-4).await.unwrap();
    assert_eq!(jobs.release_all().await, Ok(3));
    assert_eq!(counts(&jobs).await, [-2, 0, -2]);
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
    let (_server, _client, jobs) = start(2).await;
    let held = jobs.clone().with_lease(HOUR).acquire_many(2).await.unwrap();
    let [kept, ended] = [held[0].id(), held[1].id()];
    assert_eq!(jobs.update_lease_time(kept, None).await, Ok(true));
    assert_eq!(jobs.lease_time(kept).await, Ok(RemainingTtl::Persistent));
    let short = Some(Duration::from_millis(1));
    assert_eq!(jobs.update_lease_time(ended, short).await, Ok(true));
    let next = timeout(LIMIT, jobs.acquire()).await.expect("it ends");
    for id in [ended, NOBODY] {
        assert_eq!(jobs.lease_time(id).await, Ok(RemainingTtl::Missing));
        assert_eq!(jobs.update_lease_time(id, Some(HOUR)).await, Ok(false));
        assert_eq!(jobs.try_release(id).await, Ok(false));
        assert_eq!(jobs.try_release_many(&[kept, id]).await, Ok(0));
    }
    jobs.release_many(&[kept, next.unwrap().id()])
        .await
        .unwrap();
    assert_eq!(counts(&jobs).await, [2, 0, 2]);
}

#[tokio::test]
async fn those_who_hold_are_listed_page_by_page() {
    let (_server, _client, jobs) = start(2000).await;
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
    assert_eq!(jobs.release_all().await, Ok(1206));
    assert_eq!(jobs.available_permits().await, Ok(2000));
    assert_eq!(jobs.holders().await.unwrap(), []);
}

#[tokio::test]
async fn both_keys_are_one_object() {
    let server = RedisServer::start().await;
    let mapped = builder(server.url()).name_mapper(NameMapper::prefix("app:"));
    let client = mapped.connect().await.unwrap();
    let mut control = server.connection().await;
    let jobs = client.permit_expirable_semaphore("jobs").with_lease(HOUR);
    assert!(!jobs.exists().await.unwrap() && !jobs.object().touch().await.unwrap());
    assert!(!jobs.expire(HOUR).await.unwrap() && !jobs.clear_expire().await.unwrap());
    let none = jobs.object().rename("new").await;
    assert!(matches!(none, Err(Error::NoSuchObject { .. })));
    jobs.try_set_permits(3).await.unwrap();
    let held = jobs.acquire().await.unwrap();
    assert!(jobs.exists().await.unwrap() && jobs.object().touch().await.unwrap());
    let mut usage = redis::cmd("MEMORY");
    usage.arg(&["USAGE", "app:jobs"]);
    let counter: u64 = usage.query_async(&mut control).await.unwrap();
    assert!(jobs.object().size_in_memory().await.unwrap() > counter);

    // Both end together.
    let permits = permits_key("app:jobs");
    let mut lives = async || -> [i64; 2] {
        let counter = control.pttl("app:jobs").await.unwrap();
        [counter, control.pttl(&permits).await.unwrap()]
    };
    assert!(!jobs.expire_if(HOUR, ExpireCondition::Set).await.unwrap());
    assert_eq!(lives().await, [-1, -1]);
    assert!(jobs.expire_if(HOUR, ExpireCondition::NotSet).await.unwrap());
    let later = 2 * HOUR;
    assert!(!jobs.expire_if(later, ExpireCondition::Less).await.unwrap());
    let tomorrow = SystemTime::now() + 24 * HOUR;
    let greater = jobs.expire_at_if(tomorrow, ExpireCondition::Greater);
    assert!(greater.await.unwrap());
    assert!(lives().await.iter().all(|life| *life > 80_000_000));
    // The permits take the counter's time to live over, at each acquisition.
    jobs.release(held.id()).await.unwrap();
    let held = jobs.acquire().await.unwrap();
    assert!(lives().await[1] > 80_000_000);
    assert!(jobs.clear_expire().await.unwrap() && !jobs.clear_expire().await.unwrap());
    assert_eq!(lives().await, [-1, -1]);
    let refused = jobs.expire(Duration::ZERO).await;
    assert!(matches!(refused, Err(Error::InvalidDuration { .. })));

    // A waiter of the new name is notified.
    let new = client.permit_expirable_semaphore("new");
    let call = new.clone();
    let waits = tokio::spawn(async move { call.acquire_many(1).await });
    until_subscribers(&mut control, &channel("app:new"), 1).await;
    new.available_permits().await.unwrap();
    let renamed = jobs.object().rename("new").await.unwrap();
    granted(waits).await;
    assert_eq!(renamed.lease(), Some(HOUR));
    assert_eq!(counts(&renamed).await, [1, 2, 3]);
    assert_eq!(counts(&jobs).await, [0, 0, 0]);
    assert_eq!(jobs.try_release(held.id()).await, Ok(false));
    assert_eq!(renamed.try_release(held.id()).await, Ok(true));
    jobs.try_set_permits(1).await.unwrap();
    assert!(renamed.object().rename_nx("jobs").await.unwrap().is_none());
    jobs.object().unlink().await.unwrap();
    let back = renamed.object().rename_nx("jobs").await.unwrap();
    let back = back.expect("it is free");
    assert_eq!(counts(&back).await, [2, 1, 3]);
    // The name replaces another semaphore, of which nothing is left.
    new.try_set_permits(1).await.unwrap();
    let _ = new.acquire().await.unwrap();
    assert_eq!(back.release_all().await, Ok(1));
    let new = back.object().rename("new").await.unwrap();
    assert_eq!(counts(&new).await, [3, 0, 3]);
    assert!(new.delete().await.unwrap() && !new.delete().await.unwrap());
    let mut left = snapshot_all(&mut control).await.into_keys();
    let ours = ["redisson_sc_leased_once:", "redisson_sc_leased_notes:"];
    assert!(left.all(|key| ours.iter().any(|ours| key.starts_with(ours))));
}

#[tokio::test]
async fn nonsense_is_told_and_changes_nothing() {
    let (server, _client, jobs) = start(2).await;
    let mut control = server.connection().await;
    let held = jobs.acquire().await.unwrap();
    let before = objects(&mut control).await;
    let endless_text = "0".repeat(99_999);
    for id in ["", "nobody", "123", "12 4", "zz", "+1", "ä€", &endless_text] {
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
        let update = jobs.update_lease_time(held.id(), Some(lease)).await;
        for error in [
            brief.try_acquire_many(0).await.unwrap_err(),
            brief.permit().await.unwrap_err(),
            update.unwrap_err(),
        ] {
            let told = matches!(error, Error::InvalidDuration { value, .. } if value == lease);
            assert!(told, "{error}");
        }
    }
    let many = vec![held.id(); 1025];
    for error in [
        jobs.acquire_many(1025).await.unwrap_err(),
        jobs.try_acquire_many(u32::MAX).await.unwrap_err(),
        jobs.try_release_many(&many).await.unwrap_err(),
    ] {
        let told = matches!(error, Error::TooManyAtOnce { most: 1024, .. });
        assert!(told, "{error}");
        assert_clear(&error, "jobs");
    }
    let too_many = jobs.try_acquire_many(3).await.unwrap();
    assert_eq!(too_many, None, "more than there are");
    assert_eq!(objects(&mut control).await, before);
    // A lease that is too long to be written as a time is no lease.
    let ages = jobs.clone().with_lease(Duration::from_millis(1 << 53));
    let endless = ages.acquire().await.unwrap();
    let left = jobs.lease_time(endless.id()).await;
    assert_eq!(left, Ok(RemainingTtl::Persistent));
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
    // Permits whose leases have ended do not make the semaphore exist.
    assert_eq!(jobs.try_set_permits(5).await, Ok(true));
    assert_eq!(counts(&jobs).await, [2, 3, 5]);
    jobs.release(held[0].id()).await.unwrap();
    let _: () = control.del("jobs").await.unwrap();
    jobs.set_permits(5).await.unwrap();
    assert_eq!(counts(&jobs).await, [3, 2, 5]);
    let _: () = control.del("jobs").await.unwrap();
    jobs.release(held[1].id()).await.unwrap();
    assert_eq!(counts(&jobs).await, [1, 1, 2]);
    // The permits are gone: their holder learns of it, and the number can be put right.
    jobs.set_permits(5).await.unwrap();
    let guard = client
        .permit_expirable_semaphore("jobs")
        .with_lease(Duration::from_secs(6))
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

/// Three hundred callers of one client wait, and one release costs one script.
#[tokio::test]
async fn a_release_for_a_crowd_of_one_client_costs_few_scripts() {
    let (server, client, jobs) = start(300).await;
    let mut control = server.connection().await;
    let held = jobs.acquire_many(300).await.unwrap();
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
    let elsewhere = builder(server.url()).response_timeout(LIMIT);
    let elsewhere = elsewhere.connect().await.unwrap();
    let elsewhere = elsewhere.permit_expirable_semaphore("jobs");
    let mut monitor = Monitor::start(&server).await;
    elsewhere.release_many(&ids(&held)).await.unwrap();
    for call in calls {
        granted(call).await;
    }
    let rest = monitor.scripts().await;
    assert!(rest <= 8, "{rest} scripts for 300 permits");
}

/// The permits that a dead process has left come back a thousand at a time.
#[tokio::test]
async fn a_hundred_thousand_that_have_ended_come_back_in_bits() {
    const COUNT: usize = 100_000;
    let (server, client, _) = start(1).await;
    let jobs = client.permit_expirable_semaphore("jobs");
    jobs.set_permits(u32::try_from(COUNT).unwrap())
        .await
        .unwrap();
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
        "{left} are left after {sent} scripts"
    );
    // So many at a time are there at once, however few have been taken out.
    let held = jobs.try_acquire_many(1024).await.unwrap();
    assert_eq!(held.map(|held| held.len()), Some(1024));
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

/// A guard's permit ends with its process, even beside permits that last for ever. Until then it lasts, even if its lease is shortened by hand.
#[tokio::test]
async fn a_guards_permit_has_a_lease_that_is_renewed() {
    const LEASE: Duration = Duration::from_secs(6);
    let server = RedisServer::start().await;
    let watched = builder(server.url()).lock_watchdog_timeout(LEASE);
    let jobs = watched.connect().await.unwrap();
    let jobs = jobs.permit_expirable_semaphore("jobs");
    jobs.set_permits(2).await.unwrap();
    let endless = jobs.acquire().await.unwrap();
    let guard = jobs.permit().await.unwrap();
    let leased: &dyn LeasedSemaphore = &jobs;
    for id in [endless.id(), guard.id()] {
        assert_eq!(leased.refresh(id).await, Ok(true));
    }
    let left = async |id| jobs.lease_time(id).await.unwrap();
    assert_eq!(left(endless.id()).await, RemainingTtl::Persistent);
    let shorter = LEASE * 3 / 4;
    let shortened = jobs.update_lease_time(guard.id(), Some(shorter)).await;
    assert_eq!(shortened, Ok(true));
    until("it is renewed", LIMIT, async || {
        let left = left(guard.id()).await;
        matches!(left, RemainingTtl::Expires(left) if left > shorter && left <= LEASE)
    })
    .await;
    assert!(!guard.is_lost());
}

/// A refresh by hand gives the permit of a guard no other lease than the guard's.
#[tokio::test]
async fn a_guards_permit_is_not_refreshed_for_ever() {
    let (_server, _client, jobs) = start(1).await;
    let guard = jobs.permit().await.unwrap();
    assert_eq!(LeasedSemaphore::refresh(&jobs, guard.id()).await, Ok(true));
    let left = jobs.lease_time(guard.id()).await.unwrap();
    assert!(matches!(left, RemainingTtl::Expires(_)), "{left:?}");
    assert!(!guard.is_lost());
}
