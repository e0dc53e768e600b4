//! Callers of one side that wait, woken by the other one: the real Redisson and this crate.
//!
//! The Rust clients of these tests have no safety net (see `world`): a wake-up that is missed stays missed.

use std::time::Duration;

use crate::common::parked::{Attempts, PATIENCE, finished, park, returned, served, served_within};
use crate::common::waiting::{TRIES, all_served};
use crate::common::world::{Mode, NEWEST, World, channel};
use crate::support::clients;
use crate::support::peer::{JavaPeer, SUPPORTED, versions};
use crate::support::proxy::Proxy;
use crate::support::waiters::{until, until_notified, until_queued, until_subscribers, waiter};
use redis::AsyncCommands;
use serde_json::json;

/// How soon a Java caller must get what is free, when the message itself has woken others only.
const A_FEW_SECONDS: Duration = Duration::from_secs(5);

/// All that raises the counter, in Rust.
const RAISES: [&str; 7] = [
    "release",
    "release_if_exists",
    "add_permits",
    "try_set_permits",
    "try_set_permits_for",
    "guard dropped",
    "guard released",
];

#[tokio::test(flavor = "multi_thread")]
async fn java_callers_are_woken_by_all_that_raises_the_counter() {
    let world = World::start(NEWEST).await;
    let mut attempts = world.attempts().await;
    for mode in Mode::BOTH {
        for raise in RAISES {
            for permits in 1..=5 {
                let name = format!("{raise} {permits} {}", mode.word());
                let semaphore = world.rust.semaphore(&name);
                let mut guard = None;
                if raise.starts_with("guard") {
                    assert!(semaphore.try_set_permits(permits).await.unwrap());
                    guard = semaphore.try_permit(permits).await.unwrap();
                } else if !raise.starts_with("try_set") {
                    assert!(semaphore.try_set_permits(0).await.unwrap());
                }
                let calls = world.park_java(&mut attempts, &name, mode, [permits]).await;
                let hour = Duration::from_secs(3600);
                let raised = match raise {
                    "release" => semaphore.release(permits).await.map(|()| true),
                    "release_if_exists" => semaphore.release_if_exists(permits).await,
                    "add_permits" => semaphore.add_permits(permits as i32).await.map(|()| true),
                    "try_set_permits" => semaphore.try_set_permits(permits).await,
                    "try_set_permits_for" => semaphore.try_set_permits_for(permits, hour).await,
                    "guard dropped" => Ok(guard.take().is_some()),
                    _ => guard.take().unwrap().release().await.map(|()| true),
                };
                assert_eq!(raised, Ok(true), "{name}");
                all_served(&name, calls).await;
                world.expect_available(&name, 0).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rust_callers_are_woken_by_all_that_raises_the_counter() {
    for version in versions(&SUPPORTED) {
        let mut world = World::start(version).await;
        rust_callers_of(&mut world, version).await;
        many_rust_callers(&mut world).await;
        rust_callers_in_two_processes(&mut world).await;
    }
}

async fn rust_callers_of(world: &mut World, version: &str) {
    let ops = ["release", "addPermits", "trySetPermits"];
    let newer = (version == NEWEST).then_some("releaseIfExists");
    for op in ops.into_iter().chain(newer) {
        for mode in Mode::BOTH {
            for permits in 1..=5 {
                let name = format!("{op} {permits} {}", mode.word());
                let semaphore = world.rust.semaphore(&name);
                if op != "trySetPermits" {
                    assert!(semaphore.try_set_permits(0).await.unwrap());
                }
                let caller = world.park_rust(&semaphore, permits).await;
                let args = json!({"name": name, "permits": permits, "mode": mode.word()});
                let done = world.java(op, args).await;
                assert!(done != json!(false), "{name}");
                returned(&name, caller).await.unwrap();
                world.expect_available(&name, 0).await;
            }
        }
    }
}

/// One message of Java is enough for all callers that its permits suffice for, in the order of their arrival.
async fn many_rust_callers(world: &mut World) {
    let semaphore = world.rust.semaphore("many");
    let mut callers = Vec::new();
    for permits in [1, 2, 1, 3, 5, 1] {
        callers.push(world.park_rust(&semaphore, permits).await);
    }
    let behind = callers.split_off(4);
    for (op, permits, callers) in [("release", 7, callers), ("addPermits", 6, behind)] {
        world
            .java(op, json!({"name": "many", "permits": permits}))
            .await;
        for caller in callers {
            returned(op, caller).await.unwrap();
        }
        world.expect_available("many", 0).await;
    }
}

async fn rust_callers_in_two_processes(world: &mut World) {
    let (name, other) = ("two clients", world.another_client().await);
    let mut callers = Vec::new();
    for client in [&world.rust, &other, &world.rust, &other] {
        let semaphore = client.semaphore(name);
        callers.push(park(async move { semaphore.acquire(2).await }));
    }
    until_queued(&mut world.redis, name, 4).await;
    for client in [&world.rust, &other] {
        until_notified(&mut world.redis, name, client.id()).await;
    }
    let args = json!({"name": name, "permits": 8, "mode": "async"});
    world.java("release", args).await;
    for caller in callers {
        returned(name, caller).await.unwrap();
    }
    world.expect_available(name, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_release_serves_all_for_whom_there_is_room() {
    for version in versions(&SUPPORTED) {
        let world = World::start(version).await;
        let mut attempts = world.attempts().await;
        java_crowds(&world, &mut attempts).await;
        guards_dropped_together(&world, &mut attempts).await;
    }
    let world = World::start(NEWEST).await;
    let mut attempts = world.attempts().await;
    redisson_serves_one_of_three(&world, &mut attempts).await;
    threads_and_futures_together(&world, &mut attempts).await;
    timed_futures(&world, &mut attempts).await;
}

async fn java_crowds(world: &World, attempts: &mut Attempts) {
    for mode in Mode::BOTH {
        // With more than 64 callers the message itself does not reach all; later wake-ups do.
        let equal = [2, 5, 64, 100].map(|callers| vec![1; callers]);
        let unequal = (0..30).map(|number| number % 5 + 1).collect();
        for amounts in equal.into_iter().chain([unequal]) {
            let total = amounts.iter().sum();
            let name = format!("{total} for {} {}", amounts.len(), mode.word());
            let calls = world.park_java_crowd(attempts, &name, mode, amounts).await;
            world.rust.semaphore(&name).release(total).await.unwrap();
            all_served(&name, calls).await;
            world.expect_available(&name, 0).await;
        }
    }
}

/// Redisson leaves some of its own callers asleep. A release in Rust serves these, too.
async fn redisson_serves_one_of_three(world: &World, attempts: &mut Attempts) {
    let name = "left behind";
    let mut calls = world
        .park_java_crowd(attempts, name, Mode::Async, [1, 1, 1])
        .await;
    world
        .java("release", json!({"name": name, "permits": 3}))
        .await;
    until("one is served", PATIENCE, async || finished(&mut calls) > 0).await;
    world.expect_available(name, 2).await;
    assert_eq!(finished(&mut calls), 1, "Redisson serves more than one");

    let semaphore = world.rust.semaphore(name);
    semaphore.release(1).await.unwrap();
    all_served(name, calls).await;
    world.expect_available(name, 1).await;
}

async fn threads_and_futures_together(world: &World, attempts: &mut Attempts) {
    let name = "mixed";
    let mut calls = Vec::new();
    for number in 0..12 {
        let (mode, permits) = (Mode::BOTH[number % 2], number as u32 % 3 + 1);
        calls.extend(world.park_java(attempts, name, mode, [permits]).await);
    }
    world.rust.semaphore(name).release(24).await.unwrap();
    all_served(name, calls).await;
    world.expect_available(name, 0).await;
}

/// The releases of one client travel together: one script, and messages for all of them.
async fn guards_dropped_together(world: &World, attempts: &mut Attempts) {
    for mode in Mode::BOTH {
        let name = format!("guards {}", mode.word());
        let semaphore = world.rust.semaphore(&name);
        semaphore.try_set_permits(10).await.unwrap();
        let mut guards = Vec::new();
        for _ in 0..10 {
            guards.push(semaphore.permit(1).await.unwrap());
        }
        let amounts = std::iter::repeat_n(1, 10);
        let calls = world.park_java_crowd(attempts, &name, mode, amounts).await;
        drop(guards);
        all_served(&name, calls).await;
        world.expect_available(&name, 0).await;
    }
}

/// Redisson's timer answers without another attempt: a caller without a message of its own would get `false`.
async fn timed_futures(world: &World, attempts: &mut Attempts) {
    let name = "timed";
    let wait = Duration::from_secs(10);
    let before = attempts.of(name).await;
    let calls: Vec<_> = (0..5)
        .map(|_| world.java_try(name, 1, Mode::Async, wait))
        .collect();
    attempts.until(name, before, TRIES * calls.len()).await;
    world.rust.semaphore(name).release(5).await.unwrap();
    for call in calls {
        assert_eq!(served(name, call).await.value, json!(true));
    }
    world.expect_available(name, 0).await;
}

/// The repeated wake-ups also come when the handle, or the guard, that released is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_small_request_is_served_past_a_large_one() {
    for version in versions(&SUPPORTED) {
        small_behind_large(&World::start(version).await).await;
    }
}

async fn small_behind_large(world: &World) {
    let mut attempts = world.attempts().await;
    for mode in Mode::BOTH {
        for by_guard in [false, true] {
            let name = format!("large first {}, guard: {by_guard}", mode.word());
            let semaphore = || world.rust.semaphore(&name);
            let mut guard = None;
            if by_guard {
                assert!(semaphore().try_set_permits(1).await.unwrap());
                guard = Some(semaphore().permit(1).await.unwrap());
            }
            let mut calls = world.park_java(&mut attempts, &name, mode, [5, 1]).await;
            match guard {
                Some(guard) => drop(guard),
                None => semaphore().release(1).await.unwrap(),
            }
            served_within(&name, A_FEW_SECONDS, calls.pop().unwrap()).await;
            assert_eq!(finished(&mut calls), 0, "{name}: 5 of 0 permits");
            world.expect_available(&name, 0).await;
            semaphore().release(5).await.unwrap();
            all_served(&name, calls).await;
            world.expect_available(&name, 0).await;
        }

        // Behind many large requests.
        let name = format!("wall {}", mode.word());
        let semaphore = world.rust.semaphore(&name);
        let amounts = std::iter::repeat_n(5, 8).chain([2, 1]);
        let mut calls = world.park_java(&mut attempts, &name, mode, amounts).await;
        semaphore.release(3).await.unwrap();
        for small in calls.split_off(8) {
            served_within(&name, A_FEW_SECONDS, small).await;
        }
        assert_eq!(finished(&mut calls), 0, "{name}: 5 of 0 permits");
        semaphore.release(40).await.unwrap();
        all_served(&name, calls).await;
        world.expect_available(&name, 0).await;
    }
}

/// A caller is woken soon after a release that suffices for it, though the wake-ups behind an earlier release have become rare.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_release_is_followed_up_at_once() {
    let world = World::start(NEWEST).await;
    // Both at the same time, as most of it is waiting.
    let [threads, futures] = Mode::BOTH.map(|mode| follow_up(&world, mode));
    tokio::join!(threads, futures);
}

async fn follow_up(world: &World, mode: Mode) {
    let name = format!("rare calls {}", mode.word());
    let semaphore = world.rust.semaphore(&name);
    let mut attempts = world.attempts().await;
    let amounts = std::iter::repeat_n(5, 24).chain([3]);
    let mut calls = world.park_java(&mut attempts, &name, mode, amounts).await;
    semaphore.release(1).await.unwrap();
    tokio::time::sleep(A_FEW_SECONDS / 2).await;
    attempts.until_quiet(&name).await;
    semaphore.release(2).await.unwrap();
    served_within(&name, A_FEW_SECONDS, calls.pop().unwrap()).await;
    semaphore.release(200).await.unwrap();
    all_served(&name, calls).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_not_connected_at_the_release_is_woken_later() {
    let mut world = World::start(NEWEST).await;
    let proxy = Proxy::start(&world.server).await;
    let distant = JavaPeer::start(NEWEST, &proxy.url()).await;
    let mut attempts = world.attempts().await;
    let mut calls = Vec::new();
    let names = Mode::BOTH.map(|mode| format!("deaf {}", mode.word()));
    for (name, mode) in names.iter().zip(Mode::BOTH) {
        let args = json!({"name": name, "permits": 1, "mode": mode.word()});
        calls.extend((0..8).map(|_| distant.begin("acquire", args.clone())));
        attempts.until(name, 0, TRIES * 8).await;
    }
    proxy.until_answered().await;
    proxy.blackhole();
    proxy.cut();
    // A handle makes the later announcements, so the handles are kept.
    let mut handles = Vec::new();
    for name in &names {
        until_subscribers(&mut world.redis, &channel(name), 0).await;
        let semaphore = world.rust.semaphore(name);
        semaphore.release(8).await.unwrap();
        handles.push(semaphore);
    }
    proxy.clear();
    for name in &names {
        until_subscribers(&mut world.redis, &channel(name), 1).await;
    }
    all_served("deaf", calls).await;
    for name in &names {
        assert_eq!(world.available(name).await, 0, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_finds_permits_that_nobody_has_announced_wakes_the_others() {
    let world = World::start(NEWEST).await;
    let mut attempts = world.attempts().await;
    let name = "found";
    // One client polls, and needs more permits than come. Neither Java nor the other client polls.
    let looking = clients::builder(world.server.url())
        .safety_interval(Duration::from_millis(400))
        .connect()
        .await
        .unwrap();
    let mut redis = world.redis.clone();
    let large = waiter(&mut redis, &looking.semaphore(name), 9).await;
    let asleep = world.rust.semaphore(name);
    let small = tokio::spawn(async move { asleep.acquire(1).await });
    until_queued(&mut redis, name, 2).await;
    until_notified(&mut redis, name, world.rust.id()).await;
    let mut calls = Vec::new();
    for mode in Mode::BOTH {
        let two = world.park_java_crowd(&mut attempts, name, mode, [1, 1]);
        calls.extend(two.await);
    }
    let _: () = redis.set(name, 5).await.unwrap();
    all_served(name, calls).await;
    clients::served(small).await;
    assert!(!large.is_finished(), "9 of 5 permits");
    large.abort();
    world.expect_available(name, 0).await;
}
