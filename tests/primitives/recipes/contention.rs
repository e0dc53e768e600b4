//! The classic recipes among many: how often those who wait look, who comes first, what is held up by a peer's lock, and how
//! much stands in Redis or is done in one script.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use crate::layouts::{Handle, Layout, Shape};
use crate::support::clients::scripts;
use crate::support::monitor::Monitor;
use crate::support::server::RedisServer;
use crate::support::waiters::until;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, Held, Lock, Result};
use tokio::task::JoinHandle;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(20);
const NEVER: Duration = Duration::from_secs(3600);

fn acquire(semaphore: &Handle) -> JoinHandle<Result<Held>> {
    let waiter = semaphore.clone();
    tokio::spawn(async move { waiter.acquire().await })
}

/// Waits until so many clients stand in the line that all see.
async fn until_in_line(redis: &MultiplexedConnection, name: &str, count: u64) {
    let line = format!("redisson_sc_recipe_queue:fair:{{{name}}}");
    until(&format!("{count} stand in line"), LIMIT, async || {
        redis.clone().zcard::<_, u64>(&line).await.unwrap() == count
    })
    .await;
}

async fn keys(redis: &mut MultiplexedConnection, pattern: &str) -> usize {
    let keys: Vec<String> = redis.keys(pattern).await.unwrap();
    keys.len()
}

/// Who has come first is first, though all they have seen so far is a peer's lock.
#[tokio::test]
async fn callers_who_find_a_peer_s_lock_are_served_in_the_order_of_their_arrival() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let clients = [
        Client::connect(server.url()).await.unwrap(),
        Client::connect(server.url()).await.unwrap(),
    ];
    let shape = Shape::new(1).check(Duration::from_millis(50));
    let [one, two] = clients
        .each_ref()
        .map(|client| Layout::FairUnderLock.make(client, "order", shape));
    for round in 0..10 {
        let [early, late] = if round % 2 == 0 {
            [&one, &two]
        } else {
            [&two, &one]
        };
        let _: () = redis.pset_ex("lock:order", "peer", 60_000).await.unwrap();
        let first = acquire(early);
        until_in_line(&redis, "order", 1).await;
        let second = acquire(late);
        until_in_line(&redis, "order", 2).await;
        let _: () = redis.del("lock:order").await.unwrap();
        let held = timeout(LIMIT, first).await.expect("overtaken").unwrap();
        assert!(!second.is_finished());
        assert!(early.release(held.unwrap().id()).await.unwrap());
        let held = timeout(LIMIT, second).await.expect("asleep").unwrap();
        assert!(late.release(held.unwrap().id()).await.unwrap());
    }
}

/// The originals do all but the acquisition without the lock.
#[tokio::test]
async fn what_holders_do_does_not_wait_for_a_peer_s_lock() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = Client::connect(server.url()).await.unwrap();
    let lease = Duration::from_secs(2);
    let semaphore = Layout::FairUnderLock.make(&client, "free", Shape::new(8).lease(lease));
    let guard = semaphore.permit().await.unwrap();
    let held = semaphore.acquire().await.unwrap();
    let _: () = redis.pset_ex("lock:free", "peer", 600_000).await.unwrap();
    let waiter = acquire(&semaphore);
    until_in_line(&redis, "free", 1).await;
    timeout(LIMIT, async {
        assert!(semaphore.refresh(held.id()).await.unwrap());
        assert_eq!(semaphore.holders().await.unwrap().len(), 2);
        assert!(semaphore.release(held.id()).await.unwrap());
        assert!(!semaphore.refresh(held.id()).await.unwrap());
    })
    .await
    .expect("a holder waits for the lock");
    // A guard is kept for longer than a permit lasts.
    tokio::time::sleep(lease + lease / 2).await;
    assert!(!guard.is_lost(), "not refreshed");
    assert!(
        timeout(LIMIT, guard.release())
            .await
            .expect("it waits")
            .unwrap()
    );
    assert!(!waiter.is_finished(), "the lock is not heeded");
    let _: () = redis.zadd("free", "somebody", 9e15).await.unwrap();
    let _: () = redis.zadd("free:owner", "somebody", 0).await.unwrap();
    let released = timeout(LIMIT, semaphore.release_all()).await;
    assert_eq!(released.expect("it waits").unwrap(), 1);
    let _: () = redis.del("lock:free").await.unwrap();
    waiter.abort();
}

/// Handles come and go: a few keys stand beside a semaphore, however many they were.
#[tokio::test]
async fn handles_that_come_and_go_leave_a_handful_of_keys() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = Client::connect(server.url()).await.unwrap();
    for _ in 0..100 {
        let semaphore = Layout::Fair.make(&client, "many", Shape::new(2));
        let held = semaphore.acquire().await.unwrap();
        assert!(semaphore.release(held.id()).await.unwrap());
    }
    let records = keys(&mut redis, "redisson_sc_recipe_once:fair:{many}*").await;
    assert!((1..=4).contains(&records), "{records} records");

    let lock = client.string_lock("leases");
    for millis in 0..100 {
        let lease = Duration::from_millis(10_000 + millis);
        lock.with_lease(lease).lock().await.unwrap();
        lock.unlock().await.unwrap();
    }
    let records = keys(&mut redis, "redisson_sc_recipe_once:lock:{lock:leases}*").await;
    assert!((1..=4).contains(&records), "{records} records");
}

/// As many holders as there may be: they are listed with short scripts, each of them once.
#[tokio::test]
async fn thousands_of_holders_are_listed_in_pages() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = Client::connect(server.url()).await.unwrap();
    let count = 5_000_usize;
    for layout in [
        Layout::Timestamp,
        Layout::TimestampInSeconds,
        Layout::Fair,
        Layout::Set,
    ] {
        let name = format!("pages-{layout:?}");
        let shape = Shape::new(2 * count as u32).lease(NEVER);
        let semaphore = layout.make(&client, &name, shape);
        let first = semaphore.acquire().await.unwrap();
        let mut pipe = redis::pipe();
        let owner = format!("{name}:owner");
        let seconds = layout == Layout::TimestampInSeconds;
        for number in 0..count {
            let id = format!("id-{number}");
            if layout == Layout::Set {
                pipe.sadd(&name, &id).ignore();
                continue;
            }
            // Many of one time, as those who came with one script.
            let score: f64 = redis.zscore(&name, first.id()).await.unwrap();
            let step = if seconds { 1.0 } else { 1000.0 };
            let score = score + (number / 1500) as f64 * step;
            pipe.zadd(&name, &id, score).ignore();
            pipe.zadd(&owner, &id, number).ignore();
        }
        let () = pipe.query_async(&mut redis).await.unwrap();
        let before = scripts(&mut redis).await;
        assert_eq!(semaphore.holders().await.unwrap().len(), count + 1);
        let pages = scripts(&mut redis).await - before;
        assert!(pages >= 10, "{layout:?}: {pages} scripts");
        // Others go meanwhile.
        let going = async {
            for number in 0..200 {
                let id = format!("id-{}", number * 20);
                assert!(semaphore.release(&id).await.unwrap());
            }
        };
        let (holders, ()) = tokio::join!(semaphore.holders(), going);
        let holders = holders.unwrap();
        let ids: HashSet<&str> = holders.iter().map(|one| one.id()).collect();
        assert_eq!(
            ids.len(),
            holders.len(),
            "{layout:?}: some are listed twice"
        );
        let staying = (0..count).filter(|number| number % 20 != 0 || *number >= 4000);
        for number in staying {
            let id = format!("id-{number}");
            assert!(ids.contains(&*id), "{layout:?}: {id} is missing");
        }
        let left = semaphore.holders().await.unwrap();
        assert_eq!(left.len(), count + 1 - 200, "{layout:?}");
    }
}

/// A slot's time is not cut short by a program that is content with less.
#[tokio::test]
async fn a_refresh_with_a_shorter_time_does_not_shorten_a_slot() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = Client::connect(server.url()).await.unwrap();
    let long = Layout::Slots.make(&client, "long", Shape::new(1).lease(NEVER));
    let short = Shape::new(1).lease(Duration::from_secs(1));
    let short = Layout::Slots.make(&client, "long", short);
    let held = long.acquire().await.unwrap();
    assert!(short.refresh(held.id()).await.unwrap());
    let left: i64 = redis.pttl("long:1").await.unwrap();
    assert!(left > 3_000_000, "{left} ms are left");
    let lease = long.keep(&held);
    assert!(lease.remaining() > Some(NEVER / 2), "it lasts all the same");
}

/// A lock that peers hand round is free for moments only: who waits for such a moment looks often, however long it has
/// waited.
#[tokio::test]
async fn a_lock_that_changes_hands_is_looked_at_often() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = Client::connect(server.url()).await.unwrap();
    let check = Duration::from_millis(500);
    let semaphore = Layout::FairUnderLock.make(&client, "busy", Shape::new(1).check(check));
    let mut lock = async |holder: u64| {
        let _: () = redis.pset_ex("lock:busy", holder, 60_000).await.unwrap();
        scripts(&mut redis).await
    };
    let before = lock(0).await;
    let waiter = acquire(&semaphore);
    let mut last = before;
    for holder in 1..=200 {
        last = lock(holder).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // With pauses that grow up to the check's pace there would be about twenty.
    assert!(last - before >= 200, "{} scripts", last - before);
    let _: () = server.connection().await.del("lock:busy").await.unwrap();
    let _ = timeout(LIMIT, waiter)
        .await
        .expect("asleep")
        .unwrap()
        .unwrap();
}

/// A thousand slots: when the next one expires is found out with short scripts, and it is found.
#[tokio::test]
async fn many_slots_are_looked_at_in_pages() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = Client::connect(server.url()).await.unwrap();
    let semaphore = Layout::Slots.make(&client, "slots", Shape::new(1024));
    let mut pipe = redis::pipe();
    for slot in 1..=1024 {
        let lasts = if slot == 1000 { 1_500 } else { 600_000 };
        pipe.pset_ex(format!("slots:{slot}"), format!("id-{slot}"), lasts)
            .ignore();
    }
    let () = pipe.query_async(&mut redis).await.unwrap();
    let mut monitor = Monitor::start(&server).await;
    let waiter = acquire(&semaphore);
    let held = timeout(LIMIT, waiter)
        .await
        .expect("asleep")
        .unwrap()
        .unwrap();
    assert_eq!(held.slot(), Some(1000));
    let commands = monitor.until_marker().await;
    let mut scripts = 0;
    let mut looks = 0;
    for command in &commands {
        if command.name.starts_with("EVAL") {
            (scripts, looks) = (scripts + 1, 0);
        } else if command.is_lua() {
            looks += 1;
            assert!(looks <= 200, "one script is a long one");
        }
    }
    assert!((2..=20).contains(&scripts), "{scripts} scripts");
    assert_eq!(semaphore.holders().await.unwrap().len(), 1024);
}

/// The same for the string lock itself, which peers take and give back without a word.
#[tokio::test]
async fn a_string_lock_that_peers_hand_round_is_looked_at_often() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = Client::connect(server.url()).await.unwrap();
    let lock = client
        .string_lock("round")
        .check_interval(Duration::from_millis(500));
    let mut taken_by = async |holder: u64| {
        let _: () = redis.pset_ex("lock:round", holder, 60_000).await.unwrap();
        scripts(&mut redis).await
    };
    let before = taken_by(0).await;
    let waiter = lock.clone();
    let waiter = tokio::spawn(async move { waiter.lock().await });
    let mut last = before;
    for holder in 1..=400 {
        last = taken_by(holder).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // At the check's pace there would be about five.
    assert!(last - before >= 100, "{} scripts", last - before);
    // Nobody tries it out any more when it stays in the same hands.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = scripts(&mut server.connection().await).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let last = scripts(&mut server.connection().await).await;
    assert!(last - before <= 5, "{} scripts", last - before);
    let _: () = server.connection().await.del("lock:round").await.unwrap();
    timeout(LIMIT, waiter)
        .await
        .expect("asleep")
        .unwrap()
        .unwrap();
}

/// A peer that holds the lock for longer than a call waits for a server is no outage: nobody is told an error.
#[tokio::test]
async fn a_peer_s_lock_is_no_trouble_however_long_it_is_held() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let window = Duration::from_millis(200);
    let builder = Client::builder(server.url()).retry_window(window);
    let client = builder.connect().await.unwrap();
    let shape = Shape::new(2).check(Duration::from_millis(100));
    let semaphore = Layout::FairUnderLock.make(&client, "long", shape);
    let one = semaphore.acquire().await.unwrap();
    let _: () = redis.pset_ex("lock:long", "peer", 600_000).await.unwrap();
    let waiter = acquire(&semaphore);
    until_in_line(&redis, "long", 1).await;
    let meanwhile = async {
        let begun = Instant::now();
        while begun.elapsed() < 4 * window {
            assert_eq!(semaphore.try_acquire().await, Ok(None));
            assert_eq!(semaphore.try_acquire_for(window).await, Ok(None));
            assert_eq!(semaphore.refresh(one.id()).await, Ok(true));
            assert_eq!(semaphore.holders().await.unwrap().len(), 1);
        }
        assert_eq!(semaphore.release(one.id()).await, Ok(true));
    };
    timeout(LIMIT, meanwhile).await.expect("a call hangs");
    assert!(!waiter.is_finished());
    let _: () = redis.del("lock:long").await.unwrap();
    let served = timeout(LIMIT, waiter).await.expect("asleep");
    let _ = served.unwrap().unwrap();
}
