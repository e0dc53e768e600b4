//! Whatever stands in the record of turns, permits are taken by those they fit.
//!
//! The record only says who comes first. A wrong one may cost fairness for a moment, never a permit, and never
//! an idle one beside a caller for longer than a pause of some milliseconds.

mod support;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, RSemaphore};
use support::crowd::Crowd;
use support::server::RedisServer;
use support::waiters::until;

const RECORD: &str = "redisson_sc_turns:{recorded}";
const HOLD: Duration = Duration::from_millis(2);
const PERMITS: u32 = 3;
const PATIENCE: Duration = Duration::from_secs(60);
/// Nobody looks without a reason: a permit that is left lying stays so.
const HOUR: Duration = Duration::from_secs(3600);

async fn clients(server: &RedisServer) -> Vec<RSemaphore> {
    let mut clients = Vec::new();
    for _ in 0..3 {
        let client = Client::builder(server.url())
            .safety_interval(HOUR)
            .connect()
            .await;
        clients.push(
            client
                .expect("the server has just been started")
                .semaphore("recorded"),
        );
    }
    assert!(clients[0].try_set_permits(PERMITS).await.unwrap());
    clients
}

/// Server time in microseconds.
async fn now(connection: &mut MultiplexedConnection) -> i64 {
    let (seconds, micros): (i64, i64) = redis::cmd("TIME").query_async(connection).await.unwrap();
    seconds * 1_000_000 + micros
}

/// A client's record.
fn record(numbers: [i64; 6]) -> Vec<u8> {
    numbers.map(i64::to_be_bytes).concat()
}

async fn write(connection: &mut MultiplexedConnection, field: &str, value: &[u8]) {
    let () = redis::cmd("HSET")
        .arg(&[RECORD, field])
        .arg(value)
        .query_async(connection)
        .await
        .unwrap();
}

/// Lets crowds work while `disturb` goes on in a loop, until so many have been served.
async fn disturbed(disturb: impl AsyncFn(&mut MultiplexedConnection), served: usize) {
    let server = RedisServer::start().await;
    let clients = clients(&server).await;
    let crowds: Vec<Crowd> = clients
        .iter()
        .map(|client| Crowd::start(client, 8, 1, HOLD))
        .collect();
    let mut connection = server.connection().await;
    let each = served / crowds.len();
    until(
        "all are served beside the disturbance",
        PATIENCE,
        async || {
            disturb(&mut connection).await;
            crowds.iter().all(|crowd| crowd.served() >= each)
        },
    )
    .await;
    for crowd in crowds {
        crowd.stop().await;
    }
    assert_eq!(
        clients[0].available_permits().await.unwrap(),
        i64::from(PERMITS)
    );
}

#[tokio::test]
async fn a_deleted_record_is_made_anew() {
    disturbed(
        async |connection| {
            let () = redis::cmd("DEL")
                .arg(RECORD)
                .query_async(connection)
                .await
                .unwrap();
        },
        600,
    )
    .await;
}

#[tokio::test]
async fn a_key_of_another_type_is_left_alone() {
    disturbed(
        async |connection| {
            let () = redis::cmd("SET")
                .arg(&[RECORD, "7"])
                .query_async(connection)
                .await
                .unwrap();
        },
        600,
    )
    .await;
}

/// A field or value as nobody should write it.
fn nonsense(now: i64) -> Vec<u8> {
    let number = || match fastrand::u8(0..9) {
        0 => 0,
        1 => -1,
        2 => now,
        3 => now - fastrand::i64(0..20_000_000),
        4 => now + fastrand::i64(0..20_000_000),
        5 => i64::MAX,
        6 => fastrand::i64(..),
        _ => fastrand::i64(0..1_000),
    };
    let n = [(); 6].map(|()| number());
    let [a, b, c, d, e, f] = n;
    let text = match fastrand::u8(0..12) {
        0 => String::new(),
        1 => "nan inf -inf 1e999 0x10".to_owned(),
        2 => (0..fastrand::usize(0..200))
            .map(|_| fastrand::char(..))
            .collect(),
        3 => format!("{a} {b} 99999999999999999999999999 {now} 1 0"),
        4 => format!("{a} {b} {}.5 1.0.0 {e} {f}", fastrand::u8(..)),
        5 => format!(
            "{a} {b} {}.5 {}.25 {e} {f}",
            fastrand::u8(..),
            fastrand::u8(..)
        ),
        6 => format!("{a} {b} {c} {d} {e} {f}"),
        7 => return record(n)[fastrand::usize(0..48)..].to_vec(),
        8 => return record([a, b, c, now, e, f]),
        _ => return record(n),
    };
    text.into_bytes()
}

#[tokio::test]
async fn records_written_at_random_stop_nobody() {
    disturbed(
        async |connection| {
            let now = now(connection).await;
            let mut fields: Vec<String> = redis::cmd("HKEYS")
                .arg(RECORD)
                .query_async(connection)
                .await
                .unwrap();
            let any = String::from_utf8_lossy(&nonsense(now)).into_owned();
            fields.extend(["*".to_owned(), "somebody".to_owned(), any]);
            for field in fields {
                write(connection, &field, &nonsense(now)).await;
            }
        },
        600,
    )
    .await;
}

#[tokio::test]
async fn nobody_waits_for_clients_that_do_not_come() {
    disturbed(
        async |connection| {
            // Always first, always waiting, never there.
            let now = now(connection).await;
            let ghost = record([now - 9_000_000, now - 1_000_000, 1000, now, 1, 0]);
            write(connection, "00000000-0000-0000-0000-000000000000", &ghost).await;
        },
        200,
    )
    .await;
}

/// Two permits are free, and the record of a client that is not there says that a thousand callers came before all.
async fn two_permits_and_a_ghost(connection: &mut MultiplexedConnection) {
    let now = now(connection).await;
    let ghost = record([now - 5_000_000, now - 1_000_000, 1000, now, 1, 0]);
    write(connection, "00000000-0000-0000-0000-000000000000", &ghost).await;
    let () = redis::cmd("SET")
        .arg(&["recorded", "2"])
        .query_async(connection)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_permit_kept_for_a_ghost_is_free_for_all_after_a_moment() {
    let server = RedisServer::start().await;
    let clients = clients(&server).await;
    let mut connection = server.connection().await;
    // Both clients hold and wait, so that they know of each other.
    assert_eq!(
        clients[2].drain_permits().await.unwrap(),
        i64::from(PERMITS)
    );
    let served = Arc::new(AtomicBool::new(false));
    let waiting: Vec<_> = clients[..2]
        .iter()
        .map(|client| {
            let (client, served) = (client.clone(), Arc::clone(&served));
            tokio::spawn(async move {
                client.acquire(1).await.unwrap();
                served.store(true, Ordering::SeqCst);
            })
        })
        .collect();
    support::waiters::until_subscribers(&mut connection, "redisson_sc:{recorded}", 2).await;
    two_permits_and_a_ghost(&mut connection).await;
    let () = redis::cmd("PUBLISH")
        .arg(&["redisson_sc:{recorded}", "2"])
        .query_async(&mut connection)
        .await
        .unwrap();
    for task in waiting {
        tokio::time::timeout(PATIENCE, task)
            .await
            .expect("served without another message")
            .unwrap();
    }
    assert!(served.load(Ordering::SeqCst));
}

/// How many permits the callers of each client want, as its record says.
async fn wanted(connection: &mut MultiplexedConnection) -> Vec<u64> {
    let fields: HashMap<String, Vec<u8>> = redis::cmd("HGETALL")
        .arg(RECORD)
        .query_async(connection)
        .await
        .unwrap();
    let want = |record: Vec<u8>| u64::from_be_bytes(record[16..24].try_into().expect("8 bytes"));
    let clients = fields.into_iter().filter(|(field, _)| field != "*");
    let mut wanted: Vec<u64> = clients.map(|(_, record)| want(record)).collect();
    wanted.sort_unstable();
    wanted
}

/// Lets all who listen look in vain.
async fn publish(connection: &mut MultiplexedConnection) {
    let () = redis::cmd("PUBLISH")
        .arg(&["redisson_sc:{recorded}", "1"])
        .query_async(connection)
        .await
        .unwrap();
}

#[tokio::test]
async fn who_gives_up_waiting_takes_its_record_back() {
    let server = RedisServer::start().await;
    let clients = clients(&server).await;
    let mut connection = server.connection().await;
    clients[2].drain_permits().await.unwrap();
    let waiting: Vec<_> = clients[..2]
        .iter()
        .map(|client| {
            let client = client.clone();
            tokio::spawn(async move { client.acquire(3).await })
        })
        .collect();
    until("both are on record", PATIENCE, async || {
        publish(&mut connection).await;
        wanted(&mut connection).await == [3, 3]
    })
    .await;
    // What is under way would take it along: it comes to rest before.
    for _ in 0..2 {
        clients[0].available_permits().await.unwrap();
    }
    waiting[0].abort();
    until("one waits for nothing", PATIENCE, async || {
        wanted(&mut connection).await == [0, 3]
    })
    .await;
    waiting[1].abort();
}

#[tokio::test]
async fn who_is_held_back_comes_in_the_end_whatever_else_its_client_does() {
    let server = RedisServer::start().await;
    let clients = clients(&server).await;
    let mut connection = server.connection().await;
    clients[2].drain_permits().await.unwrap();
    let waiting: Vec<_> = clients[..2]
        .iter()
        .map(|client| {
            let client = client.clone();
            tokio::spawn(async move { client.acquire(1).await.unwrap() })
        })
        .collect();
    until("both are on record", PATIENCE, async || {
        publish(&mut connection).await;
        wanted(&mut connection).await == [1, 1]
    })
    .await;
    two_permits_and_a_ghost(&mut connection).await;
    publish(&mut connection).await;
    // Both look, are held back, and are asked all the time what is free.
    until("both are served", PATIENCE, async || {
        clients[0].available_permits().await.unwrap();
        clients[1].available_permits().await.unwrap();
        waiting.iter().all(|task| task.is_finished())
    })
    .await;
}

/// How many microseconds a call of a command has taken.
fn mean(stats: &str, command: &str) -> f64 {
    stats
        .lines()
        .find_map(|line| {
            line.strip_prefix(&format!("cmdstat_{command}:"))?
                .split("usec_per_call=")
                .nth(1)
        })
        .and_then(|rest| rest.split(',').next()?.parse().ok())
        .expect("the server counts")
}

#[tokio::test]
async fn two_hundred_records_keep_the_script_short() {
    let server = RedisServer::start().await;
    let clients = clients(&server).await;
    let mut connection = server.connection().await;
    let time = now(&mut connection).await;
    for number in 0..200 {
        let other = record([time - number, time, 64, time, 1, 0]);
        write(&mut connection, &format!("{number:036}"), &other).await;
    }
    let crowds: Vec<Crowd> = clients
        .iter()
        .map(|client| Crowd::start(client, 8, 1, HOLD))
        .collect();
    // Meanwhile: what it costs any script to read as much, on this machine and beside this load.
    until("all are served", PATIENCE, async || {
        let () = redis::cmd("EVAL")
            .arg("redis.call('HGETALL', KEYS[1])")
            .arg(&["1", RECORD])
            .query_async(&mut connection)
            .await
            .unwrap();
        crowds.iter().all(|crowd| crowd.served() >= 300)
    })
    .await;
    let stats: String = redis::cmd("INFO")
        .arg("commandstats")
        .query_async(&mut connection)
        .await
        .unwrap();
    let (script, reading) = (mean(&stats, "evalsha"), mean(&stats, "eval"));
    assert!(
        script < 4.0 * reading,
        "{script} microseconds, of which reading takes {reading}"
    );
    for crowd in crowds {
        crowd.stop().await;
    }
}
