//! Callers of both sides on one lock: a number that loses concurrent additions loses none.

use std::time::Duration;

use crate::common::locks::versions;
use crate::common::world::{NEWEST, World, builder};
use crate::support::crowd::{Crowd, Way};
use crate::support::peer::JavaPeer;
use crate::support::server::RedisServer;
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

/// Runs clients beside JVMs for the same time, and returns how often each client and each JVM has had the lock.
/// Each client has `callers` callers, and each JVM two threads, that want the lock all the time.
async fn turns(
    javas: &[JavaPeer],
    server: &RedisServer,
    (clients, callers): (usize, usize),
    hold: Duration,
) -> (Vec<u64>, Vec<u64>) {
    let mut crowds = Vec::new();
    for _ in 0..clients {
        let client = builder(server).connect().await.expect("the server runs");
        crowds.push(Crowd::of_locks(&client, callers, Way::Lock, hold));
    }
    let threads = json!({
        "name": "door", "object": "lock", "mode": "sync", "callers": 2, "millis": 2_500,
        "holdMicros": hold.as_micros() as u64, "permits": 1,
    });
    let running = javas
        .iter()
        .map(|java| java.begin("crowd", threads.clone()));
    let running: Vec<_> = running.collect();
    let mut of_javas = Vec::new();
    for crowd in running {
        let answer = timeout(GENEROUS, crowd).await.expect("Java hangs");
        let answer = answer.expect("no call fails").value;
        of_javas.push(answer["acquisitions"].as_u64().expect("a number"));
    }
    let ours = crowds.iter().map(|crowd| crowd.served() as u64).collect();
    for crowd in crowds {
        crowd.stop().await;
    }
    println!("held for {hold:?}: ours {ours:?}, JVMs {of_javas:?}");
    (ours, of_javas)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jvms_get_their_turns_beside_clients_that_want_the_lock_all_the_time() {
    let server = RedisServer::start().await;
    let mut javas = Vec::new();
    for _ in 0..2 {
        javas.push(JavaPeer::start(NEWEST, &server.url()).await);
    }
    // The first seconds of a JVM are slow.
    turns(&javas, &server, (0, 0), Duration::from_millis(1)).await;
    for (clients, micros) in [((1, 1), 1_500), ((2, 4), 1_000), ((1, 1), 20_000)] {
        let hold = Duration::from_micros(micros);
        let (ours, of_javas) = turns(&javas, &server, clients, hold).await;
        // The JVM that has just unlocked is mostly the next holder, too: of two JVMs without other clients, one has had 8 of 120 turns.
        let enough = of_javas.iter().sum::<u64>() * 2 > ours.iter().sum::<u64>();
        assert!(enough, "JVMs {of_javas:?}, ours {ours:?}");
        assert!(!ours.contains(&0));
    }
}
