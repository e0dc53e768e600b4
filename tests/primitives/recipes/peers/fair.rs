//! The fair semaphore beside a peer between its steps: the race that its recipe has.

use redis::AsyncCommands;
use redisson_semaphore::Client;
use redisson_semaphore::recipes::Units;
use serde_json::Value;

use super::support::{CHECK, Program, World, about, ids, with};
use crate::layouts::{Layout, Shape};

use Program::Python;

/// The race of the original: one caller is given a value of the counter, another caller with a higher value is faster,
/// and the first one steals its permit.
#[tokio::test]
async fn the_stolen_permit_of_the_original_and_of_ours() {
    let world = World::new().await;
    let peer = Python.start(&world.server).await;
    let about = about(Layout::Fair, "stolen", 1);
    let begun = async || peer.call("begin", about.clone()).await.unwrap().value;
    let finished = async |begun: Value| {
        let about = with(about.clone(), "begun", begun);
        peer.call("finish", about).await.unwrap().value
    };

    // Among the originals.
    let first = begun().await;
    let second = begun().await;
    assert!(finished(second).await.is_string(), "the faster one holds");
    assert!(finished(first).await.is_string(), "and the first steals it");
    let shape = Shape::new(2).units(Units::Seconds).check(CHECK);
    let two = Layout::Fair.make(&world.client, "stolen", shape);
    assert_eq!(ids(&two).await.len(), 2, "both hold a permit of one");
    two.release_all().await.unwrap();

    // This crate acquires in one step: no caller comes in between, so it never steals.
    let shape = Shape::new(1).units(Units::Seconds).check(CHECK);
    let ours = Layout::Fair.make(&world.client, "stolen", shape);
    let other = Client::connect(world.server.url()).await.unwrap();
    let other = Layout::Fair.make(&other, "stolen", shape);
    for _ in 0..20 {
        let tries = (0..8).map(|number| [&ours, &other][number % 2].try_acquire());
        let held: Vec<_> = futures::future::join_all(tries).await;
        let mut held: Vec<_> = held.into_iter().filter_map(Result::unwrap).collect();
        let held = held.pop().filter(|_| held.is_empty()).expect("one of them");
        ours.release(held.id()).await.unwrap();
    }
    let first = begun().await;
    assert!(finished(first).await.is_string());
    assert_eq!(ours.try_acquire().await.unwrap(), None);
    ours.release_all().await.unwrap();

    // A peer between the two zsets counts, though the original would not see it yet.
    let slow = begun().await;
    let mut redis = world.redis.clone();
    let (id, now) = (slow[0].as_str().unwrap(), slow[1].as_f64().unwrap());
    let _: () = redis.zadd("stolen", id, now).await.unwrap();
    assert_eq!(ours.try_acquire().await.unwrap(), None);
    assert!(finished(slow.clone()).await.is_string());
    assert_eq!(ids(&ours).await, [id]);
    ours.release_all().await.unwrap();

    // This crate cannot see a peer that has only incremented the counter. Such a peer steals from it as from other peers.
    let unseen = begun().await;
    let mine = ours.try_acquire().await.unwrap().expect("free");
    assert!(finished(unseen).await.is_string());
    assert!(ours.refresh(mine.id()).await.unwrap());
    ours.release_all().await.unwrap();
    peer.shutdown().await;
}
