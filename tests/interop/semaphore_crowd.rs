//! Callers of both sides on one semaphore: two JVMs with blocked threads and futures, two Rust clients with
//! callers that wait, time out and are cancelled.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::common::parked::PATIENCE;
use crate::common::world::{Mode, World};
use crate::support::gauge::Gauge;
use crate::support::peer::{JavaPeer, SUPPORTED, versions};
use crate::support::waiters::until;
use redisson_semaphore::{Client, Permit, RSemaphore};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::timeout;

const NAME: &str = "crowded";
const GAUGE: &str = "gauge";
const PERMITS: u32 = 8;
const MOST: u32 = 3;
const HOLD: Duration = Duration::from_millis(2);
/// How often each Java caller takes a turn.
const TURNS: u64 = 40;
/// The time after which a caller counts as hanging: far more than any turn takes.
const GENEROUS: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn a_mixed_crowd_never_holds_too_much_and_nobody_hangs() {
    for version in versions(&SUPPORTED) {
        mixed_crowd(version).await;
    }
}

async fn mixed_crowd(version: &str) {
    let world = World::start(version).await;
    let second_jvm = JavaPeer::start(version, &world.server.url()).await;
    let second_client = world.another_client().await;
    let semaphore = world.rust.semaphore(NAME);
    assert!(semaphore.try_set_permits(PERMITS).await.unwrap());

    let mut gauge = Gauge::new(&world.redis, GAUGE);
    let rust = [&world.rust, &second_client].map(|client| RustCrowd::start(client, &gauge));
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

    // The Rust callers go on until the last Java caller is done. A release of Redisson wakes only one of its own futures,
    // so without other releases the last Java callers would wait for ever.
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
        // Callers with short timeouts are served rarely on a slow machine, but they are served.
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

/// Asserts that calls were cancelled and timed out.
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

/// The turns of one caller.
#[derive(Debug, Default, Clone, Copy)]
struct Done {
    held: u64,
    /// Futures dropped in the middle of an acquisition.
    cancelled: u64,
    /// Acquisitions that ran out of their own waiting time.
    in_vain: u64,
}

struct RustCrowd {
    stop: Arc<AtomicBool>,
    /// How often each caller has held permits so far.
    held: Vec<Arc<AtomicU64>>,
    callers: Vec<JoinHandle<Done>>,
}

impl RustCrowd {
    /// Starts nine tasks. Each acquires 1 to [`MOST`] permits a turn, and holds them for up to [`HOLD`].
    fn start(client: &Client, gauge: &Gauge) -> RustCrowd {
        let stop = Arc::new(AtomicBool::new(false));
        let held: Vec<_> = (0..9).map(|_| Arc::default()).collect();
        let callers = held.iter().enumerate().map(|(number, held)| {
            let caller = Caller {
                held: Arc::clone(held),
                semaphore: client.semaphore(NAME),
                gauge: gauge.clone(),
                stop: Arc::clone(&stop),
                // Some callers wait without a limit, some have a timeout, and some are cancelled.
                kind: number % 3,
            };
            tokio::spawn(caller.run())
        });
        RustCrowd {
            callers: callers.collect(),
            stop,
            held,
        }
    }

    /// Whether each caller has held permits at least `times` times.
    fn each_held(&self, times: u64) -> bool {
        self.held
            .iter()
            .all(|held| held.load(Ordering::Relaxed) >= times)
    }

    /// Stops all callers after their turn, and returns their counts.
    async fn finish(self) -> Vec<Done> {
        self.stop.store(true, Ordering::Relaxed);
        let mut done = Vec::new();
        for caller in self.callers {
            done.push(caller.await.expect("a caller does not panic"));
        }
        done
    }
}

struct Caller {
    semaphore: RSemaphore,
    gauge: Gauge,
    stop: Arc<AtomicBool>,
    held: Arc<AtomicU64>,
    kind: usize,
}

impl Caller {
    async fn run(mut self) -> Done {
        let mut done = Done::default();
        while !self.stop.load(Ordering::Relaxed) {
            let permits = fastrand::u32(1..=MOST);
            let patience = Duration::from_micros(fastrand::u64(0..20_000));
            let guard: Option<Permit> = match self.kind {
                0 => Some((self.semaphore.permit(permits).await).expect("the server runs")),
                1 => {
                    let guard = self.semaphore.permit_for(permits, patience).await;
                    let guard = guard.expect("the server runs");
                    done.in_vain += u64::from(guard.is_none());
                    guard
                }
                _ => {
                    let guard = timeout(patience, self.semaphore.permit(permits)).await;
                    done.cancelled += u64::from(guard.is_err());
                    guard.ok().map(|guard| guard.expect("the server runs"))
                }
            };
            let Some(guard) = guard else { continue };
            self.gauge.add(permits.into()).await;
            tokio::time::sleep(HOLD.mul_f64(fastrand::f64())).await;
            self.gauge.add(-i64::from(permits)).await;
            self.held.fetch_add(1, Ordering::Relaxed);
            if fastrand::bool() {
                guard.release().await.expect("the server runs");
            } else {
                drop(guard);
            }
        }
        done.held = self.held.load(Ordering::Relaxed);
        done
    }
}
