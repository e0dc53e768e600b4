//! A crowd of both sides on one lock: a number that loses additions when two add at once loses none.

use std::time::Duration;

use crate::locks::{LONG, NEWEST, World, client, versions};
use crate::support::lock_crowd::{LockCrowd, Way};
use crate::support::peer::{JavaPeer, PendingCall};
use crate::support::server::RedisServer;
use redis::AsyncCommands;
use serde_json::{Value, json};
use tokio::time::timeout;

/// For callers that hang: far more than any turn takes, and less than a lock needs to end by itself often.
const GENEROUS: Duration = Duration::from_secs(90);

const CALLERS: u64 = 5;
const LOOPS: u64 = 40;

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_and_nobody_hangs() {
    for version in versions() {
        let mut world = World::start(version, LONG).await;
        let second = client(&world.server, LONG).await;
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
                        // Some are cancelled while they wait, and come again.
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

/// Threads of one JVM that want the lock all the time.
const THREADS: u64 = 2;

fn threads(java: &JavaPeer, millis: u64, hold: Duration) -> PendingCall {
    let args = json!({
        "name": "door", "object": "lock", "mode": "sync", "callers": THREADS, "millis": millis,
        "holdMicros": hold.as_micros() as u64, "permits": 1,
    });
    java.begin("crowd", args)
}

async fn over(crowd: PendingCall) -> Value {
    let answer = timeout(GENEROUS, crowd).await.expect("Java hangs");
    answer.expect("no call fails").value
}

/// The turns of each client, and those of each JVM, in the same time.
struct Turns {
    ours: Vec<u64>,
    javas: Vec<u64>,
}

/// So many clients with so many callers each, beside JVMs with [`THREADS`] each.
async fn crowd(
    javas: &[JavaPeer],
    server: &RedisServer,
    (clients, callers): (usize, usize),
    hold: Duration,
) -> Turns {
    let mut crowds = Vec::new();
    for _ in 0..clients {
        let client = client(server, LONG).await;
        crowds.push(LockCrowd::start(&client, callers, Way::Lock, hold));
    }
    let running: Vec<_> = javas
        .iter()
        .map(|java| threads(java, 2_500, hold))
        .collect();
    let mut of_java = Vec::new();
    for crowd in running {
        of_java.push(over(crowd).await);
    }
    let ours: Vec<u64> = crowds.iter().map(LockCrowd::grants).collect();
    let waits: Vec<_> = crowds.iter().map(LockCrowd::longest_wait).collect();
    for crowd in crowds {
        crowd.stop().await;
    }
    let turns = Turns {
        ours,
        javas: of_java
            .iter()
            .map(|answer| answer["acquisitions"].as_u64().expect("a number"))
            .collect(),
    };
    println!(
        "held for {hold:?}: ours {:?} ({waits:?}), JVMs {:?} ({:?})",
        turns.ours,
        turns.javas,
        of_java
            .iter()
            .map(|answer| &answer["waitMicros"]["max"])
            .collect::<Vec<_>>()
    );
    turns
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jvms_get_their_turns_beside_clients_that_want_the_lock_all_the_time() {
    let server = RedisServer::start().await;
    let mut javas = Vec::new();
    for _ in 0..2 {
        javas.push(JavaPeer::start(NEWEST, &server.url()).await);
    }
    // The first seconds of a JVM are slow.
    crowd(&javas, &server, (0, 0), Duration::from_millis(1)).await;
    for (clients, micros) in [((1, 1), 1_500), ((2, 4), 1_000), ((1, 1), 20_000)] {
        let turns = crowd(&javas, &server, clients, Duration::from_micros(micros)).await;
        // Among JVMs the one that has just unlocked is mostly the next one, too: alone, one of two has had 8 of 120 turns.
        let (ours, javas) = (
            turns.ours.iter().sum::<u64>(),
            turns.javas.iter().sum::<u64>(),
        );
        assert!(
            javas * 2 > ours,
            "JVMs {:?}, ours {:?}",
            turns.javas,
            turns.ours
        );
        assert!(!turns.ours.contains(&0));
    }
}
