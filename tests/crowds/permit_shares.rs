//! Permits with ids in many clients: they are granted in turn, at the same cost however many clients wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::clients::{LIMIT, NEVER, builder, connect, scripts};
use crate::support::proxy::Proxy;
use crate::support::server::RedisServer;
use crate::support::waiters::until;
use futures::future::join_all;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, Held, RPermitExpirableSemaphore, Result};
use tokio::task::JoinHandle;
use tokio::time::timeout;

const NAME: &str = "jobs";
const QUEUE: &str = "redisson_sc_leased_queue:{jobs}";
const HOLD: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(60);

/// As a service makes it.
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

async fn until_in_line(control: &mut MultiplexedConnection, count: u64) {
    until(&format!("{count} stand in line"), LIMIT, async || {
        control.zcard::<_, u64>(QUEUE).await.unwrap() == count
    })
    .await;
}

/// A client with callers that take a permit, hold it and give it back.
struct Crowd {
    served: Arc<AtomicUsize>,
    tasks: Vec<JoinHandle<()>>,
}

impl Crowd {
    fn start(jobs: &RPermitExpirableSemaphore, callers: usize) -> Crowd {
        let served = Arc::new(AtomicUsize::new(0));
        let caller = |_| {
            let (jobs, served) = (jobs.clone(), Arc::clone(&served));
            tokio::spawn(async move {
                loop {
                    let held = jobs.acquire().await.unwrap();
                    served.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(HOLD).await;
                    jobs.release(held.id()).await.unwrap();
                }
            })
        };
        Crowd {
            tasks: (0..callers).map(caller).collect(),
            served,
        }
    }

    fn served(&self) -> usize {
        self.served.load(Ordering::Relaxed)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// How often each is served, behind the beginning, while all together are so often.
async fn shares(crowds: &[Crowd], times: usize) -> Vec<usize> {
    until("each has been served", PATIENCE, async || {
        crowds.iter().all(|crowd| crowd.served() > 0)
    })
    .await;
    let before: Vec<_> = crowds.iter().map(Crowd::served).collect();
    let since = || {
        let pairs = crowds.iter().zip(&before);
        pairs.map(|(crowd, before)| crowd.served() - before)
    };
    until("they are served", PATIENCE, async || {
        since().sum::<usize>() >= times
    })
    .await;
    since().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_clients_has_equal_shares_at_the_cost_of_two() {
    const CLIENTS: usize = 60;
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let clients = clients(&server, CLIENTS).await;
    clients[0].try_set_permits(1).await.unwrap();
    let crowds: Vec<Crowd> = clients.iter().map(|jobs| Crowd::start(jobs, 1)).collect();
    shares(&crowds, CLIENTS).await;
    let before = scripts(&mut control).await;
    let shares = shares(&crowds, 5 * CLIENTS).await;
    let grants = shares.iter().sum::<usize>() as f64;
    let cost = (scripts(&mut control).await - before) as f64 / grants;
    assert!(
        shares.iter().all(|share| (3..=7).contains(share)),
        "{shares:?}"
    );
    assert!(cost <= 3.5, "{cost} scripts a grant");
}

/// Permits whose time is over come back to all who wait, though nobody gives them back; and not all of them look for each.
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
    until_in_line(&mut control, CLIENTS as u64).await;
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

/// A client that is frozen is waited for once, for 100 ms and two round trips, however many of its callers wait.
#[tokio::test]
async fn a_frozen_client_holds_up_the_queue_once() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let proxy = Proxy::start(&server).await;
    let frozen = connect(proxy.url()).await.permit_expirable_semaphore(NAME);
    let holding = connect(server.url()).await.permit_expirable_semaphore(NAME);
    let last = connect(server.url()).await.permit_expirable_semaphore(NAME);
    holding.try_set_permits(1).await.unwrap();
    let held = holding.acquire().await.unwrap();
    let stuck: Vec<_> = (0..60).map(|_| acquire(&frozen)).collect();
    until_in_line(&mut control, 60).await;
    let second = acquire(&last);
    until_in_line(&mut control, 61).await;
    proxy.mute();
    let released = Instant::now();
    holding.release(held.id()).await.unwrap();
    let _ = granted(second).await;
    // Each of the sixty would take 100 ms.
    assert!(released.elapsed() < Duration::from_secs(4));
    stuck.iter().for_each(JoinHandle::abort);
}

/// Of a client that does not look by itself.
async fn patient(server: &RedisServer) -> RPermitExpirableSemaphore {
    let builder = builder(server.url()).safety_interval(NEVER);
    let client = builder.connect().await.unwrap();
    client.permit_expirable_semaphore(NAME)
}

/// Its holder does not wait, and so does not stand in line. On one thread, where what is polled together travels together.
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
        until_in_line(&mut control, 1).await;
        if shortens {
            assert!(
                ours.update_lease_time(long.id(), Some(short))
                    .await
                    .unwrap()
            );
        } else {
            // It is passed on with a shorter lease, in one script behind the first call.
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
