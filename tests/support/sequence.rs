//! A sequence of all operations, to be disturbed at each of its script calls.

use std::time::Duration;

use super::clients::LIMIT;
use super::proxy::Proxy;
use super::server::RedisServer;
use super::snapshot::snapshot;
use redisson_semaphore::{Client, ClientBuilder};
use tokio::time::timeout;

/// Notices a lost reply at once.
pub fn builder(url: String) -> ClientBuilder {
    super::clients::builder(url).response_timeout(Duration::from_millis(60))
}

pub async fn connect(url: String) -> Client {
    builder(url).connect().await.expect("the server runs")
}

/// The scripts are in the server's cache from now on, so that each call is one script call.
pub async fn warm_up(server: &RedisServer) {
    let client = connect(server.url()).await;
    let semaphore = client.semaphore("warm-up");
    assert!(semaphore.try_set_permits(1).await.unwrap());
    semaphore.release(1).await.unwrap();
    semaphore.delete().await.unwrap();
}

/// A server that has been told the scripts, and a proxy in front of it.
pub async fn start() -> (RedisServer, Proxy) {
    let server = RedisServer::start().await;
    warm_up(&server).await;
    let proxy = Proxy::start(&server).await;
    (server, proxy)
}

/// How many steps the sequence has.
pub const STEPS: usize = 24;

/// One step: what it answers, as text.
async fn step(number: usize, client: &Client, name: &str) -> String {
    let semaphore = client.semaphore(name);
    let moved = client.semaphore(&format!("{name}-moved"));
    let copied = client.semaphore(&format!("{name}-copied"));
    let hour = Duration::from_secs(3600);
    match number {
        0 => format!("{:?}", semaphore.try_set_permits(5).await),
        1 => format!("{:?}", semaphore.try_set_permits(7).await),
        2 => format!("{:?}", semaphore.acquire(2).await),
        3 => format!("{:?}", semaphore.try_acquire(2).await),
        4 => format!("{:?}", semaphore.try_acquire(2).await),
        5 => format!("{:?}", semaphore.release(3).await),
        6 => format!("{:?}", semaphore.release_if_exists(2).await),
        7 => format!("{:?}", semaphore.add_permits(4).await),
        8 => format!("{:?}", semaphore.add_permits(-12).await),
        9 => format!("{:?}", semaphore.drain_permits().await),
        10 => format!("{:?}", semaphore.release(6).await),
        11 => {
            let permit = semaphore.permit(2).await.unwrap();
            format!("{:?}", permit.release().await)
        }
        12 => {
            drop(semaphore.permit(3).await.unwrap());
            format!("{:?}", semaphore.available_permits().await)
        }
        13 => {
            // One serves the other, wherever they meet.
            let both = tokio::join!(semaphore.acquire(8), semaphore.release(2));
            format!("{both:?} {:?}", semaphore.release(8).await)
        }
        14 => format!("{:?}", semaphore.expire(hour).await),
        15 => format!("{:?}", semaphore.clear_expire().await),
        16 => format!("{:?}", semaphore.clear_expire().await),
        17 => format!("{:?}", semaphore.object().copy(copied.name()).await),
        18 => format!("{:?}", semaphore.object().copy(copied.name()).await),
        19 => format!(
            "{:?}",
            semaphore.object().rename(moved.name()).await.is_ok()
        ),
        20 => format!(
            "{:?}",
            semaphore.object().rename(moved.name()).await.is_err()
        ),
        21 => format!("{:?}", moved.release(1).await),
        22 => format!("{:?}", copied.delete().await),
        23 => {
            let gone = semaphore.release_if_exists(1).await;
            format!("{gone:?} {:?}", copied.object().unlink().await)
        }
        _ => unreachable!("there are {STEPS} steps"),
    }
}

/// All steps, one after the other: their results, and what they leave behind.
pub async fn outcome(
    server: &RedisServer,
    proxy: &Proxy,
    name: &str,
    after_each: impl AsyncFn(),
) -> Vec<String> {
    let client = connect(proxy.url()).await;
    let mut results = results(proxy, &client, name, after_each).await;
    client.shutdown().await.unwrap();
    results.extend(left_behind(server, name).await);
    results
}

/// What all steps answer, one after the other, before anything gives the records back: that is no part of the sequence.
pub async fn results(
    proxy: &Proxy,
    client: &Client,
    name: &str,
    after_each: impl AsyncFn(),
) -> Vec<String> {
    let mut results = Vec::new();
    for number in 0..STEPS {
        let result = timeout(LIMIT, step(number, client, name)).await;
        results.push(result.unwrap_or_else(|_| panic!("step {number} hangs")));
        after_each().await;
    }
    proxy.clear_fates();
    results
}

/// What the sequence has left behind, as text.
pub async fn left_behind(server: &RedisServer, name: &str) -> Vec<String> {
    let mut control = server.connection().await;
    let mut all = Vec::new();
    for end in ["", "-moved", "-copied"] {
        let left = snapshot(&mut control, &format!("{name}{end}")).await;
        all.push(format!("{:?}", (left.kind, left.value, left.ttl)));
    }
    all
}

/// What the undisturbed sequence answers.
pub async fn undisturbed(server: &RedisServer, proxy: &Proxy) -> Vec<String> {
    outcome(server, proxy, "undisturbed", async || {}).await
}

/// Whether the sequence just carried out was too short to have an n-th script call. Calls made at the same
/// time may travel together or not, so its length varies a little.
pub fn is_over(proxy: &Proxy, n: u64) -> bool {
    let over = proxy.struck() < n;
    assert!(!over || n > STEPS as u64, "script call {n} was not hit");
    over
}
