//! The client that listens to JVMs for all.

use std::time::Duration;

use futures::future::join_all;
use redis::AsyncCommands;

use crate::support::channel::Channel;
use crate::support::clients::{
    LIMIT, commands, connect, release_as_redisson, served, start_controlled,
};
use crate::support::crowd::Crowd;
use crate::support::waiters::{channel, until, until_queued};
use redisson_semaphore::Client;

const NAME: &str = "listened";
const OTHER: &str = "00000000-0000-4000-8000-000000000000";

fn queue() -> String {
    format!("redisson_sc_queue:{{{NAME}}}")
}

fn notes() -> String {
    format!("redisson_sc_notes:{{{NAME}}}")
}

/// Entries of another client, which come before all others.
fn entries(count: usize) -> Vec<(u64, String)> {
    let entry = |ticket| (1, format!("{OTHER}:a{ticket}:1:100"));
    (1..=count).map(entry).collect()
}

/// The other one hears all messages, and never sends anything.
#[tokio::test]
async fn a_listener_that_lets_a_grant_run_out_is_replaced() {
    let (server, mut control) = start_controlled().await;
    let client = connect(server.url()).await;
    let mut messages = Channel::subscribe(&server, &format!("{}:{OTHER}", queue())).await;
    let _: u64 = control.zadd_multiple(queue(), &entries(3)).await.unwrap();
    let semaphore = client.semaphore(NAME);
    let waits = || {
        let semaphore = semaphore.clone();
        tokio::spawn(async move { semaphore.acquire(1).await })
    };
    let first = waits();
    assert_eq!(messages.next().await.payload, "watch");
    let second = waits();
    until_queued(&mut control, NAME, 5).await;
    semaphore.release(1).await.unwrap();
    served(first).await;
    // The script that has found the grant run out has chosen another one.
    let listens: Option<String> = control.hget(notes(), "watch").await.unwrap();
    assert_eq!(listens.as_deref(), Some(client.id()));
    semaphore.release(1).await.unwrap();
    served(second).await;
}

/// The other one is dead, and had many callers.
#[tokio::test]
async fn a_client_that_does_not_hear_is_asked_once() {
    let (server, mut control) = start_controlled().await;
    let client = connect(server.url()).await;
    let _: u64 = control.zadd_multiple(queue(), &entries(64)).await.unwrap();
    let before = commands(&mut control, "publish").await;
    let semaphore = client.semaphore(NAME);
    let waits = tokio::spawn(async move { semaphore.acquire(1).await });
    until_queued(&mut control, NAME, 1).await;
    assert_eq!(commands(&mut control, "publish").await, before + 1);
    waits.abort();
}

/// A release by Redisson notifies one client. When that client has gone, another client is notified.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn last_of_a_crowd_hears_a_release_by_redisson() {
    const CROWD: usize = 40;
    let (server, mut control) = start_controlled().await;
    let clients = join_all((0..=CROWD).map(|_| connect(server.url()))).await;
    let waits = |client: &Client| {
        let semaphore = client.semaphore(NAME);
        tokio::spawn(async move { semaphore.acquire(1).await })
    };
    for _ in 0..4 {
        let crowd: Vec<_> = clients[1..].iter().map(waits).collect();
        until_queued(&mut control, NAME, CROWD).await;
        let last = waits(&clients[0]);
        until_queued(&mut control, NAME, CROWD + 1).await;
        crowd.iter().for_each(tokio::task::JoinHandle::abort);
        until_queued(&mut control, NAME, 1).await;
        release_as_redisson(&mut control, NAME, 1).await;
        served(last).await;
    }
}

/// A JVM that has taken nothing for long, as it was slow, is still left several permits at a time: its next caller may want these.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_jvm_that_was_slow_for_long_gets_several_permits() {
    const TAKE: &str = "if redis.call('GET', KEYS[1]) + 0 < 3 then return 0 end
        return redis.call('DECRBY', KEYS[1], 3) + 1";
    let (server, mut control) = start_controlled().await;
    let _jvm = Channel::subscribe(&server, &channel(NAME)).await;
    let clients = [connect(server.url()).await, connect(server.url()).await];
    let seats = clients.each_ref().map(|client| client.semaphore(NAME));
    assert_eq!(seats[0].try_set_permits(4).await, Ok(true));
    let callers = (0..16).map(|number| seats[number % 2].clone());
    let crowd = Crowd::start(callers, Duration::from_millis(1));
    crowd.until_served(2000).await;
    until("three are free at a time", LIMIT, async || {
        let mut take = redis::cmd("EVAL");
        take.arg(TAKE).arg(1).arg(NAME);
        take.query_async::<i64>(&mut control).await.unwrap() > 0
    })
    .await;
    crowd.stop().await;
}

/// A JVM took one of many permits that were left to it. The others are not left to it again.
#[tokio::test]
async fn permits_that_a_jvm_has_left_over_go_to_the_queue() {
    let (server, mut control) = start_controlled().await;
    let _jvm = Channel::subscribe(&server, &channel(NAME)).await;
    let semaphore = connect(server.url()).await.semaphore(NAME);
    assert_eq!(semaphore.try_set_permits(8).await, Ok(true));
    // The next time lasts for more than a minute.
    let account = [
        ("left", "8"),
        ("credit", "30"),
        ("until", "1"),
        ("stay", "200000000"),
        ("taken", "1"),
    ];
    let () = control.hset_multiple(notes(), &account).await.unwrap();
    served(tokio::spawn(async move { semaphore.acquire(7).await })).await;
}
