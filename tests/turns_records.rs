//! Whatever stands in the line of turns and its notes, permits are taken by those they fit.
//!
//! They only say who comes first. What is wrong there may cost fairness for a moment, never a permit, and never
//! an idle one beside a caller for longer than a pause of some milliseconds.

mod support;

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, RSemaphore, Result};
use support::acl::set_user;
use support::channel::Channel;
use support::clients::release_as_redisson;
use support::crowd::Crowd;
use support::monitor::{Command, Monitor};
use support::server::RedisServer;
use support::waiters::until;
use tokio::task::JoinHandle;

const LINE: &str = "redisson_sc_turns:{recorded}";
const NOTES: &str = "redisson_sc_turns_notes:{recorded}";
/// In the microseconds of what is stored.
const SECOND: i64 = 1_000_000;
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

/// What is known of a client that wants so many permits.
fn note(want: i64, now: i64) -> String {
    format!("{want} {now} 0 5000 0 1")
}

async fn write(connection: &mut MultiplexedConnection, field: &[u8], value: &[u8]) {
    let () = redis::cmd("HSET")
        .arg(NOTES)
        .arg(field)
        .arg(value)
        .query_async(connection)
        .await
        .unwrap();
}

async fn stand(connection: &mut MultiplexedConnection, member: &[u8], score: &str) {
    let () = redis::cmd("ZADD")
        .arg(&[LINE, score])
        .arg(member)
        .query_async(connection)
        .await
        .unwrap();
}

/// A crowd of each client at work.
fn crowds(clients: &[RSemaphore]) -> Vec<Crowd> {
    let start = |client| Crowd::start(client, 8, 1, HOLD);
    clients.iter().map(start).collect()
}

/// Lets crowds work while `disturb` goes on in a loop, until so many have been served of `each`, or in all.
async fn disturbed(
    disturb: impl AsyncFn(&mut MultiplexedConnection),
    served: usize,
    each: impl Fn(&[Crowd]) -> usize,
) {
    let server = RedisServer::start().await;
    let clients = clients(&server).await;
    let crowds = crowds(&clients);
    let mut connection = server.connection().await;
    until(
        "they are served beside the disturbance",
        PATIENCE,
        async || {
            disturb(&mut connection).await;
            each(&crowds) >= served
        },
    )
    .await;
    futures::future::join_all(crowds.into_iter().map(Crowd::stop)).await;
    assert_eq!(
        clients[0].available_permits().await.unwrap(),
        i64::from(PERMITS)
    );
}

fn each(crowds: &[Crowd]) -> usize {
    crowds.iter().map(Crowd::served).min().unwrap_or(0)
}

fn all(crowds: &[Crowd]) -> usize {
    crowds.iter().map(Crowd::served).sum()
}

/// The first two ask for so many permits each.
fn two_ask(clients: &[RSemaphore], permits: u32) -> [JoinHandle<Result<()>>; 2] {
    [&clients[0], &clients[1]].map(|client| {
        let client = client.clone();
        tokio::spawn(async move { client.acquire(permits).await })
    })
}

#[tokio::test]
async fn what_is_deleted_is_made_anew() {
    for key in [LINE, NOTES] {
        disturbed(
            async |connection| {
                let () = redis::cmd("DEL")
                    .arg(key)
                    .query_async(connection)
                    .await
                    .unwrap();
            },
            100,
            each,
        )
        .await;
    }
}

/// Once, and nothing else calls those whose places are gone.
#[tokio::test]
async fn who_stood_in_a_line_that_is_deleted_stands_in_the_next_one() {
    let server = RedisServer::start().await;
    let clients = clients(&server).await;
    let crowds = crowds(&clients);
    let mut connection = server.connection().await;
    for _ in 0..60 {
        let () = connection.del(LINE).await.unwrap();
        for crowd in &crowds {
            crowd.until_served(10).await;
        }
    }
    futures::future::join_all(crowds.into_iter().map(Crowd::stop)).await;
}

#[tokio::test]
async fn a_key_of_another_type_stops_nobody() {
    for key in [LINE, NOTES] {
        disturbed(
            async |connection| {
                let () = redis::cmd("SET")
                    .arg(&[key, "7"])
                    .query_async(connection)
                    .await
                    .unwrap();
            },
            100,
            each,
        )
        .await;
    }
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
    let [a, b, c, d, e, f] = [(); 6].map(|()| number());
    let text = match fastrand::u8(0..10) {
        0 => String::new(),
        1 => "nan inf -inf 1e999 0x10".to_owned(),
        2 => (0..fastrand::usize(0..200))
            .map(|_| fastrand::char(..))
            .collect(),
        3 => format!("{a} {b} 99999999999999999999999999 {now} 1 0"),
        4 => format!("{a} {b}.5 1.0.0 {e} {f}"),
        5 => format!("{a} {b}.5 {c}.25 {d} {e}.5"),
        6 => "9".repeat(400),
        _ => format!("{a} {b} {c} {d} {e} {f}"),
    };
    text.into_bytes()
}

/// There is room for so many clients. The next one that comes takes all of it away.
#[tokio::test]
async fn more_clients_than_there_is_room_for_cost_the_order() {
    const FILL: &str = "for i = 1, 10000 do redis.call('HSET', KEYS[1], i, ARGV[1]) end";
    let filled = AtomicUsize::new(0);
    disturbed(
        async |connection| {
            let notes: usize = connection.hlen(NOTES).await.unwrap();
            // Those who are at work come and go all the time.
            if notes < 5_000 {
                let note = note(1, now(connection).await);
                let mut fill = redis::cmd("EVAL");
                let fill = fill.arg(FILL).arg(1).arg(NOTES).arg(note);
                let () = fill.query_async(connection).await.unwrap();
                filled.fetch_add(1, Ordering::SeqCst);
            }
        },
        100,
        each,
    )
    .await;
    assert!(filled.into_inner() > 1, "it stays full");
}

#[tokio::test]
async fn what_is_written_at_random_stops_nobody() {
    disturbed(
        async |connection| {
            let now = now(connection).await;
            let mut fields: Vec<Vec<u8>> = redis::cmd("ZRANGE")
                .arg(&[LINE, "0", "-1"])
                .query_async(connection)
                .await
                .unwrap();
            for member in &fields {
                let score = match fastrand::u8(0..6) {
                    0 => "-inf".to_owned(),
                    1 => "inf".to_owned(),
                    2 => "-1e300".to_owned(),
                    3 => (now - fastrand::i64(0..20_000_000)).to_string(),
                    4 => (now + fastrand::i64(0..20_000_000)).to_string(),
                    _ => format!("{}.5", fastrand::i64(..)),
                };
                stand(connection, member, &score).await;
            }
            let any = nonsense(now);
            stand(connection, &any, "-inf").await;
            fields.extend([b"*".to_vec(), b"+".to_vec(), any]);
            for field in fields {
                write(connection, &field, &nonsense(now)).await;
            }
        },
        // Who is thrown out of the line comes when it looks by itself, which it does not here.
        2_000,
        all,
    )
    .await;
}

#[tokio::test]
async fn nobody_waits_for_clients_that_do_not_come() {
    disturbed(
        async |connection| {
            // Always first, always waiting, never there.
            let now = now(connection).await;
            for ghost in 0..10 {
                let ghost = format!("{ghost:036}");
                stand(connection, ghost.as_bytes(), &(now - 9_000_000).to_string()).await;
                write(connection, ghost.as_bytes(), note(1000, now).as_bytes()).await;
            }
        },
        70,
        each,
    )
    .await;
}

const GHOST: &str = "00000000-0000-0000-0000-000000000000";

async fn pubsub(server: &RedisServer) -> redis::aio::PubSub {
    let client = redis::Client::open(server.url()).unwrap();
    client.get_async_pubsub().await.unwrap()
}

/// Two permits are free, and a client that listens and does not come stands before all others. Its ear is returned.
async fn two_permits_and_a_ghost(
    server: &RedisServer,
    connection: &mut MultiplexedConnection,
) -> redis::aio::PubSub {
    let mut ear = pubsub(server).await;
    let wants_two = note(2, now(connection).await);
    ghost(connection, &mut ear, GHOST, &wants_two).await;
    let () = redis::cmd("SET")
        .arg(&["recorded", "2"])
        .query_async(connection)
        .await
        .unwrap();
    ear
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
    let _ear = two_permits_and_a_ghost(&server, &mut connection).await;
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

/// A holder of all permits that knows that another client stands in line, with nobody else to look; and that client's caller.
async fn before_one_who_waits(
    server: &RedisServer,
    connection: &mut MultiplexedConnection,
    ear: &mut redis::aio::PubSub,
) -> (RSemaphore, JoinHandle<Result<()>>) {
    let clients = clients(server).await;
    clients[0].drain_permits().await.unwrap();
    hear_as_a_client(ear).await;
    let before = in_line(connection).await;
    let [knows, waits] = two_ask(&clients, 1);
    until("both stand in line", PATIENCE, async || {
        in_line(connection).await == before + 2
    })
    .await;
    knows.abort();
    until("one has left", PATIENCE, async || {
        in_line(connection).await == before + 1
    })
    .await;
    (clients[0].clone(), waits)
}

/// From now on `ear` is one of those who listen and take part.
async fn hear_as_a_client(ear: &mut redis::aio::PubSub) {
    for channel in ["redisson_sc:{recorded}", LINE] {
        ear.subscribe(channel).await.unwrap();
    }
}

/// One that listens and does not come stands before all others, and this is noted of it.
async fn ghost(
    connection: &mut MultiplexedConnection,
    ear: &mut redis::aio::PubSub,
    id: &str,
    note: &str,
) {
    let since = now(connection).await - 5_000_000;
    ghost_since(connection, ear, id, since, note).await;
}

/// The same of one that came then.
async fn ghost_since(
    connection: &mut MultiplexedConnection,
    ear: &mut redis::aio::PubSub,
    id: &str,
    since: i64,
    note: &str,
) {
    ear.subscribe(format!("{LINE}:{id}")).await.unwrap();
    stand(connection, id.as_bytes(), &since.to_string()).await;
    write(connection, id.as_bytes(), note.as_bytes()).await;
}

async fn served(waits: JoinHandle<Result<()>>) {
    let served = tokio::time::timeout(PATIENCE, waits).await;
    served.expect("somebody looked").unwrap().unwrap();
}

/// Whoever releases finds that the one it has told does not come; who waits has lost its place meanwhile.
#[tokio::test]
async fn who_has_lost_its_place_is_called_when_the_one_before_it_does_not_come() {
    for lost_before in [true, false] {
        let server = RedisServer::start().await;
        let mut connection = server.connection().await;
        let mut ear = pubsub(&server).await;
        let (holder, waits) = before_one_who_waits(&server, &mut connection, &mut ear).await;
        let place: Vec<String> = connection.zrange(LINE, 0, -1).await.unwrap();
        let told = note(1, now(&mut connection).await);
        ghost(&mut connection, &mut ear, GHOST, &told).await;
        if lost_before {
            let () = connection.zrem(LINE, &place).await.unwrap();
        }
        holder.release(1).await.unwrap();
        if !lost_before {
            let () = connection.del(LINE).await.unwrap();
        }
        served(waits).await;
    }
}

/// There is something free that is too little for all who wait, and whoever only asks for it does not look after them.
#[tokio::test]
async fn who_asks_how_many_are_free_calls_nobody() {
    let server = RedisServer::start().await;
    let clients = clients(&server).await;
    let mut connection = server.connection().await;
    clients[2].acquire(2).await.unwrap();
    let waiting = two_ask(&clients, 3);
    until_in_line(&mut connection, 2).await;
    let mut monitor = Monitor::start(&server).await;
    for _ in 0..20 {
        assert_eq!(clients[0].available_permits().await.unwrap(), 1);
        assert!(!clients[0].try_acquire(2).await.unwrap());
    }
    let commands = monitor.until_marker().await;
    let calls = commands
        .iter()
        .filter(|command| command.name == "PUBLISH" && command.args[0] == LINE)
        .count();
    assert!(calls < 10, "{calls} for 40 questions");
    waiting.iter().for_each(JoinHandle::abort);
}

/// It may be a permit that was taken back by whoever told the ghost of it, and is free again before the ghost is passed.
#[tokio::test]
async fn who_releases_looks_whether_one_comes_that_others_have_told() {
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let mut ear = pubsub(&server).await;
    let (holder, waits) = before_one_who_waits(&server, &mut connection, &mut ear).await;
    let now = now(&mut connection).await;
    let told = format!("1 {now} {now} 150000 0 1");
    ghost(&mut connection, &mut ear, GHOST, &told).await;
    holder.release(1).await.unwrap();
    served(waits).await;
}

/// A client has been told that it is the turn of a caller of its own who has been served otherwise since, and somebody comes.
#[tokio::test]
async fn who_comes_last_does_not_take_what_another_of_its_client_was_told_of() {
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let clients = clients(&server).await;
    clients[0].drain_permits().await.unwrap();
    let [gone, waits] = two_ask(&clients, 1);
    until_in_line(&mut connection, 2).await;
    let both: Vec<String> = connection.zrange(LINE, 0, -1).await.unwrap();
    gone.abort();
    until_in_line(&mut connection, 1).await;
    let other: Vec<String> = connection.zrange(LINE, 0, -1).await.unwrap();
    let told = both.iter().find(|id| **id != other[0]).unwrap();

    let now = now(&mut connection).await;
    let since = (now - 10 * SECOND).to_string();
    stand(&mut connection, told.as_bytes(), &since).await;
    let since = (now - SECOND).to_string();
    stand(&mut connection, other[0].as_bytes(), &since).await;
    let noted = format!("1 {now} {now} 150000 0 777777");
    write(&mut connection, told.as_bytes(), noted.as_bytes()).await;
    let () = connection.set("recorded", 1).await.unwrap();
    let comes = clients[0].acquire(1);
    tokio::select! {
        biased;
        _ = comes => panic!("it has passed one who has waited for a second"),
        () = served(waits) => {}
    }
}

/// One for whom it does not do stops the line, has asked just now when nothing was free, and freezes. Or it asks in the future, by a
/// clock that has been set back since.
#[tokio::test]
async fn who_releases_looks_whether_one_is_there_that_stops_the_line() {
    for ahead in [0, 60 * SECOND] {
        let server = RedisServer::start().await;
        let mut connection = server.connection().await;
        let mut ear = pubsub(&server).await;
        let (holder, waits) = before_one_who_waits(&server, &mut connection, &mut ear).await;
        let now = now(&mut connection).await;
        let (seen, began, since) = (now + ahead, now - 1_900_000, now - 60 * SECOND);
        let stops = format!("1000 {seen} 0 5000 {began} 1");
        ghost_since(&mut connection, &mut ear, GHOST, since, &stops).await;
        holder.release(1).await.unwrap();
        served(waits).await;
    }
}

/// Whoever told one has seen that somebody took the permit, which is given back by a program that does not take part: those who hear
/// of it look. That is left to a few of them, by chance.
#[tokio::test]
async fn who_hears_of_a_release_looks_whether_one_comes_that_others_have_told() {
    for _ in 0..12 {
        let server = RedisServer::start().await;
        let mut connection = server.connection().await;
        let mut ears = Vec::new();
        let now = now(&mut connection).await;
        for (id, patience) in [150_000, 5_000, 5_000].into_iter().enumerate() {
            let mut ear = pubsub(&server).await;
            hear_as_a_client(&mut ear).await;
            let note = format!("1 {now} 0 {patience} 0 1");
            ghost(&mut connection, &mut ear, &format!("{id:036}"), &note).await;
            ears.push(ear);
        }
        let mut ear = pubsub(&server).await;
        let (holder, waits) = before_one_who_waits(&server, &mut connection, &mut ear).await;
        holder.release(1).await.unwrap();
        let left: i64 = connection.decr("recorded", 1).await.unwrap();
        assert_eq!(left, 0);
        holder.available_permits().await.unwrap();
        release_as_redisson(&mut connection, "recorded", 1).await;
        served(waits).await;
    }
}

/// Who is near has come when whoever told both looks, and who is far away has its time still.
#[tokio::test]
async fn who_has_told_one_near_and_one_far_away_looks_after_both() {
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let mut ear = pubsub(&server).await;
    let (holder, waits) = before_one_who_waits(&server, &mut connection, &mut ear).await;
    let now = now(&mut connection).await;
    const NEAR: &str = "00000000-0000-0000-0000-000000000001";
    for (id, patience) in [(GHOST, 150_000), (NEAR, 20_000)] {
        let note = format!("1 {now} 0 {patience} 0 1");
        ghost(&mut connection, &mut ear, id, &note).await;
    }
    holder.release(2).await.unwrap();
    // The near one takes its permit.
    let () = redis::pipe()
        .atomic()
        .cmd("DECR")
        .arg("recorded")
        .zrem(LINE, NEAR)
        .hdel(NOTES, NEAR)
        .ignore()
        .ignore()
        .ignore()
        .query_async(&mut connection)
        .await
        .unwrap();
    served(waits).await;
}

/// One that has waited for long and is far away has a second, and does not come.
#[tokio::test]
async fn who_has_told_one_that_has_a_second_looks_after_it() {
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let mut ear = pubsub(&server).await;
    let (holder, waits) = before_one_who_waits(&server, &mut connection, &mut ear).await;
    let now = now(&mut connection).await;
    let far = format!("1 {now} 0 {SECOND} 0 1");
    ghost_since(&mut connection, &mut ear, GHOST, now - 10 * SECOND, &far).await;
    holder.release(1).await.unwrap();
    served(waits).await;
}

/// Whoever has told the ghost looks whether it came; a client that is shut down does so for a moment only.
#[tokio::test]
async fn who_is_shut_down_does_not_look_for_ever_after_one_that_comes_again_and_again() {
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let client = Client::builder(server.url())
        .safety_interval(HOUR)
        .retry_window(Duration::from_secs(3))
        .connect()
        .await
        .unwrap();
    let semaphore = client.semaphore("recorded");
    let mut ear = two_permits_and_a_ghost(&server, &mut connection).await;
    hear_as_a_client(&mut ear).await;
    let mut ghost = server.connection().await;
    let ghost = tokio::spawn(async move {
        let own = format!("{LINE}:{GHOST}");
        let calls = ear.on_message();
        let mut calls = calls.filter(|message| ready(message.get_channel_name() == own));
        loop {
            // It has asked, and waits on.
            let now = now(&mut ghost).await;
            let came = (now - 5_000_000).to_string();
            stand(&mut ghost, GHOST.as_bytes(), &came).await;
            let note = format!("2 {now} 0 20000 0 1");
            write(&mut ghost, GHOST.as_bytes(), note.as_bytes()).await;
            calls.next().await.expect("it is called");
        }
    });
    let waiting = tokio::spawn(async move { semaphore.acquire(3).await });
    until("it stands in line", PATIENCE, async || {
        publish(&mut connection).await;
        let line: Vec<String> = connection.zrange(LINE, 0, -1).await.unwrap();
        line.iter().any(|id| id != GHOST)
    })
    .await;
    assert_eq!(client.shutdown().await, Ok(()));
    assert!(waiting.await.unwrap().is_err(), "it has been shut down");
    ghost.abort();
}

/// A client that has asked a moment ago, and freezes then, stops the line as long as its large request did.
#[tokio::test]
async fn who_stops_the_line_is_asked_again_and_again_whether_it_is_there() {
    let server = RedisServer::start().await;
    let clients = clients(&server).await;
    let mut connection = server.connection().await;
    clients[2].drain_permits().await.unwrap();
    let waiting = two_ask(&clients, 1);
    support::waiters::until_subscribers(&mut connection, "redisson_sc:{recorded}", 2).await;
    let ear = two_permits_and_a_ghost(&server, &mut connection).await;
    let mut told = ear.into_on_message();
    until("it is told", PATIENCE, async || {
        let time = now(&mut connection).await;
        // It has waited for hours, stops the line for half an hour, and was there just now.
        let (since, began, seen) = (time - 3_600_000_000, time - 200_000, time - 100_000);
        let note = format!("1000 {seen} 0 5000 {began} 1");
        stand(&mut connection, GHOST.as_bytes(), &since.to_string()).await;
        write(&mut connection, GHOST.as_bytes(), note.as_bytes()).await;
        publish(&mut connection).await;
        tokio::time::timeout(Duration::from_millis(50), told.next())
            .await
            .is_ok()
    })
    .await;
    for task in waiting {
        served(task).await;
    }
}

/// It would take a third of everybody's time for ever, if it stopped the line again and again.
#[tokio::test]
async fn who_has_stopped_the_line_in_vain_for_long_is_passed_for_minutes() {
    let server = RedisServer::start().await;
    let clients = clients(&server).await;
    let mut connection = server.connection().await;
    clients[2].drain_permits().await.unwrap();
    let waiting = two_ask(&clients, 1);
    support::waiters::until_subscribers(&mut connection, "redisson_sc:{recorded}", 2).await;
    let _ear = two_permits_and_a_ghost(&server, &mut connection).await;
    let time = now(&mut connection).await;
    let (since, began) = (time - 3_600_000_000, time - 25_000_000);
    let note = format!("1000 {time} 0 5000 {began} 1");
    stand(&mut connection, GHOST.as_bytes(), &since.to_string()).await;
    write(&mut connection, GHOST.as_bytes(), note.as_bytes()).await;
    publish(&mut connection).await;
    for task in waiting {
        served(task).await;
    }
    let note: String = connection.hget(NOTES, GHOST).await.unwrap();
    let passed_until: i64 = note.split(' ').nth(4).unwrap().parse().unwrap();
    let another_stops: i64 = connection.hget(NOTES, "=").await.unwrap();
    let seconds = |until: i64| (until - time) / 1_000_000;
    assert!((500..=660).contains(&seconds(passed_until)), "{note}");
    assert!(
        (1..=120).contains(&seconds(another_stops)),
        "{another_stops}"
    );
}

/// Those who would look first are frozen themselves.
#[tokio::test]
async fn those_who_stop_the_line_and_are_frozen_cost_the_others_moments() {
    const FROZEN: usize = 15;
    let server = RedisServer::start().await;
    let clients = clients(&server).await;
    let mut connection = server.connection().await;
    let mut ear = pubsub(&server).await;
    clients[2].drain_permits().await.unwrap();
    let waiting = two_ask(&clients, 1);
    support::waiters::until_subscribers(&mut connection, "redisson_sc:{recorded}", 2).await;
    let time = now(&mut connection).await;
    // They have waited for ten seconds, stop the line for another minute or so, and were there just now.
    for number in 0..FROZEN {
        let id = format!("{number:036}");
        let since = time - 10_000_000 - i64::try_from(number).unwrap();
        let note = format!("1000 {time} 0 5000 {} 1", time - 100_000);
        ghost_since(&mut connection, &mut ear, &id, since, &note).await;
    }
    let () = connection.set("recorded", 2).await.unwrap();
    let began = std::time::Instant::now();
    publish(&mut connection).await;
    for task in waiting {
        served(task).await;
    }
    // They would have stopped it for seven seconds.
    let waited = began.elapsed();
    assert!(waited < Duration::from_secs(4), "{waited:?}");
}

/// A lock is free that is kept for another client, by an order that may not be written down any more.
#[tokio::test]
async fn who_is_held_back_by_a_line_that_may_not_be_kept_takes_what_is_free() {
    const LOCK_LINE: &str = "redisson_lock_turns:{kept}";
    const CHANNEL: &str = "redisson_lock__channel:{kept}";
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let mut ear = pubsub(&server).await;
    for channel in [CHANNEL, LOCK_LINE, &format!("{LOCK_LINE}:{GHOST}")] {
        ear.subscribe(channel).await.unwrap();
    }
    let client = Client::builder(server.url()).safety_interval(HOUR);
    let client = client.connect().await.unwrap();
    let () = connection.hset("kept", "somebody:1", 1).await.unwrap();
    let () = connection.pexpire("kept", 3_600_000).await.unwrap();
    let waits = tokio::spawn({
        let lock = client.lock("kept");
        async move { lock.lock().await }
    });
    until("it stands in line", PATIENCE, async || {
        connection.zcard::<_, u64>(LOCK_LINE).await.unwrap() == 1
    })
    .await;
    let time = now(&mut connection).await;
    let () = connection
        .zadd(LOCK_LINE, GHOST, time - 5_000_000)
        .await
        .unwrap();
    let notes = "redisson_lock_turns_notes:{kept}";
    let () = connection.hset(notes, GHOST, note(1, time)).await.unwrap();
    set_user(&mut connection, &["default", "-zadd"]).await;
    let () = connection.del("kept").await.unwrap();
    let () = connection.publish(CHANNEL, "0").await.unwrap();
    served(waits).await;
}

/// A request for more than there was has gone: the next large one does not wait for its sake. Where it stopped the line until then, that
/// one does not begin at once all the same, or those who come and go would stop it all the time.
#[tokio::test]
async fn who_has_stopped_the_line_and_leaves_lets_others_stop_it_before_long() {
    // When it stops the line, or was to; when others may, as is noted; and when they may as soon as it has gone, all from now on.
    for (stops, noted, least, most) in [(30, 30, 0, 6), (-6, -60, 20, 60)] {
        let server = RedisServer::start().await;
        let clients = clients(&server).await;
        let mut connection = server.connection().await;
        // Somebody else listens to the end, and nobody looks.
        let mut ear = pubsub(&server).await;
        hear_as_a_client(&mut ear).await;
        clients[2].drain_permits().await.unwrap();
        let waiting = two_ask(&clients, PERMITS + 1);
        until_in_line(&mut connection, 2).await;
        let line: Vec<String> = connection.zrange(LINE, 0, 0).await.unwrap();
        let time = now(&mut connection).await;
        let note = format!("{} {time} 0 5000 {} 1", PERMITS + 1, time + stops * SECOND);
        // It has waited for so long that it goes on stopping the line whoever looks.
        let since = (time - 60 * SECOND).to_string();
        stand(&mut connection, line[0].as_bytes(), &since).await;
        write(&mut connection, line[0].as_bytes(), note.as_bytes()).await;
        let noted = time + noted * SECOND;
        let () = connection.hset(NOTES, "=", noted).await.unwrap();
        waiting.iter().for_each(JoinHandle::abort);
        until("they have left", PATIENCE, async || {
            in_line(&mut connection).await == 0
        })
        .await;
        let again: i64 = connection.hget(NOTES, "=").await.unwrap();
        let range = time + least * SECOND..=time + most * SECOND;
        assert!(range.contains(&again), "{}", again - time);
    }
}

/// So many take part, and hear what is for all: only a few of them would answer it.
async fn crowd_of_ears(server: &RedisServer) -> Vec<redis::aio::PubSub> {
    let mut ears = Vec::new();
    for _ in 0..200 {
        let mut ear = pubsub(server).await;
        hear_as_a_client(&mut ear).await;
        ears.push(ear);
    }
    ears
}

/// Behind hundreds of clients who want more than there is two stand in line who do not.
async fn behind_many_in_vain(
    clients: &[RSemaphore],
    connection: &mut MultiplexedConnection,
    ear: &mut redis::aio::PubSub,
) -> [JoinHandle<Result<()>>; 2] {
    const IN_VAIN: u64 = 700;
    let time = now(connection).await;
    for number in 0..IN_VAIN {
        let id = format!("{number:036}");
        // Passed for a while.
        let note = format!("1000 {time} 0 5000 {} 1", time + 30 * SECOND);
        ghost_since(connection, ear, &id, time, &note).await;
    }
    let () = connection
        .hset(NOTES, "=", time + 30 * SECOND)
        .await
        .unwrap();
    let others = in_line(connection).await;
    let waiting = two_ask(clients, 1);
    until_in_line(connection, others + 2).await;
    waiting
}

/// They are told by a few scripts, none of which reads all of the line, and nobody else is called.
async fn are_told(waiting: [JoinHandle<Result<()>>; 2], mut monitor: Monitor) {
    for task in waiting {
        served(task).await;
    }
    let commands = monitor.until_marker().await;
    let called = |command: &&Command| {
        command.name == "PUBLISH" && command.args[0] == LINE && command.args[1].starts_with('+')
    };
    assert_eq!(commands.iter().filter(called).count(), 0, "all are called");
    // One finds that something is free, two go on behind it, and each one asks; a few more see to it that those come who were told, the
    // more the slower the machine is.
    let scripts = commands.iter().filter(|command| command.name == "EVALSHA");
    let scripts = scripts.count();
    assert!((5..=40).contains(&scripts), "{scripts}");
}

#[tokio::test]
async fn who_releases_tells_those_behind_many_whom_it_does_not_do_for() {
    let server = RedisServer::start().await;
    let clients = clients(&server).await;
    let mut connection = server.connection().await;
    clients[2].drain_permits().await.unwrap();
    let mut ears = crowd_of_ears(&server).await;
    let waiting = behind_many_in_vain(&clients, &mut connection, &mut ears[0]).await;
    // Who has had to wait itself knows of the others.
    let others = in_line(&mut connection).await;
    let moment = Duration::from_millis(1);
    assert!(!clients[2].try_acquire_for(1, moment).await.unwrap());
    until_in_line(&mut connection, others).await;
    let monitor = Monitor::start(&server).await;
    clients[2].release(2).await.unwrap();
    are_told(waiting, monitor).await;
}

#[tokio::test]
async fn who_hears_of_a_release_tells_those_behind_many_whom_it_does_not_do_for() {
    let server = RedisServer::start().await;
    let clients = clients(&server).await;
    let mut connection = server.connection().await;
    clients[2].drain_permits().await.unwrap();
    let mut ears = crowd_of_ears(&server).await;
    let first = clients[2].clone();
    let first = tokio::spawn(async move { first.acquire(2 * PERMITS).await });
    until_in_line(&mut connection, 1).await;
    let waiting = behind_many_in_vain(&clients, &mut connection, &mut ears[0]).await;
    let monitor = Monitor::start(&server).await;
    release_as_redisson(&mut connection, "recorded", 2).await;
    are_told(waiting, monitor).await;
    first.abort();
}

/// Its message is for everybody, as it knows of no line; the first of those who wait are to answer that, and are frozen.
#[tokio::test]
async fn who_releases_and_knows_of_nobody_finds_out_who_waits() {
    let server = RedisServer::start().await;
    let clients = clients(&server).await;
    let mut connection = server.connection().await;
    clients[2].drain_permits().await.unwrap();
    let mut ears = crowd_of_ears(&server).await;
    for number in 0..3 {
        let (id, time) = (format!("{number:036}"), now(&mut connection).await);
        ghost(&mut connection, &mut ears[0], &id, &note(1, time)).await;
    }
    let waits = tokio::spawn({
        let client = clients[0].clone();
        async move { client.acquire(1).await }
    });
    until_in_line(&mut connection, 4).await;
    let mut monitor = Monitor::start(&server).await;
    clients[2].release(1).await.unwrap();
    served(waits).await;
    let commands = monitor.until_marker().await;
    // Whoever asks may have looked by itself.
    let looked = |command: &Command| {
        let is = |word: &str| command.args.iter().any(|arg| arg == word);
        command.name == "EVALSHA" && is(LINE) && !is("acquire_in_turn")
    };
    assert!(commands.iter().any(looked), "the other one has not");
}

/// Where nobody else waits any more there is no line to stand in.
#[tokio::test]
async fn who_is_served_when_nobody_else_listens_leaves_no_place_behind() {
    let server = RedisServer::start().await;
    let clients = clients(&server).await;
    let mut connection = server.connection().await;
    clients[2].drain_permits().await.unwrap();
    let waiting = two_ask(&clients, 1);
    until_in_line(&mut connection, 2).await;
    let [first, second] = waiting;
    first.abort();
    support::waiters::until_subscribers(&mut connection, "redisson_sc:{recorded}", 1).await;
    clients[2].release(1).await.unwrap();
    second.await.unwrap().unwrap();
    assert_eq!(in_line(&mut connection).await, 0);
}

/// A JVM hears of a release although all clients that keep turns are told in another way; who is one of them does not.
#[tokio::test]
async fn messages_are_for_those_who_do_not_take_part() {
    let server = RedisServer::start().await;
    let clients = clients(&server).await;
    let mut connection = server.connection().await;
    clients[2].drain_permits().await.unwrap();
    let [first, second, knows] = [0, 1, 2].map(|number: usize| {
        let client = clients[number].clone();
        tokio::spawn(async move { client.acquire(1).await.unwrap() })
    });
    until_in_line(&mut connection, 3).await;
    // It has heard that others listen.
    knows.abort();
    until("one has left", PATIENCE, async || {
        in_line(&mut connection).await == 2
    })
    .await;
    let waiting = [first, second];
    let served = async |count: usize| {
        until("they are served", PATIENCE, async || {
            waiting.iter().filter(|task| task.is_finished()).count() == count
        })
        .await;
    };
    let mut messages = Channel::pattern(&server, "redisson_sc:*").await;
    clients[2].release(1).await.unwrap();
    served(1).await;
    let heard = messages.until_marker().await;
    assert!(heard.is_empty(), "{heard:?}");
    let _jvm = Channel::subscribe(&server, "redisson_sc:{recorded}").await;
    clients[2].release(1).await.unwrap();
    assert_eq!(messages.next().await.payload, "+1");
    served(2).await;
}

/// Who may not stand in the line hears nothing of it: it looks at each message, as those without turns do.
#[tokio::test]
async fn where_no_line_may_be_kept_messages_are_for_everybody() {
    let server = RedisServer::start().await;
    let clients = clients(&server).await;
    let mut connection = server.connection().await;
    clients[2].drain_permits().await.unwrap();
    set_user(&mut connection, &["default", "-zadd"]).await;
    let waiting = two_ask(&clients, 1);
    until("both have left its channels", PATIENCE, async || {
        publish(&mut connection).await;
        let listeners =
            async |channel| support::waiters::subscribers(&mut connection.clone(), channel).await;
        listeners("redisson_sc:{recorded}").await == 2 && listeners(LINE).await == 0
    })
    .await;
    for _ in 0..2 {
        let () = redis::cmd("INCR")
            .arg("recorded")
            .query_async(&mut connection)
            .await
            .unwrap();
    }
    let () = redis::cmd("PUBLISH")
        .arg(&["redisson_sc:{recorded}", "+2"])
        .query_async(&mut connection)
        .await
        .unwrap();
    for task in waiting {
        served(task).await;
    }
}

/// What is of another type in the place of one of them is nobody's.
#[tokio::test]
async fn a_key_of_another_type_is_out_of_the_way_before_long() {
    for key in [LINE, NOTES] {
        let server = RedisServer::start().await;
        let clients = clients(&server).await;
        let mut connection = server.connection().await;
        clients[2].drain_permits().await.unwrap();
        let () = connection.set(key, "7").await.unwrap();
        let waiting = [&clients[0], &clients[1]].map(|client| {
            let client = client.clone();
            tokio::spawn(async move { client.acquire(1).await.unwrap() })
        });
        until("both stand in line", PATIENCE, async || {
            publish(&mut connection).await;
            // Until then it is an error.
            let standing: redis::RedisResult<u64> = connection.zcard(LINE).await;
            standing.is_ok_and(|standing| standing == 2)
        })
        .await;
        clients[2].release(2).await.unwrap();
        for task in waiting {
            tokio::time::timeout(PATIENCE, task)
                .await
                .expect("served")
                .unwrap();
        }
    }
}

/// Returns when so many clients stand in line.
async fn until_in_line(connection: &mut MultiplexedConnection, count: u64) {
    until(&format!("{count} stand in line"), PATIENCE, async || {
        publish(connection).await;
        in_line(connection).await == count
    })
    .await;
}

/// How many clients stand in line.
async fn in_line(connection: &mut MultiplexedConnection) -> u64 {
    redis::cmd("ZCARD")
        .arg(LINE)
        .query_async(connection)
        .await
        .unwrap()
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
async fn who_gives_up_waiting_leaves_the_line() {
    for noted in [true, false] {
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
        until_in_line(&mut connection, 2).await;
        // What is under way would take it along: it comes to rest before.
        for _ in 0..2 {
            clients[0].available_permits().await.unwrap();
        }
        if !noted {
            let () = connection.del(NOTES).await.unwrap();
        }
        waiting[0].abort();
        until("one has left", PATIENCE, async || {
            in_line(&mut connection).await == 1
        })
        .await;
        waiting[1].abort();
    }
}

#[tokio::test]
async fn who_is_held_back_comes_in_the_end_whatever_else_its_client_does() {
    let server = RedisServer::start().await;
    let clients = clients(&server).await;
    let mut connection = server.connection().await;
    clients[2].drain_permits().await.unwrap();
    let waiting = two_ask(&clients, 1);
    until_in_line(&mut connection, 2).await;
    let _ear = two_permits_and_a_ghost(&server, &mut connection).await;
    publish(&mut connection).await;
    // Both look, are held back, and are asked all the time what is free.
    until("both are served", PATIENCE, async || {
        clients[0].available_permits().await.unwrap();
        clients[1].available_permits().await.unwrap();
        waiting.iter().all(|task| task.is_finished())
    })
    .await;
}

#[tokio::test]
async fn of_a_long_line_the_first_few_are_read() {
    let server = RedisServer::start().await;
    let clients = clients(&server).await;
    let mut connection = server.connection().await;
    let time = now(&mut connection).await;
    for number in 0..500 {
        // They come later than all others.
        let member = format!("{number:036}");
        stand(
            &mut connection,
            member.as_bytes(),
            &(time + 3_600_000_000).to_string(),
        )
        .await;
        write(&mut connection, member.as_bytes(), note(1, time).as_bytes()).await;
    }
    let crowds = crowds(&clients);
    let mut monitor = Monitor::start(&server).await;
    for crowd in &crowds {
        crowd.until_served(100).await;
    }
    let commands = monitor.until_marker().await;
    for crowd in crowds {
        crowd.stop().await;
    }
    let reads: Vec<_> = commands
        .iter()
        .filter(|command| command.name == "ZRANGE" && command.args[0] == LINE)
        .collect();
    assert!(!reads.is_empty());
    // One after the other; there are three permits, and three clients that stand before the others.
    let far = reads
        .iter()
        .filter(|command| command.args[1].len() > 1 || command.args[2].len() > 1)
        .count();
    assert!(10 * far < reads.len(), "{far} of {}", reads.len());
}
