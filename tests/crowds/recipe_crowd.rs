//! Crowds of ours and of peers on one semaphore or lock: how many hold together.

use std::time::Duration;

use futures::future::BoxFuture;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::recipes::Units;
use redisson_semaphore::{Client, Lock as _};
use serde_json::{Value, json};

use crate::layouts::{Layout, Shape};
use crate::peers::{CHECK, Program, World, about};

use Program::{Java, Python};

const ADD: &str = r"
local now = redis.call('HINCRBY', KEYS[1], 'now', ARGV[1])
if now > tonumber(redis.call('HGET', KEYS[1], 'max') or 0) then
  redis.call('HSET', KEYS[1], 'max', now)
end";

async fn count(redis: &mut MultiplexedConnection, gauge: &str, change: i64) {
    let () = redis::cmd("EVAL")
        .arg(ADD)
        .arg(1)
        .arg(gauge)
        .arg(change)
        .query_async(redis)
        .await
        .unwrap();
}

/// How many of ours there are, and of each peer's.
#[derive(Debug, Clone, Copy)]
struct Callers {
    ours: usize,
    theirs: usize,
}

const CALLERS: Callers = Callers { ours: 8, theirs: 4 };

/// The most that were held together, and how often each side held.
struct Seen {
    most: u32,
    ours: u64,
    theirs: Vec<u64>,
}

const CROWD: Duration = Duration::from_secs(4);

/// Callers of two clients of ours, and threads of both peers, all on one semaphore.
async fn crowd<G: Send>(
    recipe: Value,
    callers: Callers,
    who: impl Fn(Program) -> bool,
    hold: impl Fn(&Client, usize) -> BoxFuture<'static, G>,
) -> Seen {
    let world = World::new().await;
    let second = Client::connect(world.server.url()).await.unwrap();
    let mut peers = Vec::new();
    for program in [Python, Java] {
        if who(program) {
            peers.push(program.start(&world.server).await);
        }
    }
    let mut command = json!({"callers": callers.theirs, "millis": CROWD.as_millis() as u64, "holdMicros": 500, "gauge": "gauge"});
    for (field, value) in recipe.as_object().unwrap() {
        command[field] = value.clone();
    }
    let calls: Vec<_> = peers
        .iter()
        .map(|peer| peer.begin("crowd", command.clone()))
        .collect();
    let end = tokio::time::Instant::now() + CROWD;
    let callers = (0..callers.ours).map(|number| {
        let client = [&world.client, &second][number % 2];
        let mut redis = world.redis.clone();
        let hold = &hold;
        async move {
            let mut turns = 0;
            while tokio::time::Instant::now() < end {
                let guard = hold(client, number).await;
                count(&mut redis, "gauge", 1).await;
                tokio::time::sleep(Duration::from_micros(500)).await;
                count(&mut redis, "gauge", -1).await;
                drop(guard);
                turns += 1;
            }
            turns
        }
    });
    let ours: Vec<u64> = futures::future::join_all(callers).await;
    let mut theirs = Vec::new();
    for call in calls {
        let answer = call.await.unwrap();
        let turns = answer.value["turns"].as_array().unwrap();
        theirs.push(turns.iter().filter_map(Value::as_u64).sum());
    }
    let most: u32 = world.redis.clone().hget("gauge", "max").await.unwrap();
    Seen {
        most,
        ours: ours.iter().sum(),
        theirs,
    }
}

async fn crowd_on(layout: Layout, limit: u32, who: impl Fn(Program) -> bool) -> Seen {
    crowd_of(CALLERS, CHECK, layout, limit, who).await
}

async fn crowd_of(
    callers: Callers,
    check: Duration,
    layout: Layout,
    limit: u32,
    who: impl Fn(Program) -> bool,
) -> Seen {
    let units = if who(Python) && layout != Layout::Set && layout != Layout::Slots {
        Units::Seconds
    } else {
        Units::Millis
    };
    let about = about(layout, "crowd", limit);
    let seen = crowd(about, callers, who, move |client, _| {
        let shape = Shape::new(limit).units(units).check(check);
        let semaphore = layout.make(client, "crowd", shape);
        Box::pin(async move { semaphore.permit().await.unwrap() })
    })
    .await;
    println!(
        "{layout:?}: {} at most, ours {}, theirs {:?}",
        seen.most, seen.ours, seen.theirs
    );
    assert!(seen.ours > 0 && seen.theirs.iter().all(|turns| *turns > 0));
    seen
}

#[tokio::test]
async fn a_crowd_under_a_lock_with_python_never_exceeds_the_limit() {
    let seen = crowd_on(Layout::FairUnderLock, 3, |program| program == Python).await;
    assert_eq!(seen.most, 3);
}

#[tokio::test]
async fn a_crowd_under_a_lock_with_java_never_exceeds_the_limit() {
    let seen = crowd_on(Layout::FairUnderLock, 3, |program| program == Java).await;
    assert_eq!(seen.most, 3);
}

/// Their steps can't be interleaved so that one too many holds, though some may be refused for nothing.
#[tokio::test]
async fn a_crowd_on_slots_or_a_set_never_exceeds_the_limit() {
    for layout in [Layout::Slots, Layout::Set] {
        let seen = crowd_on(layout, 3, |_| true).await;
        assert!(seen.most <= 3, "{layout:?}: {}", seen.most);
    }
}

#[tokio::test]
async fn a_crowd_on_a_string_lock_excludes_each_other() {
    let recipe = json!({"recipe": "lock", "name": "crowd"});
    let seen = crowd(
        recipe,
        CALLERS,
        |_| true,
        |client, _| {
            let lock = client.string_lock("crowd").check_interval(CHECK);
            Box::pin(async move { lock.guard().await.unwrap() })
        },
    )
    .await;
    println!(
        "{} at most, ours {}, theirs {:?}",
        seen.most, seen.ours, seen.theirs
    );
    assert_eq!(seen.most, 1);
    assert!(seen.ours > 0 && seen.theirs.iter().all(|turns| *turns > 0));
}

/// Peers who lock try again every millisecond, and the lock is free for moments only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ours_get_their_share_beside_peers_that_lock() {
    let callers = Callers { ours: 6, theirs: 6 };
    let check = Duration::from_millis(100);
    let python = |program| program == Python;
    let seen = crowd_of(callers, check, Layout::FairUnderLock, 5, python).await;
    let each = |turns: u64, callers: usize| turns as f64 / callers as f64;
    let share = each(seen.ours, callers.ours) / each(seen.theirs[0], callers.theirs);
    // One or more, even where others are at work; 0.06 with pauses that grow while peers hand the lock round.
    assert!(share >= 0.3, "a share of {share:.2} each");
}
