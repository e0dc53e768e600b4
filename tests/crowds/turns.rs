//! Turns beside JVMs, which keep no record: their threads get on as among themselves, and so do callers of ours.
//!
//! How often one side is served while the other is so often: without turns it is some hundred times as often, with them
//! about as often for each caller. How fast a busy machine lets them both be does not matter.

use std::time::Duration;

use crate::shares::{NAME, semaphores};
use crate::support::crowd::Crowd;
use crate::support::peer::{JavaPeer, NEWEST, SUPPORTED, versions};
use crate::support::server::RedisServer;
use redisson_semaphore::RSemaphore;
use serde_json::json;
use tokio::time::timeout;

const HOLD: Duration = Duration::from_millis(5);
const PERMITS: u32 = 4;
const PATIENCE: Duration = Duration::from_secs(120);
/// A caller of one side is served at the most so many times as often as one of the other.
const ALIKE: f64 = 8.0;

/// A server, a JVM of this `version`, and a semaphore of ours.
async fn start(version: &str) -> (RedisServer, JavaPeer, RSemaphore) {
    let server = RedisServer::start().await;
    let java = JavaPeer::start(version, &server.url()).await;
    let ours = semaphores(&server, PERMITS, 1).await.remove(0);
    (server, java, ours)
}

/// Lets threads of a JVM take a permit so often each, beside callers of ours that go on; how often those are served
/// meanwhile.
async fn beside(java: &JavaPeer, ours: &Crowd, threads: u32, times: u32) -> f64 {
    let work = json!({
        "name": NAME, "mode": "sync", "callers": threads, "loops": times, "permits": 1, "holdMicros": 5000,
    });
    ours.take();
    timeout(PATIENCE, java.call("crowd", work))
        .await
        .expect("the threads get what they want")
        .expect("no call fails");
    ours.take().count() as f64
}

/// Threads of a JVM of this `version` and as many callers of ours.
async fn share(version: &str) {
    let (_server, java, ours) = start(version).await;
    let crowd = Crowd::start(&ours, 32, HOLD);
    crowd.until_served(100).await;
    // A JVM begins slowly.
    beside(&java, &crowd, 32, 5).await;
    let (of_java, of_ours) = (32.0 * 20.0, beside(&java, &crowd, 32, 20).await);
    crowd.stop().await;
    assert!(
        of_ours < ALIKE * of_java && of_java < ALIKE * of_ours,
        "{version}: Java {of_java}, ours {of_ours}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jvms_and_a_client_share() {
    for version in versions(&SUPPORTED) {
        share(version).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn java_threads_get_on_beside_a_crowd() {
    const CROWD: u32 = 200;
    let (_server, java, ours) = start(NEWEST).await;
    let crowd = Crowd::start(&ours, CROWD as usize, HOLD);
    crowd.until_served(100).await;
    // A JVM begins slowly.
    beside(&java, &crowd, 4, 5).await;
    let (threads, times) = (4, 10);
    let of_ours = beside(&java, &crowd, threads, times).await;
    crowd.stop().await;
    let each = of_ours / f64::from(CROWD);
    assert!(
        each < ALIKE * f64::from(times),
        "each thread {times} times, each caller of ours {each}"
    );
}
