//! Java callers whom a message has left asleep beside free permits: all for whom there is room are served soon, and the
//! calls that wake them end by themselves. The real Redisson 4.7.0 and this crate.

use std::time::Duration;

use crate::common::parked::{Attempts, PATIENCE, finished};
use crate::common::waiting::{TRIES, all_served};
use crate::common::world::{Mode, NEWEST, World, channel};
use crate::support::monitor::{Command, Monitor};
use crate::support::peer::{JavaPeer, PendingCall};
use crate::support::proxy::Proxy;
use crate::support::waiters::{until, until_notified, until_queued, until_subscribers, waiter};
use redis::AsyncCommands;
use serde_json::json;

/// What a release has caused on one semaphore.
#[derive(Debug)]
struct Caused {
    /// How often somebody has looked at the counter, or changed it: one script each.
    scripts: usize,
    messages: usize,
}

impl Caused {
    fn on(name: &str, commands: &[Command]) -> Caused {
        let of_counter = |one: &&Command| {
            one.is_lua()
                && matches!(one.name.as_str(), "GET" | "INCRBY")
                && one.args.first().is_some_and(|key| key == name)
        };
        // Each script of ours or of Redisson's reads the counter once at the most, or does nothing but raise it.
        Caused {
            scripts: commands.iter().filter(of_counter).count(),
            messages: commands.iter().filter(|one| one.name == "PUBLISH").count(),
        }
    }
}

/// `count` async callers in each JVM.
async fn park_in_all(
    jvms: &[&JavaPeer],
    attempts: &mut Attempts,
    name: &str,
    permits: u32,
    count: usize,
) -> Vec<PendingCall> {
    let mut calls = Vec::new();
    for jvm in jvms {
        let before = attempts.of(name).await;
        let args = json!({"name": name, "permits": permits, "mode": "async"});
        calls.extend((0..count).map(|_| jvm.begin("acquire", args.clone())));
        attempts.until(name, before, TRIES * count).await;
    }
    assert_eq!(finished(&mut calls), 0, "{name}: without waiting");
    calls
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_is_of_use_to_nobody_causes_little() {
    /// The fourth announcement comes 5 s behind the release.
    const WINDOW: Duration = Duration::from_secs(4);
    let world = World::start(NEWEST).await;
    let more = [
        JavaPeer::start(NEWEST, &world.server.url()).await,
        JavaPeer::start(NEWEST, &world.server.url()).await,
    ];
    let jvms = [&world.java, &more[0], &more[1]];
    let mut attempts = world.attempts().await;
    let name = "too large";
    let semaphore = world.rust.semaphore(name);
    semaphore.try_set_permits(2).await.unwrap();
    let mut calls = park_in_all(&jvms, &mut attempts, name, 5, 400).await;
    attempts.until_quiet(name).await;

    let mut monitor = Monitor::start(&world.server).await;
    semaphore.release(1).await.unwrap();
    tokio::time::sleep(WINDOW).await;
    let ours = Caused::on(name, &monitor.until_marker().await);
    println!("{ours:?}");
    world.java("release", json!({ "name": name })).await;
    attempts.until_quiet(name).await;
    let javas = Caused::on(name, &monitor.until_marker().await);
    println!("{javas:?}");
    assert_eq!(finished(&mut calls), 0, "5 of 4 permits");
    assert!(ours.scripts <= 340, "{ours:?}, Java's: {javas:?}");
    assert!(ours.messages <= 60, "{ours:?}, Java's: {javas:?}");

    // And then it is over.
    let mut late = Caused {
        scripts: 0,
        messages: 0,
    };
    loop {
        tokio::time::sleep(WINDOW / 2).await;
        let more = Caused::on(name, &monitor.until_marker().await);
        if more.scripts <= 3 && more.messages == 0 {
            break;
        }
        late.scripts += more.scripts;
        late.messages += more.messages;
        assert!(late.scripts <= 240 && late.messages <= 40, "{late:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_release_serves_thousands_of_futures() {
    const CALLERS: u32 = 2000;
    let world = World::start(NEWEST).await;
    let mut attempts = world.attempts().await;
    let name = "thousands";
    let args = json!({"name": name, "callers": CALLERS});
    world.java("park", args).await;
    attempts.until(name, 0, TRIES * CALLERS as usize).await;
    attempts.until_quiet(name).await;
    let mut monitor = Monitor::start(&world.server).await;
    world.rust.semaphore(name).release(CALLERS).await.unwrap();
    // The last answer comes a moment after its permit has been taken.
    until("all are served", PATIENCE, async || {
        let parked = world.java("parked", json!({ "name": name })).await;
        parked["served"] == json!(CALLERS)
    })
    .await;
    assert_eq!(world.available(name).await, 0);
    attempts.until_quiet(name).await;
    let caused = Caused::on(name, &monitor.until_marker().await);
    println!("{caused:?}");
}

/// A JVM that can be made deaf: it is connected through a proxy.
struct Distant {
    proxy: Proxy,
    jvm: JavaPeer,
}

impl Distant {
    async fn start(world: &World) -> Distant {
        let proxy = Proxy::start(&world.server).await;
        let jvm = JavaPeer::start(NEWEST, &proxy.url()).await;
        Distant { proxy, jvm }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_not_connected_at_the_release_is_woken_later() {
    let mut world = World::start(NEWEST).await;
    let distant = Distant::start(&world).await;
    let mut attempts = world.attempts().await;
    let mut calls = Vec::new();
    let mut names = Vec::new();
    for mode in Mode::BOTH {
        let name = format!("deaf {}", mode.word());
        let args = json!({"name": name, "permits": 1, "mode": mode.word()});
        let crowd = (0..8).map(|_| distant.jvm.begin("acquire", args.clone()));
        calls.extend(crowd);
        attempts.until(&name, 0, TRIES * 8).await;
        names.push(name);
    }
    distant.proxy.blackhole();
    distant.proxy.cut();
    // Announcements that come later are a handle's.
    let mut handles = Vec::new();
    for name in &names {
        until_subscribers(&mut world.redis, &channel(name), 0).await;
        let semaphore = world.rust.semaphore(name);
        semaphore.release(8).await.unwrap();
        handles.push(semaphore);
    }
    distant.proxy.clear();
    for name in &names {
        until_subscribers(&mut world.redis, &channel(name), 1).await;
    }
    all_served("deaf", calls).await;
    for name in &names {
        assert_eq!(world.available(name).await, 0, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_that_come_under_another_name_wake_java_callers() {
    let world = World::start(NEWEST).await;
    let mut attempts = world.attempts().await;
    for mode in Mode::BOTH {
        let name = format!("target {}", mode.word());
        let source = world.rust.semaphore("source");
        let calls = world
            .park_java_crowd(&mut attempts, &name, mode, [1; 5])
            .await;
        source.try_set_permits(2).await.unwrap();
        source.object().rename(&name).await.unwrap();
        until("two are served", PATIENCE, async || {
            world.available(&name).await == 0
        })
        .await;
        source.try_set_permits(2).await.unwrap();
        assert!(source.object().copy_and_replace(&name).await.unwrap());
        until("two more are served", PATIENCE, async || {
            world.available(&name).await == 0
        })
        .await;
        let _: () = world.redis.clone().del(&name).await.unwrap();
        assert!(source.object().copy(&name).await.unwrap());
        all_served(&name, calls).await;
        assert_eq!(world.available(&name).await, 1);
        assert!(source.delete().await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_finds_permits_that_nobody_has_announced_wakes_the_others() {
    let world = World::start(NEWEST).await;
    let mut attempts = world.attempts().await;
    let name = "found";
    // One looks now and then, and needs more than comes; neither Java nor the other client looks.
    let looking = crate::support::clients::builder(world.server.url())
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
    let mut calls = world
        .park_java_crowd(&mut attempts, name, Mode::Async, [1, 1])
        .await;
    calls.extend(
        world
            .park_java_crowd(&mut attempts, name, Mode::Sync, [1, 1])
            .await,
    );
    let _: () = redis.set(name, 5).await.unwrap();
    all_served(name, calls).await;
    crate::support::clients::served(small).await;
    assert!(!large.is_finished(), "9 of 5 permits");
    large.abort();
    world.expect_available(name, 0).await;
}
