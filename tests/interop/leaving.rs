//! Callers that end their waiting in another way than by being served, on both sides: times that are over, calls that
//! are cancelled, a semaphore that is deleted. The real Redisson 4.7.0 and this crate.

use std::time::Duration;

use crate::common::parked::{Attempts, PATIENCE, finished, park, returned, served};
use crate::common::waiting::{TRIES, all_served};
use crate::common::world::{Mode, NEWEST, World, channel};
use crate::support::waiters::{until, until_subscribers};
use redis::AsyncCommands;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn waiting_times_end_on_both_sides() {
    let mut world = World::start(NEWEST).await;
    let mut attempts = world.attempts().await;
    for mode in Mode::BOTH {
        java_deadlines(&world, &mut attempts, mode).await;
    }
    rust_deadlines(&mut world).await;
}

async fn java_deadlines(world: &World, attempts: &mut Attempts, mode: Mode) {
    let name = format!("java {}", mode.word());
    let semaphore = world.rust.semaphore(&name);
    let before = attempts.of(&name).await;
    let call = world.java_try(&name, 2, mode, Duration::from_secs(60));
    attempts.until(&name, before, TRIES).await;
    // Not enough yet.
    semaphore.release(1).await.unwrap();
    semaphore.release(1).await.unwrap();
    assert_eq!(served(&name, call).await.value, json!(true));
    world.expect_available(&name, 0).await;

    let wait = Duration::from_millis(300);
    let answer = served(&name, world.java_try(&name, 1, mode, wait)).await;
    assert_eq!(answer.value, json!(false));
    let waited = Duration::from_micros(answer.ended - answer.began);
    // Its timers count whole milliseconds.
    let least = wait - Duration::from_millis(2);
    assert!(waited >= least, "{name}: {waited:?}");
    // It is gone: what is released stays.
    semaphore.release(3).await.unwrap();
    world.expect_available(&name, 3).await;
}

async fn rust_deadlines(world: &mut World) {
    let name = "rust";
    let semaphore = world.rust.semaphore(name);
    let timed = |permits: u32, wait: Duration| {
        let semaphore = semaphore.clone();
        park(async move {
            let began = tokio::time::Instant::now();
            let taken = semaphore.try_acquire_for(permits, wait).await.unwrap();
            (taken, began.elapsed())
        })
    };

    let caller = timed(2, Duration::from_secs(60));
    until_subscribers(&mut world.redis, &channel(name), 1).await;
    for _ in 0..2 {
        world.java("release", json!({ "name": name })).await;
    }
    assert!(returned("woken by Java", caller).await.0);
    world.expect_available(name, 0).await;

    let wait = Duration::from_millis(300);
    let (taken, waited) = returned("in vain", timed(1, wait)).await;
    assert!(!taken && waited >= wait, "{taken} after {waited:?}");
    world
        .java("release", json!({"name": name, "permits": 3}))
        .await;
    world.expect_available(name, 3).await;
}

/// Whether the permit or the cancellation comes first: one permit remains one permit.
#[tokio::test(flavor = "multi_thread")]
async fn callers_who_have_gone_take_nothing() {
    let mut world = World::start(NEWEST).await;
    let name = "race";
    let semaphore = world.rust.semaphore(name);
    let (mut served, mut cancelled) = (0, 0);
    for round in 0..100_u32 {
        let caller = world.park_rust(&semaphore, 1).await;
        let release = world.java.begin("release", json!({ "name": name }));
        // Later and later, from round to round: from before the release to behind it.
        for _ in 0..round {
            let () = world.redis.ping().await.unwrap();
        }
        caller.abort();
        release.await.unwrap();
        match caller.await {
            Ok(taken) => {
                taken.unwrap();
                served += 1;
                world.expect_available(name, 0).await;
            }
            Err(_) => {
                cancelled += 1;
                let what = format!("round {round}: the permit is there");
                until(&what, PATIENCE, async || world.available(name).await == 1).await;
                let taken = world.java("tryAcquire", json!({ "name": name })).await;
                assert_eq!(taken, json!(true), "round {round}");
            }
        }
    }
    assert!(
        served > 0 && cancelled > 0,
        "no race: {served} served, {cancelled} cancelled"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_outlives_the_semaphore() {
    let mut world = World::start(NEWEST).await;
    rust_waits_while_java_deletes(&mut world).await;
    let mut attempts = world.attempts().await;
    for mode in Mode::BOTH {
        java_waits_while_rust_deletes(&world, &mut attempts, mode).await;
    }
}

async fn rust_waits_while_java_deletes(world: &mut World) {
    let name = "deleted by java";
    let semaphore = world.rust.semaphore(name);
    let yes = async |op: &str, args: Value| {
        let answer = world.java.call(op, args).await.unwrap();
        assert_eq!(answer.value, json!(true));
    };
    let set = async |args: Value| yes("trySetPermits", args).await;
    let delete = async || yes("delete", json!({ "name": name })).await;
    set(json!({"name": name, "permits": 1})).await;
    let waiting = semaphore.clone();
    let caller = park(async move { waiting.acquire(4).await });
    until_subscribers(&mut world.redis, &channel(name), 1).await;

    delete().await;
    set(json!({"name": name, "permits": 3})).await;
    delete().await;
    set(json!({"name": name, "permits": 2, "ttlMs": 30})).await;
    until("it has expired", PATIENCE, async || {
        !semaphore.exists().await.unwrap()
    })
    .await;
    assert!(!caller.is_finished(), "4 permits were never there");
    set(json!({"name": name, "permits": 4})).await;
    returned(name, caller).await.unwrap();
    world.expect_available(name, 0).await;
}

async fn java_waits_while_rust_deletes(world: &World, attempts: &mut Attempts, mode: Mode) {
    let name = format!("deleted by rust {}", mode.word());
    let semaphore = world.rust.semaphore(&name);
    assert!(semaphore.try_set_permits(1).await.unwrap());
    let mut calls = world.park_java(attempts, &name, mode, [4]).await;
    assert!(semaphore.delete().await.unwrap());
    assert!(semaphore.try_set_permits(3).await.unwrap());
    assert!(semaphore.object().unlink().await.unwrap());
    assert_eq!(
        finished(&mut calls),
        0,
        "{name}: 4 permits were never there"
    );
    assert!(semaphore.try_set_permits(4).await.unwrap());
    all_served(&name, calls).await;
    world.expect_available(&name, 0).await;
}
