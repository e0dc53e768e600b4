//! The classic recipes beside programs that carry them out step by step: Python with redis-py, Java with Jedis.
//! Here is what all recipes share; tests of a single recipe stand in `peers`.

use std::time::Duration;

use crate::layouts::{Layout, Shape};
use crate::recipes::peers::support::{
    CHECK, LIMIT, Program, World, about, acquired, ids, refreshed, released, sorted, with,
};
use crate::support::snapshot::snapshot_all;
use crate::support::waiters::{until, until_passed};
use redisson_semaphore::Error;
use redisson_semaphore::recipes::Units;

use Program::{Java, Python};

/// Waits until the server's clock, which orders the callers of this crate, shows another millisecond.
async fn the_clock_goes_on(world: &World) {
    let mut redis = world.redis.clone();
    let mut millis = async || {
        let (seconds, micros): (u64, u64) =
            redis::cmd("TIME").query_async(&mut redis).await.unwrap();
        seconds * 1000 + micros / 1000
    };
    let before = millis().await;
    until("the clock goes on", LIMIT, async || millis().await > before).await;
}

/// Both sides take, give back, refresh and wait, in turn.
async fn take_turns(program: Program) {
    let world = World::new().await;
    let peer = program.start(&world.server).await;
    for layout in crate::layouts::ALL {
        if layout == Layout::TimestampInSeconds {
            continue;
        }
        println!("{program:?}, {layout:?}");
        let name = format!("turns-{layout:?}");
        let about = about(layout, &name, 2);
        let shape = Shape::new(2).units(program.units()).check(CHECK);
        let ours = layout.make(&world.client, &name, shape);

        let theirs = acquired(&peer, &about).await.expect("free");
        let mine = ours.try_acquire().await.unwrap().expect("one is left");
        assert_eq!(ids(&ours).await, sorted([&theirs, mine.id()]));
        assert_eq!(ours.try_acquire().await.unwrap(), None);
        if layout != Layout::FairWithTokens {
            // In that layout a refused caller would leave its entries behind. Among callers of one millisecond of Java's the
            // lower id comes first, on whichever side.
            the_clock_goes_on(&world).await;
            assert_eq!(acquired(&peer, &about).await, None);
        }

        // Each side knows the other's ids.
        assert!(ours.refresh(&theirs).await.unwrap());
        assert!(refreshed(&peer, &about, mine.id()).await);
        assert!(refreshed(&peer, &about, &theirs).await);

        // A waiter of this crate finds a permit that a peer releases without a message.
        let waiter = ours.clone();
        let waiter = tokio::spawn(async move { waiter.acquire().await });
        assert!(released(&peer, &about, &theirs).await);
        let second = tokio::time::timeout(LIMIT, waiter).await.unwrap();
        let second = second.unwrap().unwrap();
        assert_eq!(ids(&ours).await, sorted([mine.id(), second.id()]));

        assert!(ours.release(mine.id()).await.unwrap());
        let theirs = acquired(&peer, &about).await.expect("given back");
        assert_eq!(ids(&ours).await, sorted([&theirs, second.id()]));

        // A permit that one side has released cannot be released by the other side.
        assert!(released(&peer, &about, second.id()).await);
        assert!(!ours.release(second.id()).await.unwrap());
        assert!(!ours.refresh(second.id()).await.unwrap());
        assert!(ours.release(&theirs).await.unwrap());
        assert!(!released(&peer, &about, &theirs).await);
        assert!(ids(&ours).await.is_empty());
    }
    peer.shutdown().await;
}

#[tokio::test]
async fn python_and_ours_take_turns() {
    take_turns(Python).await;
}

#[tokio::test]
async fn java_and_ours_take_turns() {
    take_turns(Java).await;
}

/// A guard of this crate beside a peer whose permit expires by the peer's clock.
async fn expire(program: Program) {
    const LEASE: Duration = Duration::from_secs(4);
    let mut world = World::new().await;
    let peer = program.start(&world.server).await;
    // In a timestamp semaphore a refresh between the peer's clock and its rank would let the peer in.
    for layout in [Layout::Fair, Layout::Slots] {
        println!("{program:?}, {layout:?}");
        let name = format!("expiring-{layout:?}");
        let about = with(
            about(layout, &name, 1),
            "timeoutMs",
            LEASE.as_millis() as u64,
        );
        let shape = Shape::new(1).units(program.units()).lease(LEASE);
        let ours = layout.make(&world.client, &name, shape);
        let theirs = acquired(&peer, &about).await.expect("free");
        // The permit is not released: the waiter looks when it expires.
        let guard = tokio::time::timeout(LIMIT, ours.permit()).await;
        let guard = guard.expect("it never expires").unwrap();
        assert!(!refreshed(&peer, &about, &theirs).await, "he is told");
        // The guard's permit is refreshed: the peer gets nothing for longer than the lease.
        let passed = until_passed(&mut world.redis, LEASE + LEASE / 2);
        let tried = async {
            loop {
                assert_eq!(acquired(&peer, &about).await, None);
            }
        };
        tokio::select! {
            () = passed => {}
            () = tried => {}
        }
        assert!(!guard.is_lost());
        assert!(guard.release().await.unwrap());
    }
    peer.shutdown().await;
}

#[tokio::test]
async fn python_s_permits_expire_and_ours_are_kept() {
    expire(Python).await;
}

#[tokio::test]
async fn java_s_permits_expire_and_ours_are_kept() {
    expire(Java).await;
}

/// Times in the other unit end in an error, and nothing is changed.
#[tokio::test]
async fn times_in_other_units_are_told_before_anything_is_expired() {
    let mut world = World::new().await;
    for (program, wrong) in [(Python, Units::Millis), (Java, Units::Seconds)] {
        let peer = program.start(&world.server).await;
        for layout in [Layout::Timestamp, Layout::Fair] {
            let name = format!("units-{program:?}-{layout:?}");
            let about = about(layout, &name, 3);
            let theirs = acquired(&peer, &about).await.expect("free");
            let before = snapshot_all(&mut world.redis).await;
            let ours = layout.make(&world.client, &name, Shape::new(3).units(wrong));
            for error in [
                ours.acquire().await.unwrap_err(),
                ours.try_acquire().await.unwrap_err(),
                ours.release(&theirs).await.unwrap_err(),
                ours.refresh(&theirs).await.unwrap_err(),
                ours.holders().await.unwrap_err(),
                ours.release_all().await.unwrap_err(),
            ] {
                let Error::WrongUnits {
                    name: of, units, ..
                } = &error
                else {
                    panic!("{error}");
                };
                assert_eq!((of, *units), (&name, wrong), "{error}");
            }
            let after = snapshot_all(&mut world.redis).await;
            assert!(before.keys().eq(after.keys()));
            for (key, one) in &before {
                assert!(one.matches(&after[key], LIMIT), "{key} was changed");
            }
            assert!(released(&peer, &about, &theirs).await);
        }
        peer.shutdown().await;
    }
}
