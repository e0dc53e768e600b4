//! Shares of clients in one queue: equal callers wait equally long, in whichever client they are.
//!
//! The clients live in one process here; see `processes.rs` for those that freeze and die. The margins are
//! wide: without a queue one client takes nearly everything, and others wait for ever.

use std::time::Duration;

use crate::support::crowd::{Crowd, Tally};
use crate::support::server::RedisServer;
use crate::support::waiters::until;
use futures::future::join_all;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, RSemaphore};

const HOLD: Duration = Duration::from_millis(5);
const NAME: &str = "shares";

/// A client of its own.
async fn semaphore(server: &RedisServer) -> RSemaphore {
    let client = Client::connect(server.url()).await;
    client
        .expect("the server has just been started")
        .semaphore(NAME)
}

async fn semaphores(server: &RedisServer, permits: u32, count: usize) -> Vec<RSemaphore> {
    let all = join_all((0..count).map(|_| semaphore(server))).await;
    assert!(all[0].try_set_permits(permits).await.unwrap());
    all
}

/// Lets crowds of these sizes work until so many callers have been served after the start.
async fn run(semaphores: &[RSemaphore], sizes: &[usize], served: usize) -> Vec<Tally> {
    let crowds: Vec<Crowd> = semaphores
        .iter()
        .zip(sizes)
        .map(|(semaphore, callers)| Crowd::start(semaphore, *callers, 1, HOLD))
        .collect();
    tallies(&crowds, served).await
}

/// What happens behind the beginning, in which nobody waits yet, until all together have been served so often.
async fn tallies(crowds: &[Crowd], served: usize) -> Vec<Tally> {
    let total = || crowds.iter().map(Crowd::served).sum::<usize>();
    let until_served = async |goal: usize| {
        until("served", Duration::from_secs(60), async || total() >= goal).await;
    };
    until_served(served / 3).await;
    for crowd in crowds {
        crowd.take();
    }
    until_served(total() + served * 2 / 3).await;
    crowds.iter().map(Crowd::take).collect()
}

/// The largest part is at the most this many times the smallest.
fn assert_alike(what: &str, values: &[f64], factor: f64) {
    let max = values.iter().copied().fold(0.0, f64::max);
    let min = values.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(max <= min * factor, "{what}: {values:?}");
}

fn counts(tallies: &[Tally]) -> Vec<f64> {
    tallies.iter().map(|tally| tally.count() as f64).collect()
}

fn means(tallies: &[Tally]) -> Vec<f64> {
    tallies
        .iter()
        .map(|tally| tally.mean().as_secs_f64())
        .collect()
}

#[tokio::test]
async fn clients_of_equal_size_get_equal_shares() {
    let server = RedisServer::start().await;
    let clients = semaphores(&server, 4, 4).await;
    let tallies = run(&clients, &[16; 4], 1_200).await;
    assert_alike("shares", &counts(&tallies), 2.5);
    for tally in &tallies {
        let (median, longest) = (tally.percentile(50), tally.max());
        assert!(
            longest < 6 * median,
            "median {median:?}, longest {longest:?}"
        );
    }
}

#[tokio::test]
async fn callers_wait_equally_long_in_clients_of_unequal_size() {
    let server = RedisServer::start().await;
    let clients = semaphores(&server, 4, 4).await;
    let tallies = run(&clients, &[4, 28, 4, 28], 1_200).await;
    assert_alike("mean waits", &means(&tallies), 2.5);
}

#[tokio::test]
async fn client_that_joins_gets_a_share() {
    let server = RedisServer::start().await;
    let clients = semaphores(&server, 4, 3).await;
    let mut crowds: Vec<Crowd> = clients[..2]
        .iter()
        .map(|client| Crowd::start(client, 16, 1, HOLD))
        .collect();
    assert_alike("two", &counts(&tallies(&crowds, 500).await), 2.5);
    crowds.push(Crowd::start(&clients[2], 16, 1, HOLD));
    assert_alike("three", &counts(&tallies(&crowds, 1_000).await), 2.5);
    crowds.remove(0).stop().await;
    assert_alike("two again", &counts(&tallies(&crowds, 500).await), 2.5);
}

/// The keys of this crate, but for the records of last calls.
async fn keys(server: &RedisServer) -> Vec<String> {
    let mut keys = Vec::new();
    for pattern in [
        "redisson_sc_queue*",
        "redisson_sc_grants*",
        "redisson_sc_notes*",
    ] {
        let mut connection = server.connection().await;
        let mut command = redis::cmd("KEYS");
        let found: Vec<String> = command
            .arg(pattern)
            .query_async(&mut connection)
            .await
            .unwrap();
        keys.extend(found);
    }
    keys
}

#[tokio::test]
async fn queue_and_grants_vanish_with_the_last_waiter() {
    for clients in [1, 2] {
        let server = RedisServer::start().await;
        let clients = semaphores(&server, 2, clients).await;
        let crowds: Vec<_> = clients
            .iter()
            .map(|client| Crowd::start(client, 16, 1, HOLD))
            .collect();
        tallies(&crowds, 200).await;
        join_all(crowds.into_iter().map(Crowd::stop)).await;
        until(
            "queue and grants vanish",
            Duration::from_secs(20),
            async || {
                let keys = keys(&server).await;
                keys.iter().all(|key| key.starts_with("redisson_sc_notes"))
            },
        )
        .await;
    }
}

/// Also while it is used all the time.
#[tokio::test]
async fn queue_and_notes_expire_unless_used() {
    let server = RedisServer::start().await;
    let clients = semaphores(&server, 1, 2).await;
    let crowds = [&clients[0], &clients[1]].map(|client| Crowd::start(client, 4, 1, HOLD));
    tallies(&crowds, 100).await;
    let mut connection = server.connection().await;
    let life = async |connection: &mut MultiplexedConnection, key: &str| {
        let mut pttl = redis::cmd("PTTL");
        let life: i64 = pttl.arg(key).query_async(connection).await.unwrap();
        assert!((1..=60_000).contains(&life), "{key}: {life} ms");
        life
    };
    let queue = format!("redisson_sc_queue:{{{NAME}}}");
    life(&mut connection, &format!("redisson_sc_notes:{{{NAME}}}")).await;
    let first = life(&mut connection, &queue).await;
    // It is put off by use: it does not fall with the time that passes.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let second = life(&mut connection, &queue).await;
    assert!(second > first - 2_500, "{first}, then {second} ms");
    join_all(crowds.into_iter().map(Crowd::stop)).await;
}
