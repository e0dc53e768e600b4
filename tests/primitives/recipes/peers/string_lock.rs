//! The string lock beside a peer between its two steps.

use std::time::Duration;

use redis::AsyncCommands;
use redisson_semaphore::{Lock as _, RemainingTtl};
use serde_json::json;

use super::support::{CHECK, LIMIT, Program, World, acquired, released, with};
use crate::support::waiters::until;

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

    // A peer that has died between its steps does not block the lock for ever.
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

/// Questions write nothing: a lock that its holder keeps without an expiry stays as it is.
#[tokio::test]
async fn a_question_gives_a_lock_no_expiry() {
    let world = World::new().await;
    let mut redis = world.redis.clone();
    let () = redis.set("lock:import", "py").await.unwrap();
    let lock = world.client.string_lock("import");
    assert!(lock.is_locked().await.unwrap());
    assert_eq!(lock.hold_count().await, Ok(0));
    assert_eq!(lock.remaining_ttl().await, Ok(RemainingTtl::Persistent));
    let left: i64 = redis.pttl("lock:import").await.unwrap();
    assert_eq!(left, -1);
}

/// A lock that is taken without an expiry on purpose is kept until it is freed; then those that wait have it.
#[tokio::test]
async fn a_lock_without_an_expiry_is_left_alone_where_that_is_wanted() {
    let world = World::new().await;
    let mut redis = world.redis.clone();
    let () = redis.set("import", "py").await.unwrap();
    let lock = world.client.string_lock("import").key("import");
    let lock = lock.check_interval(CHECK).missing_expiry(None);
    assert!(!lock.try_lock().await.unwrap());
    let waits = tokio::spawn(async move { lock.guard().await });
    let queue = "redisson_sc_recipe_queue:lock:{import}";
    until("it waits", LIMIT, async || {
        redis.zcard::<_, u32>(queue).await.unwrap() == 1
    })
    .await;
    let left: i64 = redis.pttl("import").await.unwrap();
    assert_eq!(left, -1);
    let () = redis.del("import").await.unwrap();
    let guard = tokio::time::timeout(LIMIT, waits).await;
    let guard = guard.expect("it is never free").unwrap().unwrap();
    assert!(redis.exists::<_, bool>("import").await.unwrap());
    guard.unlock().await.unwrap();
    assert!(!redis.exists::<_, bool>("import").await.unwrap());
}
