//! The line in which callers of the classic recipes wait, in all processes: who is served next, who is told, what a look
//! costs, and what others may have written into it.

use std::time::Duration;

use crate::layouts::{Handle, Layout, Shape};
use crate::support::clients::scripts;
use crate::support::monitor::{Command, Monitor};
use crate::support::proxy::Proxy;
use crate::support::server::RedisServer;
use crate::support::waiters::{until, until_listening};
use redis::AsyncCommands;
use redisson_semaphore::{Client, Held, Result};
use tokio::task::JoinHandle;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(20);
const NEVER: Duration = Duration::from_secs(3600);

fn acquire(semaphore: &Handle) -> JoinHandle<Result<Held>> {
    let waiter = semaphore.clone();
    tokio::spawn(async move { waiter.acquire().await })
}

/// `acquire` in a task that stands in line when this returns.
async fn waiter(semaphore: &Handle) -> JoinHandle<Result<Held>> {
    let task = acquire(semaphore);
    tokio::task::yield_now().await;
    // Answered behind its own question.
    semaphore.holders().await.unwrap();
    semaphore.release("nobody").await.unwrap();
    task
}

async fn served(task: JoinHandle<Result<Held>>) -> Held {
    let held = timeout(LIMIT, task).await.expect("nobody is served");
    held.unwrap().unwrap()
}

/// Each permit lasts as long as its own caller has asked for, also where they come together and are refreshed together.
#[tokio::test]
async fn permits_of_one_line_last_as_long_as_each_was_asked_for() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = Client::connect(server.url()).await.unwrap();
    let (short, long) = (Duration::from_millis(900), Duration::from_secs(600));
    let [brief, lasting] = [short, long].map(|lease| {
        let shape = Shape::new(4).lease(lease);
        Layout::Slots.make(&client, "mixed", shape)
    });
    let mut slots = Vec::new();
    for semaphore in [&lasting, &brief, &brief, &lasting] {
        slots.push(semaphore.acquire());
    }
    let slots = futures::future::join_all(slots).await;
    let slots: Vec<Held> = slots.into_iter().map(Result::unwrap).collect();
    for (held, lease) in slots.iter().zip([long, short, short, long]) {
        let key = format!("mixed:{}", held.slot().unwrap());
        let left: u64 = redis.pttl(&key).await.unwrap();
        let left = Duration::from_millis(left);
        assert!(
            left <= lease && left + short > lease,
            "{left:?} of {lease:?}"
        );
        assert!(held.remaining().unwrap() <= lease);
    }
    let kept = [brief.keep(&slots[1]), lasting.keep(&slots[0])];
    tokio::time::sleep(3 * short).await;
    assert!(kept.iter().all(|lease| !lease.is_lost()));
    let left = lasting.holders().await.unwrap();
    assert_eq!(
        left.len(),
        3,
        "the one that is not kept has expired: {left:?}"
    );
}

/// A slot semaphore, a timestamp semaphore and a lock of one name have nothing in common.
#[tokio::test]
async fn those_who_wait_for_something_else_of_the_same_name_are_not_in_the_way() {
    let server = RedisServer::start().await;
    let [one, two] = [
        Client::connect(server.url()).await.unwrap(),
        Client::connect(server.url()).await.unwrap(),
    ];
    let slots = Layout::Slots.make(&one, "name", Shape::new(1));
    let times = Layout::Timestamp.make(&two, "name", Shape::new(1));
    let slot = slots.acquire().await.unwrap();
    let time = times.acquire().await.unwrap();
    let for_slot = waiter(&slots).await;
    let for_time = waiter(&times).await;
    assert!(times.release(time.id()).await.unwrap());
    let time = served(for_time).await;
    assert!(!for_slot.is_finished());
    assert!(times.release(time.id()).await.unwrap());
    assert!(times.try_acquire().await.unwrap().is_some(), "it is free");
    assert!(slots.release(slot.id()).await.unwrap());
    let _ = served(for_slot).await;
}

/// A change of the limit that has not reached all processes yet: whoever still goes by the lower one stops nobody.
#[tokio::test]
async fn a_waiter_with_a_lower_limit_stops_nobody_with_a_higher_one() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let [one, two] = [
        Client::connect(server.url()).await.unwrap(),
        Client::connect(server.url()).await.unwrap(),
    ];
    for layout in crate::layouts::ALL {
        let name = format!("limits-{layout:?}");
        let low = layout.make(&one, &name, Shape::new(2));
        let high = layout.make(&two, &name, Shape::new(4));
        for _ in 0..2 {
            let _ = high.acquire().await.unwrap();
        }
        let first = waiter(&low).await;
        let third = timeout(LIMIT, high.acquire()).await.expect("held up");
        let third = third.unwrap();
        let fourth = high.try_acquire().await.unwrap();
        assert!(
            fourth.is_some(),
            "{layout:?}: the lower limit leaves it none"
        );
        let second = waiter(&high).await;
        if layout == Layout::Fair {
            // Room under one limit that is none under the other is no reason to call each other.
            let before = scripts(&mut redis).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            let looks = scripts(&mut redis).await - before;
            assert!(looks <= 10, "{looks} scripts");
        }
        // A free permit goes to the waiter whose limit leaves room, though it has come later.
        assert!(high.release(third.id()).await.unwrap());
        let _ = served(second).await;
        assert!(!first.is_finished());
        high.release_all().await.unwrap();
        let _ = served(first).await;
    }
}

/// A process that is gone and says for how long it waits still: that costs milliseconds, also where nobody looks without a
/// reason.
#[tokio::test]
async fn a_dead_process_in_front_holds_nobody_up() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let proxy = Proxy::start(&server).await;
    let dying = Client::connect(proxy.url()).await.unwrap();
    let alive = Client::connect(server.url()).await.unwrap();
    for layout in crate::layouts::ALL {
        let name = format!("dead-{layout:?}");
        proxy.clear();
        let [dying, alive] =
            [&dying, &alive].map(|client| layout.make(client, &name, Shape::new(1)));
        let held = alive.acquire().await.unwrap();
        let first = waiter(&dying).await;
        proxy.blackhole();
        let second = waiter(&alive).await;
        let before = scripts(&mut redis).await;
        assert!(alive.release(held.id()).await.unwrap());
        let held = served(second).await;
        let cost = scripts(&mut redis).await - before;
        assert!(cost <= 10, "{layout:?}: {cost} scripts");
        assert!(alive.release(held.id()).await.unwrap());
        first.abort();
    }
}

/// Nothing is free, and those in front are dead: the next one that checks has their place.
#[tokio::test]
async fn dead_processes_in_front_leave_the_line() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let proxy = Proxy::start(&server).await;
    let dying = [
        Client::connect(proxy.url()).await.unwrap(),
        Client::connect(proxy.url()).await.unwrap(),
    ];
    let alive = Client::builder(server.url()).safety_interval(Duration::from_millis(200));
    let alive = alive.connect().await.unwrap();
    let shape = Shape::new(1).check(NEVER);
    let layout = Layout::Fair;
    let [one, two] = [&dying[0], &dying[1]].map(|client| layout.make(client, "front", shape));
    let alive = layout.make(&alive, "front", shape);
    let held = alive.acquire().await.unwrap();
    let dead = [waiter(&one).await, waiter(&two).await];
    until_listening(&mut redis, "front", 2).await;
    proxy.blackhole();
    let killed: u64 = redis::cmd("CLIENT")
        .arg(&["KILL", "TYPE", "pubsub"])
        .query_async(&mut redis)
        .await
        .unwrap();
    assert!(killed >= 2);
    let waiting = waiter(&alive).await;
    let (line, _) = keys_of(layout, "front");
    until("the dead have left", LIMIT, async || {
        redis.clone().zcard::<_, u64>(&line).await.unwrap() == 1
    })
    .await;
    assert!(alive.release(held.id()).await.unwrap());
    drop(served(waiting).await);
    dead.iter().for_each(JoinHandle::abort);
}

/// A look reads the first few, however many wait.
#[tokio::test]
async fn a_look_at_a_long_line_is_a_short_script() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = Client::connect(server.url()).await.unwrap();
    for layout in crate::layouts::ALL {
        let name = format!("long-{layout:?}");
        let semaphore = layout.make(&client, &name, Shape::new(1));
        let held = semaphore.acquire().await.unwrap();
        let (line, notes) = keys_of(layout, &name);
        let mut pipe = redis::pipe();
        for number in 0..1_000_u64 {
            pipe.zadd(&line, number, 1_000_000_000 + number).ignore();
            pipe.hset(&notes, number, "1 0 0 0 0 0").ignore();
        }
        let () = pipe.query_async(&mut redis).await.unwrap();
        let waiting = waiter(&semaphore).await;
        let mut monitor = Monitor::start(&server).await;
        assert!(semaphore.refresh(held.id()).await.unwrap());
        let commands = monitor.until_marker().await;
        let of_script: Vec<&Command> = commands.iter().filter(|one| one.is_lua()).collect();
        assert!(!of_script.is_empty());
        let words: usize = of_script.iter().map(|one| 1 + one.args.len()).sum();
        assert!(
            of_script.len() <= 25 && words <= 150,
            "{layout:?}: {} commands of {words} words",
            of_script.len()
        );
        waiting.abort();
    }
}

/// The server's clock is set back by an hour under those who wait: their arrivals are in the future, and they are still served.
#[tokio::test]
async fn a_clock_that_is_set_back_stops_nobody() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let [one, two, other] = [
        Client::connect(server.url()).await.unwrap(),
        Client::connect(server.url()).await.unwrap(),
        Client::connect(server.url()).await.unwrap(),
    ];
    let shape = Shape::new(1).check(Duration::from_millis(50));
    for layout in crate::layouts::ALL {
        let name = format!("clock-{layout:?}");
        let [one, two, other] =
            [&one, &two, &other].map(|client| layout.make(client, &name, shape));
        let held = other.acquire().await.unwrap();
        let waiting = [waiter(&one).await, waiter(&two).await];
        let (line, _) = keys_of(layout, &name);
        until_listening(&mut redis, &name, 2).await;
        until("both wait", LIMIT, async || {
            redis.clone().zcard::<_, u64>(&line).await.unwrap() == 2
        })
        .await;
        let entries: Vec<(String, f64)> = redis.zrange_withscores(&line, 0, -1).await.unwrap();
        for (entry, arrival) in entries {
            let later = arrival + NEVER.as_micros() as f64;
            let () = redis::cmd("ZADD")
                .arg(&*line)
                .arg("XX")
                .arg(later)
                .arg(entry)
                .query_async(&mut redis)
                .await
                .unwrap();
        }
        let before = scripts(&mut redis).await;
        assert!(other.release(held.id()).await.unwrap());
        let [first, second] = waiting;
        let first = async {
            let held = served(first).await;
            assert!(one.release(held.id()).await.unwrap());
        };
        let second = async {
            let held = served(second).await;
            assert!(two.release(held.id()).await.unwrap());
        };
        tokio::join!(first, second);
        let cost = scripts(&mut redis).await - before;
        assert!(cost <= 20, "{layout:?}: {cost} scripts");
    }
}

/// Where a line stands, and what is known of those in it.
fn keys_of(layout: Layout, name: &str) -> (String, String) {
    let key = |what: &str| format!("redisson_sc_recipe_{what}:{}:{{{name}}}", layout.word());
    (key("queue"), key("notes"))
}
