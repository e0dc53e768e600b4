//! Fair locks shared with the real Redisson: one order of all waiters, and wakes in both directions.

use std::time::Duration;

use crate::common::locks::{Kind, locking, newer_versions};
use crate::common::parked::{PATIENCE, returned, served};
use crate::common::world::World;
use crate::support::monitor::Monitor;
use crate::support::peer::{JavaPeer, PendingCall};
use crate::support::snapshot::snapshot;
use crate::support::waiters::{until, until_subscribers};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, Error, RLock, Result};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

const QUEUE: &str = "redisson_lock_queue:{door}";
const ENDS: &str = "redisson_lock_timeout:{door}";

fn of(thread: &str) -> Value {
    Kind::Fair.args("door", thread)
}

/// The owner of the lock, and how often it holds it.
async fn held(redis: &mut MultiplexedConnection) -> Vec<String> {
    snapshot(redis, "door").await.value
}

async fn queue(redis: &mut MultiplexedConnection) -> Vec<String> {
    redis.lrange(QUEUE, 0, -1).await.unwrap()
}

async fn until_queue_of(redis: &mut MultiplexedConnection, count: usize) {
    until(&format!("{count} queue"), PATIENCE, async || {
        queue(redis).await.len() == count
    })
    .await;
}

async fn until_queued(redis: &mut MultiplexedConnection, owner: &str, place: usize) {
    let what = format!("{owner} waits in place {place}");
    until(&what, PATIENCE, async || {
        let queue = queue(redis).await;
        queue.len() == place && queue.last().is_some_and(|last| last == owner)
    })
    .await;
    let channel = format!("redisson_lock__channel:{{door}}:{owner}");
    until_subscribers(redis, &channel, 1).await;
}

/// Waits until a caller of either side has tried for the second time, behind its subscription: from now on it needs a message.
async fn until_asleep(attempts: &mut Monitor, owner: &str) {
    let mut seen = 0;
    until(&format!("{owner} sleeps"), PATIENCE, async || {
        let commands = attempts.until_marker().await;
        let looks = commands.iter().filter(|command| {
            command.is_lua()
                && ["HGET", "HEXISTS"].contains(&&*command.name)
                && command.args == ["door", owner]
        });
        seen += looks.count();
        seen >= 2
    })
    .await;
}

/// Both keys of the queue are gone.
async fn until_nobody_queues(redis: &mut MultiplexedConnection) {
    until("nobody queues", PATIENCE, async || {
        redis.exists::<_, u32>(&[QUEUE, ENDS]).await.unwrap() == 0
    })
    .await;
}

/// The waiters of one test, in the order in which they have come.
struct Waiters(Vec<(String, Waiter)>);

enum Waiter {
    Java(&'static str, PendingCall),
    Rust(RLock, JoinHandle<Result<()>>),
}

impl Waiters {
    async fn java(&mut self, world: &mut World, thread: &'static str) {
        let owner = world.java_owner(thread).await;
        let mut attempts = Monitor::start(&world.server).await;
        let call = world.java.begin("lock", of(thread));
        until_queued(&mut world.redis, &owner, self.0.len() + 1).await;
        until_asleep(&mut attempts, &owner).await;
        self.0.push((owner, Waiter::Java(thread, call)));
    }

    async fn rust(&mut self, world: &mut World, client: &Client) {
        let lock = Kind::Fair.of(client, "door");
        let mut attempts = Monitor::start(&world.server).await;
        let (owner, task) = (lock.owner().to_owned(), locking(&lock));
        until_queued(&mut world.redis, &owner, self.0.len() + 1).await;
        until_asleep(&mut attempts, &owner).await;
        self.0.push((owner, Waiter::Rust(lock, task)));
    }

    /// Each gets the lock in its place, and unlocks it.
    async fn all_are_served(self, world: &mut World) {
        for (place, (owner, waiter)) in self.0.into_iter().enumerate() {
            let what = format!("the waiter in place {place}");
            let has_it = [format!("{owner}=1")];
            match waiter {
                Waiter::Java(thread, call) => {
                    served(&what, call).await;
                    assert_eq!(held(&mut world.redis).await, has_it, "{what}");
                    world.java("unlock", of(thread)).await;
                }
                Waiter::Rust(lock, task) => {
                    returned(&what, task).await.unwrap();
                    assert_eq!(held(&mut world.redis).await, has_it, "{what}");
                    lock.unlock().await.unwrap();
                }
            }
        }
        until_nobody_queues(&mut world.redis).await;
        assert_eq!(held(&mut world.redis).await, [""; 0]);
    }
}

#[tokio::test]
async fn rust_and_java_wait_in_one_order() {
    for version in newer_versions() {
        let mut world = World::start(version).await;
        let (one, two) = (world.rust.clone(), world.another_client().await);
        for java_holds in [false, true] {
            let holder = one.fair_lock("door");
            match java_holds {
                true => drop(world.java("lock", of("holder")).await),
                false => holder.lock().await.unwrap(),
            }
            let mut waiters = Waiters(Vec::new());
            waiters.java(&mut world, "a").await;
            waiters.rust(&mut world, &one).await;
            waiters.rust(&mut world, &two).await;
            waiters.java(&mut world, "b").await;
            waiters.java(&mut world, "c").await;
            waiters.rust(&mut world, &one).await;
            assert!(!two.fair_lock("door").try_lock().await.unwrap());
            match java_holds {
                true => drop(world.java("unlock", of("holder")).await),
                false => holder.unlock().await.unwrap(),
            }
            waiters.all_are_served(&mut world).await;
        }
    }
}

/// A forced unlock lets the first waiter in.
#[tokio::test]
async fn a_forced_unlock_wakes_the_first_waiter() {
    for version in newer_versions() {
        let mut world = World::start(version).await;
        let rust = world.rust.clone();
        for by_java in [false, true] {
            let holder = rust.fair_lock("door");
            holder.lock().await.unwrap();
            let mut waiters = Waiters(Vec::new());
            if by_java {
                waiters.rust(&mut world, &rust).await;
                waiters.java(&mut world, "a").await;
                assert_eq!(world.java("forceUnlock", of("b")).await, json!(true));
            } else {
                waiters.java(&mut world, "a").await;
                waiters.rust(&mut world, &rust).await;
                assert!(rust.fair_lock("door").force_unlock().await.unwrap());
            }
            waiters.all_are_served(&mut world).await;
            assert!(matches!(holder.unlock().await, Err(Error::NotHeld { .. })));
        }
        assert_eq!(world.java("forceUnlock", of("b")).await, json!(false));
        assert!(!rust.fair_lock("door").force_unlock().await.unwrap());
    }
}

/// The last hold alone lets the next waiter in.
#[tokio::test]
async fn both_sides_count_their_holds() {
    for version in newer_versions() {
        let mut world = World::start(version).await;
        let rust = world.rust.clone();
        let holder = rust.fair_lock("door");
        holder.lock().await.unwrap();
        holder.lock().await.unwrap();
        let mut waiters = Waiters(Vec::new());
        waiters.java(&mut world, "a").await;
        // It does not wait behind others.
        holder.lock().await.unwrap();
        for left in [2, 1] {
            holder.unlock().await.unwrap();
            let holds = [format!("{}={left}", holder.owner())];
            assert_eq!(held(&mut world.redis).await, holds);
        }
        holder.unlock().await.unwrap();
        waiters.all_are_served(&mut world).await;
        world.java("lock", of("a")).await;
        world.java("lock", of("a")).await;
        let mut waiters = Waiters(Vec::new());
        waiters.rust(&mut world, &rust).await;
        world.java("unlock", of("a")).await;
        assert_eq!(world.java("holdCount", of("a")).await, json!(1));
        world.java("unlock", of("a")).await;
        waiters.all_are_served(&mut world).await;
    }
}

/// Nobody says that a lease is over: the first waiter of either side finds out.
#[tokio::test]
async fn the_end_of_a_lease_lets_the_first_waiter_in() {
    for version in newer_versions() {
        let mut world = World::start(version).await;
        let rust = world.rust.clone();
        let mut leased = of("holder");
        leased["leaseMs"] = json!(5_000);
        world.java("lock", leased).await;
        let mut waiters = Waiters(Vec::new());
        waiters.rust(&mut world, &rust).await;
        waiters.java(&mut world, "a").await;
        waiters.all_are_served(&mut world).await;
        let holder = rust.fair_lock("door");
        let leased = holder.with_lease(Duration::from_secs(5));
        leased.lock().await.unwrap();
        let mut waiters = Waiters(Vec::new());
        waiters.java(&mut world, "a").await;
        waiters.rust(&mut world, &rust).await;
        waiters.all_are_served(&mut world).await;
        assert!(matches!(holder.unlock().await, Err(Error::NotHeld { .. })));
    }
}

/// A killed JVM stays in the queue until its time is over, and not for longer.
#[tokio::test]
async fn a_waiter_of_a_killed_jvm_leaves_the_queue_when_its_time_is_over() {
    for version in newer_versions() {
        let mut world = World::start(version).await;
        let rust = world.rust.clone();
        let holder = rust.fair_lock("door");
        let leased = holder.with_lease(Duration::from_secs(6));
        let url = world.server.url();
        let dead = JavaPeer::start_with(version, &url, &["--fair-wait", "1500"]).await;
        leased.lock().await.unwrap();
        let _waits = dead.begin("lock", of("a"));
        until_queue_of(&mut world.redis, 1).await;
        let first = queue(&mut world.redis).await.remove(0);
        let ends: f64 = world.redis.zscore(ENDS, &first).await.unwrap();
        let next = Kind::Fair.of(&rust, "door");
        let task = locking(&next);
        until_queued(&mut world.redis, next.owner(), 2).await;
        dead.kill().await;
        holder.unlock().await.unwrap();
        returned("behind the killed JVM", task).await.unwrap();
        let time = redis::cmd("TIME");
        let (seconds, micros): (f64, f64) = time.query_async(&mut world.redis).await.unwrap();
        assert!(seconds * 1e3 + micros / 1e3 >= ends, "{version}: too soon");
        next.unlock().await.unwrap();
        until_nobody_queues(&mut world.redis).await;
    }
}

/// Java waits behind callers of Rust that leave: it is the first then. And Java's callers that leave hold Rust up no more either.
#[tokio::test]
async fn callers_that_leave_hold_nobody_up() {
    for version in newer_versions() {
        let mut world = World::start(version).await;
        let rust = world.rust.clone();
        let holder = rust.fair_lock("door");
        holder.lock().await.unwrap();
        let dropped = locking(rust.fair_lock("door").as_lock());
        until_queue_of(&mut world.redis, 1).await;
        let java = world.java_owner("a").await;
        let waits = world.java.begin("lock", of("a"));
        until_queued(&mut world.redis, &java, 2).await;
        let short = Duration::from_millis(50);
        assert!(!rust.fair_lock("door").try_lock_for(short).await.unwrap());
        dropped.abort();
        until("Java is the first", PATIENCE, async || {
            queue(&mut world.redis).await == [&*java]
        })
        .await;
        assert_eq!(world.redis.zcard::<_, u32>(ENDS).await.unwrap(), 1);
        holder.unlock().await.unwrap();
        served("behind those that have left", waits).await;
        let mut waiting = of("b");
        waiting["waitMs"] = json!(100);
        assert_eq!(world.java("tryLock", waiting).await, json!(false));
        let mut waiters = Waiters(Vec::new());
        waiters.rust(&mut world, &rust).await;
        world.java("unlock", of("a")).await;
        waiters.all_are_served(&mut world).await;
    }
}
