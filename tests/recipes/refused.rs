//! The classic recipes on a server that refuses something: memory, commands, keys, channels.

use std::collections::HashSet;
use std::time::Duration;

use crate::layouts::{Handle, Layout, Shape};
use crate::support::acl::set_user;
use crate::support::clients::limited;
use crate::support::server::RedisServer;
use crate::support::waiters::until;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, Error, Held};
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(20);

/// What the scripts need besides `EVALSHA`.
const COMMANDS: &str = "+eval +evalsha +get +set +del +time +publish +pubsub|numsub +subscribe +unsubscribe +hget +hmget +hset \
    +pexpire +pttl +zadd +zrem +zcard +zrange +zscore +zrangebyscore +zmscore +zscan +incr +zrevrangebyscore \
    +llen +lpush +rpop +sadd +srem +scard +sscan +sismember +mget";

async fn as_user(server: &RedisServer, user: &str) -> Client {
    let builder = Client::builder(server.url_as(user, "secret"))
        .retry_window(Duration::from_secs(2))
        .response_timeout(Duration::from_millis(300));
    builder.connect().await.unwrap()
}

/// The commands that the documentation names are enough.
#[tokio::test]
async fn a_user_with_the_commands_that_are_needed() {
    let rule = format!("user on >secret ~* &redisson_sc_recipe_queue:* {COMMANDS}");
    let server = RedisServer::options().user(&rule).start().await;
    let client = as_user(&server, "user").await;
    let other = as_user(&server, "user").await;
    for layout in crate::layouts::ALL {
        let name = format!("allowed-{layout:?}");
        let one = layout.make(&client, &name, Shape::new(1));
        let two = layout.make(&other, &name, Shape::new(1));
        let permit = one.permit().await.unwrap();
        let waiter = tokio::spawn(async move { two.permit().await });
        assert_eq!(one.holders().await.unwrap().len(), 1);
        assert!(one.refresh(permit.id()).await.unwrap());
        assert!(permit.release().await.unwrap());
        let permit = timeout(LIMIT, waiter).await.unwrap();
        drop(permit.unwrap().unwrap());
        one.release_all().await.unwrap();
    }
}

/// A channel that is forbidden stops those who would have to wait, and nobody else.
#[tokio::test]
async fn a_user_without_the_channel() {
    let rule = "user on >secret ~* resetchannels +@all";
    let server = RedisServer::options().user(rule).start().await;
    let client = as_user(&server, "user").await;
    let semaphore = Layout::Fair.make(&client, "a", Shape::new(1));
    let one = semaphore.acquire().await.unwrap();
    let error = semaphore.acquire().await.unwrap_err();
    assert!(matches!(error, Error::PermissionDenied { .. }), "{error}");
    assert!(semaphore.release(one.id()).await.unwrap());
    assert!(semaphore.try_acquire().await.unwrap().is_some());
}

/// Want of memory may pass: calls are repeated until it has.
#[tokio::test]
async fn a_server_without_memory() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let mut limit = async |value: &'static str| {
        let _: () = redis::cmd("CONFIG")
            .arg(&["SET", "maxmemory", value])
            .query_async(&mut redis)
            .await
            .unwrap();
    };
    let builder = Client::builder(server.url()).retry_window(Duration::from_millis(300));
    let hasty = builder.connect().await.unwrap();
    let patient = Client::connect(server.url()).await.unwrap();
    for layout in crate::layouts::ALL {
        let name = format!("memory-{layout:?}");
        let shape = Shape::new(2);
        let hasty = layout.make(&hasty, &name, shape);
        let patient = layout.make(&patient, &name, shape);
        let one = hasty.try_acquire().await.unwrap().expect("free");
        limit("1").await;
        let error = hasty.try_acquire().await.unwrap_err();
        assert!(
            matches!(&error, Error::RefusedForNow { detail, .. } if detail.starts_with("OOM")),
            "{layout:?}: {error}"
        );
        let waiter = patient.clone();
        let waiter = tokio::spawn(async move { waiter.acquire().await });
        // What is given back needs no memory.
        let held = hasty.holders().await.unwrap();
        assert_eq!(held.len(), 1, "{layout:?}");
        limit("0").await;
        let two = timeout(LIMIT, waiter).await.unwrap();
        let two = two.unwrap().unwrap();
        assert!(hasty.release(one.id()).await.unwrap());
        assert!(hasty.release(two.id()).await.unwrap());
        until("nobody holds", LIMIT, async || {
            hasty.holders().await.unwrap().is_empty()
        })
        .await;
    }
}

async fn allow(control: &mut MultiplexedConnection, rule: &str) {
    set_user(control, &["app", "+@all", rule]).await;
}

/// A semaphore of two permits, and who has them.
async fn both_taken(layout: Layout, client: &Client) -> (Handle, [Held; 2]) {
    let semaphore = layout.make(client, "subject", Shape::new(2));
    let both = [
        semaphore.acquire().await.unwrap(),
        semaphore.acquire().await.unwrap(),
    ];
    (semaphore, both)
}

/// Calls that are made together, of which one is refused: what the other is told is what has happened.
#[tokio::test]
async fn a_refused_refresh_takes_no_release_along() {
    for layout in crate::layouts::ALL {
        let (server, client) = limited("~* &* +@all").await;
        let mut control = server.connection().await;
        let (semaphore, [one, two]) = both_taken(layout, &client).await;
        let command = match layout {
            Layout::Set => "-sismember",
            Layout::Slots => "-pexpire",
            _ => "-zadd",
        };
        allow(&mut control, command).await;
        // The other two travel together, behind the first one.
        let calls = futures::future::join3(
            semaphore.holders(),
            semaphore.release(one.id()),
            semaphore.refresh(two.id()),
        );
        let (_, released, refreshed) = timeout(LIMIT, calls).await.expect("a call hangs");
        allow(&mut control, "+@all").await;
        let what = format!("{layout:?}: {released:?}, {refreshed:?}");
        let held = semaphore.holders().await.unwrap();
        let is_held = |id| held.iter().any(|holder| holder.id() == id);
        // What undoes a release may be forbidden, too.
        if let Ok(released) = released {
            assert!(released && !is_held(one.id()), "{what}");
        }
        assert!(is_held(two.id()), "{what}");
        assert!(refreshed.is_err() || layout == Layout::Slots, "{what}");
    }
}

/// The same with an acquisition that can't be put on record: the release that travels with it has not been carried out, either, and
/// is told so.
#[tokio::test]
async fn a_refused_acquisition_takes_a_release_along_and_says_so() {
    for layout in crate::layouts::ALL {
        let (server, client) = limited("~* &* +@all").await;
        let mut control = server.connection().await;
        let (semaphore, [one, two]) = both_taken(layout, &client).await;
        allow(&mut control, "-set").await;
        let calls = futures::future::join3(
            semaphore.holders(),
            semaphore.release(one.id()),
            semaphore.acquire(),
        );
        let (_, released, acquired) = timeout(LIMIT, calls).await.expect("a call hangs");
        allow(&mut control, "+@all").await;
        for error in [released.unwrap_err(), acquired.unwrap_err()] {
            assert!(matches!(error, Error::PermissionDenied { .. }), "{error}");
        }
        let held = semaphore.holders().await.unwrap();
        // What undoes the release of a slot is forbidden, too.
        let held: HashSet<_> = held.iter().map(|holder| holder.id()).collect();
        assert!(held.contains(two.id()), "{layout:?}: {held:?}");
        assert!(
            held.contains(one.id()) || layout == Layout::Slots,
            "{layout:?}: {held:?}"
        );
    }
}

/// Who comes beside a release that is refused could not be taken out again: it has not come, either.
#[tokio::test]
async fn a_refused_release_makes_no_holder_that_nobody_knows() {
    for layout in crate::layouts::ALL {
        let (server, client) = limited("~* &* +@all").await;
        let mut control = server.connection().await;
        let semaphore = layout.make(&client, "subject", Shape::new(3));
        let held = semaphore.acquire().await.unwrap();
        set_user(&mut control, &["app", "-zrem", "-srem", "-del"]).await;
        // The first call is under way, and the others travel together behind it.
        let (_, released, taken) = tokio::join!(
            semaphore.holders(),
            semaphore.release(held.id()),
            semaphore.try_acquire()
        );
        allow(&mut control, "+@all").await;
        let mut known: Vec<_> = taken.into_iter().flatten().collect();
        if released.is_err() {
            known.push(held);
        }
        let left = semaphore.holders().await.unwrap();
        assert_eq!(left.len(), known.len(), "{layout:?}: {left:?}, {known:?}");
    }
}
