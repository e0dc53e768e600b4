//! Guards of processes that are killed, or stopped for longer than their leases, beside callers in Java.

use std::time::{Duration, Instant};

use crate::common::parked::served;
use crate::common::world::{Mode, NEWEST, World};
use crate::support::keeper::{Keeper, test_name};
use crate::support::server::RedisServer;
use crate::support::waiters::until;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, RSemaphore};

const URL: &str = "WATCHDOG_PEER_URL";
const NAME: &str = "seats";
const TIME_OUT: Duration = Duration::from_secs(5);
const LIMIT: Duration = Duration::from_secs(60);

async fn connect(url: &str, name: &str) -> Client {
    let builder = Client::builder(url)
        .client_name(name)
        .lock_watchdog_timeout(TIME_OUT);
    builder.connect().await.expect("the server runs")
}

/// The program of the other processes, until they are killed. Its results stand in keys that begin with `told`.
#[tokio::test]
#[ignore = "a process of its own, started by the tests of this file"]
async fn peer() {
    let url = std::env::var(URL).expect("started by a test");
    let seats = connect(&url, "holder").await.semaphore(NAME);
    // An answer may be awaited for as long as the process is stopped.
    let patient = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let mut redis = redis::Client::open(url)
        .expect("a URL")
        .get_multiplexed_async_connection_with_config(&patient)
        .await
        .expect("the server runs");
    holder(&seats, &mut redis).await;
}

/// Takes four permits and uses them for as long as it has them; then it takes one anew.
async fn holder(seats: &RSemaphore, redis: &mut MultiplexedConnection) {
    let guard = seats.permit(4).await.unwrap();
    while !guard.is_lost() {
        let () = redis.incr("told uses", 1).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let released = guard.release().await.map_err(|error| error.to_string());
    let () = redis
        .set("told lost", format!("{released:?}"))
        .await
        .unwrap();
    let anew = seats.permit(1).await.unwrap();
    let () = redis.set("told anew", 1).await.unwrap();
    anew.lost().await;
}

/// Starts a process that holds permits at a server, and records there what it does.
fn start(server: &RedisServer, number: usize) -> Keeper {
    let directory = server.directory().join(format!("holder{number}"));
    std::fs::create_dir(&directory).expect("a new directory can be made");
    let program = std::env::current_exe().expect("this program");
    let program = program.to_str().expect("a path in UTF-8");
    let url = format!("{URL}={}", server.url());
    let peer = test_name(module_path!(), "peer");
    let arguments = [&*url, program, "--exact", &peer, "--ignored", "--nocapture"];
    Keeper::spawn(&directory, "env", &arguments)
}

async fn told(redis: &mut MultiplexedConnection, what: &str) -> i64 {
    let told: Option<i64> = redis.get(format!("told {what}")).await.unwrap();
    told.unwrap_or(0)
}

async fn until_told(redis: &mut MultiplexedConnection, what: &str, count: i64) {
    until(what, LIMIT, async || told(redis, what).await >= count).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn java_gets_what_a_killed_process_held() {
    let world = World::start(NEWEST).await;
    let mut attempts = world.attempts().await;
    let mut redis = world.redis.clone();
    let operator = connect(&world.server.url(), "operator").await;
    let seats = operator.semaphore(NAME);
    seats.try_set_permits(4).await.unwrap();
    // The client has used the semaphore.
    seats.permit(1).await.unwrap().release().await.unwrap();
    for (number, mode) in Mode::BOTH.into_iter().enumerate() {
        let () = redis.del("told uses").await.unwrap();
        let mut process = start(&world.server, number);
        until_told(&mut redis, "uses", 1).await;
        let holders = seats.holders().await.unwrap();
        assert_eq!(holders.len(), 1, "{holders:?}");
        assert_eq!(
            (holders[0].client_name(), holders[0].permits()),
            ("holder", 4)
        );
        let calls = world.park_java(&mut attempts, NAME, mode, [1, 1, 2]).await;
        process.signal("KILL");
        let killed = Instant::now();
        for call in calls {
            served(&format!("{mode:?}"), call).await;
        }
        println!("{mode:?}: all served {:?} after the kill", killed.elapsed());
        assert_eq!(seats.available_permits().await.unwrap(), 0);
        assert!(seats.holders().await.unwrap().is_empty());
        seats.release(4).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_process_is_told_before_it_goes_on() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let operator = connect(&server.url(), "operator").await;
    let seats = operator.semaphore(NAME);
    seats.try_set_permits(4).await.unwrap();
    let mut process = start(&server, 0);
    until_told(&mut redis, "uses", 10).await;
    process.signal("STOP");
    // The signal has been sent by now, which a busy machine may take a moment to follow.
    let mut stopped = told(&mut redis, "uses").await;
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let before = std::mem::replace(&mut stopped, told(&mut redis, "uses").await);
        if stopped == before {
            break;
        }
    }
    let others = seats.permit(4).await.unwrap();
    process.signal("CONT");
    until("it is told", LIMIT, async || {
        redis.exists::<_, bool>("told lost").await.unwrap()
    })
    .await;
    let lost: String = redis.get("told lost").await.unwrap();
    assert!(lost.contains("is not held"), "{lost}");
    let used = told(&mut redis, "uses").await - stopped;
    assert!(used <= 1, "one may have been on its way, not {used}");
    assert_eq!(
        seats.available_permits().await.unwrap(),
        0,
        "none is doubled"
    );
    others.release().await.unwrap();
    until_told(&mut redis, "anew", 1).await;
    assert_eq!(seats.available_permits().await.unwrap(), 3);
    let holders = seats.holders().await.unwrap();
    assert_eq!(
        (holders[0].client_name(), holders[0].permits()),
        ("holder", 1)
    );
}
