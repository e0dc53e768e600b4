//! Connections that end, servers that restart or fall silent: who waits goes on waiting and is served as
//! soon as it is possible.
//!
//! The safety interval is an hour here unless a test is about it: nothing is found by slow looking.

mod support;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, ClientBuilder, RSemaphore, Result};
use support::server::RedisServer;
use support::snapshot::snapshot;
use support::waiters::{channel, until, until_subscribers, waiter};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use support::proxy::{Fate, Proxy};

const LIMIT: Duration = Duration::from_secs(15);
const NEVER: Duration = Duration::from_secs(3600);

fn builder(url: String) -> ClientBuilder {
    Client::builder(url)
        .response_timeout(Duration::from_millis(300))
        .retry_window(Duration::from_secs(8))
        .safety_interval(NEVER)
}

async fn connect(url: String) -> Client {
    builder(url).connect().await.expect("the server runs")
}

async fn served(task: JoinHandle<Result<()>>) {
    timeout(LIMIT, task)
        .await
        .expect("a waiter is not served")
        .expect("a waiter panicked")
        .expect("a waiter is served");
}

/// How many connections of a type (`normal`, `pubsub`) the code under test has.
async fn connections(server: &mut MultiplexedConnection, kind: &str) -> usize {
    let list: String = redis::cmd("CLIENT")
        .arg(&["LIST", "TYPE", kind])
        .query_async(server)
        .await
        .unwrap();
    list.lines()
        .filter(|line| line.contains("user=default"))
        .count()
}

async fn stored(server: &RedisServer, name: &str) -> Vec<String> {
    snapshot(&mut server.connection().await, name).await.value
}

async fn publish(server: &mut MultiplexedConnection, name: &str, payload: &str) -> u64 {
    server.publish(channel(name), payload).await.unwrap()
}

/// One message and no second one.
async fn release_as_redisson(server: &mut MultiplexedConnection, name: &str, permits: u32) {
    let total: i64 = server.incr(name, permits).await.unwrap();
    publish(server, name, &total.to_string()).await;
}

/// In one step: ends connections of the code under test (`normal`, `pubsub`), so that the message that
/// follows is not heard, and gives permits back.
async fn kill_and_release(
    server: &mut MultiplexedConnection,
    kinds: &[&str],
    name: &str,
    permits: u32,
) {
    let mut pipe = redis::pipe();
    pipe.atomic();
    for kind in kinds {
        pipe.cmd("CLIENT")
            .arg(&["KILL", "USER", "default", "TYPE", kind])
            .ignore();
    }
    pipe.cmd("INCRBY").arg(name).arg(permits).ignore();
    pipe.cmd("PUBLISH").arg(channel(name)).arg(permits);
    let (_heard,): (u64,) = pipe.query_async(server).await.unwrap();
}

/// Ends the connections of a type; how many there were.
async fn kill(server: &mut MultiplexedConnection, kind: &str) -> usize {
    redis::cmd("CLIENT")
        .arg(&["KILL", "USER", "default", "TYPE", kind])
        .query_async(server)
        .await
        .unwrap()
}

const KINDS: [&[&str]; 3] = [&["normal"], &["pubsub"], &["normal", "pubsub"]];

#[tokio::test]
async fn permits_that_come_back_while_nobody_can_hear_it() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let client = connect(server.url()).await;
    for (number, kinds) in KINDS.into_iter().enumerate() {
        let semaphore = client.semaphore(&format!("killed-{number}"));
        for _ in 0..3 {
            let first = waiter(&mut control, &semaphore, 1).await;
            let second = waiter(&mut control, &semaphore, 2).await;
            kill_and_release(&mut control, kinds, semaphore.name(), 3).await;
            served(first).await;
            served(second).await;
            assert_eq!(stored(&server, semaphore.name()).await, ["0"]);
        }
    }
}

/// However far the caller has come: before its question, before the answer, before the subscription,
/// before its confirmation, behind it.
#[tokio::test]
async fn connections_killed_at_each_stage_of_waiting() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    for polls in [
        0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987, 1597,
    ] {
        let client = connect(server.url()).await;
        let semaphore = client.semaphore(&format!("stage-{polls}"));
        let task = tokio::spawn(async move { semaphore.acquire(1).await });
        for _ in 0..polls {
            tokio::task::yield_now().await;
        }
        let name = format!("stage-{polls}");
        kill_and_release(&mut control, KINDS[2], &name, 1).await;
        served(task).await;
        assert_eq!(stored(&server, &name).await, ["0"]);
    }
}

/// The same with a caller that is polled by hand and carries its round out itself.
#[tokio::test]
async fn connections_killed_at_each_poll_of_a_caller() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    for polls in 0..40_u32 {
        let client = connect(server.url()).await;
        let name = format!("poll-{polls}");
        let semaphore = client.semaphore(&name);
        let mut call = pin!(semaphore.acquire(1));
        for _ in 0..polls {
            let polled = std::future::poll_fn(|cx| std::task::Poll::Ready(call.as_mut().poll(cx)));
            assert!(polled.await.is_pending(), "there are no permits");
            tokio::task::yield_now().await;
        }
        kill_and_release(&mut control, KINDS[polls as usize % 3], &name, 1).await;
        timeout(LIMIT, call)
            .await
            .unwrap_or_else(|_| panic!("not served, killed after {polls} polls"))
            .unwrap();
        assert_eq!(stored(&server, &name).await, ["0"]);
    }
}

#[tokio::test]
async fn a_crowd_works_on_while_its_connections_are_killed() {
    const PERMITS: i64 = 3;
    const ROUNDS: usize = 40;
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let clients = [connect(server.url()).await, connect(server.url()).await];
    let setting = clients[0].semaphore("crowd");
    setting.try_set_permits(PERMITS as u32).await.unwrap();
    let (held, done) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicUsize::new(0)));
    let tasks: Vec<_> = (0..12)
        .map(|number| {
            let semaphore = clients[number % 2].semaphore("crowd");
            let (held, done) = (held.clone(), done.clone());
            let permits = 1 + (number % 3) as u32;
            tokio::spawn(async move {
                for _ in 0..ROUNDS {
                    semaphore.acquire(permits).await.unwrap();
                    let amount = i64::from(permits);
                    let now = held.fetch_add(amount, Ordering::SeqCst) + amount;
                    assert!(now <= PERMITS, "{now} permits are held");
                    tokio::task::yield_now().await;
                    held.fetch_sub(amount, Ordering::SeqCst);
                    semaphore.release(permits).await.unwrap();
                    done.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    let mut killed = 0;
    for number in 1..=20 {
        let goal = number * tasks.len() * ROUNDS / 22;
        until("the crowd goes on", LIMIT, async || {
            done.load(Ordering::SeqCst) >= goal
        })
        .await;
        // One may just be coming back.
        until("there is a connection to kill", LIMIT, async || {
            for kind in KINDS[number % 3] {
                killed += kill(&mut control, kind).await;
            }
            if killed < number {
                killed += kill(&mut control, "normal").await;
            }
            killed >= number
        })
        .await;
    }
    for task in tasks {
        timeout(LIMIT, task).await.expect("a caller hangs").unwrap();
    }
    assert_eq!(setting.available_permits().await, Ok(PERMITS));
    assert_eq!(stored(&server, "crowd").await, [PERMITS.to_string()]);
}

#[tokio::test]
async fn a_server_that_restarts_while_callers_wait() {
    let mut server = RedisServer::options().appendonly().start().await;
    let mut control = server.connection().await;
    let client = connect(server.url()).await;
    let semaphore = client.semaphore("restarted");
    semaphore.try_set_permits(1).await.unwrap();
    for number in 0..3 {
        let task = waiter(&mut control, &semaphore, 2).await;
        if number == 0 {
            server.stop().await;
        } else {
            server.kill().await;
        }
        server.restart().await;
        control = server.connection().await;
        assert!(!task.is_finished());
        // Whether it has subscribed anew by now is not known.
        kill_and_release(&mut control, &[], "restarted", 1).await;
        served(task).await;
        assert_eq!(stored(&server, "restarted").await, ["0"]);
        semaphore.release(1).await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_is_killed_and_restarted_while_calls_are_under_way() {
    const PERMITS: i64 = 2;
    let mut server = RedisServer::options().appendonly().start().await;
    let client = connect(server.url()).await;
    let semaphore = client.semaphore("working");
    semaphore.try_set_permits(PERMITS as u32).await.unwrap();
    let done = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..6)
        .map(|number| {
            let (semaphore, done) = (semaphore.clone(), done.clone());
            tokio::spawn(async move {
                for _ in 0..40 {
                    if number % 2 == 0 {
                        semaphore.acquire(1).await.unwrap();
                        semaphore.release(1).await.unwrap();
                    } else {
                        drop(semaphore.permit(1).await.unwrap());
                        // Brings the others their turn.
                        semaphore.available_permits().await.unwrap();
                    }
                    done.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    for goal in [40, 110, 180] {
        until("the callers go on", LIMIT, async || {
            done.load(Ordering::SeqCst) >= goal
        })
        .await;
        server.kill().await;
        server.restart().await;
    }
    for task in tasks {
        timeout(LIMIT, task).await.expect("a caller hangs").unwrap();
    }
    client.shutdown().await.unwrap();
    assert_eq!(stored(&server, "working").await, [PERMITS.to_string()]);
}

#[tokio::test]
async fn a_server_that_pauses_for_longer_than_the_response_timeout() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let client = connect(server.url()).await;
    let semaphore = client.semaphore("paused");
    semaphore.try_set_permits(3).await.unwrap();
    let (other, third) = (client.semaphore("other"), client.semaphore("third"));
    let waiting = waiter(&mut control, &semaphore, 6).await;
    for _ in 0..2 {
        let _: () = redis::cmd("CLIENT")
            .arg(&["PAUSE", "900", "ALL"])
            .query_async(&mut control)
            .await
            .unwrap();
        let (acquired, released, drained, added) = tokio::join!(
            semaphore.try_acquire(2),
            semaphore.release(1),
            other.drain_permits(),
            third.add_permits(2),
        );
        assert_eq!(
            (acquired, released, drained, added),
            (Ok(true), Ok(()), Ok(0), Ok(()))
        );
    }
    assert_eq!(stored(&server, "paused").await, ["1"]);
    assert_eq!(stored(&server, "third").await, ["4"]);
    semaphore.release(5).await.unwrap();
    served(waiting).await;
    assert_eq!(stored(&server, "paused").await, ["0"]);
}

#[tokio::test]
async fn scripts_forgotten_while_callers_wait() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let client = connect(server.url()).await;
    let semaphore = client.semaphore("forgotten");
    for kinds in KINDS {
        let task = waiter(&mut control, &semaphore, 1).await;
        let _: () = redis::cmd("SCRIPT")
            .arg("FLUSH")
            .query_async(&mut control)
            .await
            .unwrap();
        kill_and_release(&mut control, kinds, "forgotten", 1).await;
        served(task).await;
    }
    assert_eq!(stored(&server, "forgotten").await, ["0"]);
}

#[tokio::test]
async fn everything_is_flushed_while_callers_wait() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let client = connect(server.url()).await;
    let other = connect(server.url()).await;
    let semaphore = client.semaphore("flushed");
    semaphore.try_set_permits(1).await.unwrap();
    let first = waiter(&mut control, &semaphore, 2).await;
    let second = waiter(&mut control, &semaphore, 3).await;
    let _: () = redis::cmd("FLUSHALL")
        .query_async(&mut control)
        .await
        .unwrap();
    assert!(other.semaphore("flushed").try_set_permits(5).await.unwrap());
    served(first).await;
    served(second).await;
    assert_eq!(stored(&server, "flushed").await, ["0"]);
}

#[tokio::test]
async fn a_subscriber_that_is_cut_off_for_reading_too_slowly() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let client = connect(server.url()).await;
    let semaphore = client.semaphore("slow");
    let _: () = redis::cmd("CONFIG")
        .arg(&["SET", "client-output-buffer-limit", "pubsub 100000 0 0"])
        .query_async(&mut control)
        .await
        .unwrap();
    let task = waiter(&mut control, &semaphore, 1).await;
    let mut pipe = redis::pipe();
    pipe.atomic();
    pipe.cmd("PUBLISH")
        .arg(channel("slow"))
        .arg(vec![b'x'; 1_000_000]);
    pipe.cmd("INCR").arg("slow");
    pipe.cmd("PUBLISH").arg(channel("slow")).arg(1);
    let _: (u64, i64, u64) = pipe.query_async(&mut control).await.unwrap();
    served(task).await;
    assert!(
        server.log().contains("output buffer limits"),
        "it was not cut off"
    );
}

#[tokio::test]
async fn a_subscription_that_has_fallen_silent_is_found_out() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let proxy = Proxy::start(&server).await;
    let client = connect(proxy.url()).await;
    let semaphore = client.semaphore("silent");
    let task = waiter(&mut control, &semaphore, 1).await;
    proxy.mute();
    release_as_redisson(&mut control, "silent", 1).await;
    let opened = proxy.opened();
    until("the client notices", LIMIT, async || {
        proxy.opened() > opened
    })
    .await;
    assert!(!task.is_finished());
    proxy.clear();
    served(task).await;
}

/// Only slow looking finds these.
#[tokio::test]
async fn permits_that_come_without_a_message() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let client = builder(server.url())
        .safety_interval(Duration::from_millis(400))
        .connect()
        .await
        .unwrap();
    let semaphore = client.semaphore("quiet");
    let task = waiter(&mut control, &semaphore, 2).await;
    let _: () = control.set("quiet", 2).await.unwrap();
    served(task).await;
    let task = waiter(&mut control, &semaphore, 2).await;
    let source = client.semaphore("source");
    source.try_set_permits(3).await.unwrap();
    source.rename("quiet").await.unwrap();
    served(task).await;
    assert_eq!(stored(&server, "quiet").await, ["1"]);
}

#[tokio::test]
async fn one_subscription_a_channel_and_one_connection_a_client() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let client = connect(server.url()).await;
    let names = ["one", "two", "three"];
    assert_eq!(connections(&mut control, "pubsub").await, 0);
    let mut tasks = Vec::new();
    for name in names {
        for permits in 1..20 {
            tasks.push(waiter(&mut control, &client.semaphore(name), permits % 3 + 1).await);
        }
    }
    assert_eq!(connections(&mut control, "pubsub").await, 1);
    assert_eq!(connections(&mut control, "normal").await, 1);
    for name in names {
        until_subscribers(&mut control, &channel(name), 1).await;
    }
    // The same behind a reconnection.
    assert_eq!(kill(&mut control, "pubsub").await, 1);
    for name in names {
        until_subscribers(&mut control, &channel(name), 1).await;
    }
    assert_eq!(connections(&mut control, "pubsub").await, 1);
    for name in names {
        client.semaphore(name).release(60).await.unwrap();
    }
    for task in tasks {
        served(task).await;
    }
    for name in names {
        until_subscribers(&mut control, &channel(name), 0).await;
    }
    drop(client);
    for kind in ["normal", "pubsub"] {
        until("the connections are closed", LIMIT, async || {
            connections(&mut control.clone(), kind).await == 0
        })
        .await;
    }
}

/// A waiter that comes in the moment in which its channel is given up.
#[tokio::test]
async fn a_channel_that_is_given_up_and_wanted_again() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let client = connect(server.url()).await;
    let semaphore = client.semaphore("again");
    let other = connect(server.url()).await.semaphore("again");
    for round in 0..4_u64 {
        let leaving = waiter(&mut control, &semaphore, 1).await;
        leaving.abort();
        assert!(leaving.await.unwrap_err().is_cancelled());
        until_subscribers(&mut control, &channel("again"), 0).await;
        for _ in 0..round {
            tokio::task::yield_now().await;
        }
        let task = waiter(&mut control, &semaphore, 1).await;
        other.release(1).await.unwrap();
        served(task).await;
    }
    assert_eq!(stored(&server, "again").await, ["0"]);
}

#[tokio::test]
async fn objects_that_share_a_channel_do_not_take_each_others_wake_ups() {
    // Redisson derives the same channel from both names.
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let client = connect(server.url()).await;
    let other = connect(server.url()).await;
    let plain = waiter(&mut control, &client.semaphore("seat"), 1).await;
    let braced = client.semaphore("{seat}");
    let call = braced.clone();
    let braced_waiter = tokio::spawn(async move { call.acquire(1).await });
    // Its question is answered when two more have been, one behind the other.
    tokio::task::yield_now().await;
    braced.available_permits().await.unwrap();
    braced.available_permits().await.unwrap();
    other.semaphore("seat").release(1).await.unwrap();
    served(plain).await;
    other.semaphore("{seat}").release(1).await.unwrap();
    served(braced_waiter).await;
}

#[tokio::test]
async fn a_long_line_stands_through_a_lost_connection() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let window = Duration::from_millis(200);
    let client = builder(server.url())
        .retry_window(window)
        .connect()
        .await
        .unwrap();
    let semaphore = client.semaphore("line");
    let tasks: Vec<_> = (0..40)
        .map(|_| {
            let semaphore = semaphore.clone();
            tokio::spawn(async move { semaphore.acquire(1).await })
        })
        .collect();
    until_subscribers(&mut control, &channel("line"), 1).await;
    let joined = Instant::now();
    until("the retry window passes", LIMIT, async || {
        semaphore.available_permits().await.unwrap();
        joined.elapsed() > 2 * window
    })
    .await;
    assert_eq!(kill(&mut control, "normal").await, 1);
    publish(&mut control, "line", "1").await;
    until("the client is back", LIMIT, async || {
        semaphore.available_permits().await.is_ok()
    })
    .await;
    let _: () = control.set("line", 40).await.unwrap();
    publish(&mut control, "line", "40").await;
    for task in tasks {
        served(task).await;
    }
}

#[tokio::test]
async fn whoever_was_held_up_by_a_larger_request_is_served_when_that_gives_up() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let client = connect(server.url()).await;
    let semaphore = client.semaphore("held-up");
    let large = semaphore.clone();
    let patience = Duration::from_millis(5800);
    let large = tokio::spawn(async move { large.try_acquire_for(5, patience).await });
    until_subscribers(&mut control, &channel("held-up"), 1).await;
    let small = waiter(&mut control, &semaphore, 1).await;
    release_as_redisson(&mut control, "held-up", 1).await;
    served(small).await;
    // The line stops for the large request after five seconds.
    let passed = Instant::now();
    let small = waiter(&mut control, &semaphore, 1).await;
    until("the line stops", LIMIT, async || {
        passed.elapsed() > Duration::from_millis(5200)
    })
    .await;
    release_as_redisson(&mut control, "held-up", 1).await;
    assert!(!large.await.unwrap().unwrap());
    timeout(Duration::from_secs(3), small)
        .await
        .expect("a waiter sleeps beside a free permit")
        .unwrap()
        .unwrap();
}

/// A wake-up that comes while an older answer is on its way must not be forgotten over that answer.
#[tokio::test]
async fn a_wake_up_that_overtakes_an_answer() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    connect(server.url())
        .await
        .semaphore("overtaken")
        .try_set_permits(1)
        .await
        .unwrap();
    let proxy = Proxy::start(&server).await;
    let client = builder(proxy.url())
        .response_timeout(LIMIT)
        .local_hand_over(LIMIT)
        .connect()
        .await
        .unwrap();
    let semaphore = client.semaphore("overtaken");
    let elsewhere = client.semaphore("elsewhere");
    let bystander = tokio::spawn(async move { elsewhere.acquire(1).await });
    until_subscribers(&mut control, &channel("elsewhere"), 1).await;

    let larger = waiter(&mut control, &semaphore, 9).await;
    // All that the subscriptions have caused has been asked by now.
    for quiet in [&semaphore, &client.semaphore("elsewhere")] {
        quiet.available_permits().await.unwrap();
        quiet.available_permits().await.unwrap();
    }

    // The large request is asked together with a reading call, when one permit is there.
    let before = proxy.scripts();
    proxy.at_script(1, Fate::HoldReply);
    proxy.at_script(2, Fate::HoldReply);
    let spawn =
        |call: RSemaphore, permits| tokio::spawn(async move { call.acquire(permits).await });
    let reading = semaphore.clone();
    let reading = tokio::spawn(async move { reading.available_permits().await });
    proxy.until_struck(1).await;
    let large = spawn(semaphore.clone(), 3);
    let releasing = semaphore.clone();
    let releasing = tokio::spawn(async move {
        let seen = releasing.available_permits().await.unwrap();
        releasing.release(1).await.unwrap();
        seen
    });
    tokio::task::yield_now().await;
    // Who leaves the line makes the others ask.
    larger.abort();
    assert!(larger.await.unwrap_err().is_cancelled());
    proxy.deliver(1).await;
    assert_eq!(reading.await.unwrap(), Ok(1));
    proxy.until_struck(2).await;

    // Meanwhile there are enough for it; the message has been heard when the next one has been.
    release_as_redisson(&mut control, "overtaken", 3).await;
    let small = spawn(semaphore.clone(), 1);
    tokio::task::yield_now().await;
    release_as_redisson(&mut control, "elsewhere", 1).await;
    proxy.until_scripts(before + 3).await;
    proxy.deliver(1).await;

    served(bystander).await;
    assert_eq!(releasing.await.unwrap(), 1);
    served(small).await;
    served(large).await;
    assert_eq!(stored(&server, "overtaken").await, ["1"]);
}
