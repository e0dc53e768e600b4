//! A client that could keep all permits to itself: others still get theirs.

use std::time::Duration;

use crate::support::peer::{JavaPeer, NEWEST};
use crate::support::server::RedisServer;
use futures::future::join_all;
use redisson_semaphore::{Client, RSemaphore};
use serde_json::json;
use tokio::time::timeout;

const PERMITS: u32 = 4;
const DEADLINE: Duration = Duration::from_secs(60);

async fn client(server: &RedisServer) -> RSemaphore {
    let client = Client::connect(server.url()).await;
    client
        .expect("the server has just been started")
        .semaphore("busy")
}

/// Acquires and releases until told to stop; how often.
async fn hammer(semaphore: RSemaphore, stop: tokio::sync::watch::Receiver<bool>) -> u64 {
    let mut rounds = 0;
    while !*stop.borrow() {
        semaphore.acquire(1).await.unwrap();
        semaphore.release(1).await.unwrap();
        rounds += 1;
        tokio::task::yield_now().await;
    }
    rounds
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_get_permits_beside_a_saturated_client() {
    let server = RedisServer::start().await;
    let java = JavaPeer::start(NEWEST, &server.url()).await;
    let greedy = client(&server).await;
    let modest = client(&server).await;
    assert!(greedy.try_set_permits(PERMITS).await.unwrap());
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let crowd: Vec<_> = (0..256)
        .map(|_| tokio::spawn(hammer(greedy.clone(), stopped.clone())))
        .collect();

    let of_java = java.call(
        "crowd",
        json!({"name": "busy", "mode": "sync", "callers": 4, "loops": 20, "permits": 1, "holdMicros": 500}),
    );
    let of_ours = join_all((0..4).map(|_| async {
        for _ in 0..20 {
            modest.acquire(1).await.unwrap();
            tokio::time::sleep(Duration::from_micros(500)).await;
            modest.release(1).await.unwrap();
        }
    }));
    let (of_java, _) = timeout(DEADLINE, async { tokio::join!(of_java, of_ours) })
        .await
        .expect("both get their permits while the greedy client goes on");
    assert_eq!(
        of_java.expect("no call fails").value["acquisitions"],
        json!(80)
    );

    stop.send_replace(true);
    let rounds: u64 = join_all(crowd).await.into_iter().map(Result::unwrap).sum();
    assert!(rounds > 1_000, "the greedy client was kept busy: {rounds}");
    assert_eq!(
        modest.available_permits().await.unwrap(),
        i64::from(PERMITS)
    );
}
