//! The cost of a grant of a classic recipe in a crowd.

use std::sync::Arc;
use std::time::Duration;

use crate::layouts::{Layout, Shape};
use crate::support::clients::scripts;
use crate::support::server::RedisServer;
use futures::future::join_all;
use redisson_semaphore::Client;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(60);

/// Each of a hundred processes takes the only permit in turn, several times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_costs_a_few_scripts_a_grant() {
    const CLIENTS: u64 = 100;
    const TIMES: u64 = 5;
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let shape = Shape::new(1).check(Duration::from_millis(100));
    let mut crowd = Vec::new();
    for _ in 0..CLIENTS {
        let client = Client::connect(server.url()).await.unwrap();
        let semaphore = Layout::Fair.make(&client, "crowd", shape);
        crowd.push((client, semaphore));
    }
    let before = scripts(&mut redis).await;
    let callers = crowd.iter().map(|(_, semaphore)| {
        let semaphore = Arc::clone(semaphore);
        tokio::spawn(async move {
            for _ in 0..TIMES {
                let held = semaphore.acquire().await.unwrap();
                tokio::time::sleep(Duration::from_millis(5)).await;
                assert!(semaphore.release(held.id()).await.unwrap());
            }
        })
    });
    let all = join_all(callers);
    for ended in timeout(LIMIT, all).await.expect("somebody starves") {
        ended.unwrap();
    }
    let cost = scripts(&mut redis).await - before;
    assert!(
        cost <= 6 * CLIENTS * TIMES,
        "{cost} scripts for {} grants",
        CLIENTS * TIMES
    );
}
