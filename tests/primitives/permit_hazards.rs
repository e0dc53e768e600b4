//! The semaphore with ids in trouble that only it has; what is common to all primitives is in `tests/hazards`.

use std::time::Duration;

use crate::support::clients::{LIMIT, builder, connect, limited};
use crate::support::proxy::Proxy;
use crate::support::server::RedisServer;
use crate::support::waiters::{channel, until_subscribers};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Held, RPermitExpirableSemaphore, Result};
use tokio::task::JoinHandle;
use tokio::time::timeout;

const HOUR: Duration = Duration::from_secs(3600);

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

/// A server that knows the scripts, and a proxy in front of it.
async fn start() -> (RedisServer, Proxy) {
    let server = RedisServer::start().await;
    let client = connect(server.url()).await;
    let jobs = client.permit_expirable_semaphore("warm-up");
    jobs.try_set_permits(1).await.unwrap();
    let proxy = Proxy::start(&server).await;
    (server, proxy)
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
