//! How many scripts the calls of one client cost, counted by the server.

use std::sync::Arc;
use std::time::Duration;

use crate::layouts::{self, Handle, Shape};
use crate::support::clients::{connect, patient};
use crate::support::crowd::{Crowd, Turns};
use crate::support::monitor::{Command, Monitor};
use crate::support::proxy::Proxy;
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

/// A lock's callers of one client: the next one has it by the script of the unlock before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_alone_with_a_lock_sends_no_more_than_it_must() {
    const MOMENT: Duration = Duration::from_millis(1);
    const GRANTS: usize = 200;
    for (callers, hold, most) in [
        (1, Duration::ZERO, 2.1),
        (1, MOMENT, 2.1),
        (2, MOMENT, 1.4),
        (16, MOMENT, 1.4),
        (16, Duration::ZERO, 1.4),
    ] {
        let server = RedisServer::start().await;
        let proxy = Proxy::start(&server).await;
        let client = patient(proxy.url()).connect().await.unwrap();
        let crowd = Crowd::start((0..callers).map(|_| client.lock("door")), hold);
        crowd.until_served(20).await;
        let (before, scripts) = (crowd.served(), proxy.scripts());
        crowd.until_served(GRANTS).await;
        let (done, sent) = (crowd.served() - before, proxy.scripts() - scripts);
        crowd.stop().await;
        let each = sent as f64 / done as f64;
        assert!(each <= most, "{callers} callers, {hold:?}: {each} scripts");
    }
}

/// One question answers all who were there when it was sent, however many they are.
#[tokio::test]
async fn callers_who_do_not_wait_are_answered_together() {
    const CALLERS: usize = 5000;
    let server = RedisServer::start().await;
    let holder = connect(server.url()).await.lock("door");
    let proxy = Proxy::start(&server).await;
    proxy.set_round_trip(Duration::from_millis(20));
    let client = patient(proxy.url()).connect().await.unwrap();
    for held in [true, false] {
        if held {
            holder.lock().await.unwrap();
        }
        let locks: Vec<_> = (0..CALLERS).map(|_| client.lock("door")).collect();
        let before = proxy.scripts();
        let answers = join_all(locks.iter().map(|lock| lock.try_lock())).await;
        let sent = proxy.scripts() - before;
        assert!(sent <= 6, "{sent} scripts");
        let taken = answers.iter().position(|answer| *answer == Ok(true));
        assert_eq!(taken.is_none(), held);
        let answered = answers.iter().filter(|answer| **answer == Ok(false));
        assert_eq!(answered.count(), CALLERS - usize::from(!held));
        taken
            .map_or(&holder, |taken| &locks[taken])
            .unlock()
            .await
            .unwrap();
    }
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
