//! The semaphore with ids in trouble that only it has; what is common to all primitives is in `tests/hazards`.

use std::pin::pin;
use std::time::Duration;

use crate::support::clients::{LIMIT, builder, connect, limited};
use crate::support::polls::poll_once;
use crate::support::proxy::Proxy;
use crate::support::server::RedisServer;
use crate::support::waiters::{channel, until, until_subscribers};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Error, Held, RPermitExpirableSemaphore, RemainingTtl, Result};
use tokio::task::JoinHandle;
use tokio::time::timeout;

const HOUR: Duration = Duration::from_secs(3600);

fn permits_key(name: &str) -> String {
    format!("{{{name}}}:timeout")
}

/// The counter, and how many permits are held: together always as many as there are.
async fn stored(control: &mut MultiplexedConnection, name: &str) -> (i64, i64) {
    let (available, held): (Option<i64>, i64) = redis::pipe()
        .atomic()
        .get(name)
        .zcard(permits_key(name))
        .query_async(control)
        .await
        .unwrap();
    (available.unwrap_or(0), held)
}

/// A caller in a task that waits when this returns.
async fn waiter(
    control: &mut MultiplexedConnection,
    semaphore: &RPermitExpirableSemaphore,
) -> JoinHandle<Result<Held>> {
    let call = semaphore.clone();
    let task = tokio::spawn(async move { call.acquire().await });
    until_subscribers(control, &channel(semaphore.name()), 1).await;
    // Answered behind the waiter's own questions.
    semaphore.available_permits().await.unwrap();
    task
}

async fn ended(task: JoinHandle<Result<Held>>) -> Result<Held> {
    timeout(LIMIT, task).await.expect("it is not told").unwrap()
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
    let waits = waiter(&mut control, &jobs).await;
    jobs.release(held[0].id()).await.unwrap();
    let one = ended(waits).await.unwrap();
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

#[tokio::test]
async fn who_may_not_listen_is_told() {
    let (server, client) = limited("~* &* +@all -subscribe").await;
    let mut control = server.connection().await;
    let jobs = client.permit_expirable_semaphore("deaf");
    jobs.try_set_permits(1).await.unwrap();
    let held = jobs.acquire().await.unwrap();
    let error = timeout(LIMIT, jobs.acquire())
        .await
        .expect("it ends")
        .unwrap_err();
    assert!(matches!(error, Error::PermissionDenied { .. }), "{error}");
    jobs.release(held.id()).await.unwrap();
    assert_eq!(stored(&mut control, "deaf").await, (1, 0));
}

/// A server that knows the scripts, and a proxy in front of it.
async fn start() -> (RedisServer, Proxy) {
    let server = RedisServer::start().await;
    let client = connect(server.url()).await;
    let jobs = client.permit_expirable_semaphore("warm-up");
    jobs.try_set_permits(1).await.unwrap();
    let proxy = Proxy::start(&server).await;
    (server, proxy)
}

/// Guards that are dropped while the server is away: their releases are added up, and none is forgotten.
#[tokio::test]
async fn releases_that_nobody_waits_for_are_carried_out_in_the_end() {
    let (server, proxy) = start().await;
    let mut control = server.connection().await;
    let client = connect(proxy.url()).await;
    let jobs = client.permit_expirable_semaphore("owed");
    jobs.try_set_permits(4000).await.unwrap();
    let mut held = Vec::new();
    for _ in 0..4 {
        held.extend(jobs.acquire_many(1000).await.unwrap());
    }
    proxy.blackhole();
    for held in &held[..3000] {
        let mut release = pin!(jobs.release(held.id()));
        assert!(poll_once(&mut release).await.is_pending());
    }
    proxy.clear();
    until("all are carried out", LIMIT, async || {
        stored(&mut control, "owed").await == (3000, 1000)
    })
    .await;
    client.shutdown().await.unwrap();
    assert_eq!(
        stored(&mut control, "owed").await,
        (3000, 1000),
        "each once"
    );
}

/// A process that was stopped, or cut off, knows that it has lost its permits before it goes on using them.
#[tokio::test]
async fn a_guard_that_is_cut_off_is_lost_before_others_have_its_permit() {
    let (server, proxy) = start().await;
    let client = builder(proxy.url())
        .lock_watchdog_timeout(Duration::from_secs(2))
        .connect()
        .await
        .unwrap();
    let jobs = client.permit_expirable_semaphore("cut off");
    let other = connect(server.url())
        .await
        .permit_expirable_semaphore("cut off");
    jobs.try_set_permits(1).await.unwrap();
    let guard = jobs.permit().await.unwrap();
    proxy.blackhole();
    let taken = timeout(LIMIT, other.acquire())
        .await
        .expect("it comes back")
        .unwrap();
    assert!(guard.is_lost());
    timeout(LIMIT, guard.lost()).await.expect("it is told");
    proxy.clear();
    // It gives nothing back that is somebody else's.
    assert_eq!(guard.release().await, Ok(false));
    assert_eq!(other.try_release(taken.id()).await, Ok(true));
}

/// A change of its lease that was dropped before it was sent brings the end of a guard's permit no nearer.
#[tokio::test]
async fn a_change_that_was_dropped_ends_no_guard() {
    let (_server, proxy) = start().await;
    let client = builder(proxy.url()).lock_watchdog_timeout(HOUR);
    let client = client.connect().await.unwrap();
    let jobs = client.permit_expirable_semaphore("jobs");
    jobs.try_set_permits(1).await.unwrap();
    let guard = jobs.permit().await.unwrap();
    let lasts = || {
        guard
            .lease()
            .remaining()
            .is_some_and(|left| 2 * left > HOUR)
    };
    proxy.set_round_trip(Duration::from_millis(50));
    let mut first = pin!(jobs.available_permits());
    assert!(poll_once(&mut first).await.is_pending());
    {
        let mut change = pin!(jobs.update_lease_time(guard.id(), Some(Duration::from_secs(10))));
        assert!(poll_once(&mut change).await.is_pending());
        assert!(lasts());
    }
    assert_eq!(first.await, Ok(0));
    assert!(lasts());
    let left = jobs.lease_time(guard.id()).await.unwrap();
    assert!(matches!(left, RemainingTtl::Expires(left) if 2 * left > HOUR));
    assert_eq!(guard.release().await, Ok(true));
}
