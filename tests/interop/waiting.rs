//! Callers of one side that wait, woken by the other one: the real Redisson 4.7.0 and this crate.
//!
//! The Rust clients of these tests have no safety net (see `world`): a wake-up that is missed stays missed.

use std::time::Duration;

use crate::common::parked::{Attempts, PATIENCE, finished, park, returned, served, served_within};
use crate::common::waiting::{TRIES, all_served};
use crate::common::world::{Mode, NEWEST, World};
use crate::support::waiters::{until, until_notified, until_queued};
use serde_json::json;

/// How soon a Java caller must get what is free, when the message itself has woken others only.
const A_FEW_SECONDS: Duration = Duration::from_secs(5);

/// All that raises the counter, in Rust.
#[derive(Debug, Clone, Copy)]
enum Raise {
    Release,
    ReleaseIfExists,
    Add,
    TrySet,
    TrySetFor,
    GuardDropped,
    GuardReleased,
}

#[tokio::test(flavor = "multi_thread")]
async fn java_callers_are_woken_by_all_that_raises_the_counter() {
    let world = World::start(NEWEST).await;
    let mut attempts = world.attempts().await;
    for mode in Mode::BOTH {
        for raise in [
            Raise::Release,
            Raise::ReleaseIfExists,
            Raise::Add,
            Raise::TrySet,
            Raise::TrySetFor,
            Raise::GuardDropped,
            Raise::GuardReleased,
        ] {
            for permits in 1..=5 {
                let name = format!("{raise:?} {permits} {}", mode.word());
                wake_java(&world, &mut attempts, mode, raise, permits, &name).await;
            }
        }
    }
}

async fn wake_java(
    world: &World,
    attempts: &mut Attempts,
    mode: Mode,
    raise: Raise,
    permits: u32,
    name: &str,
) {
    let semaphore = world.rust.semaphore(name);
    let mut guard = None;
    match raise {
        Raise::TrySet | Raise::TrySetFor => {}
        Raise::GuardDropped | Raise::GuardReleased => {
            assert!(semaphore.try_set_permits(permits).await.unwrap());
            guard = Some(semaphore.permit(permits).await.unwrap());
        }
        Raise::Release | Raise::ReleaseIfExists | Raise::Add => {
            assert!(semaphore.try_set_permits(0).await.unwrap());
        }
    }
    let calls = world.park_java(attempts, name, mode, [permits]).await;
    match raise {
        Raise::Release => semaphore.release(permits).await.unwrap(),
        Raise::ReleaseIfExists => assert!(semaphore.release_if_exists(permits).await.unwrap()),
        Raise::Add => {
            let delta = i32::try_from(permits).unwrap();
            semaphore.add_permits(delta).await.unwrap();
        }
        Raise::TrySet => assert!(semaphore.try_set_permits(permits).await.unwrap()),
        Raise::TrySetFor => {
            let hour = Duration::from_secs(3600);
            assert!(semaphore.try_set_permits_for(permits, hour).await.unwrap());
        }
        Raise::GuardDropped => drop(guard),
        Raise::GuardReleased => guard.unwrap().release().await.unwrap(),
    }
    all_served(name, calls).await;
    world.expect_available(name, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rust_callers_are_woken_by_all_that_raises_the_counter() {
    let mut world = World::start(NEWEST).await;
    for op in ["release", "releaseIfExists", "addPermits", "trySetPermits"] {
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
    many_rust_callers(&mut world).await;
    rust_callers_in_two_processes(&mut world).await;
}

/// One message of Java is enough for all that it leaves room for.
async fn many_rust_callers(world: &mut World) {
    let semaphore = world.rust.semaphore("many");
    let mut callers = Vec::new();
    for permits in [1, 2, 1, 3, 5, 1] {
        callers.push(world.park_rust(&semaphore, permits).await);
    }
    world
        .java("release", json!({"name": "many", "permits": 7}))
        .await;
    // In the order of their arrival: 1 + 2 + 1 + 3.
    for (number, caller) in callers.drain(..4).enumerate() {
        returned(&format!("caller {number}"), caller).await.unwrap();
    }
    world.expect_available("many", 0).await;
    world
        .java("addPermits", json!({"name": "many", "permits": 6}))
        .await;
    for (number, caller) in callers.into_iter().enumerate() {
        returned(&format!("caller {}", number + 4), caller)
            .await
            .unwrap();
    }
    world.expect_available("many", 0).await;
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
    world
        .java(
            "release",
            json!({"name": name, "permits": 8, "mode": "async"}),
        )
        .await;
    for (number, caller) in callers.into_iter().enumerate() {
        returned(&format!("caller {number}"), caller).await.unwrap();
    }
    world.expect_available(name, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_release_serves_all_for_whom_there_is_room() {
    let world = World::start(NEWEST).await;
    let mut attempts = world.attempts().await;
    redisson_serves_one_of_three(&world, &mut attempts).await;
    for mode in Mode::BOTH {
        // Beyond 64 the message itself does not reach all; later calls do.
        for callers in [2, 5, 64, 100] {
            let name = format!("{callers} {}", mode.word());
            let amounts = std::iter::repeat_n(1, callers);
            let calls = world
                .park_java_crowd(&mut attempts, &name, mode, amounts)
                .await;
            let semaphore = world.rust.semaphore(&name);
            semaphore
                .release(u32::try_from(callers).unwrap())
                .await
                .unwrap();
            all_served(&name, calls).await;
            world.expect_available(&name, 0).await;
        }
        let name = format!("amounts {}", mode.word());
        let amounts = (0..30).map(|number| number % 5 + 1);
        let total = amounts.clone().sum();
        let calls = world
            .park_java_crowd(&mut attempts, &name, mode, amounts)
            .await;
        world.rust.semaphore(&name).release(total).await.unwrap();
        all_served(&name, calls).await;
        world.expect_available(&name, 0).await;
    }
    threads_and_futures_together(&world, &mut attempts).await;
    guards_dropped_together(&world, &mut attempts).await;
    timed_futures(&world, &mut attempts).await;
}

/// What Redisson does to its own callers; a release in Rust helps those who were left behind, too.
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
        let mode = Mode::BOTH[number % 2];
        calls.extend(
            world
                .park_java(attempts, name, mode, [number as u32 % 3 + 1])
                .await,
        );
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

/// Redisson's timer answers without another look: without a message of their own they are told `false`.
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

#[tokio::test(flavor = "multi_thread")]
async fn a_small_request_is_served_past_a_large_one() {
    let world = World::start(NEWEST).await;
    let mut attempts = world.attempts().await;
    for mode in Mode::BOTH {
        let name = format!("large first {}", mode.word());
        let semaphore = world.rust.semaphore(&name);
        let mut calls = world.park_java(&mut attempts, &name, mode, [5, 1]).await;
        semaphore.release(1).await.unwrap();
        let small = calls.pop().unwrap();
        served_within(&name, A_FEW_SECONDS, small).await;
        assert_eq!(finished(&mut calls), 0, "{name}: 5 of 0 permits");
        world.expect_available(&name, 0).await;
        semaphore.release(5).await.unwrap();
        all_served(&name, calls).await;
        world.expect_available(&name, 0).await;

        // Behind a whole wall.
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

/// The handle that released is gone when those who were left asleep have to be woken again.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_left_asleep_when_the_handle_is_dropped() {
    let world = World::start(NEWEST).await;
    let mut attempts = world.attempts().await;
    for mode in Mode::BOTH {
        let name = format!("dropped handle {}", mode.word());
        let mut calls = world.park_java(&mut attempts, &name, mode, [5, 1]).await;
        world.rust.semaphore(&name).release(1).await.unwrap();
        served_within(&name, A_FEW_SECONDS, calls.pop().unwrap()).await;
        world.rust.semaphore(&name).release(5).await.unwrap();
        all_served(&name, calls).await;

        let name = format!("dropped guard {}", mode.word());
        assert!(
            world
                .rust
                .semaphore(&name)
                .try_set_permits(1)
                .await
                .unwrap()
        );
        let guard = world.rust.semaphore(&name).permit(1).await.unwrap();
        let mut calls = world.park_java(&mut attempts, &name, mode, [5, 1]).await;
        drop(guard);
        served_within(&name, A_FEW_SECONDS, calls.pop().unwrap()).await;
        world.rust.semaphore(&name).release(5).await.unwrap();
        all_served(&name, calls).await;
    }
}

/// A caller whom a release suffices for is woken soon, though the wake-ups behind an earlier release have become rare.
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
