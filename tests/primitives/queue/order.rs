//! The queue in Redis: callers are served in the order of their arrival.

use std::time::Duration;

use crate::support::channel::Channel;
use crate::support::clients::{
    LIMIT, builder, connect, scripts, served, start_controlled, until_stored,
};
use crate::support::waiters::{channel, until_passed, until_queued, until_subscribers, waiter};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, RSemaphore, Result};
use tokio::task::JoinHandle;

const NAME: &str = "order";

fn key(part: &str) -> String {
    format!("redisson_sc_{part}:{{{NAME}}}")
}

#[tokio::test]
async fn callers_of_two_clients_are_served_in_order_of_arrival() {
    let (server, mut control) = start_controlled().await;
    let clients = [connect(server.url()).await, connect(server.url()).await];
    let releasing = connect(server.url()).await.semaphore(NAME);
    let mut waiting = Vec::new();
    for number in [0, 1, 1, 0, 1, 0] {
        let semaphore = clients[number].semaphore(NAME);
        waiting.push(waiter(&mut control, &semaphore, 1).await);
    }
    while !waiting.is_empty() {
        let first = waiting.remove(0);
        releasing.release(1).await.unwrap();
        served(first).await;
        assert!(waiting.iter().all(|task| !task.is_finished()));
    }
    until_stored(&server, NAME, 0).await;
}

/// A release serves a caller of its own client without Redis only where no other client has waited for longer.
#[tokio::test]
async fn release_goes_past_the_own_client_to_an_earlier_caller() {
    let (server, mut control) = start_controlled().await;
    let own = builder(server.url()).local_hand_off(LIMIT);
    let own = own.connect().await.unwrap().semaphore(NAME);
    own.try_set_permits(1).await.unwrap();
    own.acquire(1).await.unwrap();
    let other = connect(server.url()).await.semaphore(NAME);
    let first = waiter(&mut control, &other, 1).await;
    until_passed(&mut control, Duration::from_millis(20)).await;
    let second = waiter(&mut control, &own, 1).await;
    own.release(1).await.unwrap();
    served(first).await;
    assert!(!second.is_finished());
    other.release(1).await.unwrap();
    served(second).await;
}

/// `acquire` in a task.
fn acquiring(semaphore: &RSemaphore, amount: u32) -> JoinHandle<Result<()>> {
    let semaphore = semaphore.clone();
    tokio::spawn(async move { semaphore.acquire(amount).await })
}

/// More callers than entries of a client, more clients than a page, all with requests that do not fit before one that does.
#[tokio::test]
async fn small_request_behind_many_large_ones_is_found() {
    let (server, mut control) = start_controlled().await;
    let mut large = Vec::new();
    for number in 0..5 {
        let client = connect(server.url()).await.semaphore(NAME);
        large.extend((0..70).map(|_| acquiring(&client, 9)));
        until_queued(&mut control, NAME, 64 * (number + 1)).await;
    }
    let client = connect(server.url()).await.semaphore(NAME);
    let small = waiter(&mut control, &client, 1).await;
    let releasing = connect(server.url()).await.semaphore(NAME);
    releasing.release(1).await.unwrap();
    served(small).await;
    assert!(large.iter().all(|task| !task.is_finished()));
    releasing.release(9 * 350).await.unwrap();
    for task in large {
        served(task).await;
    }
    until_stored(&server, NAME, 0).await;
}

/// Callers of one client that all want different amounts have few entries, and what suffices for one of them is used.
#[tokio::test]
async fn smallest_of_many_different_requests_is_served() {
    let (server, mut control) = start_controlled().await;
    let client = connect(server.url()).await.semaphore(NAME);
    let acquire = |amount| acquiring(&client, amount);
    let large: Vec<_> = (10..110).map(acquire).collect();
    until_queued(&mut control, NAME, 64).await;
    let three = acquire(3);
    until_queued(&mut control, NAME, 65).await;
    let two = acquire(2);
    until_queued(&mut control, NAME, 66).await;
    let releasing = connect(server.url()).await.semaphore(NAME);
    for (amount, small) in [(2, two), (3, three)] {
        releasing.release(amount).await.unwrap();
        served(small).await;
    }
    assert!(large.iter().all(|task| !task.is_finished()));
    releasing.release((10..110).sum()).await.unwrap();
    for task in large {
        served(task).await;
    }
    until_stored(&server, NAME, 0).await;
}

/// Permits that suffice for many callers behind 64 larger requests go to all of these at once.
#[tokio::test]
async fn many_small_requests_behind_large_ones_are_served_together() {
    let (server, mut control) = start_controlled().await;
    let client = connect(server.url()).await.semaphore(NAME);
    let acquire = |amount| acquiring(&client, amount);
    let large: Vec<_> = (0..64).map(|_| acquire(5000)).collect();
    until_queued(&mut control, NAME, 64).await;
    let releasing = connect(server.url()).await.semaphore(NAME);
    releasing.release(1000).await.unwrap();
    let before = scripts(&mut control).await;
    let small: Vec<_> = (0..300).map(|number| acquire(1 + number % 3)).collect();
    for task in small {
        served(task).await;
    }
    let cost = scripts(&mut control).await - before;
    assert!(cost <= 30, "{cost} scripts");
    assert!(large.iter().all(|task| !task.is_finished()));
    large.iter().for_each(JoinHandle::abort);
}

/// An entry of another client with this id, which came so long ago.
async fn entry(control: &mut MultiplexedConnection, id: &str, ticket: u32, permits: u32, age: f64) {
    let (seconds, micros): (f64, f64) = redis::cmd("TIME").query_async(control).await.unwrap();
    let arrival = seconds * 1e6 + micros - age * 1e6;
    let entry = format!("{id}:a{ticket}:{permits}:100");
    let () = control.zadd(key("queue"), entry, arrival).await.unwrap();
}

fn id(number: u32) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

/// Nobody listens to what it would be granted.
#[tokio::test]
async fn large_request_of_a_dead_client_leaves_the_queue() {
    let (server, mut control) = start_controlled().await;
    let client = connect(server.url()).await.semaphore(NAME);
    let small = waiter(&mut control, &client, 1).await;
    entry(&mut control, &id(1), 1, 9, 3600.0).await;
    let releasing = connect(server.url()).await.semaphore(NAME);
    releasing.release(1).await.unwrap();
    served(small).await;
    until_queued(&mut control, NAME, 0).await;
}

/// The client that listens to JVMs is the first that can be notified, whatever stands before it.
#[tokio::test]
async fn waiter_behind_a_dead_client_listens_to_jvms() {
    let (server, mut control) = start_controlled().await;
    for ticket in 1..=5 {
        entry(&mut control, &id(1), ticket, 1, 3600.0).await;
    }
    let semaphore = connect(server.url()).await.semaphore(NAME);
    let waiting = tokio::spawn(async move { semaphore.acquire(1).await });
    until_subscribers(&mut control, &channel(NAME), 1).await;
    let () = control.incr(NAME, 1).await.unwrap();
    let () = control.publish(channel(NAME), "1").await.unwrap();
    served(waiting).await;
}

/// Messages of JVMs' channel are for JVMs: a release that serves the queue sends none there without them.
#[tokio::test]
async fn release_to_the_queue_is_announced_to_jvms_only() {
    let (server, mut control) = start_controlled().await;
    let (one, two) = (connect(server.url()).await, connect(server.url()).await);
    let first = waiter(&mut control, &one.semaphore(NAME), 1).await;
    let second = waiter(&mut control, &two.semaphore(NAME), 1).await;
    let releasing = connect(server.url()).await.semaphore(NAME);
    let mut heard = Channel::pattern(&server, "redisson_sc:*").await;
    releasing.release(1).await.unwrap();
    served(first).await;
    assert_eq!(heard.until_marker().await, []);
    let mut jvm = Channel::subscribe(&server, &channel(NAME)).await;
    releasing.release(2).await.unwrap();
    served(second).await;
    assert_eq!(jvm.next().await.payload, "+1");
}

/// The keys that all waiters share expire, and another waiter puts the end of the queue off.
#[tokio::test]
async fn queue_and_notes_expire_unless_used() {
    let (server, mut control) = start_controlled().await;
    let client = Client::connect(server.url()).await.unwrap();
    let semaphore = client.semaphore(NAME);
    let first = waiter(&mut control, &semaphore, 1).await;
    for part in ["queue", "notes"] {
        let left: i64 = control.pttl(key(part)).await.unwrap();
        assert!((1..=60_000).contains(&left), "{part}: {left} ms");
    }
    let () = control.pexpire(key("queue"), 30_000).await.unwrap();
    let second = waiter(&mut control, &semaphore, 2).await;
    let left: i64 = control.pttl(key("queue")).await.unwrap();
    assert!((30_001..=60_000).contains(&left), "{left} ms");
    first.abort();
    second.abort();
}
