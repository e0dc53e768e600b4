//! Turns beside JVMs, which keep no record: their threads get on as among themselves, and so do callers of ours.
//!
//! One side's turns are counted while the other has its own: without turns one side has some hundred times as many, with them
//! about as many for each caller. The speed of the machine does not matter.

use std::time::Duration;

use crate::common::world::{NEWEST, World};
use crate::support::crowd::Crowd;
use crate::support::peer::{JavaPeer, SUPPORTED, versions};
use serde_json::{Value, json};
use tokio::time::timeout;

const NAME: &str = "turns";
const HOLD: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(120);
/// A caller of one side is served at the most so many times as often as one of the other.
const ALIKE: f64 = 8.0;

/// Lets threads of a JVM carry out `work`, and returns the turns that ours have had meanwhile.
async fn beside(java: &JavaPeer, ours: &Crowd, work: Value) -> f64 {
    let before = ours.served();
    timeout(PATIENCE, java.call("crowd", work))
        .await
        .expect("the threads get what they want")
        .expect("no call fails");
    (ours.served() - before) as f64
}

/// The work of `threads` threads that want a permit so many times each.
fn permits(threads: u32, times: u32) -> Value {
    json!({
        "name": NAME, "mode": "sync", "callers": threads, "loops": times, "permits": 1, "holdMicros": 5000,
    })
}

/// How often each thread of a JVM, and each caller of one client beside it, has had a permit.
async fn turns_of_each(version: &str, threads: u32, callers: u32) -> (f64, f64) {
    const TIMES: u32 = 20;
    let world = World::start(version).await;
    let semaphore = world.rust.semaphore(NAME);
    assert!(semaphore.try_set_permits(4).await.unwrap());
    let crowd = Crowd::start((0..callers).map(|_| semaphore.clone()), HOLD);
    crowd.until_served(100).await;
    // A JVM begins slowly.
    beside(&world.java, &crowd, permits(threads, 5)).await;
    let ours = beside(&world.java, &crowd, permits(threads, TIMES)).await;
    crowd.stop().await;
    (f64::from(TIMES), ours / f64::from(callers))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jvms_and_a_client_share() {
    for version in versions(&SUPPORTED) {
        let (java, ours) = turns_of_each(version, 32, 32).await;
        assert!(
            ours < ALIKE * java && java < ALIKE * ours,
            "{version}: Java {java}, ours {ours}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn java_threads_get_on_beside_a_crowd() {
    let (java, ours) = turns_of_each(NEWEST, 4, 200).await;
    assert!(ours < ALIKE * java, "Java {java}, ours {ours}");
}

/// The JVM that has just unlocked is mostly the next holder, too: of two JVMs without other clients, one has had 8 of 120 turns.
/// So the JVMs' turns count together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jvms_get_their_turns_beside_clients_that_want_the_lock_all_the_time() {
    let world = World::start(NEWEST).await;
    let javas = [
        &world.java,
        &JavaPeer::start(NEWEST, &world.server.url()).await,
    ];
    // The first seconds of a JVM are slow, so its threads are alone for a round.
    for (clients, callers, micros) in [(0, 0, 1_000), (1, 1, 1_500), (2, 4, 1_000), (1, 1, 20_000)]
    {
        let hold = Duration::from_micros(micros);
        let mut crowds = Vec::new();
        for _ in 0..clients {
            let client = world.another_client().await;
            let locks = (0..callers).map(|_| client.lock(NAME));
            crowds.push(Crowd::start(locks, hold));
        }
        let work = json!({
            "name": NAME, "object": "lock", "mode": "sync", "callers": 2, "millis": 2_500,
            "holdMicros": micros, "permits": 1,
        });
        let working = javas.map(|java| java.begin("crowd", work.clone()));
        let mut theirs = 0;
        for crowd in working {
            let answer = timeout(PATIENCE, crowd).await.expect("Java hangs");
            let answer = answer.expect("no call fails").value;
            theirs += answer["acquisitions"].as_u64().expect("a number");
        }
        let ours: Vec<_> = crowds.iter().map(Crowd::served).collect();
        for crowd in crowds {
            crowd.stop().await;
        }
        println!("held for {hold:?}: JVMs {theirs}, ours {ours:?}");
        assert!(
            theirs as usize * 2 > ours.iter().sum(),
            "JVMs {theirs}, ours {ours:?}"
        );
        assert!(!ours.contains(&0));
    }
}
