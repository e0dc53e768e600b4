//! Callers of ours and of peers on one semaphore or lock: how many hold together.

use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use redisson_semaphore::recipes::Units;
use redisson_semaphore::{Client, Lock as _};
use serde_json::{Value, json};

use super::peers::support::{CHECK, Program, World, about};
use crate::layouts::{Layout, Shape};
use crate::support::gauge::Gauge;

use Program::{Java, Python};

const CROWD: Duration = Duration::from_secs(4);

/// Runs eight callers of two clients beside four threads of each peer, and returns the most holders at a time.
/// Asserts that each side has held the object.
async fn most_held<G: Send>(
    recipe: Value,
    programs: &[Program],
    hold: impl Fn(&Client) -> BoxFuture<'static, G>,
) -> i64 {
    let world = World::new().await;
    let second = Client::connect(world.server.url()).await.unwrap();
    let mut command = json!({"callers": 4, "millis": CROWD.as_millis() as u64, "holdMicros": 500, "gauge": "gauge"});
    for (field, value) in recipe.as_object().unwrap() {
        command[field] = value.clone();
    }
    let mut peers = Vec::new();
    for program in programs {
        peers.push(program.start(&world.server).await);
    }
    let calls = peers
        .iter()
        .map(|peer| peer.begin("crowd", command.clone()));
    let calls: Vec<_> = calls.collect();
    let end = tokio::time::Instant::now() + CROWD;
    let callers = (0..8).map(|number| {
        let client = [&world.client, &second][number % 2];
        let mut gauge = Gauge::new(&world.redis, "gauge");
        let hold = &hold;
        async move {
            let mut turns = 0;
            while tokio::time::Instant::now() < end {
                let guard = hold(client).await;
                gauge.add(1).await;
                tokio::time::sleep(Duration::from_micros(500)).await;
                gauge.add(-1).await;
                drop(guard);
                turns += 1;
            }
            turns
        }
    });
    let ours: u64 = join_all(callers).await.into_iter().sum();
    let mut all = vec![ours];
    for call in calls {
        let answer = call.await.unwrap();
        let turns = answer.value["turns"].as_array().unwrap();
        all.push(turns.iter().filter_map(Value::as_u64).sum());
    }
    let (_, most) = Gauge::new(&world.redis, "gauge").read().await;
    println!("{recipe}: {most} at most, turns of ours and of theirs: {all:?}");
    assert!(all.iter().all(|turns| *turns > 0));
    most
}

async fn most_of(layout: Layout, programs: &[Program], units: Units) -> i64 {
    most_held(about(layout, "crowd", 3), programs, move |client| {
        let shape = Shape::new(3).units(units).check(CHECK);
        let semaphore = layout.make(client, "crowd", shape);
        Box::pin(async move { semaphore.permit().await.unwrap() })
    })
    .await
}

#[tokio::test]
async fn a_crowd_under_a_lock_never_exceeds_the_limit() {
    for peer in [Python, Java] {
        let most = most_of(Layout::FairUnderLock, &[peer], peer.units()).await;
        assert_eq!(most, 3, "{peer:?}");
    }
}

/// The steps of the programs can't interleave so that one too many holds. A caller may be refused a free permit, though.
#[tokio::test]
async fn a_crowd_on_slots_or_a_set_never_exceeds_the_limit() {
    for layout in [Layout::Slots, Layout::Set] {
        let most = most_of(layout, &[Python, Java], Units::Millis).await;
        assert!(most <= 3, "{layout:?}: {most}");
    }
}

#[tokio::test]
async fn a_crowd_on_a_string_lock_excludes_each_other() {
    let recipe = json!({"recipe": "lock", "name": "crowd"});
    let most = most_held(recipe, &[Python, Java], |client| {
        let lock = client.string_lock("crowd").check_interval(CHECK);
        Box::pin(async move { lock.guard().await.unwrap() })
    })
    .await;
    assert_eq!(most, 1);
}
