//! A lock that hundreds of clients wait for: a grant costs few scripts, and somebody always has it.

use std::time::Duration;

use crate::support::clients::{connect, scripts, served};
use crate::support::lock_crowd::{LockCrowd, Way};
use crate::support::monitor::Monitor;
use crate::support::server::RedisServer;
use crate::support::waiters::{until, until_lock_queued};
use futures::future::join_all;
use redisson_semaphore::Client;
use tokio::task::JoinHandle;

const CLIENTS: usize = 40;
const LIMIT: Duration = Duration::from_secs(60);

fn locking(client: &Client) -> JoinHandle<redisson_semaphore::Result<()>> {
    let lock = client.lock("door");
    tokio::spawn(async move { lock.lock().await })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grant_costs_two_scripts_and_everybody_has_some() {
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let clients = join_all((0..CLIENTS).map(|_| connect(server.url()))).await;
    let crowds: Vec<LockCrowd> = clients
        .iter()
        .map(|client| LockCrowd::start(client, 1, Way::Lock, Duration::from_millis(2)))
        .collect();
    let total = || crowds.iter().map(LockCrowd::grants).sum::<u64>();
    until("each has been served twice", LIMIT, async || {
        crowds.iter().all(|crowd| crowd.grants() > 1)
    })
    .await;
    let (before, grants) = (scripts(&mut connection).await, total());
    until("they go on", LIMIT, async || total() > grants + 400).await;
    let cost = (scripts(&mut connection).await - before) as f64 / (total() - grants) as f64;
    println!("{cost} scripts a grant");
    assert!(cost < 2.5, "{cost} scripts a grant");
    let mut each: Vec<u64> = crowds.iter().map(LockCrowd::grants).collect();
    each.sort_unstable();
    assert!(each[0] * 2 > each[CLIENTS - 1], "{each:?}");
    join_all(crowds.into_iter().map(LockCrowd::stop)).await;
}

/// How many scripts a grant costs when so many clients wait behind a holder.
async fn scripts_of_fresh(clients: u64) -> f64 {
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let holder = connect(server.url()).await.lock("door");
    holder.lock().await.unwrap();
    let fresh = join_all((0..clients).map(|_| connect(server.url()))).await;
    let turns = fresh.iter().map(|client| {
        let lock = client.lock("door");
        tokio::spawn(async move {
            lock.lock().await?;
            tokio::time::sleep(Duration::from_millis(5)).await;
            lock.unlock().await
        })
    });
    let turns: Vec<_> = turns.collect();
    until_lock_queued(&mut connection, "door", clients).await;
    let mut monitor = Monitor::start(&server).await;
    holder.unlock().await.unwrap();
    for turn in turns {
        served(turn).await;
    }
    let commands = monitor.until_marker().await;
    let scripts = commands.iter().filter(|one| one.is_script()).count();
    scripts as f64 / clients as f64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grant_among_a_hundred_clients_costs_two_scripts() {
    let cost = scripts_of_fresh(100).await;
    println!("{cost} scripts a grant");
    assert!(cost < 2.5, "{cost} scripts a grant");
}

/// Clients whose callers were killed or have gone are passed. Nobody looks without a reason here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_left_of_a_crowd_gets_it() {
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let clients = join_all((0..CLIENTS).map(|_| connect(server.url()))).await;
    // What a client knows of a lock, it knows as long as it has a handle.
    let _handles: Vec<_> = clients.iter().map(|client| client.lock("door")).collect();
    let crowds: Vec<LockCrowd> = clients
        .iter()
        .map(|client| LockCrowd::start(client, 1, Way::Lock, Duration::from_millis(1)))
        .collect();
    until("each has been served twice", LIMIT, async || {
        crowds.iter().all(|crowd| crowd.grants() > 1)
    })
    .await;
    // All go at the same time, and one of them may have it.
    drop(crowds);
    for client in &clients {
        client.lock("door").force_unlock().await.unwrap();
    }
    for pair in clients.chunks(2).take(2) {
        until_lock_queued(&mut connection, "door", 0).await;
        let holder = pair[0].lock("door");
        holder.lock().await.unwrap();
        let last = locking(&pair[1]);
        until_lock_queued(&mut connection, "door", 1).await;
        holder.unlock().await.unwrap();
        served(last).await;
        assert!(pair[0].lock("door").force_unlock().await.unwrap());
    }
}
