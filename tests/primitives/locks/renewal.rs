//! Renewal of locks that are held without a lease: in few script calls, through errors, only for those who hold
//! them; and every loss is told.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use crate::support::acl::set_user;
use crate::support::log;
use crate::support::monitor::Monitor;
use crate::support::server::RedisServer;
use crate::support::waiters::{until, until_passed};
use futures::FutureExt;
use futures::future::{join_all, try_join_all};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, Error, Lease};
use tokio::time::timeout;
use tracing::Level;

use crate::support::proxy::Proxy;

const LIMIT: Duration = Duration::from_secs(30);

/// Short, so that a test sees many periods; long enough for a machine that is busy with something else.
const WATCHDOG: Duration = Duration::from_secs(3);

async fn connect(url: String, watchdog: Duration) -> Client {
    super::connect(url, watchdog, Duration::from_millis(300)).await
}

async fn ttl(redis: &mut MultiplexedConnection, key: &str) -> i64 {
    redis.pttl(key).await.unwrap()
}

/// Brings the end of a lock nearer, and waits until a renewal has put it off again.
async fn until_renewed(redis: &mut MultiplexedConnection, key: &str, watchdog: Duration) {
    let nearer = watchdog.as_millis() as i64 * 3 / 4;
    let _: () = redis.pexpire(key, nearer).await.unwrap();
    until("it is renewed", LIMIT, async || {
        ttl(redis, key).await > nearer
    })
    .await;
}

/// The loss is told, in time.
async fn lost(lease: &Lease) {
    timeout(LIMIT, lease.lost())
        .await
        .expect("the loss is told");
    assert!(lease.is_lost());
    assert_eq!(lease.remaining(), Some(Duration::ZERO));
}

/// Panics when it is told of the loss.
struct Fragile(Lease, AtomicBool);

impl Wake for Fragile {
    fn wake(self: Arc<Self>) {
        let Fragile(lease, told) = &*self;
        if lease.is_lost() && !told.swap(true, Ordering::SeqCst) {
            panic!("on purpose");
        }
    }
}

/// A task that panics as it is told of its loss takes nothing from others.
#[tokio::test]
async fn a_waker_that_panics_stops_no_renewal() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = connect(server.url(), WATCHDOG).await;
    let (one, other) = (
        client.lock("one").guard().await,
        client.lock("other").guard().await,
    );
    let (one, other) = (one.unwrap(), other.unwrap());
    let lease = one.lease();
    let mut told = pin!(lease.lost());
    let fragile = Arc::new(Fragile(lease.clone(), AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&fragile));
    assert!(
        told.as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    let _: () = redis.del("one").await.unwrap();
    until("it is told", LIMIT, async || {
        fragile.1.load(Ordering::SeqCst)
    })
    .await;
    until_renewed(&mut redis, "other", WATCHDOG).await;
    until_renewed(&mut redis, "other", WATCHDOG).await;
    assert!(!other.is_lost());
}

/// A key that the server forbids by now costs nobody else's lock.
#[tokio::test]
async fn a_forbidden_key_among_others() {
    log::record();
    let options = RedisServer::options().user("app on >pw ~* &* +@all");
    let server = options.start().await;
    let mut redis = server.connection().await;
    let client = Client::builder(server.url_as("app", "pw"))
        .lock_watchdog_timeout(WATCHDOG)
        .connect()
        .await
        .unwrap();
    let good = (0..50).map(|number| client.lock(&format!("allowed-{number}")));
    let good = try_join_all(good.map(|lock| async move { lock.guard().await }));
    let good = good.await.unwrap();
    let poison = client.lock("poison").guard().await.unwrap();
    let rules = ["app", "resetkeys", "~allowed-*", "~redisson_*"];
    set_user(&mut redis, &rules).await;
    lost(poison.lease()).await;
    until_passed(&mut redis, WATCHDOG).await;
    let gone = good.iter().filter(|guard| guard.is_lost());
    assert_eq!(gone.count(), 0);
    // Once in each round of its life.
    let warned = log::lines(Level::WARN, "poison").len();
    assert!((1..=3).contains(&warned), "{warned} lines");
    assert_eq!(log::lines(Level::WARN, "allowed-").len(), 0);
    try_join_all(good.into_iter().map(|guard| guard.unlock()))
        .await
        .unwrap();
}

/// Whether nothing is left but records of clients.
async fn is_empty(redis: &mut MultiplexedConnection) -> bool {
    let keys: Vec<String> = redis.keys("*").await.unwrap();
    keys.iter()
        .all(|key| key.starts_with("redisson_lock_once:"))
}

#[tokio::test]
async fn it_goes_on_after_errors() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
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
    for keeps in [false, true] {
        let options = RedisServer::options();
        let options = if keeps { options.appendonly() } else { options };
        let mut server = options.start().await;
        let client = connect(server.url(), 4 * WATCHDOG).await;
        let lock = client.lock("restarted");
        let guard = lock.guard().await.unwrap();
        server.restart().await;
        let mut redis = server.connection().await;
        if keeps {
            until_renewed(&mut redis, "restarted", 4 * WATCHDOG).await;
            assert!(!guard.is_lost());
            guard.unlock().await.unwrap();
        } else {
            lost(guard.lease()).await;
            assert_eq!(ttl(&mut redis, "restarted").await, -2, "it was not revived");
            let error = guard.unlock().await.unwrap_err();
            assert!(matches!(error, Error::NotHeld { .. }), "{error}");
        }
        // Renewal has recovered.
        let guard = lock.guard().await.unwrap();
        until_passed(&mut redis, 5 * WATCHDOG).await;
        assert!(!guard.is_lost() && guard.handle().is_held().await.unwrap());
    }
}

#[tokio::test]
async fn a_loss_is_told_at_the_next_renewal() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    // Its lease would last for longer than the test waits.
    let client = connect(server.url(), 4 * LIMIT / 3).await;
    let other = connect(server.url(), WATCHDOG).await;
    let names = ["forced", "deleted", "retaken", "retyped"];
    let locks = names.map(|name| client.lock(name));
    let held = try_join_all(locks.iter().map(|lock| lock.guard()))
        .await
        .unwrap();
    let sound = client.lock("sound").guard().await.unwrap();
    assert!(other.lock("forced").force_unlock().await.unwrap());
    let _: () = redis.del("deleted").await.unwrap();
    assert!(other.lock("retaken").force_unlock().await.unwrap());
    let thief = other.lock("retaken");
    thief.with_lease(4 * LIMIT).lock().await.unwrap();
    let _: () = redis.set("retyped", "text").await.unwrap();
    join_all(held.iter().map(|guard| lost(guard.lease()))).await;
    assert!(!sound.is_lost());
    assert_eq!(ttl(&mut redis, "forced").await, -2);
    assert_eq!(ttl(&mut redis, "deleted").await, -2);
    assert_eq!(ttl(&mut redis, "retyped").await, -1);
    let thiefs = Duration::from_millis(ttl(&mut redis, "retaken").await.unsigned_abs());
    assert!(thiefs > 2 * LIMIT, "renewed for the wrong one: {thiefs:?}");
    drop(held);
    sound.unlock().await.unwrap();
    assert!(thief.is_held().await.unwrap());
}

/// What is given back is not renewed any more; nor what is left, where that has a lease.
#[tokio::test]
async fn it_ends_with_the_hold_that_wanted_it() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = connect(server.url(), WATCHDOG).await;
    let lock = client.lock("mixed");
    lock.with_lease(2 * WATCHDOG).lock().await.unwrap();
    lock.lock().await.unwrap();
    until_passed(&mut redis, 3 * WATCHDOG).await;
    assert_eq!(lock.hold_count().await.unwrap(), 2, "it is renewed");
    lock.unlock().await.unwrap();
    let lease = lock.lease();
    assert!(!lease.is_lost());
    lost(&lease).await;
    until("its lease is over", LIMIT, async || {
        !lock.is_locked().await.unwrap()
    })
    .await;
}

/// Guards that come and go all the time, at every moment of a renewal: nobody's end is put off after that.
#[tokio::test]
async fn dropping_races_with_it() {
    const SHORTEST: Duration = Duration::from_millis(100);
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = connect(server.url(), SHORTEST).await;
    let tasks: Vec<_> = (0..20)
        .map(|number| {
            let lock = client.lock(&format!("race-{number}"));
            tokio::spawn(async move {
                for round in 0..200_u64 {
                    let guard = lock.guard().await.unwrap();
                    if (number + round) % 7 == 0 {
                        tokio::time::sleep(Duration::from_millis(round % 5)).await;
                    }
                    drop(guard);
                    // Behind the unlock; and a lease that must end by itself.
                    if round == 199 {
                        lock.with_lease(SHORTEST).lock().await.unwrap();
                    }
                }
            })
        })
        .collect();
    join_all(tasks).await.into_iter().for_each(Result::unwrap);
    let mut monitor = Monitor::start(&server).await;
    until("all leases are over", LIMIT, async || {
        is_empty(&mut redis).await
    })
    .await;
    monitor.until_marker().await;
    until_passed(&mut redis, 5 * SHORTEST).await;
    let late: Vec<_> = monitor.until_marker().await;
    let renewals = late.iter().filter(|command| command.is_script());
    assert_eq!(renewals.count(), 0, "something is still renewed");
}

/// An owner picked by number is found again when no handle is left in between: it is still renewed, and its unlock
/// ends that.
#[tokio::test]
async fn an_owner_by_number_needs_no_handle_in_between() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = connect(server.url(), WATCHDOG).await;
    let lock = || client.lock("numbered").with_owner(7);
    lock().lock().await.unwrap();
    until_passed(&mut redis, 2 * WATCHDOG).await;
    assert!(lock().is_held().await.unwrap());
    assert!(!lock().lease().is_lost());
    assert!(lock().lease().remaining().unwrap() > Duration::ZERO);
    lock().lock().await.unwrap();
    assert_eq!(lock().hold_count().await.unwrap(), 2);
    lock().unlock().await.unwrap();
    until_passed(&mut redis, 2 * WATCHDOG).await;
    assert_eq!(lock().hold_count().await.unwrap(), 1, "it is renewed");
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

/// Nobody can unlock what an owner has locked whose last handle has gone: it ends with its lease, whatever is under way then.
#[tokio::test]
async fn it_ends_with_the_last_handle_of_its_owner() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = connect(server.url(), WATCHDOG).await;
    client.lock("x").lock().await.unwrap();
    let handle = client.lock("forgotten");
    let _ = handle.guard().await.unwrap().forget();
    // A guard is a handle of its owner.
    let guard = client.lock("y").guard().await.unwrap();
    guard.handle().lock().await.unwrap();
    until_passed(&mut redis, 2 * WATCHDOG).await;
    assert!(!redis.exists::<_, bool>("x").await.unwrap());
    assert!(!handle.is_locked().await.unwrap());
    assert!(redis.exists::<_, bool>("y").await.unwrap() && !guard.is_lost());
    // Its unlock is answered behind it.
    drop(guard);
    until("the lease is over", LIMIT, async || {
        is_empty(&mut redis).await
    })
    .await;
    let taken = timeout(LIMIT, client.lock("y").guard()).await;
    taken.expect("it is free").unwrap().unlock().await.unwrap();
}

/// Without anybody who holds the client nothing is renewed; and after its shutdown.
#[tokio::test]
async fn it_ends_with_the_client() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = connect(server.url(), WATCHDOG).await;
    let lock = client.lock("dropped");
    lock.lock().await.unwrap();
    drop((lock, client));
    let client = connect(server.url(), WATCHDOG).await;
    let lock = client.lock("shut down");
    lock.lock().await.unwrap();
    client.shutdown().await.unwrap();
    until("both are over", LIMIT, async || is_empty(&mut redis).await).await;
    lost(&lock.lease()).await;
}
