//! Futures that are dropped, left alone or aborted: every permit is accounted for, and nobody is held up.

use std::pin::pin;
use std::time::Duration;

use crate::support::clients::{LIMIT, builder, connect, stored, until_stored};
use crate::support::polls::poll_once;
use crate::support::proxy::Proxy;
use crate::support::server::RedisServer;
use crate::support::snapshot::snapshot;
use crate::support::waiters::{until, until_subscribers};
use futures::FutureExt;
use futures::future::BoxFuture;
use redis::AsyncCommands;
use redisson_semaphore::{Client, RSemaphore};
use tokio::time::{Instant, timeout};

/// More calls than the connection takes without being asked twice.
const CROWD: usize = 3000;

#[tokio::test]
async fn a_waiter_left_alone_does_not_stop_the_line() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let client = connect(server.url()).await;
    let other = connect(server.url()).await.semaphore("line");
    let semaphore = client.semaphore("line");
    let mut first = pin!(semaphore.acquire(1));
    assert!(poll_once(&mut first).await.is_pending());
    // Its question has not been carried through, and it is not polled any more.
    let second = semaphore.clone();
    let second = tokio::spawn(async move { second.acquire(1).await });
    until_subscribers(&mut control, "redisson_sc:{line}", 1).await;
    other.release(2).await.unwrap();
    timeout(LIMIT, second)
        .await
        .expect("held up")
        .unwrap()
        .unwrap();
    timeout(LIMIT, first).await.expect("served").unwrap();
    assert_eq!(stored(&server, "line").await, ["0"]);
}

/// Both are woken by messages while one of them carries the round out and is not polled.
#[tokio::test]
async fn a_lonely_waiter_left_alone_is_given_its_permit_by_a_message() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let client = connect(server.url()).await;
    let other = connect(server.url()).await.semaphore("lonely");
    let semaphore = client.semaphore("lonely");
    let mut waiter = pin!(semaphore.acquire(1));
    for polls in [1, 2, 3, 5, 9] {
        for _ in 0..polls {
            assert!(poll_once(&mut waiter).await.is_pending());
            tokio::task::yield_now().await;
        }
    }
    let asked = timeout(Duration::from_millis(50), &mut waiter).await;
    assert!(asked.is_err(), "there are no permits");
    until_subscribers(&mut control, "redisson_sc:{lonely}", 1).await;
    other.release(1).await.unwrap();
    until_stored(&server, "lonely", 0).await;
    timeout(LIMIT, waiter).await.expect("served").unwrap();
}

/// Calls that change something and are owed to nobody.
fn changes(semaphore: &RSemaphore) -> Vec<BoxFuture<'_, ()>> {
    let day = Duration::from_secs(86_400);
    vec![
        semaphore.drain_permits().map(drop).boxed(),
        semaphore.add_permits(3).map(drop).boxed(),
        semaphore.try_set_permits(7).map(drop).boxed(),
        semaphore.delete().map(drop).boxed(),
        semaphore.expire(day).map(drop).boxed(),
        semaphore.object().rename("renamed").map(drop).boxed(),
        semaphore.object().copy("copied").map(drop).boxed(),
        semaphore.available_permits().map(drop).boxed(),
    ]
}

/// The connection is found dead only when the first call has been handed to it.
#[tokio::test]
async fn a_change_sent_to_a_dead_connection_is_not_made_when_its_caller_has_gone() {
    let mut server = RedisServer::options().appendonly().start().await;
    for number in 0..changes(&connect(server.url()).await.semaphore("any")).len() {
        let client = connect(server.url()).await;
        let semaphore = client.semaphore("sent");
        let _: () = server.connection().await.set("sent", 10).await.unwrap();
        server.kill().await;
        {
            let mut queued = changes(&semaphore);
            let mut change = queued.swap_remove(number);
            assert!(poll_once(&mut change.as_mut()).await.is_pending());
            // With something that is owed behind it.
            let mut release = pin!(semaphore.release(2));
            assert!(poll_once(&mut release).await.is_pending());
        }
        server.restart().await;
        settled(&client, &semaphore).await;
        let found = snapshot(&mut server.connection().await, "sent").await;
        let found = (found.value, found.ttl);
        assert_eq!(found, (vec!["12".to_owned()], None), "change {number}");
    }
}

/// A server with a few counters of 10, and a client that knows that it is away.
async fn away() -> (RedisServer, Client) {
    let mut server = RedisServer::options().appendonly().start().await;
    let client = builder(server.url())
        .retry_window(Duration::from_secs(1))
        .connect()
        .await
        .unwrap();
    for number in 0..changes(&client.semaphore("any")).len() {
        let semaphore = client.semaphore(&format!("away-{number}"));
        semaphore.try_set_permits(10).await.unwrap();
    }
    server.kill().await;
    client.semaphore("other").exists().await.unwrap_err();
    (server, client)
}

/// After this nothing is under way any more.
async fn settled(client: &Client, semaphore: &RSemaphore) {
    until("the client is back", LIMIT, async || {
        client.semaphore("other").exists().await.is_ok()
    })
    .await;
    until("nothing is queued before this", LIMIT, async || {
        semaphore.exists().await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn a_change_that_was_not_sent_is_not_made_when_its_caller_has_gone() {
    let (mut server, client) = away().await;
    for number in 0..changes(&client.semaphore("any")).len() {
        let semaphore = client.semaphore(&format!("away-{number}"));
        let mut change = changes(&semaphore).swap_remove(number);
        assert!(poll_once(&mut change.as_mut()).await.is_pending());
    }
    server.restart().await;
    for number in 0..changes(&client.semaphore("any")).len() {
        let semaphore = client.semaphore(&format!("away-{number}"));
        settled(&client, &semaphore).await;
        let found = snapshot(&mut server.connection().await, semaphore.name()).await;
        assert_eq!(found.value, ["10"], "change {number}");
        assert_eq!(found.ttl, None, "change {number}");
    }
    assert_eq!(stored(&server, "renamed").await, [""; 0]);
    assert_eq!(stored(&server, "copied").await, [""; 0]);
}

#[tokio::test]
async fn a_change_queued_behind_another_call_is_not_made_when_its_caller_has_gone() {
    let (mut server, client) = away().await;
    let semaphore = client.semaphore("away-0");
    let asked = semaphore.clone();
    let first = tokio::spawn(async move { asked.available_permits().await });
    tokio::task::yield_now().await;
    {
        let mut queued = changes(&semaphore);
        for change in &mut queued {
            assert!(poll_once(&mut change.as_mut()).await.is_pending());
        }
        // This is owed.
        let mut release = pin!(semaphore.release(2));
        assert!(poll_once(&mut release).await.is_pending());
    }
    server.restart().await;
    let _ = first.await.unwrap();
    settled(&client, &semaphore).await;
    let found = snapshot(&mut server.connection().await, "away-0").await;
    assert_eq!((found.value, found.ttl), (vec!["12".to_owned()], None));
    assert_eq!(stored(&server, "renamed").await, [""; 0]);
    assert_eq!(stored(&server, "copied").await, [""; 0]);
}

/// More calls than the connection takes at once, each polled once and then left alone for longer than an answer may take.
#[tokio::test]
async fn a_crowd_left_alone_holds_nobody_up() {
    // A machine with ten busy processes a core takes more than a second for so many calls.
    const RESPONSE_TIMEOUT: Duration = Duration::from_secs(3);
    let server = RedisServer::start().await;
    let proxy = Proxy::start(&server).await;
    let builder = builder(proxy.url()).response_timeout(RESPONSE_TIMEOUT);
    let client = builder.connect().await.expect("the server runs");
    assert_eq!(client.semaphore("other").available_permits().await, Ok(0));
    // The server knows the script from here on.
    client.semaphore("warm-up").release(1).await.unwrap();
    let opened = proxy.opened();
    let semaphores: Vec<_> = (0..CROWD)
        .map(|number| client.semaphore(&format!("crowd-{number}")))
        .collect();
    let mut crowd: Vec<_> = semaphores
        .iter()
        .map(|semaphore| Box::pin(semaphore.add_permits(1)))
        .collect();
    // All at once: the connection has no time in between.
    tokio::task::unconstrained(async {
        for call in &mut crowd {
            assert!(poll_once(&mut call.as_mut()).await.is_pending());
        }
    })
    .await;
    let left_alone = Instant::now();
    while left_alone.elapsed() < 2 * RESPONSE_TIMEOUT {
        assert_eq!(client.semaphore("other").available_permits().await, Ok(0));
    }
    assert_eq!(proxy.opened(), opened, "a healthy connection was replaced");
    let names: Vec<_> = semaphores.iter().map(RSemaphore::name).collect();
    let mut control = server.connection().await;
    until("all are carried out", LIMIT, async || {
        let stored: Vec<Option<u32>> = control.mget(&names).await.unwrap();
        stored.iter().all(|permits| *permits == Some(1))
    })
    .await;
    for call in crowd {
        timeout(LIMIT, call).await.expect("answered").unwrap();
    }
}
