//! Turns beside JVMs, which keep no record: their threads get on as among themselves.

mod support;

use std::time::Duration;

use redisson_semaphore::{Client, RSemaphore};
use serde_json::{Value, json};
use support::crowd::Crowd;
use support::peer::JavaPeer;
use support::server::RedisServer;

const NAME: &str = "mixed";
const HOLD: Duration = Duration::from_millis(5);
const PERMITS: u32 = 4;

async fn client(server: &RedisServer) -> RSemaphore {
    let client = Client::connect(server.url()).await;
    client
        .expect("the server has just been started")
        .semaphore(NAME)
}

fn crowd_of_java(callers: usize, millis: u64) -> Value {
    json!({"name": NAME, "mode": "sync", "callers": callers, "millis": millis, "permits": 1, "holdMicros": 5000})
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn java_threads_get_on_beside_a_crowd() {
    let server = RedisServer::start().await;
    let java = JavaPeer::start("4.7.0", &server.url()).await;
    let ours = client(&server).await;
    assert!(ours.try_set_permits(PERMITS).await.unwrap());
    let crowd = Crowd::start(&ours, 200, 1, HOLD);
    crowd.until_served(100).await;
    // The first seconds of a JVM are slow.
    java.call("crowd", crowd_of_java(4, 2_000))
        .await
        .expect("no call fails");
    crowd.take();
    let answer = java
        .call("crowd", crowd_of_java(4, 3_000))
        .await
        .expect("no call fails")
        .value;
    let of_java = Duration::from_micros(number(&answer["waitMicros"]["mean"]) as u64);
    let tally = crowd.stop().await;
    let of_ours = tally.mean();
    assert!(of_java < 2 * of_ours, "Java {of_java:?}, ours {of_ours:?}");
    assert!(
        tally.count() > 100,
        "ours were served {} times",
        tally.count()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_jvm_and_a_client_share() {
    let server = RedisServer::start().await;
    let java = JavaPeer::start("4.7.0", &server.url()).await;
    let ours = client(&server).await;
    assert!(ours.try_set_permits(PERMITS).await.unwrap());
    let crowd = Crowd::start(&ours, 32, 1, HOLD);
    crowd.until_served(100).await;
    // The first seconds of a JVM are slow.
    java.call("crowd", crowd_of_java(32, 2_000))
        .await
        .expect("no call fails");
    crowd.take();
    let answer = java
        .call("crowd", crowd_of_java(32, 3_000))
        .await
        .expect("no call fails")
        .value;
    let of_ours = crowd.take().count() as f64;
    let of_java = number(&answer["acquisitions"]);
    crowd.stop().await;
    assert!(
        of_ours < 4.0 * of_java && of_java < 4.0 * of_ours,
        "Java {of_java}, ours {of_ours}"
    );
}
