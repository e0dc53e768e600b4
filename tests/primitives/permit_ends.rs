//! Permits with ids that end while clients wait.

use std::time::Duration;

use crate::support::clients::{LIMIT, NEVER, builder, scripts};
use crate::support::server::RedisServer;
use crate::support::waiters::{until, until_in_queue};
use futures::future::join_all;
use redisson_semaphore::{Client, Held, RPermitExpirableSemaphore, Result};
use tokio::task::JoinHandle;
use tokio::time::timeout;

const NAME: &str = "jobs";
const QUEUE: &str = "redisson_sc_leased_queue:{jobs}";
const PATIENCE: Duration = Duration::from_secs(60);

/// The semaphore in `count` clients with the default settings, as a service makes it.
async fn clients(server: &RedisServer, count: usize) -> Vec<RPermitExpirableSemaphore> {
    let all = (0..count).map(|_| Client::connect(server.url()));
    let all = join_all(all).await.into_iter();
    all.map(|client| client.unwrap().permit_expirable_semaphore(NAME))
        .collect()
}

fn acquire(jobs: &RPermitExpirableSemaphore) -> JoinHandle<Result<Held>> {
    let jobs = jobs.clone();
    tokio::spawn(async move { jobs.acquire().await })
}

async fn granted(task: JoinHandle<Result<Held>>) -> Held {
    let told = timeout(LIMIT, task).await.expect("asleep");
    told.unwrap().unwrap()
}

/// Permits whose lease is over reach all waiters without a release. Not every waiter checks for each permit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_that_end_come_back_to_a_crowd_without_a_herd() {
    const CLIENTS: usize = 80;
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let clients = clients(&server, CLIENTS).await;
    clients[0].try_set_permits(1).await.unwrap();
    let leased =
        |jobs: &RPermitExpirableSemaphore| jobs.clone().with_lease(Duration::from_millis(300));
    let held = clients[0].acquire().await.unwrap();
    let waiting: Vec<_> = clients.iter().map(|jobs| acquire(&leased(jobs))).collect();
    until_in_queue(&mut control, QUEUE, CLIENTS as u64).await;
    clients[0].release(held.id()).await.unwrap();
    let done = || waiting.iter().filter(|task| task.is_finished()).count();
    until("the first one has ended", LIMIT, async || done() >= 2).await;
    let (before, served) = (scripts(&mut control).await, done());
    until("eight more have been served", PATIENCE, async || {
        done() >= served + 8
    })
    .await;
    let cost = (scripts(&mut control).await - before) as f64 / (done() - served) as f64;
    assert!(cost <= 40.0, "{cost} scripts a grant");
}

/// The semaphore in a client that makes no periodic checks.
async fn patient(server: &RedisServer) -> RPermitExpirableSemaphore {
    let builder = builder(server.url()).safety_interval(NEVER);
    let client = builder.connect().await.unwrap();
    client.permit_expirable_semaphore(NAME)
}

/// The holder does not wait, so it is not in the queue. The test runs on one thread, where calls polled together travel together.
#[tokio::test]
async fn who_waits_comes_when_a_permit_ends_whose_lease_has_been_shortened() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let (ours, others) = (patient(&server).await, patient(&server).await);
    ours.try_set_permits(1).await.unwrap();
    let short = Duration::from_millis(200);
    for shortens in [true, false] {
        let long = ours.clone().with_lease(LIMIT * 10).acquire().await.unwrap();
        let waits = acquire(&others);
        until_in_queue(&mut control, QUEUE, 1).await;
        if shortens {
            assert!(
                ours.update_lease_time(long.id(), Some(short))
                    .await
                    .unwrap()
            );
        } else {
            // The permit is passed on with a shorter lease, in one script after the first call.
            let again = ours.clone().with_lease(short);
            let (_, released, taken) = tokio::join!(
                ours.available_permits(),
                ours.release(long.id()),
                again.try_acquire()
            );
            released.unwrap();
            assert!(taken.unwrap().is_some(), "both travel together");
        }
        let other = granted(waits).await;
        others.release(other.id()).await.unwrap();
    }
}
