//! The classic recipes beside programs that carry them out step by step: Python with redis-py, Java with Jedis.

mod layouts;
mod support;

use std::time::Duration;

use layouts::{Handle, Layout, Shape, others};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::recipes::Units;
use redisson_semaphore::{Client, Error, Lock};
use serde_json::{Value, json};
use support::peer::JavaPeer;
use support::server::RedisServer;
use support::snapshot::snapshot_all;
use support::waiters::until;

const LIMIT: Duration = Duration::from_secs(20);
const CHECK: Duration = Duration::from_millis(10);

/// A program and the unit of its times.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Program {
    Python,
    Java,
}

use Program::{Java, Python};

impl Program {
    async fn start(self, server: &RedisServer) -> JavaPeer {
        match self {
            Python => JavaPeer::python(&server.url()).await,
            Java => JavaPeer::jedis(&server.url()).await,
        }
    }

    fn units(self) -> Units {
        match self {
            Python => Units::Seconds,
            Java => Units::Millis,
        }
    }
}

struct World {
    client: Client,
    redis: MultiplexedConnection,
    server: RedisServer,
}

impl World {
    async fn new() -> World {
        let server = RedisServer::start().await;
        World {
            client: Client::connect(server.url()).await.unwrap(),
            redis: server.connection().await,
            server,
        }
    }
}

/// What a peer is told about a semaphore.
fn about(layout: Layout, name: &str, limit: u32) -> Value {
    let [owners, counter, tokens] = others(name);
    let mut about = json!({"recipe": layout.recipe(), "name": name, "limit": limit});
    if layout == Layout::FairWithTokens {
        about["owners"] = json!(owners);
        about["counter"] = json!(counter);
        about["tokens"] = json!(tokens);
        about["waitMs"] = json!(50);
    }
    about
}

fn with(mut about: Value, field: &str, value: impl Into<Value>) -> Value {
    about[field] = value.into();
    about
}

/// A peer's acquisition.
async fn acquired(peer: &JavaPeer, about: &Value) -> Option<String> {
    let answer = peer.call("acquire", about.clone()).await.unwrap();
    answer.value.as_str().map(str::to_owned)
}

async fn released(peer: &JavaPeer, about: &Value, holder: &str) -> bool {
    let about = with(about.clone(), "holder", holder);
    peer.call("release", about).await.unwrap().value == json!(true)
}

async fn refreshed(peer: &JavaPeer, about: &Value, holder: &str) -> bool {
    let about = with(about.clone(), "holder", holder);
    peer.call("refresh", about).await.unwrap().value == json!(true)
}

async fn ids(semaphore: &Handle) -> Vec<String> {
    let holders = semaphore.holders().await.unwrap();
    let mut ids: Vec<String> = holders.iter().map(|held| held.id().to_owned()).collect();
    ids.sort();
    ids
}

fn sorted<const N: usize>(ids: [&str; N]) -> Vec<String> {
    let mut ids: Vec<String> = ids.into_iter().map(str::to_owned).collect();
    ids.sort();
    ids
}

/// Both sides take, give back, refresh and wait, in turn.
async fn take_turns(program: Program) {
    let world = World::new().await;
    let peer = program.start(&world.server).await;
    for layout in layouts::ALL {
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
            // There the one refused would leave his entries behind.
            assert_eq!(acquired(&peer, &about).await, None);
        }

        // Each side knows the other's ids.
        assert!(ours.refresh(&theirs).await.unwrap());
        assert!(refreshed(&peer, &about, mine.id()).await);
        assert!(refreshed(&peer, &about, &theirs).await);

        // Ours wait for what a peer gives back without a word.
        let waiter = ours.clone();
        let waiter = tokio::spawn(async move { waiter.acquire().await });
        assert!(released(&peer, &about, &theirs).await);
        let second = tokio::time::timeout(LIMIT, waiter).await.unwrap();
        let second = second.unwrap().unwrap();
        assert_eq!(ids(&ours).await, sorted([mine.id(), second.id()]));

        assert!(ours.release(mine.id()).await.unwrap());
        let theirs = acquired(&peer, &about).await.expect("given back");
        assert_eq!(ids(&ours).await, sorted([&theirs, second.id()]));

        // What one side has given back the other can't.
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

/// A guard of ours beside a peer whose permit expires by the peer's clock.
async fn expire(program: Program) {
    let world = World::new().await;
    let peer = program.start(&world.server).await;
    let name = "expiring";
    let lease = Duration::from_millis(1200);
    // In a timestamp semaphore a refresh between the peer's clock and his rank would let him in.
    for layout in [Layout::Fair, Layout::Slots] {
        println!("{program:?}, {layout:?}");
        let about = with(about(layout, name, 1), "timeoutMs", 1200);
        let shape = Shape::new(1).units(program.units()).lease(lease);
        let ours = layout.make(&world.client, name, shape);
        let theirs = acquired(&peer, &about).await.expect("free");
        // Nobody gives it back: the one who waits looks when it expires.
        let guard = tokio::time::timeout(LIMIT, ours.permit()).await;
        let guard = guard.expect("it never expires").unwrap();
        assert!(!refreshed(&peer, &about, &theirs).await, "he is told");
        // Ours is refreshed: the peer gets nothing for longer than it lasts.
        for _ in 0..8 {
            assert_eq!(acquired(&peer, &about).await, None);
            tokio::time::sleep(lease / 4).await;
        }
        assert!(!guard.is_lost());
        assert!(guard.release().await.unwrap());
        let _: () = world.redis.clone().del(name).await.unwrap();
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

/// Times in the other unit are told, and nothing is changed by it.
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
            let errors = [
                ours.acquire().await.unwrap_err(),
                ours.try_acquire().await.unwrap_err(),
                ours.release(&theirs).await.unwrap_err(),
                ours.refresh(&theirs).await.unwrap_err(),
                ours.holders().await.unwrap_err(),
                ours.release_all().await.unwrap_err(),
            ];
            for error in errors {
                assert!(
                    matches!(&error, Error::WrongUnits { name: of, units, .. } if *of == name && *units == wrong),
                    "{error}"
                );
            }
            let after = snapshot_all(&mut world.redis).await;
            assert_eq!(
                before.keys().collect::<Vec<_>>(),
                after.keys().collect::<Vec<_>>()
            );
            for (key, one) in &before {
                assert!(one.matches(&after[key], LIMIT), "{key} was changed");
            }
            assert!(released(&peer, &about, &theirs).await);
        }
        peer.shutdown().await;
    }
}

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

/// The most that were held together, and how often each side held.
struct Seen {
    most: u32,
    ours: u64,
    theirs: Vec<u64>,
}

const CROWD: Duration = Duration::from_millis(2500);

/// Callers of two clients of ours, and threads of both peers, all on one semaphore.
async fn crowd<G: Send>(
    recipe: Value,
    units: impl Fn(Program) -> bool,
    hold: impl Fn(&Client, usize) -> futures::future::BoxFuture<'static, G>,
) -> Seen {
    let world = World::new().await;
    let second = Client::connect(world.server.url()).await.unwrap();
    let mut peers = Vec::new();
    for program in [Python, Java] {
        if units(program) {
            peers.push(program.start(&world.server).await);
        }
    }
    let command = json!({"callers": 4, "millis": CROWD.as_millis() as u64, "holdMicros": 500, "gauge": "gauge"});
    let mut command = command;
    for (field, value) in recipe.as_object().unwrap() {
        command[field] = value.clone();
    }
    let calls: Vec<_> = peers
        .iter()
        .map(|peer| peer.begin("crowd", command.clone()))
        .collect();
    let end = tokio::time::Instant::now() + CROWD;
    let callers = (0..8).map(|number| {
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
    let units = if who(Python) && layout != Layout::Set && layout != Layout::Slots {
        Units::Seconds
    } else {
        Units::Millis
    };
    let seen = crowd(about(layout, "crowd", limit), who, move |client, _| {
        let shape = Shape::new(limit).units(units).check(CHECK);
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

/// The race of the original: one is given a counter, another one with a higher counter is faster, and the first
/// steals his permit.
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

    // Ours is one step: nobody comes in between, so it never steals.
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

    // A peer between the two zsets counts, though the original would not see him yet.
    let slow = begun().await;
    let mut redis = world.redis.clone();
    let (id, now) = (slow[0].as_str().unwrap(), slow[1].as_f64().unwrap());
    let _: () = redis.zadd("stolen", id, now).await.unwrap();
    assert_eq!(ours.try_acquire().await.unwrap(), None);
    assert!(finished(slow.clone()).await.is_string());
    assert_eq!(ids(&ours).await, [id]);
    ours.release_all().await.unwrap();

    // What ours cannot see: a peer that has only incremented the counter. He steals from ours as from his own.
    let unseen = begun().await;
    let mine = ours.try_acquire().await.unwrap().expect("free");
    assert!(finished(unseen).await.is_string());
    assert!(ours.refresh(mine.id()).await.unwrap());
    ours.release_all().await.unwrap();
    peer.shutdown().await;
}

/// Under a lock that race is over: ours stay out between a peer's two steps.
#[tokio::test]
async fn ours_stay_out_while_a_peer_holds_the_lock() {
    let world = World::new().await;
    let peer = Python.start(&world.server).await;
    let about = about(Layout::FairUnderLock, "locked", 1);
    let shape = Shape::new(1).units(Units::Seconds).check(CHECK);
    let ours = Layout::FairUnderLock.make(&world.client, "locked", shape);
    let mut redis = world.redis.clone();

    let _: () = redis.set("lock:locked", "somebody").await.unwrap();
    let begun = peer.call("begin", about.clone()).await.unwrap().value;
    let before = snapshot_all(&mut redis).await;
    assert_eq!(ours.try_acquire().await.unwrap(), None, "it stays out");
    let waiter = ours.clone();
    let mut waiter = tokio::spawn(async move { waiter.acquire().await });
    let release = ours.clone();
    let release = tokio::spawn(async move { release.release("nobody").await });
    let waits = tokio::time::timeout(Duration::from_millis(200), &mut waiter).await;
    assert!(waits.is_err(), "it does not wait for the lock");
    assert!(!release.is_finished());
    let mut after = snapshot_all(&mut redis).await;
    // The lock had no expiry, and has one now.
    let lock: i64 = redis.pttl("lock:locked").await.unwrap();
    assert!((1..=10_000).contains(&lock), "{lock}");
    after.remove("lock:locked");
    for (key, one) in after {
        assert!(one.matches(&before[&key], LIMIT), "{key} was changed");
    }

    let about = with(about, "begun", begun);
    let theirs = peer.call("finish", about.clone()).await.unwrap().value;
    let _: () = redis.del("lock:locked").await.unwrap();
    assert!(!release.await.unwrap().unwrap());
    let waits = tokio::time::timeout(Duration::from_millis(100), &mut waiter).await;
    assert!(waits.is_err(), "the peer holds the permit");
    assert!(released(&peer, &about, theirs.as_str().unwrap()).await);
    let mine = tokio::time::timeout(LIMIT, waiter).await.unwrap();
    mine.unwrap().unwrap();
    peer.shutdown().await;
}

/// Peers wait for tokens, as the original does.
#[tokio::test]
async fn tokens_wake_peers_and_never_pile_up() {
    let world = World::new().await;
    let redis = world.redis.clone();
    let peer = Java.start(&world.server).await;
    let layout = Layout::FairWithTokens;
    let about = with(about(layout, "tokens", 1), "waitMs", 15_000);
    let [owners, _, tokens] = others("tokens");
    let ours = layout.make(&world.client, "tokens", Shape::new(1).check(CHECK));
    let length = async || -> u64 { redis.clone().llen(&tokens).await.unwrap() };

    // Nobody waits: one token for the one free permit, however often it comes back.
    for _ in 0..20 {
        let mine = ours.acquire().await.unwrap();
        assert_eq!(length().await, 0, "the permit is taken");
        assert!(ours.release(mine.id()).await.unwrap());
        assert_eq!(length().await, 1);
    }

    // A peer that waits is woken by our release, and holds: its entries have moved up.
    let mine = ours.acquire().await.unwrap();
    let theirs = peer.begin("acquire", about.clone());
    until("the peer waits", LIMIT, async || {
        redis.clone().zcard::<_, u64>(&owners).await.unwrap() == 2
    })
    .await;
    assert!(ours.release(mine.id()).await.unwrap());
    let theirs = theirs.await.unwrap().value;
    let theirs = theirs.as_str().expect("woken").to_owned();
    assert_eq!(ids(&ours).await, [theirs.as_str()]);
    assert_eq!(length().await, 0);
    assert_eq!(ours.try_acquire().await.unwrap(), None);
    let cards: (u64, u64) = redis::pipe()
        .zcard("tokens")
        .zcard(&owners)
        .query_async(&mut redis.clone())
        .await
        .unwrap();
    assert_eq!(cards, (1, 1), "the one refused has left something");

    // Ours is served by its check when the peer releases. The peer's token, which comes after that or before, goes with
    // the next permit that is taken at the latest.
    let waiter = ours.clone();
    let waiter = tokio::spawn(async move { waiter.acquire().await });
    assert!(released(&peer, &about, &theirs).await);
    let mine = tokio::time::timeout(LIMIT, waiter).await.unwrap();
    let mine = mine.unwrap().unwrap();
    assert!(length().await <= 1);
    assert!(ours.release(mine.id()).await.unwrap());
    let mine = ours.acquire().await.unwrap();
    assert_eq!(length().await, 0);

    // One who goes while he waits leaves nothing to anybody.
    let waiter = ours.clone();
    let waiter = tokio::spawn(async move { waiter.acquire().await });
    until("ours waits", LIMIT, async || {
        let line: u64 = redis
            .clone()
            .exists("redisson_sc_recipe_line:{tokens}")
            .await
            .unwrap();
        line == 1
    })
    .await;
    waiter.abort();
    assert!(ours.release(mine.id()).await.unwrap());
    assert!(acquired(&peer, &about).await.is_some());
    peer.shutdown().await;
}

/// The string lock beside a peer between its two steps: it gets an expiry, and is not taken away.
#[tokio::test]
async fn a_string_lock_without_an_expiry_is_repaired_and_not_taken() {
    let world = World::new().await;
    let mut redis = world.redis.clone();
    let peer = Python.start(&world.server).await;
    let about = json!({"recipe": "lock", "name": "steps", "timeoutMs": 60_000});
    let lock = world.client.string_lock("steps").check_interval(CHECK);
    let begun = peer.call("begin", about.clone()).await.unwrap().value;
    assert!(!lock.try_lock().await.unwrap());
    let left: i64 = redis.pttl("lock:steps").await.unwrap();
    assert!((1..=10_000).contains(&left), "{left}");
    let holder: String = redis.get("lock:steps").await.unwrap();
    assert_eq!(json!(holder), begun, "it was taken away");
    // The peer's second step goes on as if nothing had been.
    peer.call("finish", with(about.clone(), "begun", json!([begun])))
        .await
        .unwrap();
    let left: i64 = redis.pttl("lock:steps").await.unwrap();
    assert!(left > 10_000, "{left}");

    // One that has died between its steps is in nobody's way for ever.
    assert!(released(&peer, &about, &holder).await);
    peer.call("begin", about.clone()).await.unwrap();
    let lock = lock.timeout(Duration::from_millis(200));
    let guard = tokio::time::timeout(LIMIT, lock.guard()).await;
    let guard = guard.expect("it is never free").unwrap();
    assert_eq!(acquired(&peer, &about).await, None);
    guard.unlock().await.unwrap();
    assert!(acquired(&peer, &about).await.is_some());
    peer.shutdown().await;
}
