//! The classic recipes among many callers: calls that a peer's lock holds up, how often their waiters look, and the work of one
//! script.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::{NEVER, acquire, connect, lock_as_peer, served, start, unlock_as_peer, until_in_line};
use crate::layouts::{Layout, Shape};
use crate::support::clients::{self, LIMIT, scripts};
use crate::support::monitor::Monitor;
use redis::AsyncCommands;
use redisson_semaphore::{Client, Lock as _};
use tokio::time::{sleep, timeout};

/// Callers are served in the order of their arrival, though all they have seen so far is a peer's lock.
#[tokio::test]
async fn callers_who_find_a_peer_s_lock_are_served_in_the_order_of_their_arrival() {
    let (server, mut redis, client) = start().await;
    let clients = [client, connect(&server).await];
    let shape = Shape::new(1).check(Duration::from_millis(50));
    let mut handles = clients.map(|client| Layout::FairUnderLock.make(&client, "order", shape));
    for _ in 0..10 {
        let [early, late] = &handles;
        lock_as_peer(&mut redis, "order", "peer").await;
        let first = acquire(early);
        until_in_line(&mut redis, Layout::Fair, "order", 1).await;
        let second = acquire(late);
        until_in_line(&mut redis, Layout::Fair, "order", 2).await;
        unlock_as_peer(&mut redis, "order").await;
        let held = served(first).await;
        assert!(!second.is_finished());
        assert!(early.release(held.id()).await.unwrap());
        let held = served(second).await;
        assert!(late.release(held.id()).await.unwrap());
        handles.reverse();
    }
}

/// A peer that holds the lock for longer than a call waits for a server is no outage: no call ends with an error. The originals do all
/// but the acquisition without the lock.
#[tokio::test]
async fn a_peer_s_lock_is_no_trouble_however_long_it_is_held() {
    let (server, mut redis, _) = start().await;
    let window = Duration::from_millis(200);
    let builder = Client::builder(server.url()).retry_window(window);
    let client = builder.connect().await.unwrap();
    let shape = Shape::new(3).check(Duration::from_millis(100));
    let shape = shape.lease(Duration::from_secs(6));
    let semaphore = Layout::FairUnderLock.make(&client, "long", shape);
    let guard = semaphore.permit().await.unwrap();
    let one = semaphore.acquire().await.unwrap();
    // A peer has the lock and has given it no expiry yet: it gets one, as the peer may have died.
    let () = redis.set("lock:long", "peer").await.unwrap();
    assert_eq!(semaphore.try_acquire().await, Ok(None));
    let left: i64 = redis.pttl("lock:long").await.unwrap();
    assert!((1..=10_000).contains(&left), "{left}");
    lock_as_peer(&mut redis, "long", "peer").await;
    let waits = acquire(&semaphore);
    until_in_line(&mut redis, Layout::Fair, "long", 1).await;
    let meanwhile = async {
        let ends: f64 = redis.zscore("long", guard.id()).await.unwrap();
        let begun = Instant::now();
        // The guard is renewed, too.
        while begun.elapsed() < 4 * window || redis.zscore("long", guard.id()).await == Ok(ends) {
            assert_eq!(semaphore.try_acquire().await, Ok(None));
            assert_eq!(semaphore.try_acquire_for(window).await, Ok(None));
            assert_eq!(semaphore.refresh(one.id()).await, Ok(true));
            assert_eq!(semaphore.holders().await.unwrap().len(), 2);
        }
        assert_eq!(semaphore.release(one.id()).await, Ok(true));
        assert_eq!(semaphore.refresh(one.id()).await, Ok(false));
        assert_eq!(semaphore.release_all().await, Ok(1));
    };
    timeout(LIMIT, meanwhile).await.expect("a call hangs");
    assert_eq!(guard.release().await, Ok(false));
    assert!(!waits.is_finished(), "the lock is not heeded");
    unlock_as_peer(&mut redis, "long").await;
    let _ = served(waits).await;
}

/// A lock that peers hand round is free for moments only, so its waiters look often, however long they have waited.
#[tokio::test]
async fn a_lock_that_peers_hand_round_is_looked_at_often() {
    let (_server, mut redis, client) = start().await;
    let check = Duration::from_millis(500);
    let shape = Shape::new(1).check(check);
    let semaphore = Layout::FairUnderLock.make(&client, "semaphore", shape);
    let lock = client.string_lock("lock").check_interval(check);
    // With pauses that grow up to the check's pace there would be about twenty, and about five for the string lock.
    for (name, times, least) in [("semaphore", 200, 200), ("lock", 400, 100)] {
        lock_as_peer(&mut redis, name, "0").await;
        let before = scripts(&mut redis).await;
        let (semaphore, lock) = (semaphore.clone(), lock.clone());
        let waits = tokio::spawn(async move {
            match name {
                "semaphore" => semaphore.acquire().await.map(drop),
                _ => lock.lock().await,
            }
        });
        for holder in 1..=times {
            lock_as_peer(&mut redis, name, &holder.to_string()).await;
            sleep(Duration::from_millis(5)).await;
        }
        let looks = scripts(&mut redis).await - before;
        assert!(looks >= least, "{name}: {looks} scripts");
        if name == "lock" {
            // The waiter looks less often while the lock stays in the same hands.
            sleep(2 * check).await;
            let (before, began) = (scripts(&mut redis).await, Instant::now());
            sleep(2 * check).await;
            let looks = scripts(&mut redis).await - before;
            // Half of the check's pace at least.
            let most = began.elapsed().as_millis() / 250 + 1;
            assert!(u128::from(looks) <= most, "{looks} looks, at most {most}");
        }
        unlock_as_peer(&mut redis, name).await;
        clients::served(waits).await;
    }
}

/// As many holders as there may be: they are listed with short scripts, each of them once.
#[tokio::test]
async fn thousands_of_holders_are_listed_in_pages() {
    const COUNT: usize = 5_000;
    let (_server, mut redis, client) = start().await;
    for (layout, step) in [
        (Layout::Timestamp, 1000.0),
        (Layout::TimestampInSeconds, 1.0),
        (Layout::Fair, 1000.0),
        (Layout::Set, 0.0),
    ] {
        let name = format!("pages-{layout:?}");
        let shape = Shape::new(2 * COUNT as u32).lease(NEVER);
        let semaphore = layout.make(&client, &name, shape);
        let first = semaphore.acquire().await.unwrap();
        let mut pipe = redis::pipe();
        for number in 0..COUNT {
            let id = format!("id-{number}");
            if layout == Layout::Set {
                pipe.sadd(&name, &id).ignore();
                continue;
            }
            // Many entries have the same time, as if one script had made them.
            let score: f64 = redis.zscore(&name, first.id()).await.unwrap();
            let score = score + (number / 1500) as f64 * step;
            pipe.zadd(&name, &id, score).ignore();
            pipe.zadd(format!("{name}:owner"), &id, number).ignore();
        }
        let () = pipe.query_async(&mut redis).await.unwrap();
        let before = scripts(&mut redis).await;
        assert_eq!(semaphore.holders().await.unwrap().len(), COUNT + 1);
        let pages = scripts(&mut redis).await - before;
        assert!(pages >= 10, "{layout:?}: {pages} scripts");
        // Others go meanwhile.
        let goes = |number: usize| number.is_multiple_of(20) && number < 4000;
        let going = async {
            for number in (0..COUNT).filter(|number| goes(*number)) {
                let id = format!("id-{number}");
                assert!(semaphore.release(&id).await.unwrap());
            }
        };
        let (holders, ()) = tokio::join!(semaphore.holders(), going);
        let holders = holders.unwrap();
        let ids: HashSet<&str> = holders.iter().map(|one| one.id()).collect();
        assert_eq!(ids.len(), holders.len(), "{layout:?}: one is listed twice");
        for number in (0..COUNT).filter(|number| !goes(*number)) {
            let id = format!("id-{number}");
            assert!(ids.contains(&*id), "{layout:?}: {id} is missing");
        }
        let left = semaphore.holders().await.unwrap();
        assert_eq!(left.len(), COUNT + 1 - 200, "{layout:?}");
    }
}

/// A slot's time is not cut short by a program that is content with less.
#[tokio::test]
async fn a_refresh_with_a_shorter_time_does_not_shorten_a_slot() {
    let (_server, mut redis, client) = start().await;
    let [long, short] = [NEVER, Duration::from_secs(1)]
        .map(|lease| Layout::Slots.make(&client, "long", Shape::new(1).lease(lease)));
    let held = long.acquire().await.unwrap();
    assert!(short.refresh(held.id()).await.unwrap());
    let left: i64 = redis.pttl("long:1").await.unwrap();
    assert!(left > 3_000_000, "{left} ms are left");
    let lease = long.keep(&held);
    assert!(lease.remaining() > Some(NEVER / 2), "it lasts all the same");
}

/// A thousand slots: when the next one expires is found out with short scripts, and it is found.
#[tokio::test]
async fn many_slots_are_looked_at_in_pages() {
    let (server, mut redis, client) = start().await;
    let semaphore = Layout::Slots.make(&client, "slots", Shape::new(1024));
    let mut pipe = redis::pipe();
    for slot in 1..=1024 {
        let lasts = if slot == 1000 { 1_500 } else { 600_000 };
        let key = format!("slots:{slot}");
        pipe.pset_ex(key, format!("id-{slot}"), lasts).ignore();
    }
    let () = pipe.query_async(&mut redis).await.unwrap();
    let mut monitor = Monitor::start(&server).await;
    let held = served(acquire(&semaphore)).await;
    assert_eq!(held.slot(), Some(1000));
    let commands = monitor.until_marker().await;
    let of_each_script = commands.split(|command| command.name.starts_with("EVAL"));
    let longest = of_each_script.map(|all| all.iter().filter(|one| one.is_lua()).count());
    assert!(longest.max() <= Some(200), "one script is a long one");
    let scripts = commands.iter().filter(|one| one.name.starts_with("EVAL"));
    assert!((2..=20).contains(&scripts.count()));
    assert_eq!(semaphore.holders().await.unwrap().len(), 1024);
}
