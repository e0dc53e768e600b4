//! The classic recipes on a server that forbids commands.

use std::time::Duration;

use crate::layouts::Shape;
use crate::support::acl::set_user;
use crate::support::clients::limited;
use crate::support::server::RedisServer;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::Client;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(20);

/// The commands that the scripts need besides `EVALSHA`.
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

async fn allow(control: &mut MultiplexedConnection, rule: &str) {
    set_user(control, &["app", "+@all", rule]).await;
}

/// A caller that takes a permit beside a refused release could not be removed again: it has taken none, either.
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
