//! Guards of processes that are killed, or stopped for longer than their leases, beside callers in Java.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::parked::served;
use crate::common::world::{Mode, NEWEST, World};
use crate::support::cluster::{Cluster, ask};
use crate::support::keeper::{Keeper, test_name};
use crate::support::server::RedisServer;
use crate::support::waiters::until;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, RSemaphore};

const URL: &str = "WATCHDOG_PEER_URL";
/// Of the server that is told what the process does.
const TOLD: &str = "WATCHDOG_PEER_TOLD";
const ROLE: &str = "WATCHDOG_PEER_ROLE";
const NAME: &str = "seats";
const GRANTS: &str = "redisson_sc_grants:{seats}";
const TIME_OUT: Duration = Duration::from_secs(2);
const LIMIT: Duration = Duration::from_secs(60);

async fn connect(url: &str, name: &str) -> Client {
    let builder = Client::builder(url)
        .client_name(name)
        .lock_watchdog_timeout(TIME_OUT);
    builder.connect().await.expect("the server runs")
}

/// What the other processes do, until they are killed. What has come of it stands in keys that begin with `told`.
#[tokio::test]
#[ignore = "a process of its own, started by the tests of this file"]
async fn peer() {
    let url = std::env::var(URL).expect("started by a test");
    let role = std::env::var(ROLE).expect("started by a test");
    let seats = connect(&url, &role).await.semaphore(NAME);
    let told = std::env::var(TOLD).expect("started by a test");
    // An answer may be awaited for as long as the process is stopped.
    let patient = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let mut redis = redis::Client::open(told)
        .expect("a URL")
        .get_multiplexed_async_connection_with_config(&patient)
        .await
        .expect("the server runs");
    match &*role {
        "crowd" => crowd(&seats, &mut redis).await,
        _ => holder(&seats, &mut redis).await,
    }
}

/// Callers at work.
async fn crowd(seats: &RSemaphore, redis: &mut MultiplexedConnection) {
    for number in 0..16 {
        let (seats, mut redis) = (seats.clone(), redis.clone());
        tokio::spawn(async move {
            loop {
                let guard = seats.permit(1 + number % 2).await.unwrap();
                tokio::time::sleep(Duration::from_millis(number.into())).await;
                assert!(!guard.is_lost());
                let () = redis.incr("told served", 1).await.unwrap();
                if number % 3 == 0 {
                    guard.release().await.unwrap();
                }
            }
        });
    }
    std::future::pending().await
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

fn start(server: &RedisServer, role: &str, number: usize) -> Keeper {
    start_at(&server.url(), server, role, number)
}

/// A process that works at `url`, and tells a server what it does.
fn start_at(url: &str, told: &RedisServer, role: &str, number: usize) -> Keeper {
    let directory = told.directory().join(format!("{role}{number}"));
    std::fs::create_dir(&directory).expect("a new directory can be made");
    let program = std::env::current_exe().expect("this program");
    let program = program.to_str().expect("a path in UTF-8");
    let told = format!("{TOLD}={}", told.url());
    let (url, role) = (format!("{URL}={url}"), format!("{ROLE}={role}"));
    let peer = test_name(module_path!(), "peer");
    let peer = ["--exact", &peer, "--ignored", "--nocapture"];
    let arguments = [&[&*url, &*told, &*role, program], &peer[..]].concat();
    Keeper::spawn(Path::new(&directory), "env", &arguments)
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
    // It has used the semaphore.
    seats.permit(1).await.unwrap().release().await.unwrap();
    for (number, mode) in Mode::BOTH.into_iter().enumerate() {
        let () = redis.del("told uses").await.unwrap();
        let mut process = start(&world.server, "holder", number);
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
async fn killed_in_the_middle_of_calls_they_lose_no_permit() {
    const ROUNDS: usize = 4;
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let operator = connect(&server.url(), "operator").await;
    let seats = operator.semaphore(NAME);
    seats.try_set_permits(5).await.unwrap();
    seats.permit(1).await.unwrap().release().await.unwrap();
    for round in 0..ROUNDS {
        let before = told(&mut redis, "served").await;
        let mut processes =
            [2 * round, 2 * round + 1].map(|number| start(&server, "crowd", number));
        until_told(&mut redis, "served", before + 200).await;
        for process in &mut processes {
            process.signal("KILL");
        }
        until("nobody holds a permit", LIMIT, async || {
            !redis.exists::<_, bool>(GRANTS).await.unwrap()
        })
        .await;
        assert_eq!(seats.available_permits().await.unwrap(), 5, "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_process_is_told_before_it_goes_on() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let operator = connect(&server.url(), "operator").await;
    let seats = operator.semaphore(NAME);
    seats.try_set_permits(4).await.unwrap();
    let mut process = start(&server, "holder", 0);
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

/// The grants are in the counter's slot, and go with it to the master that takes over.
#[tokio::test(flavor = "multi_thread")]
async fn grants_follow_their_slot_in_a_cluster() {
    let cluster = Cluster::start().await;
    let told_at = RedisServer::start().await;
    let mut told_at_it = told_at.connection().await;
    let master = cluster.master_of(cluster.slot(NAME).await, 1).await;
    let operator = Client::builder(cluster.url()).lock_watchdog_timeout(Duration::from_secs(9));
    let operator = operator.connect().await.unwrap();
    let seats = operator.semaphore(NAME);
    seats.try_set_permits(5).await.unwrap();
    let kept = seats.permit(1).await.unwrap();
    // One round looks after several slots.
    let other = cluster.name_at((master + 1) % 3, "other").await;
    let other = operator.semaphore(&other);
    other.try_set_permits(1).await.unwrap();
    let beside = other.permit(1).await.unwrap();
    let mut process = start_at(&cluster.url(), &told_at, "holder", 0);
    until_told(&mut told_at_it, "uses", 1).await;
    let on_record: usize = ask(&cluster.servers[master], &["ZCARD", GRANTS]).await;
    assert_eq!(on_record, 2);

    process.signal("KILL");
    let next = seats.clone();
    let waits = tokio::spawn(async move { next.permit(4).await });
    cluster.fail_over(master).await;
    let taken = tokio::time::timeout(LIMIT, waits).await;
    let taken = taken.expect("they are back").unwrap().unwrap();
    let holders = seats.holders().await.unwrap();
    let [holder] = &*holders else {
        panic!("{holders:?}")
    };
    assert_eq!((holder.client_id(), holder.permits()), (operator.id(), 5));
    // Leases are renewed at the new master, too.
    let successor = &cluster.servers[master + 3];
    let until_when = async || {
        let all: Vec<(String, f64)> =
            ask(successor, &["ZRANGE", GRANTS, "0", "-1", "WITHSCORES"]).await;
        all[0].1
    };
    let before = until_when().await;
    until("the lease is renewed", LIMIT, async || {
        until_when().await > before
    })
    .await;
    for guard in [kept, taken, beside] {
        assert!(!guard.is_lost());
        guard.release().await.unwrap();
    }
    assert_eq!(seats.available_permits().await, Ok(5));
    assert_eq!(other.available_permits().await, Ok(1));
    operator.shutdown().await.unwrap();
    let left: i64 = ask(successor, &["EXISTS", GRANTS]).await;
    assert_eq!(left, 0);
}
