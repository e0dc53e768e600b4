//! The queue in which callers of the classic recipes wait, in all processes: the order of service, the notifications, the cost of a
//! look, and entries that other programs may have written.

use std::time::Duration;

use super::{NEVER, connect, line_of, served, start, until_in_line, waiter};
use crate::layouts::{Layout, Shape};
use crate::support::clients::{LIMIT, scripts};
use crate::support::monitor::{Command, Monitor};
use crate::support::proxy::Proxy;
use crate::support::waiters::until_listening;
use futures::future::{join_all, try_join_all};
use redis::AsyncCommands;
use redisson_semaphore::Client;
use tokio::time::timeout;

/// Each permit lasts as long as its own caller has asked for, even if permits are granted and refreshed together.
#[tokio::test]
async fn permits_of_one_line_last_as_long_as_each_was_asked_for() {
    let (_server, mut redis, client) = start().await;
    let (short, long) = (Duration::from_secs(60), Duration::from_secs(600));
    let [brief, lasting] = [short, long].map(|lease| {
        let shape = Shape::new(4).lease(lease);
        Layout::Slots.make(&client, "mixed", shape)
    });
    let callers = [&lasting, &brief, &brief, &lasting];
    let held = try_join_all(callers.map(|semaphore| semaphore.acquire()));
    let held = held.await.unwrap();
    for _ in 0..2 {
        for (held, lease) in held.iter().zip([long, short, short, long]) {
            let key = format!("mixed:{}", held.slot().unwrap());
            let left = Duration::from_millis(redis.pttl(&key).await.unwrap());
            assert!(
                left <= lease && left + short > lease,
                "{left:?} of {lease:?}"
            );
            assert!(held.remaining().unwrap() <= lease);
        }
        let refreshed = callers.iter().zip(&held);
        let refreshed = refreshed.map(|(semaphore, held)| semaphore.refresh(held.id()));
        assert_eq!(try_join_all(refreshed).await.unwrap(), [true; 4]);
    }
}

/// A slot semaphore, a timestamp semaphore and a lock of one name have nothing in common.
#[tokio::test]
async fn those_who_wait_for_something_else_of_the_same_name_are_not_in_the_way() {
    let (server, _, one) = start().await;
    let two = connect(&server).await;
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

/// A change of the limit has not reached all processes yet: a waiter with the lower limit stops no other waiter, and gets nothing
/// before enough holders have gone.
#[tokio::test]
async fn a_waiter_with_a_lower_limit_stops_nobody_with_a_higher_one() {
    let (server, mut redis, one) = start().await;
    let two = connect(&server).await;
    for layout in crate::layouts::ALL {
        let name = format!("limits-{layout:?}");
        let low = layout.make(&one, &name, Shape::new(1));
        let high = layout.make(&two, &name, Shape::new(4));
        let mut held = Vec::new();
        for _ in 0..2 {
            held.push(high.acquire().await.unwrap());
        }
        let first = waiter(&low).await;
        let third = timeout(LIMIT, high.acquire()).await.expect("held up");
        let third = third.unwrap();
        let fourth = high.try_acquire().await.unwrap();
        held.push(fourth.expect("the lower limit leaves it one"));
        let second = waiter(&high).await;
        if layout == Layout::Fair {
            // Room under the higher limit alone is no reason for the clients to notify each other.
            let before = scripts(&mut redis).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            let looks = scripts(&mut redis).await - before;
            assert!(looks <= 10, "{looks} scripts");
        }
        // A free permit goes to the waiter whose limit leaves room, though it has come later.
        assert!(high.release(third.id()).await.unwrap());
        held.push(served(second).await);
        // The last one is that of the lowest slot.
        for held in held.iter().rev() {
            assert!(!first.is_finished(), "{layout:?}");
            assert!(high.release(held.id()).await.unwrap());
        }
        let _ = served(first).await;
    }
}

/// A dead process in front of the queue costs milliseconds, even if no client looks without a reason.
#[tokio::test]
async fn a_dead_process_in_front_holds_nobody_up() {
    let (server, mut redis, alive) = start().await;
    let proxy = Proxy::start(&server).await;
    let dying = Client::connect(proxy.url()).await.unwrap();
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

/// In a set only the grant says that no holder has its id.
#[tokio::test]
async fn grant_of_a_set_does_not_end_before_it_is_taken_back() {
    let (server, mut redis, alive) = start().await;
    let proxy = Proxy::start(&server).await;
    let dying = Client::connect(proxy.url()).await.unwrap();
    let [dying, alive] =
        [&dying, &alive].map(|client| Layout::Set.make(client, "dead", Shape::new(1)));
    for _ in 0..5 {
        proxy.clear();
        let held = alive.acquire().await.unwrap();
        let first = waiter(&dying).await;
        proxy.blackhole();
        assert!(alive.release(held.id()).await.unwrap());
        let ttl: i64 = redis
            .pttl("redisson_sc_recipe_grants:set:{dead}")
            .await
            .unwrap();
        assert!(ttl < 0, "it ends in {ttl} ms");
        let held = timeout(LIMIT, alive.acquire())
            .await
            .expect("it comes back");
        assert!(alive.release(held.unwrap().id()).await.unwrap());
        first.abort();
    }
}

/// A look reads the first few entries, however many callers wait.
#[tokio::test]
async fn a_look_at_a_long_line_is_a_short_script() {
    let (server, mut redis, client) = start().await;
    for layout in crate::layouts::ALL {
        let name = format!("long-{layout:?}");
        let semaphore = layout.make(&client, &name, Shape::new(1));
        let held = semaphore.acquire().await.unwrap();
        let (line, notes) = line_of(layout, &name);
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
        let words: usize = of_script.iter().map(|one| 1 + one.args.len()).sum();
        let count = of_script.len();
        assert!(
            (1..=25).contains(&count) && words <= 150,
            "{layout:?}: {count} commands of {words} words"
        );
        waiting.abort();
    }
}

/// The server's clock is set back by an hour while callers wait: their arrivals are in the future, and they are still served.
#[tokio::test]
async fn a_clock_that_is_set_back_stops_nobody() {
    let (server, mut redis, other) = start().await;
    let clients = [connect(&server).await, connect(&server).await, other];
    let shape = Shape::new(1).check(Duration::from_millis(50));
    for layout in crate::layouts::ALL {
        let name = format!("clock-{layout:?}");
        let [one, two, other] = clients
            .each_ref()
            .map(|client| layout.make(client, &name, shape));
        let held = other.acquire().await.unwrap();
        let waiting = [(waiter(&one).await, one), (waiter(&two).await, two)];
        until_listening(&mut redis, &name, 2).await;
        until_in_line(&mut redis, layout, &name, 2).await;
        let (line, _) = line_of(layout, &name);
        let entries: Vec<(String, f64)> = redis.zrange_withscores(&line, 0, -1).await.unwrap();
        for (entry, arrival) in entries {
            let later = arrival + NEVER.as_micros() as f64;
            let mut set = redis::cmd("ZADD");
            set.arg(&line).arg("XX").arg(later).arg(entry);
            set.exec_async(&mut redis).await.unwrap();
        }
        let before = scripts(&mut redis).await;
        assert!(other.release(held.id()).await.unwrap());
        join_all(waiting.map(async |(task, semaphore)| {
            let held = served(task).await;
            assert!(semaphore.release(held.id()).await.unwrap());
        }))
        .await;
        let cost = scripts(&mut redis).await - before;
        assert!(cost <= 20, "{layout:?}: {cost} scripts");
    }
}
