//! Shares of clients in one queue: equal callers wait equally long, whichever client they belong to.
//!
//! The margins are wide: without a queue one client takes nearly everything, and others wait for ever.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use crate::layouts::{Handle, Layout, Shape};
use crate::support::clients::{connect, release_as_redisson, scripts, served};
use crate::support::crowd::{Crowd, Tally, Way};
use crate::support::proxy::Proxy;
use crate::support::server::RedisServer;
use crate::support::waiters::{until, until_it_rises, until_queued};
use futures::future::join_all;
use redis::AsyncCommands;
use redisson_semaphore::{Client, RSemaphore};

const HOLD: Duration = Duration::from_millis(5);
pub(crate) const NAME: &str = "shares";
const LIMIT: Duration = Duration::from_secs(60);

/// The semaphore in a new client with the default settings, as a service makes it.
pub(crate) async fn semaphore(url: String) -> RSemaphore {
    let client = Client::connect(url).await;
    client.expect("the server runs").semaphore(NAME)
}

/// Creates the semaphore, and returns it in `count` new clients.
pub(crate) async fn semaphores(
    server: &RedisServer,
    permits: u32,
    count: usize,
) -> Vec<RSemaphore> {
    let all = join_all((0..count).map(|_| semaphore(server.url()))).await;
    assert!(all[0].try_set_permits(permits).await.unwrap());
    all
}

/// Runs groups of callers of these sizes, and returns their tallies of two thirds of `served` grants, after the start.
async fn run(semaphores: &[RSemaphore], sizes: &[usize], served: usize) -> Vec<Tally> {
    let crowds: Vec<Crowd> = semaphores
        .iter()
        .zip(sizes)
        .map(|(semaphore, callers)| Crowd::start(semaphore, *callers, HOLD))
        .collect();
    tallies(&crowds, served).await
}

/// The tallies of two thirds of `served` grants. A third goes before, as no caller waits at the beginning.
async fn tallies(crowds: &[Crowd], served: usize) -> Vec<Tally> {
    let total = || crowds.iter().map(Crowd::served).sum::<usize>();
    let until_served = async |goal: usize| {
        until("served", LIMIT, async || total() >= goal).await;
    };
    until_served(served / 3).await;
    for crowd in crowds {
        crowd.take();
    }
    until_served(total() + served * 2 / 3).await;
    crowds.iter().map(Crowd::take).collect()
}

/// Asserts that the largest value is at most `factor` times the smallest.
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
        .map(|client| Crowd::start(client, 16, HOLD))
        .collect();
    assert_alike("two", &counts(&tallies(&crowds, 500).await), 2.5);
    crowds.push(Crowd::start(&clients[2], 16, HOLD));
    assert_alike("three", &counts(&tallies(&crowds, 1_000).await), 2.5);
    crowds.remove(0).stop().await;
    assert_alike("two again", &counts(&tallies(&crowds, 500).await), 2.5);
}

/// The keys that all waiters share expire, unless they are used.
#[tokio::test]
async fn queue_and_notes_expire_unless_used() {
    let server = RedisServer::start().await;
    let clients = semaphores(&server, 1, 2).await;
    let crowds = [&clients[0], &clients[1]].map(|client| Crowd::start(client, 4, HOLD));
    tallies(&crowds, 100).await;
    let mut connection = server.connection().await;
    let mut life = async |of: &str| {
        let key = format!("redisson_sc_{of}:{{{NAME}}}");
        let life: i64 = connection.pttl(&key).await.unwrap();
        assert!((1..=60_000).contains(&life), "{key}: {life} ms");
        life
    };
    life("notes").await;
    until_it_rises("use puts its end off", LIMIT, async || life("queue").await).await;
    join_all(crowds.into_iter().map(Crowd::stop)).await;
}

/// Asserts that each client's share is in `shares` while the average is `times`, and that a grant takes at most `most` scripts.
async fn equal_shares(
    server: &RedisServer,
    crowds: Vec<Crowd>,
    (times, shares): (usize, RangeInclusive<usize>),
    most: f64,
) {
    let mut connection = server.connection().await;
    until("each has been served", LIMIT, async || {
        crowds.iter().all(|crowd| crowd.served() > 1)
    })
    .await;
    for crowd in &crowds {
        crowd.take();
    }
    let before = scripts(&mut connection).await;
    let total = || crowds.iter().map(Crowd::served).sum::<usize>();
    until("all are served", LIMIT, async || {
        total() >= times * crowds.len()
    })
    .await;
    let cost = (scripts(&mut connection).await - before) as f64 / total() as f64;
    let each: Vec<usize> = crowds.iter().map(Crowd::served).collect();
    assert!(each.iter().all(|share| shares.contains(share)), "{each:?}");
    println!("{cost} scripts a grant");
    assert!(cost <= most, "{cost} scripts a grant");
}

/// A grant costs a release, a request and a confirmation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_have_equal_shares_at_the_cost_of_two() {
    let server = RedisServer::start().await;
    let clients = semaphores(&server, 1, 100).await.into_iter();
    let crowds = clients.map(|client| Crowd::start(&client, 1, HOLD));
    equal_shares(&server, crowds.collect(), (5, 3..=7), 3.3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_have_equal_shares_of_permits_with_ids() {
    let server = RedisServer::start().await;
    let clients = join_all((0..60).map(|_| Client::connect(server.url()))).await;
    let mut crowds = Vec::new();
    for client in clients {
        let jobs = client.unwrap().permit_expirable_semaphore("jobs");
        jobs.try_set_permits(1).await.unwrap();
        let jobs: Handle = Arc::new(jobs);
        crowds.push(Crowd::start(&jobs, 1, HOLD));
    }
    equal_shares(&server, crowds, (5, 3..=7), 3.5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_have_equal_shares_of_a_recipe() {
    let server = RedisServer::start().await;
    let clients = join_all((0..100).map(|_| Client::connect(server.url()))).await;
    let shape = Shape::new(1).check(Duration::from_millis(100));
    let crowds = clients.into_iter().map(|client| {
        let semaphore = Layout::Fair.make(&client.unwrap(), NAME, shape);
        Crowd::start(&semaphore, 1, HOLD)
    });
    equal_shares(&server, crowds.collect(), (5, 3..=7), 6.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_have_equal_shares_of_a_lock() {
    let server = RedisServer::start().await;
    let clients = join_all((0..40).map(|_| connect(server.url()))).await;
    let hold = Duration::from_millis(2);
    let crowds = clients.iter();
    let crowds = crowds.map(|client| Crowd::of_locks(client, 1, Way::Lock, hold));
    equal_shares(&server, crowds.collect(), (10, 7..=13), 2.5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_far_away_is_served_beside_a_busy_one() {
    for millis in [20, 60, 100] {
        let server = RedisServer::start().await;
        let proxy = Proxy::start(&server).await;
        let near = semaphores(&server, 1, 1).await.remove(0);
        proxy.set_round_trip(Duration::from_millis(millis));
        let far = semaphore(proxy.url()).await;
        let busy = Crowd::start(&near, 16, HOLD);
        busy.until_served(16).await;
        let distant = Crowd::start(&far, 1, HOLD);
        distant.until_served(2).await;
        busy.take();
        distant.take();
        distant.until_served(10).await;
        let share = busy.served() / 16;
        assert!(share < 150, "10 grants beside {share}, {millis} ms away");
        busy.stop().await;
        distant.stop().await;
    }
}

/// A release by Redisson notifies one client. When that client has gone, another client is notified.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn last_of_a_crowd_hears_a_release_by_redisson() {
    const CROWD: usize = 40;
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let clients = join_all((0..=CROWD).map(|_| connect(server.url()))).await;
    clients[0].semaphore(NAME).try_set_permits(1).await.unwrap();
    for _ in 0..4 {
        clients[0].semaphore(NAME).acquire(1).await.unwrap();
        let crowd: Vec<_> = clients[1..]
            .iter()
            .map(|client| {
                let semaphore = client.semaphore(NAME);
                tokio::spawn(async move { semaphore.acquire(1).await })
            })
            .collect();
        until_queued(&mut connection, NAME, CROWD).await;
        let last = tokio::spawn({
            let semaphore = clients[0].semaphore(NAME);
            async move { semaphore.acquire(1).await }
        });
        until_queued(&mut connection, NAME, CROWD + 1).await;
        crowd.iter().for_each(tokio::task::JoinHandle::abort);
        until_queued(&mut connection, NAME, 1).await;
        release_as_redisson(&mut connection, NAME, 1).await;
        served(last).await;
        clients[0].semaphore(NAME).release(1).await.unwrap();
    }
}
