//! The permits of guards stand in the grants of their semaphore, come back when their client is gone, and only then.

use std::time::Duration;

use crate::support::clients::{start_controlled, stored};
use crate::support::proxy::{Fate, LOST_REPLIES, Proxy};
use crate::support::server::RedisServer;
use crate::support::waiters::{until, until_passed, until_queued, waiter};
use futures::future::join_all;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, ClientBuilder, Error, PermitHolder, RSemaphore};
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

/// The guard of a client that died holds permits. `ends` is 1 for a lease that has ended.
async fn bury(redis: &mut MultiplexedConnection, client: u64, permits: i64, ends: u64) {
    let entry = format!("00000000-0000-4000-8000-{client:012}:g1:{permits}:500:the%20late%20one");
    let () = redis.zadd(GRANTS, entry, ends).await.unwrap();
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

    // A renewal finds it: its lease would last for longer than the test waits.
    let client = connect(server.url(), LIMIT * 3 / 2).await;
    let held = client.semaphore(NAME).watched().permit(1).await.unwrap();
    let () = redis.del(GRANTS).await.unwrap();
    timeout(LIMIT, held.lost()).await.expect("its renewal");
}

/// Split, merged, forgotten, given back: only what guards hold counts as held.
#[tokio::test]
async fn holders_are_told_by_what_their_guards_hold() {
    let server = RedisServer::start().await;
    let (client, seats, _) = watched(&server).await;
    seats.try_set_permits(10).await.unwrap();
    assert!(seats.holders().await.unwrap().is_empty());
    let mut three = seats.permit(3).await.unwrap();
    let two = seats.try_permit(2).await.unwrap().expect("there are 7");
    let one = seats.permit_for(1, LIMIT).await.unwrap().expect("one of 5");
    assert_eq!(books(&server).await, (4, 6));
    let holders = seats.holders().await.unwrap();
    let [holder] = &*holders else {
        panic!("{holders:?}")
    };
    assert_eq!((holder.client_id(), holder.permits()), (client.id(), 6));

    let split = three.split(1).unwrap();
    three.merge(two);
    split.release().await.unwrap();
    assert_eq!(books(&server).await, (5, 5));
    drop(one);
    until_books(&server, (6, 4)).await;
    seats.acquire(2).await.unwrap();
    assert_eq!(three.forget(), 4);
    until_books(&server, (4, 0)).await;

    // The release of a guard does not make a semaphore that was deleted.
    let held = seats.permit(1).await.unwrap();
    assert!(seats.delete().await.unwrap());
    held.release().await.unwrap();
    assert!(!seats.exists().await.unwrap());
    assert_eq!(books(&server).await, (0, 0));

    // Nobody looks after the permits of an unwatched guard.
    let off = builder(server.url()).watch_semaphores(false);
    let off = off.connect().await.unwrap().semaphore(NAME);
    for seats in [seats.unwatched(), off] {
        seats.delete().await.unwrap();
        seats.try_set_permits(5).await.unwrap();
        let two = seats.permit(2).await.unwrap();
        assert_eq!(books(&server).await, (3, 0));
        assert!(seats.holders().await.unwrap().is_empty());
        two.release().await.unwrap();
        assert_eq!(books(&server).await, (5, 0));
    }
}

/// A part that is given back renews the rest: a guard that is given back in many parts has no time for renewals of its own.
#[tokio::test]
async fn what_is_left_of_a_guard_is_renewed_with_each_part() {
    let server = RedisServer::start().await;
    let (_client, seats, mut redis) = watched(&server).await;
    seats.try_set_permits(10).await.unwrap();
    let mut guard = seats.permit(10).await.unwrap();
    let mut held = async || -> Vec<(String, f64)> {
        let held = redis.zrange_withscores(GRANTS, 0, -1);
        held.await.unwrap()
    };
    let mut control = server.connection().await;
    for left in [9, 8] {
        let (entry, ends) = held().await.remove(0);
        // It has all but ended.
        let () = control.zadd(GRANTS, entry, ends - 3590e6).await.unwrap();
        guard.split(1).unwrap().release().await.unwrap();
        assert_eq!(books(&server).await, (10 - left, left));
        assert!(held().await[0].1 >= ends, "it was not renewed");
    }
    assert!(!guard.is_lost());
}

#[tokio::test]
async fn what_is_left_of_a_guard_outlasts_its_lease() {
    const LEASE: Duration = Duration::from_secs(3);
    let server = RedisServer::start().await;
    let client = connect(server.url(), LEASE).await;
    let seats = client.semaphore(NAME).watched();
    seats.try_set_permits(3).await.unwrap();
    let mut rest = seats.permit(3).await.unwrap();
    rest.split(1).unwrap().release().await.unwrap();
    assert!(timeout(3 * LEASE, rest.lost()).await.is_err());
    assert_eq!(books(&server).await, (1, 2));
}

#[tokio::test]
async fn the_dead_give_back_once_however_many_look() {
    let (server, mut redis) = start_controlled().await;
    // A client that had set them would announce them, and find some of the dead by that.
    let () = redis.set(NAME, 100).await.unwrap();
    bury(&mut redis, 1_000, 5, 1 << 52).await;
    for round in 0..5 {
        for number in 0..200 {
            bury(&mut redis, number, 2, 1).await;
        }
        // A repeated call would not count what its first copy has found.
        let looking = (0..6).map(async |_| {
            let client = builder(server.url()).response_timeout(LIMIT);
            let client = client.connect().await.unwrap();
            client.semaphore(NAME).reclaim().await.unwrap().len()
        });
        let found = join_all(looking).await;
        assert_eq!(found.iter().sum::<usize>(), 200);
        assert_eq!(books(&server).await, (100 + 400 * (round + 1), 5));
    }
}

/// Whichever comes first gives back, and the other one finds nothing.
#[tokio::test]
async fn a_release_and_a_reclaim_at_once_give_back_once() {
    let server = RedisServer::start().await;
    let (_client, near, mut redis) = watched(&server).await;
    near.try_set_permits(4).await.unwrap();
    // The server knows the scripts then.
    near.permit(1).await.unwrap().release().await.unwrap();
    near.reclaim().await.unwrap();
    let proxy = Proxy::start(&server).await;
    let far = connect(proxy.url(), HOUR).await.semaphore(NAME).watched();
    let permits = |dead: Vec<_>| dead.iter().map(PermitHolder::permits).sum::<u64>();

    // The release arrives when others have given back, or has been carried out. Its client, whose time is up, does not know it.
    let [close, lose] = LOST_REPLIES;
    for fate in [Fate::HoldRequest, close, lose] {
        let guard = far.permit(2).await.unwrap();
        let struck = proxy.struck();
        let late = fate == Fate::HoldRequest;
        proxy.at_script(1, fate);
        if late {
            // Nor does a repetition arrive before the others have given back.
            (2..100).for_each(|number| proxy.at_script(number, Fate::LoseRequest));
        }
        let release = tokio::spawn(guard.release());
        proxy.until_struck(struck + 1).await;
        if !late {
            until_books(&server, (4, 0)).await;
        }
        end_all_times(&mut redis).await;
        let dead = permits(near.reclaim().await.unwrap());
        assert_eq!(dead, if late { 2 } else { 0 });
        proxy.clear_fates();
        match timeout(LIMIT, release).await.unwrap().unwrap() {
            Ok(()) => assert!(!late),
            Err(error) => assert!(matches!(error, Error::NotHeld { .. }), "{error}"),
        }
        if late {
            proxy.deliver(1).await;
        }
        assert_eq!(books(&server).await, (4, 0));
    }

    // In any order, beside a release of each way.
    for round in 0..40 {
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
        assert!(permits(given.unwrap()) <= 3);
        until_books(&server, (4, 0)).await;
    }
}

/// A lease begins with what is granted, not with the first time that nothing was.
#[tokio::test]
async fn who_has_waited_long_has_a_whole_lease_before_it() {
    const TIME_OUT: Duration = Duration::from_secs(4);
    let server = RedisServer::start().await;
    let client = connect(server.url(), TIME_OUT).await;
    let seats = client.semaphore(NAME).watched();
    seats.try_set_permits(0).await.unwrap();
    let waiting = seats.clone();
    let waiting = tokio::spawn(async move { waiting.permit(1).await });
    let mut redis = server.connection().await;
    until_queued(&mut redis, NAME, 1).await;
    // All but the last third, in which nothing was put off.
    until_passed(&mut redis, TIME_OUT * 3 / 4).await;
    seats.release(1).await.unwrap();
    let held = waiting.await.unwrap().unwrap();
    until_passed(&mut redis, TIME_OUT * 3 / 2).await;
    assert!(!held.is_lost(), "its process lives");
    held.release().await.unwrap();
    assert_eq!(books(&server).await, (1, 0));
}
