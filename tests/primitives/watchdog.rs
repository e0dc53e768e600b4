//! The permits of guards stand in the grants of their semaphore, come back when their client is gone, and only then.

use std::time::Duration;

use crate::support::clients::stored;
use crate::support::monitor::Monitor;
use crate::support::proxy::{Fate, LOST_REPLIES, Proxy};
use crate::support::server::RedisServer;
use crate::support::waiters::{until, until_queued, waiter};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, ClientBuilder, Error, RSemaphore};
use tokio::time::timeout;

const NAME: &str = "seats";
const GRANTS: &str = "redisson_sc_grants:{seats}";
const LIMIT: Duration = Duration::from_secs(20);
const HOUR: Duration = Duration::from_secs(3600);

fn builder(url: String) -> ClientBuilder {
    Client::builder(url)
        .response_timeout(Duration::from_millis(300))
        .retry_window(Duration::from_secs(10))
        .safety_interval(HOUR)
}

/// A client whose permits come back after `time_out`.
async fn connect(url: String, time_out: Duration) -> Client {
    let builder = builder(url).lock_watchdog_timeout(time_out);
    builder.connect().await.expect("the server runs")
}

/// Ends all leases, by the server's clock.
async fn end_all_times(redis: &mut MultiplexedConnection) {
    let entries: Vec<String> = redis.zrange(GRANTS, 0, -1).await.unwrap();
    for entry in entries {
        let () = redis.zadd(GRANTS, entry, 1).await.unwrap();
    }
}

async fn watched(server: &RedisServer) -> (Client, RSemaphore, MultiplexedConnection) {
    let client = connect(server.url(), HOUR).await;
    let seats = client.semaphore(NAME).watched();
    (client, seats, server.connection().await)
}

/// The counter, and the permits in the grants.
async fn books(server: &RedisServer) -> (i64, i64) {
    let counter = stored(server, NAME).await;
    let counter = counter.first().map_or(0, |text| text.parse().unwrap());
    let entries = server.connection().await.zrange(GRANTS, 0, -1).await;
    let entries: Vec<String> = entries.unwrap();
    let permits = |entry: &String| entry.split(':').nth(2).unwrap().parse::<i64>().unwrap();
    (counter, entries.iter().map(permits).sum())
}

async fn until_books(server: &RedisServer, expected: (i64, i64)) {
    until(&format!("{expected:?}"), LIMIT, async || {
        books(server).await == expected
    })
    .await;
}

/// What the guard of a client holds whose number this is.
fn entry(client: u64, permits: i64) -> String {
    format!("00000000-0000-4000-8000-{client:012}:g1:{permits}:500:the%20late%20one")
}

/// The guard of a client that died holds permits, and its lease has ended.
async fn bury(redis: &mut MultiplexedConnection, client: u64, permits: i64) {
    let entry = entry(client, permits);
    let () = redis.zadd(GRANTS, entry, 1).await.unwrap();
}

/// The same; the lease ends in `left` by the server's clock.
async fn kill(redis: &mut MultiplexedConnection, client: u64, permits: i64, left: Duration) {
    let (seconds, micros): (u64, u64) = redis::cmd("TIME").query_async(redis).await.unwrap();
    let ends = u128::from(seconds * 1_000_000 + micros) + left.as_micros();
    let entry = entry(client, permits);
    let () = redis.zadd(GRANTS, entry, ends.to_string()).await.unwrap();
}

#[tokio::test]
async fn the_limit_is_set_with_what_guards_hold() {
    let server = RedisServer::start().await;
    let (_client, seats, mut redis) = watched(&server).await;
    let other = connect(server.url(), HOUR).await;
    let again = other.semaphore(NAME);
    seats.set_permits(10).await.unwrap();
    assert_eq!(books(&server).await, (10, 0));
    let () = redis.pexpire(NAME, 3_600_000).await.unwrap();
    let three = seats.permit(3).await.unwrap();

    // Several processes deploy the same limit.
    let (one, two) = tokio::join!(seats.set_permits(8), again.set_permits(8));
    one.and(two).unwrap();
    assert_eq!(books(&server).await, (5, 3));
    again.set_permits(2).await.unwrap();
    assert_eq!(books(&server).await, (-1, 3));
    assert!(again.try_permit(1).await.unwrap().is_none());
    three.release().await.unwrap();
    assert_eq!(books(&server).await, (2, 0));
    assert!(redis.pttl::<_, i64>(NAME).await.unwrap() > 0);

    // A waiter is served by it.
    let taken = seats.permit(2).await.unwrap();
    let waiting = waiter(&mut redis, &again, 1).await;
    seats.set_permits(4).await.unwrap();
    waiting.await.unwrap().unwrap();
    // A permit without a guard counts as available.
    assert_eq!(books(&server).await, (1, 2));
    again.set_permits(4).await.unwrap();
    assert_eq!(books(&server).await, (2, 2));
    taken.release().await.unwrap();

    let refused = seats.set_permits(u32::MAX).await.unwrap_err();
    assert!(matches!(refused, Error::InvalidPermits { .. }), "{refused}");
}

#[tokio::test]
async fn guards_give_nothing_to_a_semaphore_that_was_made_anew() {
    let server = RedisServer::start().await;
    let (_client, seats, mut redis) = watched(&server).await;
    for make in ["try_set_permits", "set_permits", "add_permits", "release"] {
        seats.set_permits(3).await.unwrap();
        let held = seats.permit(3).await.unwrap();
        let () = redis.del(NAME).await.unwrap();
        match make {
            "try_set_permits" => assert!(seats.try_set_permits(10).await.unwrap()),
            "set_permits" => seats.set_permits(10).await.unwrap(),
            "add_permits" => seats.add_permits(10).await.unwrap(),
            _ => seats.release(10).await.unwrap(),
        }
        let after = seats.permit(1).await.unwrap();
        let lost = held.release().await.unwrap_err();
        assert!(matches!(lost, Error::NotHeld { .. }), "{lost}");
        assert_eq!(books(&server).await, (9, 1), "{make}");
        after.release().await.unwrap();
        assert_eq!(books(&server).await, (10, 0), "{make}");
        assert!(seats.delete().await.unwrap());
    }
}

#[tokio::test]
async fn permits_of_guards_stand_in_the_grants() {
    let server = RedisServer::start().await;
    let (client, seats, mut redis) = watched(&server).await;
    seats.try_set_permits(10).await.unwrap();
    assert!(seats.holders().await.unwrap().is_empty());

    let mut three = seats.permit(3).await.unwrap();
    assert_eq!(books(&server).await, (7, 3));
    let two = seats.try_permit(2).await.unwrap().expect("there are 7");
    let one = seats.permit_for(1, LIMIT).await.unwrap().expect("one of 5");
    assert_eq!(books(&server).await, (4, 6));
    let holders = seats.holders().await.unwrap();
    let [holder] = &*holders else {
        panic!("{holders:?}")
    };
    assert_eq!((holder.client_id(), holder.permits()), (client.id(), 6));

    // Split and merged it is still the same.
    let split = three.split(1).unwrap();
    three.merge(two);
    assert_eq!((three.permits(), split.permits()), (4, 1));
    assert_eq!(books(&server).await, (4, 6));
    split.release().await.unwrap();
    assert_eq!(books(&server).await, (5, 5));
    drop(one);
    until_books(&server, (6, 4)).await;

    // What no guard holds is nobody's.
    seats.acquire(2).await.unwrap();
    assert_eq!(books(&server).await, (4, 4));
    assert_eq!(three.forget(), 4);
    until_books(&server, (4, 0)).await;
    seats.release(6).await.unwrap();
    assert_eq!(books(&server).await, (10, 0));
    let none = seats.permit(0).await.unwrap();
    let mut some = seats.permit(1).await.unwrap();
    assert_eq!(seats.drain_permits().await.unwrap(), 9);
    assert_eq!(books(&server).await, (0, 1));
    some.merge(none);
    some.release().await.unwrap();

    // The release of a guard does not make a semaphore that was deleted.
    let held = seats.permit(1).await.unwrap();
    assert!(seats.delete().await.unwrap());
    held.release().await.unwrap();
    assert_eq!(books(&server).await, (0, 0));
    assert!(!seats.exists().await.unwrap());
    client.shutdown().await.unwrap();
    let left: bool = redis.exists(GRANTS).await.unwrap();
    assert!(!left, "grants of nothing");
}

/// A part that is given back renews the rest: a guard that is given back in many parts has no time for renewals of its own.
#[tokio::test]
async fn what_is_left_of_a_guard_is_renewed_with_each_part() {
    let server = RedisServer::start().await;
    let client = connect(server.url(), HOUR).await;
    let seats = client.semaphore(NAME);
    seats.try_set_permits(10).await.unwrap();
    let mut redis = server.connection().await;
    let mut guard = seats.permit(10).await.unwrap();
    for left in [9, 8, 7] {
        let held: Vec<(String, f64)> = redis.zrange_withscores(GRANTS, 0, -1).await.unwrap();
        let (entry, ends) = &held[0];
        // It has all but ended.
        let sooner = ends - 3590e6;
        let () = redis.zadd(GRANTS, entry, sooner).await.unwrap();
        guard.split(1).unwrap().release().await.unwrap();
        assert_eq!(books(&server).await, (10 - left, left));
        let held: Vec<(String, f64)> = redis.zrange_withscores(GRANTS, 0, -1).await.unwrap();
        assert!(held[0].1 >= *ends, "it was not renewed: {held:?}");
    }
    assert!(!guard.is_lost());
}

#[tokio::test]
async fn unwatched_guard_stands_in_no_grants() {
    let server = RedisServer::start().await;
    let client = connect(server.url(), HOUR).await;
    for seats in [
        client.semaphore(NAME).unwatched(),
        client.semaphore(NAME).watched().unwatched(),
    ] {
        seats.delete().await.unwrap();
        seats.try_set_permits(5).await.unwrap();
        let two = seats.permit(2).await.unwrap();
        let one = seats.permit_for(1, LIMIT).await.unwrap().expect("one of 3");
        assert_eq!(books(&server).await, (2, 0));
        assert!(seats.holders().await.unwrap().is_empty());
        two.release().await.unwrap();
        assert_eq!(one.forget(), 1);
        assert_eq!(books(&server).await, (4, 0));
    }
    let off = builder(server.url()).watch_semaphores(false);
    let off = off.connect().await.unwrap().semaphore(NAME);
    let held = off.permit(1).await.unwrap();
    assert_eq!(books(&server).await, (3, 0));
    held.release().await.unwrap();
}

#[tokio::test]
async fn permits_of_dead_guards_come_back_to_a_waiter() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = connect(server.url(), HOUR).await;
    let seats = client.semaphore(NAME);
    seats.try_set_permits(0).await.unwrap();
    kill(&mut redis, 1, 2, Duration::from_secs(1)).await;
    kill(&mut redis, 2, 1, Duration::from_secs(2)).await;
    let waiting = waiter(&mut redis, &seats, 3).await;
    timeout(LIMIT, waiting).await.unwrap().unwrap().unwrap();
    assert_eq!(books(&server).await, (0, 0));
    assert!(!redis.exists::<_, bool>(GRANTS).await.unwrap());
}

#[tokio::test]
async fn the_dead_give_back_once_however_many_look() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    // A client that had set them would announce them, and find some of the dead by that.
    let () = redis.set(NAME, 100).await.unwrap();
    kill(&mut redis, 1_000, 5, HOUR).await;
    for round in 0..5 {
        for number in 0..200 {
            bury(&mut redis, number, 2).await;
        }
        let mut looking = Vec::new();
        for _ in 0..6 {
            // A repeated call would not count what its first copy has found.
            let client = builder(server.url()).response_timeout(LIMIT);
            let seats = client.connect().await.unwrap().semaphore(NAME);
            looking.push(tokio::spawn(async move { seats.reclaim().await }));
        }
        let mut found = 0;
        for look in looking {
            found += look.await.unwrap().unwrap().len();
        }
        assert_eq!(found, 200);
        assert_eq!(books(&server).await, (100 + 400 * (round + 1), 5));
    }
}

/// Whichever comes first gives back, and the other one finds nothing.
#[tokio::test]
async fn a_release_and_a_reclaim_at_once_give_back_once() {
    const ROUNDS: usize = 40;
    let server = RedisServer::start().await;
    let (_client, near, mut redis) = watched(&server).await;
    near.try_set_permits(4).await.unwrap();
    // The server knows the scripts then.
    near.permit(1).await.unwrap().release().await.unwrap();
    near.reclaim().await.unwrap();
    let proxy = Proxy::start(&server).await;
    let far = connect(proxy.url(), HOUR).await.semaphore(NAME).watched();

    // The release arrives when others have given back, and is asked about before that.
    let guard = far.permit(2).await.unwrap();
    let struck = proxy.struck();
    proxy.at_script(1, Fate::HoldRequest);
    let release = tokio::spawn(guard.release());
    proxy.until_struck(struck + 1).await;
    end_all_times(&mut redis).await;
    let dead = near.reclaim().await.unwrap();
    assert_eq!(dead.iter().map(|dead| dead.permits()).sum::<u64>(), 2);
    let late = timeout(LIMIT, release).await.unwrap().unwrap().unwrap_err();
    assert!(matches!(late, Error::NotHeld { .. }), "{late}");
    proxy.deliver(1).await;
    assert_eq!(books(&server).await, (4, 0));

    // It has been carried out, and its client, whose time is up, does not know it yet.
    for fate in LOST_REPLIES {
        let guard = far.permit(2).await.unwrap();
        let struck = proxy.struck();
        proxy.at_script(1, fate);
        let release = tokio::spawn(guard.release());
        proxy.until_struck(struck + 1).await;
        until_books(&server, (4, 0)).await;
        end_all_times(&mut redis).await;
        assert_eq!(near.reclaim().await.unwrap(), []);
        let told = timeout(LIMIT, release).await.unwrap().unwrap();
        assert!(
            matches!(told, Ok(()) | Err(Error::NotHeld { .. })),
            "{told:?}"
        );
        assert_eq!(books(&server).await, (4, 0));
    }

    // In any order, beside a release of each way.
    for round in 0..ROUNDS {
        let (one, two) = (far.permit(1).await.unwrap(), far.permit(2).await.unwrap());
        end_all_times(&mut redis).await;
        let (given, ()) = tokio::join!(near.reclaim(), async {
            if round % 2 == 0 {
                tokio::task::yield_now().await;
            }
            drop(two);
            if let Err(error) = one.release().await {
                assert!(matches!(error, Error::NotHeld { .. }), "{error}");
            }
        });
        let given: u64 = given.unwrap().iter().map(|dead| dead.permits()).sum();
        assert!(given <= 3, "{given}");
        until_books(&server, (4, 0)).await;
    }
}

#[tokio::test]
async fn guards_whose_grants_are_deleted_are_lost() {
    let server = RedisServer::start().await;
    let (_client, seats, mut redis) = watched(&server).await;
    seats.try_set_permits(4).await.unwrap();
    let held = seats.permit(1).await.unwrap();
    let (mut early, other) = (
        seats.permit(1).await.unwrap(),
        seats.permit(1).await.unwrap(),
    );
    // Another client has reclaimed them, as after a step of the server's clock.
    let () = redis.del(GRANTS).await.unwrap();
    let () = redis.set(NAME, 4).await.unwrap();
    let late = seats.try_permit(1).await.unwrap().expect("there are 4");
    assert!(!late.is_lost());
    assert_eq!(books(&server).await, (3, 1));
    let lost = held.release().await.unwrap_err();
    assert!(matches!(lost, Error::NotHeld { .. }), "{lost}");
    drop(other);
    assert_eq!(books(&server).await, (3, 1));
    // One half of it is held.
    early.merge(late);
    let lost = early.release().await.unwrap_err();
    assert!(matches!(lost, Error::NotHeld { .. }), "{lost}");
    assert_eq!(books(&server).await, (4, 0));

    // A renewal finds it.
    let client = connect(server.url(), Duration::from_millis(600)).await;
    let held = client.semaphore(NAME).watched().permit(1).await.unwrap();
    let () = redis.del(GRANTS).await.unwrap();
    timeout(LIMIT, held.lost()).await.expect("its renewal");
}

/// A failover loses the last writes: counter and grants change together, so they are lost together.
#[tokio::test]
async fn failover_without_the_last_writes_keeps_the_sum() {
    let server = RedisServer::start().await;
    let (_client, seats, mut redis) = watched(&server).await;
    seats.try_set_permits(6).await.unwrap();
    let first = seats.permit(1).await.unwrap();
    let second = seats.permit(2).await.unwrap();
    let earlier = dump(&mut redis).await;
    second.release().await.unwrap();
    restore(&mut redis, &earlier).await;
    assert_eq!(books(&server).await, (3, 3), "nobody holds two of them");
    let third = seats.permit(1).await.unwrap();
    assert_eq!(books(&server).await, (2, 4));

    // An acquisition is lost.
    let earlier = dump(&mut redis).await;
    let fourth = seats.permit(2).await.unwrap();
    restore(&mut redis, &earlier).await;
    assert_eq!(books(&server).await, (2, 4), "but two more are held");
    let lost = fourth.release().await.unwrap_err();
    assert!(matches!(lost, Error::NotHeld { .. }), "{lost}");
    assert!(!first.is_lost() && !third.is_lost());
    first.release().await.unwrap();
    third.release().await.unwrap();
    // The second one, whose release was lost, is not renewed.
    assert_eq!(books(&server).await, (4, 2));
    end_all_times(&mut redis).await;
    let dead = seats.reclaim().await.unwrap();
    assert_eq!(dead.iter().map(|dead| dead.permits()).sum::<u64>(), 2);
    assert_eq!(books(&server).await, (6, 0));
}

type Dump = Vec<(&'static str, Option<Vec<u8>>)>;

async fn dump(redis: &mut MultiplexedConnection) -> Dump {
    let mut all = Vec::new();
    for key in [NAME, GRANTS] {
        let content = redis::cmd("DUMP")
            .arg(key)
            .query_async(redis)
            .await
            .unwrap();
        all.push((key, content));
    }
    all
}

async fn restore(redis: &mut MultiplexedConnection, dump: &Dump) {
    for (key, content) in dump {
        let () = redis.del(key).await.unwrap();
        if let Some(content) = content {
            let mut restore = redis::cmd("RESTORE");
            restore.arg(key).arg(0).arg(&content[..]);
            let () = restore.query_async(redis).await.unwrap();
        }
    }
}

#[tokio::test]
async fn guards_of_ninety_semaphores_are_renewed_together() {
    const SEMAPHORES: usize = 90;
    let server = RedisServer::start().await;
    let period = Duration::from_secs(1);
    // A script that is answered late would be sent again, and counted twice.
    let client = builder(server.url()).response_timeout(LIMIT);
    let client = client.lock_watchdog_timeout(3 * period);
    let client = client.connect().await.unwrap();
    let (mut held, taking) = (Vec::new(), tokio::time::Instant::now());
    for number in 0..SEMAPHORES {
        let seats = client.semaphore(&format!("s{number}")).watched();
        seats.try_set_permits(1).await.unwrap();
        held.push(seats.permit(1).await.unwrap());
    }
    let taken = taking.elapsed();
    // The first time the server does not know the script, which is sent twice then.
    let mut redis = server.connection().await;
    let key = "redisson_sc_grants:{s0}";
    let mut ends =
        async || -> Vec<(String, f64)> { redis.zrange_withscores(key, 0, -1).await.unwrap() };
    let first = ends().await;
    until("they are put off", LIMIT, async || ends().await != first).await;
    let began = tokio::time::Instant::now();
    let mut monitor = Monitor::start(&server).await;
    tokio::time::sleep(4 * period).await;
    let commands = monitor.until_marker().await;
    let sent = commands.iter().filter(|one| one.is_script()).count();
    let periods = began.elapsed().as_secs_f64() / period.as_secs_f64();
    // Those that were taken within a tenth of a period are renewed by one script.
    let groups = 1.0 + taken.as_secs_f64() / (period / 10).as_secs_f64();
    assert!(
        sent >= 2 && (sent as f64) <= groups * (periods + 1.0),
        "{sent} in {periods}, taken in {taken:?}"
    );
    assert!(held.iter().all(|guard| !guard.is_lost()));
}

/// A lease begins with what is granted, not with the first time that nothing was.
#[tokio::test]
async fn who_has_waited_long_has_a_whole_lease_before_it() {
    const TIME_OUT: Duration = Duration::from_secs(3);
    let server = RedisServer::start().await;
    let client = connect(server.url(), TIME_OUT).await;
    let seats = client.semaphore(NAME).watched();
    seats.try_set_permits(0).await.unwrap();
    let waiting = seats.clone();
    let waiting = tokio::spawn(async move { waiting.permit(1).await });
    until_queued(&mut server.connection().await, NAME, 1).await;
    // All but the last third, in which nothing was put off.
    tokio::time::sleep(TIME_OUT * 3 / 4).await;
    seats.release(1).await.unwrap();
    let held = waiting.await.unwrap().unwrap();
    let lost = timeout(TIME_OUT * 2, held.lost()).await;
    assert!(lost.is_err(), "its process lives");
    held.release().await.unwrap();
    assert_eq!(books(&server).await, (1, 0));
}
