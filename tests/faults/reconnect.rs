//! Connections that end: who waits goes on waiting and is served as soon as it is possible.
//!
//! Nothing is found by slow looking here.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::clients::{
    KINDS, LIMIT, builder, connect, connections, kill, publish, served, stored,
};
use crate::support::server::RedisServer;
use crate::support::waiters::{channel, until, until_subscribers, waiter};
use redis::AsyncCommands;
use tokio::time::{Instant, timeout};

#[tokio::test]
async fn a_crowd_works_on_while_its_connections_are_killed() {
    const PERMITS: i64 = 3;
    const ROUNDS: usize = 40;
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let clients = [connect(server.url()).await, connect(server.url()).await];
    let setting = clients[0].semaphore("crowd");
    setting.try_set_permits(PERMITS as u32).await.unwrap();
    let (held, done) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicUsize::new(0)));
    let tasks: Vec<_> = (0..12)
        .map(|number| {
            let semaphore = clients[number % 2].semaphore("crowd");
            let (held, done) = (held.clone(), done.clone());
            let permits = 1 + (number % 3) as u32;
            tokio::spawn(async move {
                for _ in 0..ROUNDS {
                    semaphore.acquire(permits).await.unwrap();
                    let amount = i64::from(permits);
                    let now = held.fetch_add(amount, Ordering::SeqCst) + amount;
                    assert!(now <= PERMITS, "{now} permits are held");
                    tokio::task::yield_now().await;
                    held.fetch_sub(amount, Ordering::SeqCst);
                    semaphore.release(permits).await.unwrap();
                    done.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    let mut killed = 0;
    for number in 1..=20 {
        let goal = number * tasks.len() * ROUNDS / 22;
        until("the crowd goes on", LIMIT, async || {
            done.load(Ordering::SeqCst) >= goal
        })
        .await;
        // One may just be coming back.
        until("there is a connection to kill", LIMIT, async || {
            for kind in KINDS[number % 3] {
                killed += kill(&mut control, kind).await;
            }
            if killed < number {
                killed += kill(&mut control, "normal").await;
            }
            killed >= number
        })
        .await;
    }
    for task in tasks {
        timeout(LIMIT, task).await.expect("a caller hangs").unwrap();
    }
    assert_eq!(setting.available_permits().await, Ok(PERMITS));
    assert_eq!(stored(&server, "crowd").await, [PERMITS.to_string()]);
}

#[tokio::test]
async fn one_subscription_a_channel_and_one_connection_a_client() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let client = connect(server.url()).await;
    let names = ["one", "two", "three"];
    assert_eq!(connections(&mut control, "pubsub").await, 0);
    let mut tasks = Vec::new();
    for name in names {
        for permits in 1..20 {
            tasks.push(waiter(&mut control, &client.semaphore(name), permits % 3 + 1).await);
        }
    }
    assert_eq!(connections(&mut control, "pubsub").await, 1);
    assert_eq!(connections(&mut control, "normal").await, 1);
    for name in names {
        until_subscribers(&mut control, &channel(name), 1).await;
    }
    // The same behind a reconnection.
    assert_eq!(kill(&mut control, "pubsub").await, 1);
    for name in names {
        until_subscribers(&mut control, &channel(name), 1).await;
    }
    assert_eq!(connections(&mut control, "pubsub").await, 1);
    for name in names {
        client.semaphore(name).release(60).await.unwrap();
    }
    for task in tasks {
        served(task).await;
    }
    for name in names {
        until_subscribers(&mut control, &channel(name), 0).await;
    }
    drop(client);
    for kind in ["normal", "pubsub"] {
        until("the connections are closed", LIMIT, async || {
            connections(&mut control.clone(), kind).await == 0
        })
        .await;
    }
}

#[tokio::test]
async fn a_long_line_stands_through_a_lost_connection() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let window = Duration::from_millis(200);
    let client = builder(server.url())
        .retry_window(window)
        .connect()
        .await
        .unwrap();
    let semaphore = client.semaphore("line");
    let tasks: Vec<_> = (0..40)
        .map(|_| {
            let semaphore = semaphore.clone();
            tokio::spawn(async move { semaphore.acquire(1).await })
        })
        .collect();
    until_subscribers(&mut control, &channel("line"), 1).await;
    let joined = Instant::now();
    until("the retry window passes", LIMIT, async || {
        semaphore.available_permits().await.unwrap();
        joined.elapsed() > 2 * window
    })
    .await;
    assert_eq!(kill(&mut control, "normal").await, 1);
    publish(&mut control, "line", "1").await;
    until("the client is back", LIMIT, async || {
        semaphore.available_permits().await.is_ok()
    })
    .await;
    let _: () = control.set("line", 40).await.unwrap();
    publish(&mut control, "line", "40").await;
    for task in tasks {
        served(task).await;
    }
}
