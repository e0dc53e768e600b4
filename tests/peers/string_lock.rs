//! The string lock beside a peer between its two steps.

use std::time::Duration;

use redis::AsyncCommands;
use serde_json::json;

use super::support::{CHECK, LIMIT, Program, World, acquired, released, with};

use Program::Python;

/// It gets an expiry, and is not taken away.
#[tokio::test]
async fn a_string_lock_without_an_expiry_is_repaired_and_not_taken() {
    let world = World::new().await;
    let mut redis = world.redis.clone();
    let peer = Python.start(&world.server).await;
    let about = json!({"recipe": "lock", "name": "steps", "timeoutMs": 60_000});
    let lock = world.client.string_lock("steps").check_interval(CHECK);
    let begun = peer.call("begin", about.clone()).await.unwrap().value;
    assert!(!lock.try_lock().await.unwrap());
    let left: i64 = redis.pttl("lock:steps").await.unwrap();
    assert!((1..=10_000).contains(&left), "{left}");
    let holder: String = redis.get("lock:steps").await.unwrap();
    assert_eq!(json!(holder), begun, "it was taken away");
    // The peer's second step goes on as if nothing had been.
    peer.call("finish", with(about.clone(), "begun", json!([begun])))
        .await
        .unwrap();
    let left: i64 = redis.pttl("lock:steps").await.unwrap();
    assert!(left > 10_000, "{left}");

    // One that has died between its steps is in nobody's way for ever.
    assert!(released(&peer, &about, &holder).await);
    peer.call("begin", about.clone()).await.unwrap();
    let lock = lock.timeout(Duration::from_millis(200));
    let guard = tokio::time::timeout(LIMIT, lock.guard()).await;
    let guard = guard.expect("it is never free").unwrap();
    assert_eq!(acquired(&peer, &about).await, None);
    guard.unlock().await.unwrap();
    assert!(acquired(&peer, &about).await.is_some());
    peer.shutdown().await;
}
