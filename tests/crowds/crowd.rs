//! A crowd of both sides on one semaphore: two JVMs with blocked threads and futures, two Rust clients with
//! callers that wait, run out of time and are cancelled.

use std::time::Duration;

use crate::common::crowd::{Done, Gauge, RustCrowd};
use crate::common::parked::PATIENCE;
use crate::common::world::{Mode, NEWEST, World};
use crate::support::peer::JavaPeer;
use crate::support::waiters::until;
use serde_json::json;
use tokio::time::timeout;

const NAME: &str = "crowded";
const GAUGE: &str = "gauge";
const PERMITS: u32 = 8;
const MOST: u32 = 3;
/// How often each Java caller takes a turn.
const TURNS: u64 = 40;
/// For callers that hang: far more than any turn takes.
const GENEROUS: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn a_mixed_crowd_never_holds_too_much_and_nobody_hangs() {
    let world = World::start(NEWEST).await;
    let second_jvm = JavaPeer::start(NEWEST, &world.server.url()).await;
    let second_client = world.another_client().await;
    let semaphore = world.rust.semaphore(NAME);
    assert!(semaphore.try_set_permits(PERMITS).await.unwrap());

    let mut gauge = Gauge::new(&world, GAUGE);
    let hold = Duration::from_millis(2);
    let rust = [&world.rust, &second_client]
        .map(|client| RustCrowd::start(client, NAME, &gauge, 9, MOST, hold));
    let mut java = Vec::new();
    for (jvm, peer) in [&world.java, &second_jvm].into_iter().enumerate() {
        for mode in Mode::BOTH {
            let crowd = json!({
                "name": NAME, "mode": mode.word(), "callers": 5, "permitsMax": MOST,
                "loops": TURNS, "holdMicros": 1000, "gauge": GAUGE,
            });
            java.push((jvm, mode, peer.begin("crowd", crowd)));
        }
    }

    // The Rust callers go on until the last Java caller is through: a release of Redisson wakes only one
    // of its own futures, and without other releases the last ones would wait for ever.
    for (jvm, mode, crowd) in java {
        let what = format!("{mode:?} callers of JVM {jvm}");
        let answer = timeout(GENEROUS, crowd).await;
        let answer = answer
            .unwrap_or_else(|_| panic!("{what} hang"))
            .expect("no call fails");
        assert_eq!(answer.value["acquisitions"], json!(5 * TURNS), "{what}");
        println!("{what}: waited {}", answer.value["waitMicros"]);
    }
    for (client, crowd) in rust.into_iter().enumerate() {
        // The ones with little patience are served rarely on a slow machine, but they are served.
        until("each caller is served", GENEROUS, async || {
            crowd.each_held(10)
        })
        .await;
        let done = timeout(GENEROUS, crowd.finish()).await;
        let done = done.unwrap_or_else(|_| panic!("callers of client {client} hang"));
        check(client, &done);
    }

    until("all permits are back", PATIENCE, async || {
        world.available(NAME).await == i64::from(PERMITS)
    })
    .await;
    assert_eq!(world.java_available(NAME).await, json!(PERMITS));
    assert_eq!(
        gauge.read().await,
        (0, PERMITS.into()),
        "held now, and at the most"
    );
}

/// Each way to end was taken.
fn check(client: usize, done: &[Done]) {
    let sum = |of: fn(&Done) -> u64| done.iter().map(of).sum::<u64>();
    let (held, cancelled, in_vain) = (
        sum(|done| done.held),
        sum(|done| done.cancelled),
        sum(|done| done.in_vain),
    );
    println!("client {client}: {held} turns, {cancelled} cancelled, {in_vain} in vain");
    assert!(
        cancelled > 10 && in_vain > 10,
        "{cancelled} cancelled, {in_vain} in vain"
    );
}
