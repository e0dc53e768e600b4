//! Renewal of locks that are held without a lease: in few script calls, in spite of errors, and only while they are held.
//! Every loss is reported.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use super::{WATCHDOG, assert_not_held, lost, until_renewed};
use crate::support::acl::set_user;
use crate::support::clients::{LIMIT, limited, start_controlled};
use crate::support::log;
use crate::support::proxy::Proxy;
use crate::support::server::RedisServer;
use crate::support::waiters::{until, until_passed};
use futures::FutureExt;
use futures::future::{join_all, try_join_all};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, Lease};
use tokio::time::timeout;
use tracing::Level;

async fn connect(url: String, watchdog: Duration) -> Client {
    super::connect(url, watchdog, Duration::from_millis(300)).await
}

async fn ttl(redis: &mut MultiplexedConnection, key: &str) -> i64 {
    redis.pttl(key).await.unwrap()
}

/// A waker that panics when it learns of the loss.
struct Fragile(Lease, AtomicBool);

impl Wake for Fragile {
    fn wake(self: Arc<Self>) {
        let Fragile(lease, told) = &*self;
        if lease.is_lost() && !told.swap(true, Ordering::SeqCst) {
            panic!("on purpose");
        }
    }
}

/// A task that panics as it learns of its loss stops no other renewal.
#[tokio::test]
async fn a_waker_that_panics_stops_no_renewal() {
    let (server, mut redis) = start_controlled().await;
    let client = connect(server.url(), WATCHDOG).await;
    let one = client.lock("one").guard().await.unwrap();
    let other = client.lock("other").guard().await.unwrap();
    let mut told = pin!(one.lost());
    let fragile = Arc::new(Fragile(one.lease().clone(), AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&fragile));
    let polled = told.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    let _: () = redis.del("one").await.unwrap();
    until("it is told", LIMIT, async || {
        fragile.1.load(Ordering::SeqCst)
    })
    .await;
    until_renewed(&mut redis, "other", WATCHDOG).await;
    until_renewed(&mut redis, "other", WATCHDOG).await;
    assert!(!other.is_lost());
}

/// A key that the server now forbids costs no other lock.
#[tokio::test]
async fn a_forbidden_key_among_others() {
    log::record();
    let (server, _) = limited("~* &* +@all").await;
    let mut redis = server.connection().await;
    let client = connect(server.url_as("app", "pw"), WATCHDOG).await;
    let good = (0..50).map(|number| client.lock(&format!("allowed-{number}")));
    let good = try_join_all(good.map(|lock| async move { lock.guard().await }));
    let good = good.await.unwrap();
    let poison = client.lock("poison").guard().await.unwrap();
    let rules = ["app", "resetkeys", "~allowed-*", "~redisson_*"];
    set_user(&mut redis, &rules).await;
    lost(poison.lease()).await;
    until_renewed(&mut redis, "allowed-0", WATCHDOG).await;
    assert!(good.iter().all(|guard| !guard.is_lost()));
    // Once in each round of its life.
    let warned = log::lines(Level::WARN, "poison").len();
    assert!((1..=3).contains(&warned), "{warned} lines");
    assert_eq!(log::lines(Level::WARN, "allowed-").len(), 0);
    let unlocked = good.into_iter().map(|guard| guard.unlock());
    try_join_all(unlocked).await.unwrap();
}

/// Whether nothing is left but records of clients.
async fn is_empty(redis: &mut MultiplexedConnection) -> bool {
    let keys: Vec<String> = redis.keys("*").await.unwrap();
    keys.iter()
        .all(|key| key.starts_with("redisson_lock_once:"))
}

#[tokio::test]
async fn it_goes_on_after_errors() {
    let (server, mut redis) = start_controlled().await;
    let proxy = Proxy::start(&server).await;
    let client = connect(proxy.url(), WATCHDOG).await;
    let guard = client.lock("held").guard().await.unwrap();
    for trouble in [Proxy::cut, Proxy::mute, Proxy::blackhole] {
        let before = proxy.opened();
        trouble(&proxy);
        // Long enough for a period, and for the client to see it.
        until("a new connection", LIMIT, async || proxy.opened() > before).await;
        proxy.clear();
        until_renewed(&mut redis, "held", WATCHDOG).await;
        assert!(!guard.is_lost());
    }
    guard.unlock().await.unwrap();
}

#[tokio::test]
async fn a_restart_without_the_data_is_a_loss_and_with_them_is_none() {
    const LONG: Duration = Duration::from_secs(12);
    for keeps in [false, true] {
        let options = RedisServer::options();
        let options = if keeps { options.appendonly() } else { options };
        let mut server = options.start().await;
        let lock = connect(server.url(), LONG).await.lock("restarted");
        let guard = lock.guard().await.unwrap();
        server.restart().await;
        let mut redis = server.connection().await;
        if keeps {
            until_renewed(&mut redis, "restarted", LONG).await;
            assert!(!guard.is_lost());
            guard.unlock().await.unwrap();
        } else {
            lost(guard.lease()).await;
            assert_eq!(ttl(&mut redis, "restarted").await, -2, "it was not revived");
            assert_not_held(guard.unlock().await);
        }
        // Renewal has recovered.
        let guard = lock.guard().await.unwrap();
        until_renewed(&mut redis, "restarted", LONG).await;
        assert!(!guard.is_lost() && guard.handle().is_held().await.unwrap());
    }
}

#[tokio::test]
async fn a_loss_is_told_at_the_next_renewal() {
    let (server, mut redis) = start_controlled().await;
    // Its lease would last for longer than the test waits.
    let client = connect(server.url(), 3 * LIMIT).await;
    let other = connect(server.url(), WATCHDOG).await;
    let names = ["forced", "deleted", "retaken", "retyped", "sound"];
    let locks = names.map(|name| client.lock(name));
    let held = try_join_all(locks.iter().map(|lock| lock.guard()));
    let mut held = held.await.unwrap();
    let sound = held.pop().expect("the last one");
    assert!(other.lock("forced").force_unlock().await.unwrap());
    let _: () = redis.del("deleted").await.unwrap();
    let thief = other.lock("retaken");
    assert!(thief.force_unlock().await.unwrap());
    thief.with_lease(6 * LIMIT).lock().await.unwrap();
    let _: () = redis.set("retyped", "text").await.unwrap();
    join_all(held.iter().map(|guard| lost(guard.lease()))).await;
    assert!(!sound.is_lost());
    for (key, left) in [("forced", -2), ("deleted", -2), ("retyped", -1)] {
        assert_eq!(ttl(&mut redis, key).await, left, "{key}");
    }
    let thiefs = Duration::from_millis(ttl(&mut redis, "retaken").await.unsigned_abs());
    assert!(thiefs > 4 * LIMIT, "renewed for the wrong one: {thiefs:?}");
    drop(held);
    sound.unlock().await.unwrap();
    assert!(thief.is_held().await.unwrap());
}

/// A released hold is not renewed any more. The hold that is left is not renewed either, if it has a lease.
#[tokio::test]
async fn it_ends_with_the_hold_that_wanted_it() {
    let (server, mut redis) = start_controlled().await;
    let client = connect(server.url(), WATCHDOG).await;
    let lock = client.lock("mixed");
    let short = WATCHDOG / 2;
    lock.with_lease(short).lock().await.unwrap();
    lock.lock().await.unwrap();
    until_passed(&mut redis, short).await;
    until_renewed(&mut redis, "mixed", WATCHDOG).await;
    assert_eq!(lock.hold_count().await.unwrap(), 2);
    lock.unlock().await.unwrap();
    let lease = lock.lease();
    assert!(!lease.is_lost());
    lost(&lease).await;
    until("its lease is over", LIMIT, async || {
        !lock.is_locked().await.unwrap()
    })
    .await;
}

/// An owner picked by number is found again when no handle is left in between: it is still renewed, and its unlock
/// ends that.
#[tokio::test]
async fn an_owner_by_number_needs_no_handle_in_between() {
    let (server, mut redis) = start_controlled().await;
    let client = connect(server.url(), WATCHDOG).await;
    let lock = || client.lock("numbered").with_owner(7);
    lock().lock().await.unwrap();
    until_renewed(&mut redis, "numbered", WATCHDOG).await;
    assert!(lock().is_held().await.unwrap());
    assert!(!lock().lease().is_lost());
    assert!(lock().lease().remaining().unwrap() > Duration::ZERO);
    lock().lock().await.unwrap();
    assert_eq!(lock().hold_count().await.unwrap(), 2);
    lock().unlock().await.unwrap();
    until_renewed(&mut redis, "numbered", WATCHDOG).await;
    assert_eq!(lock().hold_count().await.unwrap(), 1);
    let lease = lock().lease();
    lock().unlock().await.unwrap();
    assert!(!lock().is_locked().await.unwrap());
    lock().with_lease(WATCHDOG).lock().await.unwrap();
    until("its lease is over", LIMIT, async || {
        !lock().is_locked().await.unwrap()
    })
    .await;
    assert!(lease.lost().now_or_never().is_none(), "it was given back");
}

/// An owner whose last handle has gone cannot unlock, and a client that has gone renews nothing: their locks end with their leases.
#[tokio::test]
async fn it_ends_with_the_last_handle_of_its_owner_and_with_its_client() {
    let (server, mut redis) = start_controlled().await;
    let client = connect(server.url(), WATCHDOG).await;
    client.lock("x").lock().await.unwrap();
    let handle = client.lock("forgotten");
    let _ = handle.guard().await.unwrap().forget();
    // A guard is a handle of its owner.
    let guard = client.lock("y").guard().await.unwrap();
    guard.handle().lock().await.unwrap();

    let gone = connect(server.url(), WATCHDOG).await;
    let lock = gone.lock("dropped");
    lock.lock().await.unwrap();
    drop((lock, gone));
    let ended = connect(server.url(), WATCHDOG).await;
    let lock = ended.lock("shut down");
    lock.lock().await.unwrap();
    ended.shutdown().await.unwrap();

    for key in ["x", "forgotten", "dropped", "shut down"] {
        until(key, LIMIT, async || ttl(&mut redis, key).await == -2).await;
    }
    lost(&lock.lease()).await;
    until_renewed(&mut redis, "y", WATCHDOG).await;
    assert!(!guard.is_lost());
    // The unlock is answered after the guard is gone.
    drop(guard);
    until("the lease is over", LIMIT, async || {
        is_empty(&mut redis).await
    })
    .await;
    let taken = timeout(LIMIT, client.lock("y").guard()).await;
    taken.expect("it is free").unwrap().unlock().await.unwrap();
}
