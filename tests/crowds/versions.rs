//! Each Redisson that is still in use: a shorter course for each of them.

use std::time::Duration;

use crate::common::course::Course;
use crate::common::crowd::{Gauge, RustCrowd};
use crate::common::operation::Side;
use crate::common::parked::{Attempts, PATIENCE, finished, park, returned, served};
use crate::common::world::{Mode, World, channel};
use crate::support::peer::{SUPPORTED, versions};
use crate::support::waiters::{until, until_subscribers};
use serde_json::json;
use tokio::time::timeout;

/// A Java caller tries twice before it is parked.
const TRIES: usize = 2;

#[tokio::test(flavor = "multi_thread")]
async fn each_version_takes_the_course() {
    for version in versions(&SUPPORTED) {
        course(version).await;
    }
}

async fn course(version: &str) {
    let mut world = World::start(version).await;
    assert_eq!(world.java("version", json!({})).await, json!(version));
    let (java, rust) = (Side::Java(&world.java), Side::Rust(&world.rust));
    for (by, seen_by) in [(java, rust), (rust, java)] {
        for name in ["seats", "{tag}:seats", "Plätze 🪑"] {
            Course { by, seen_by, name }.permits().await;
        }
    }
    let mut attempts = world.attempts().await;
    for mode in Mode::BOTH {
        java_is_woken(&world, &mut attempts, mode).await;
        java_is_called_again(&world, &mut attempts, mode).await;
    }
    rust_is_woken(&mut world).await;
    crowd(&world).await;
}

/// By a message for one, and by one message for many.
async fn java_is_woken(world: &World, attempts: &mut Attempts, mode: Mode) {
    for amounts in [&[1][..], &[2], &[1, 1, 1], &[2, 1, 3, 1]] {
        let name = format!("{amounts:?} {}", mode.word());
        let semaphore = world.rust.semaphore(&name);
        let before = attempts.of(&name).await;
        let begin = |permits: &u32| world.java_acquire(&name, *permits, mode);
        let mut calls: Vec<_> = amounts.iter().map(begin).collect();
        attempts.until(&name, before, TRIES * calls.len()).await;
        assert_eq!(finished(&mut calls), 0, "{name}: without waiting");
        semaphore.release(amounts.iter().sum()).await.unwrap();
        for call in calls {
            served(&name, call).await;
        }
        assert_eq!(world.java_available(&name).await, json!(0), "{name}");
    }
}

/// By the further calls, for those behind a larger request, and beyond the 64 that a release wakes itself.
async fn java_is_called_again(world: &World, attempts: &mut Attempts, mode: Mode) {
    for amounts in [&[5, 5, 5, 1][..], &[1; 80]] {
        let name = format!("{} again {}", amounts.len(), mode.word());
        let fitting = amounts.iter().filter(|permits| **permits == 1).count();
        let mut calls = world
            .park_java_crowd(attempts, &name, mode, amounts.iter().copied())
            .await;
        let semaphore = world.rust.semaphore(&name);
        semaphore
            .release(u32::try_from(fitting).unwrap())
            .await
            .unwrap();
        until("all that fit are served", PATIENCE, async || {
            finished(&mut calls) == fitting
        })
        .await;
        semaphore.release(15).await.unwrap();
        for call in calls {
            served(&name, call).await;
        }
    }
}

async fn rust_is_woken(world: &mut World) {
    for op in ["release", "addPermits", "trySetPermits"] {
        let semaphore = world.rust.semaphore(op);
        let mut callers = Vec::new();
        for permits in [2, 1, 3] {
            let waiting = semaphore.clone();
            callers.push(park(async move { waiting.acquire(permits).await }));
        }
        until_subscribers(&mut world.redis, &channel(op), 1).await;
        world.java(op, json!({"name": op, "permits": 6})).await;
        for caller in callers {
            returned(op, caller).await.unwrap();
        }
        assert_eq!(world.java_available(op).await, json!(0), "{op}");
    }
}

async fn crowd(world: &World) {
    let name = "crowded";
    assert!(world.rust.semaphore(name).try_set_permits(4).await.unwrap());
    let mut gauge = Gauge::new(world, "gauge");
    let hold = Duration::from_millis(2);
    let rust = RustCrowd::start(&world.rust, name, &gauge, 6, 2, hold);
    let crowds = Mode::BOTH.map(|mode| {
        let crowd = json!({
            "name": name, "mode": mode.word(), "callers": 4, "permitsMax": 2,
            "loops": 10, "holdMicros": 1000, "gauge": "gauge",
        });
        world.java.begin("crowd", crowd)
    });
    // The Rust callers go on until then: see the large crowd.
    for crowd in crowds {
        let answer = timeout(PATIENCE, crowd).await;
        let answer = answer.expect("a Java caller hangs").expect("no call fails");
        assert_eq!(answer.value["acquisitions"], json!(40));
    }
    until("each Rust caller is served", PATIENCE, async || {
        rust.each_held(4)
    })
    .await;
    timeout(PATIENCE, rust.finish())
        .await
        .expect("a Rust caller hangs");
    until("all permits are back", PATIENCE, async || {
        world.available(name).await == 4
    })
    .await;
    assert_eq!(gauge.read().await, (0, 4), "held now, and at the most");
}
