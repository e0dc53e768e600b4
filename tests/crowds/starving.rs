//! Waiters that could starve, and what a grant costs in a crowd of clients.

use std::time::Duration;

use crate::support::clients::{connect, release_as_redisson, scripts, served};
use crate::support::crowd::Crowd;
use crate::support::proxy::Proxy;
use crate::support::server::RedisServer;
use crate::support::waiters::{until, until_queued};
use futures::future::join_all;
use redisson_semaphore::{Client, RSemaphore};

const NAME: &str = "starving";
const LIMIT: Duration = Duration::from_secs(60);

async fn semaphore(url: String) -> RSemaphore {
    let client = Client::connect(url).await;
    client.expect("the server runs").semaphore(NAME)
}

async fn semaphores(server: &RedisServer, permits: u32, count: usize) -> Vec<RSemaphore> {
    let all = join_all((0..count).map(|_| semaphore(server.url()))).await;
    assert!(all[0].try_set_permits(permits).await.unwrap());
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_clients_have_equal_shares_at_the_cost_of_two() {
    const CLIENTS: usize = 100;
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let clients = semaphores(&server, 1, CLIENTS).await;
    let hold = Duration::from_millis(5);
    let crowds: Vec<Crowd> = clients
        .iter()
        .map(|client| Crowd::start(client, 1, 1, hold))
        .collect();
    until("each has been served", LIMIT, async || {
        crowds.iter().all(|crowd| crowd.served() > 0)
    })
    .await;
    for crowd in &crowds {
        crowd.take();
    }
    let before = scripts(&mut connection).await;
    let total = || crowds.iter().map(Crowd::served).sum::<usize>();
    until("all are served five times", LIMIT, async || {
        total() >= 5 * CLIENTS
    })
    .await;
    let cost = (scripts(&mut connection).await - before) as f64 / total() as f64;
    let shares: Vec<usize> = crowds.iter().map(Crowd::served).collect();
    assert!(
        shares.iter().all(|share| (3..=7).contains(share)),
        "{shares:?}"
    );
    // A release, a request and a confirmation.
    assert!(cost <= 3.3, "{cost} scripts a grant");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_for_more_than_there_ever_is_does_not_stop_the_others() {
    let server = RedisServer::start().await;
    let clients = semaphores(&server, 8, 3).await;
    let impossible = tokio::spawn({
        let client = clients[0].clone();
        async move { client.acquire(9).await }
    });
    let crowds = [&clients[1], &clients[2]]
        .map(|client| Crowd::start(client, 8, 1, Duration::from_millis(5)));
    for crowd in &crowds {
        crowd.until_served(400).await;
    }
    impossible.abort();
    for crowd in crowds {
        crowd.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_far_away_is_served_beside_a_busy_one() {
    for millis in [20, 60, 100] {
        let server = RedisServer::start().await;
        let proxy = Proxy::start(&server).await;
        let near = semaphores(&server, 1, 1).await.remove(0);
        proxy.set_round_trip(Duration::from_millis(millis));
        let far = semaphore(proxy.url()).await;
        let busy = Crowd::start(&near, 16, 1, Duration::from_millis(5));
        busy.until_served(16).await;
        let distant = Crowd::start(&far, 1, 1, Duration::from_millis(5));
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

/// A release by Redisson is heard by one client, which is another one when that has gone.
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
