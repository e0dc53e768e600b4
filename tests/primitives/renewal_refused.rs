//! Renewal that the server refuses for a while, or can't carry out as it is a replica: a refusal is no loss, and the renewal is tried
//! again as long as the refusals last.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::support::acl::set_user;
use crate::support::clients::{LIMIT, builder, errors, limited, start_controlled};
use crate::support::server::{NOWHERE, limit_memory, replica_of};
use crate::support::waiters::until;
use futures::future::{FutureExt, select_all};
use redis::FromRedisValue;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, Lease};
use tokio::time::timeout;

/// Three tries that are refused fit into the first half of the lease.
const LEASE: Duration = Duration::from_secs(6);

/// How often the server has refused `command`.
async fn refusals(control: &mut MultiplexedConnection, command: &str) -> u64 {
    let log: Vec<HashMap<String, redis::Value>> = redis::cmd("ACL")
        .arg("LOG")
        .query_async(control)
        .await
        .unwrap();
    let of_it = log.iter().filter(|entry| {
        let object = String::from_redis_value_ref(&entry["object"]).unwrap();
        object.eq_ignore_ascii_case(command)
    });
    of_it
        .map(|entry| u64::from_redis_value_ref(&entry["count"]).unwrap())
        .sum()
}

/// Forbids a command that renewal looks with, until it has been refused so often.
async fn forbid_for_a_while(control: &mut MultiplexedConnection, command: &str, times: u64) {
    set_user(control, &["app", &format!("-{command}")]).await;
    until("it is tried again and again", LIMIT, async || {
        refusals(control, command).await >= times
    })
    .await;
    set_user(control, &["app", &format!("+{command}")]).await;
}

/// It is a replica until it has refused so many changes.
async fn be_a_replica_for_a_while(control: &mut MultiplexedConnection, times: u64) {
    let again = errors(control, "READONLY").await + times;
    replica_of(control, Some(NOWHERE)).await;
    until("renewals are refused", LIMIT, async || {
        errors(control, "READONLY").await >= again
    })
    .await;
    replica_of(control, None).await;
}

/// Holds of all kinds are renewed: the first refused ones do not stand for the others.
async fn refused_for_a_while(lasts: impl AsyncFnOnce(&mut MultiplexedConnection)) {
    let (server, _) = limited("~* &* +@all").await;
    let mut control = server.connection().await;
    let client = Client::builder(server.url_as("app", "pw")).lock_watchdog_timeout(LEASE);
    let client = client.connect().await.unwrap();
    let seats = client.semaphore("seats").watched();
    seats.try_set_permits(2).await.unwrap();
    let permit = seats.permit(1).await.unwrap();
    let jobs = client.permit_expirable_semaphore("jobs");
    jobs.try_set_permits(2).await.unwrap();
    let [job, other] = [jobs.permit().await.unwrap(), jobs.permit().await.unwrap()];
    let door = client.lock("door").guard().await.unwrap();
    let began = Instant::now();
    lasts(&mut control).await;
    let leases = [job.lease(), other.lease(), door.lease()];
    until(
        "all are renewed, behind their first end",
        LIMIT,
        async || {
            let renewed = |lease: &Lease| lease.remaining() > Some(LEASE * 3 / 4);
            leases.into_iter().all(renewed) && began.elapsed() > LEASE
        },
    )
    .await;
    assert!(!permit.is_lost() && !leases.iter().any(|lease| lease.is_lost()));
    permit.release().await.unwrap();
    for job in [job, other] {
        assert_eq!(job.release().await, Ok(true));
    }
    door.unlock().await.unwrap();
    assert_eq!(seats.available_permits().await, Ok(2));
    assert_eq!(jobs.available_permits().await, Ok(2));
}

/// Permits look for what they renew by the one command, locks by the other.
#[tokio::test]
async fn by_a_permission_that_is_missing() {
    for (command, times) in [("zmscore", 6), ("hget", 3)] {
        refused_for_a_while(async |control| forbid_for_a_while(control, command, times).await)
            .await;
    }
}

#[tokio::test]
async fn by_a_replica() {
    refused_for_a_while(async |control| be_a_replica_for_a_while(control, 3).await).await;
}

/// Guards outlast several leases on a server without memory.
#[tokio::test]
async fn renewal_needs_no_memory() {
    const SHORT: Duration = Duration::from_secs(4);
    let (server, mut control) = start_controlled().await;
    let client = builder(server.url()).lock_watchdog_timeout(SHORT);
    let client = client.connect().await.unwrap();
    let (seats, jobs) = (
        client.semaphore("seats"),
        client.permit_expirable_semaphore("jobs"),
    );
    seats.try_set_permits(1).await.unwrap();
    jobs.try_set_permits(1).await.unwrap();
    let (permit, leased) = (seats.permit(1).await.unwrap(), jobs.permit().await.unwrap());
    let lock = client.lock("door").guard().await.unwrap();
    let both = ["one", "two"].map(|name| client.read_write_lock(name));
    let read = both[0].read().guard().await.unwrap();
    let write = both[1].write().guard().await.unwrap();
    limit_memory(&mut control, "1").await;
    let lost = select_all([
        permit.lost().boxed(),
        leased.lost().boxed(),
        lock.lost().boxed(),
        read.lost().boxed(),
        write.lost().boxed(),
    ]);
    let lost = timeout(3 * SHORT, lost).await;
    assert!(lost.is_err(), "lost: {:?}", lost.unwrap().1);
}
