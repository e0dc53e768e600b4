//! How many scripts the calls of one client cost, counted by the server.

use std::sync::Arc;
use std::time::Duration;

use crate::layouts::{self, Handle, Shape};
use crate::support::clients::patient;
use crate::support::crowd::Turns;
use crate::support::monitor::{Command, Monitor};
use crate::support::server::RedisServer;
use crate::support::waiters::until_subscribers;
use futures::future::join_all;
use redis::AsyncCommands;
use redisson_semaphore::{Client, Error, RSemaphore};

const HOUR: Duration = Duration::from_secs(3600);

/// A semaphore of a client that hands permits on locally for `window`, known to the server's script cache.
async fn semaphore(server: &RedisServer, permits: u32, window: Duration) -> RSemaphore {
    let client = Client::builder(server.url())
        .local_hand_off(window)
        .safety_interval(HOUR)
        .connect()
        .await
        .expect("the server has just been started");
    let semaphore = client.semaphore("counted");
    // A client that had set the permits would announce them.
    let () = server
        .connection()
        .await
        .set("counted", permits)
        .await
        .unwrap();
    let warm_up = client.semaphore("warm-up");
    warm_up.release(1).await.unwrap();
    semaphore
}

/// Whether a script carries out no call, and announces permits to JVMs, as it does a second behind a release.
fn announces(script: &Command) -> bool {
    let keys: usize = script.args[1].parse().unwrap();
    script.args.get(2 + keys + 10).map(String::as_str) == Some("announce")
}

#[tokio::test]
async fn a_caller_alone_sends_one_script_a_call() {
    let server = RedisServer::start().await;
    let semaphore = semaphore(&server, 5, HOUR).await;
    let mut monitor = Monitor::start(&server).await;
    for _ in 0..10 {
        semaphore.acquire(2).await.unwrap();
        assert!(semaphore.try_acquire(1).await.unwrap());
        semaphore.release(3).await.unwrap();
    }
    let commands = monitor.until_marker().await;
    let sent = commands.iter().filter(|one| one.is_script());
    assert_eq!(sent.filter(|one| !announces(one)).count(), 30);
}

/// The first call leaves at once; the others wait for it and follow in growing batches. `most` has the largest numbers of scripts: for
/// taking, and for taking and giving back.
async fn travel_together(
    server: &RedisServer,
    (object, name): (&impl Turns, &str),
    count: usize,
    most: [usize; 2],
) {
    object.give(object.take().await).await;
    let mut monitor = Monitor::start(server).await;
    let held = join_all((0..count).map(|_| object.take())).await;
    let taken = monitor.scripts_about(name).await;
    assert!((2..=most[0]).contains(&taken), "{count} in {taken} scripts");
    join_all(held.into_iter().map(|held| object.give(held))).await;
    let all = taken + monitor.scripts_about(name).await;
    assert!(all <= most[1], "{count} pairs in {all} scripts");
}

/// A semaphore, permits with ids, and the recipes, of which a caller alone also costs a script a call.
#[tokio::test]
async fn calls_made_together_travel_together() {
    let server = RedisServer::start().await;
    let semaphore = semaphore(&server, 1_000, HOUR).await;
    travel_together(&server, (&semaphore, "counted"), 500, [8, 16]).await;
    assert_eq!(semaphore.available_permits().await, Ok(1_000));
    // Nothing is sent twice where the machine is slow.
    let client = patient(server.url()).connect().await.unwrap();
    let jobs = client.permit_expirable_semaphore("jobs");
    assert_eq!(jobs.try_set_permits(300).await, Ok(true));
    let jobs: Handle = Arc::new(jobs);
    travel_together(&server, (&jobs, "jobs"), 300, [30, 60]).await;
    for layout in layouts::ALL {
        let name = format!("{layout:?}-many");
        let recipe = layout.make(&client, &name, Shape::new(256));
        recipe.holders().await.unwrap();
        let mut monitor = Monitor::start(&server).await;
        for _ in 0..10 {
            recipe.give(recipe.take().await).await;
        }
        assert_eq!(monitor.scripts_about(&name).await, 20, "{layout:?}");
        travel_together(&server, (&recipe, &name), 256, [4, 8]).await;
    }
}

/// Callers that wait one behind the other; each caller gives back its permit.
async fn relay(server: &RedisServer, semaphore: &RSemaphore, runners: usize) -> usize {
    semaphore.acquire(1).await.unwrap();
    let running: Vec<_> = (0..runners)
        .map(|_| {
            let semaphore = semaphore.clone();
            tokio::spawn(async move {
                semaphore.acquire(1).await.unwrap();
                semaphore.release(1).await.unwrap();
            })
        })
        .collect();
    let mut connection = server.connection().await;
    until_subscribers(&mut connection, "redisson_sc:{counted}", 1).await;
    // This call is answered after all scripts that the arrival of the runners has caused.
    assert_eq!(semaphore.available_permits().await.unwrap(), 0);
    let mut monitor = Monitor::start(server).await;
    semaphore.release(1).await.unwrap();
    for runner in running {
        runner.await.unwrap();
    }
    assert_eq!(semaphore.available_permits().await.unwrap(), 1);
    monitor.scripts().await
}

#[tokio::test]
async fn permits_handed_over_within_the_process_cost_no_script() {
    let server = RedisServer::start().await;
    let used = relay(&server, &semaphore(&server, 1, HOUR).await, 200).await;
    // The last release, the surplus entries that leave, and what the subscription may still cause.
    assert!(used <= 8, "200 hand-overs in {used} scripts");
    // A window of zero switches local hand-off off.
    let server = RedisServer::start().await;
    let used = relay(&server, &semaphore(&server, 1, Duration::ZERO).await, 200).await;
    assert!(used >= 200, "200 releases in {used} scripts");
}

#[tokio::test]
async fn a_failing_call_fails_alone() {
    let server = RedisServer::start().await;
    let semaphore = semaphore(&server, i32::MAX as u32 - 3, HOUR).await;
    let releases = join_all((0..10).map(|_| semaphore.release(1))).await;
    let done = releases.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!(done, 3);
    for refused in releases.into_iter().filter_map(Result::err) {
        let told = matches!(&refused, Error::OutOfRange { name, available, delta: 1, .. }
            if name == "counted" && *available == i64::from(i32::MAX));
        assert!(told, "{refused:?}");
    }
    let (added, tried) = tokio::join!(semaphore.add_permits(1), semaphore.try_acquire(1));
    assert!(matches!(added, Err(Error::OutOfRange { .. })), "{added:?}");
    assert_eq!(tried, Ok(true));
}
