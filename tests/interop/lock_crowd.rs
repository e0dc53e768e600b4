//! Callers of both sides on one lock: a number that loses concurrent additions loses none.

use std::time::Duration;

use crate::common::locks::versions;
use crate::common::world::World;
use redis::AsyncCommands;
use serde_json::json;
use tokio::time::timeout;

/// The time after which a caller counts as hanging: far more than any turn takes, and too short for many leases to end.
const GENEROUS: Duration = Duration::from_secs(90);

const CALLERS: u64 = 5;
const LOOPS: u64 = 40;

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_and_nobody_hangs() {
    for version in versions() {
        let mut world = World::start(version).await;
        let second = world.another_client().await;
        let _: () = world.redis.set("number", 0).await.unwrap();
        let crowd = json!({
            "name": "door", "counter": "number", "callers": CALLERS, "loops": LOOPS,
        });
        let java = world.java.begin("lockCrowd", crowd);
        let mut tasks = Vec::new();
        for client in [&world.rust, &second] {
            for caller in 0..CALLERS {
                let (lock, mut redis) = (client.fenced_lock("door"), world.redis.clone());
                tasks.push(tokio::spawn(async move {
                    let mut last_token = 0;
                    for round in 0..LOOPS {
                        // Some calls are cancelled while they wait, and made again.
                        if (round + caller) % 4 == 0 {
                            let _ = timeout(Duration::from_micros(300), lock.guard()).await;
                        }
                        let guard = lock.guard().await.unwrap();
                        let token = guard.token();
                        assert!(token > last_token, "tokens rise");
                        last_token = token;
                        let number: u64 = redis.get("number").await.unwrap();
                        let _: () = redis.set("number", number + 1).await.unwrap();
                        if round % 2 == 0 {
                            guard.unlock().await.unwrap();
                        }
                    }
                }));
            }
        }
        for task in tasks {
            let done = timeout(GENEROUS, task).await;
            done.expect("a Rust caller hangs").unwrap();
        }
        let java = timeout(GENEROUS, java).await.expect("Java hangs");
        java.expect("no call fails");
        let number: u64 = world.redis.get("number").await.unwrap();
        assert_eq!(number, 3 * CALLERS * LOOPS, "{version}");
        let lock = world.rust.lock("door");
        assert!(lock.try_lock_for(GENEROUS).await.unwrap());
        lock.unlock().await.unwrap();
    }
}
