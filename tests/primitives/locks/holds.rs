//! The holds of an owner, several at once and with different leases: each hold is released once, and for its own lease; a released
//! hold has no owner; and a loss is reported.

use std::time::Duration;

use super::{WATCHDOG, assert_not_held, lost};
use crate::support::acl::set_user;
use crate::support::clients::{LIMIT, limited};
use crate::support::monitor::{Command, Monitor};
use crate::support::polls::poll_once;

use crate::support::server::RedisServer;
use crate::support::waiters::until;
use redis::AsyncCommands;
use redisson_semaphore::{Client, Lock};

const HOUR: Duration = Duration::from_secs(3600);

async fn connect(url: String, watchdog: Duration) -> Client {
    super::connect(url, watchdog, Duration::from_secs(2)).await
}

/// A server that knows the scripts.
async fn start() -> RedisServer {
    let server = RedisServer::start().await;
    let lock = connect(server.url(), LIMIT).await.lock("warm-up");
    lock.lock().await.unwrap();
    lock.unlock().await.unwrap();
    lock.force_unlock().await.unwrap();
    server
}

/// Another client has taken a renewed lock away, and its owner does not know it yet: a new hold with a short lease is not renewed.
#[tokio::test]
async fn short_lease_behind_an_unnoticed_loss_ends_in_time() {
    let server = start().await;
    let client = connect(server.url(), LIMIT).await;
    let elsewhere = connect(server.url(), LIMIT).await;
    let lock = client.lock("robbed");
    lock.lock().await.unwrap();
    assert!(elsewhere.lock("robbed").force_unlock().await.unwrap());
    let short = lock.with_lease(Duration::from_millis(100));
    let hold = short.hold(None).await.unwrap().expect("it waits for it");
    let left = hold.lease().remaining().expect("it has an end");
    assert!(left <= Duration::from_millis(100), "{left:?}");
    lost(hold.lease()).await;
}

/// Redis counts fewer holds than there are, as after a failover that lost the last write, or more: the release of one hold
/// does not free the lock under the other.
#[tokio::test]
async fn a_hold_whose_write_was_lost_does_not_cost_the_one_below() {
    let server = start().await;
    let mut redis = server.connection().await;
    let client = connect(server.url(), HOUR).await;
    let stranger = connect(server.url(), HOUR).await;
    let lock = client.lock("reentrant");
    let other = stranger.lock("reentrant");
    for count in [1, 7] {
        let outer = lock.guard().await.unwrap();
        let inner = outer.again().await.unwrap();
        let owner = outer.handle().owner();
        let _: () = redis.hset("reentrant", owner, count).await.unwrap();
        inner.unlock().await.unwrap();
        assert!(!other.try_lock().await.unwrap(), "the outer guard holds it");
        assert!(!outer.is_lost());
        outer.unlock().await.unwrap();
        assert!(other.try_lock().await.unwrap(), "nobody holds it");
        other.unlock().await.unwrap();
    }
    // If the key of the lock is gone, all its holds are lost.
    let outer = lock.guard().await.unwrap();
    let inner = outer.again().await.unwrap();
    let _: () = redis.del("reentrant").await.unwrap();
    other.lock().await.unwrap();
    assert_not_held(inner.unlock().await);
    lost(outer.lease()).await;
    assert_not_held(outer.unlock().await);
    assert!(other.is_held().await.unwrap());
    other.unlock().await.unwrap();
}

/// A lease that is no whole number of milliseconds does not end earlier in Redis than it does here, for any kind of object.
#[tokio::test]
async fn fractions_of_a_millisecond_are_rounded_up() {
    let server = start().await;
    let client = connect(server.url(), HOUR).await;
    let lease = HOUR + Duration::from_micros(300);
    let mut monitor = Monitor::start(&server).await;
    client.lock("lock").with_lease(lease).lock().await.unwrap();
    let string_lock = client.string_lock("string-lock");
    string_lock.with_lease(lease).lock().await.unwrap();
    let semaphore = client.semaphore("semaphore");
    assert!(semaphore.try_set_permits_for(1, lease).await.unwrap());
    assert!(semaphore.expire(lease).await.unwrap());
    let seen = monitor.until_marker().await;
    let set = |key: &str, time: &str| {
        let about = |command: &&Command| {
            command.is_lua() && command.args.iter().any(|arg| arg.ends_with(key))
        };
        let mut args = seen.iter().filter(about).flat_map(|command| &command.args);
        args.any(|arg| arg == time)
    };
    for key in ["lock", "string-lock", "semaphore"] {
        assert!(set(key, "3600001"), "{key}: {seen:?}");
        assert!(!set(key, "3600000"), "{key}: {seen:?}");
    }
}

/// The caller of a refused unlock has gone: the lock ends with its lease.
#[tokio::test]
async fn an_unlock_that_is_refused_behind_its_caller() {
    let (server, _) = limited("~* &* +@all").await;
    let mut redis = server.connection().await;
    let client = connect(server.url_as("app", "pw"), WATCHDOG).await;
    let lock = client.lock("left");
    for answered in [false, true] {
        lock.lock().await.unwrap();
        let lease = lock.lease();
        set_user(&mut redis, &["app", "-del"]).await;
        let mut unlock = Box::pin(lock.unlock());
        assert!(poll_once(&mut unlock.as_mut()).await.is_pending());
        if answered {
            assert!(lock.is_held().await.unwrap(), "behind the answer");
        }
        drop(unlock);
        lost(&lease).await;
        until("its lease is over", LIMIT, async || {
            !lock.is_locked().await.unwrap()
        })
        .await;
        set_user(&mut redis, &["app", "+del"]).await;
    }
}
