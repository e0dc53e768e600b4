//! Watched semaphores: what guards hold is on record with the counter, comes back when its client is gone, and only then.

mod support;

use std::time::Duration;

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, ClientBuilder, Error, RSemaphore};
use support::clients::{scripts, stored};
use support::monitor::Monitor;
use support::proxy::{Fate, LOST_REPLIES, Proxy};
use support::server::RedisServer;
use support::waiters::{until, until_subscribers};
use tokio::time::timeout;

const NAME: &str = "seats";
const HELD: &str = "redisson_sc_held:{seats}";
const ALIVE: &str = "redisson_sc_alive:{seats}";
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

/// Everybody's time is up now, by the server's clock.
async fn end_all_times(redis: &mut MultiplexedConnection) {
    let holders: Vec<String> = redis.hkeys(HELD).await.unwrap();
    for holder in holders {
        let () = redis.zadd(ALIVE, holder, 1).await.unwrap();
    }
}

async fn watched(server: &RedisServer) -> (Client, RSemaphore, MultiplexedConnection) {
    let client = connect(server.url(), HOUR).await;
    let seats = client.semaphore(NAME).watched();
    (client, seats, server.connection().await)
}

/// The counter, and what is on record.
async fn books(server: &RedisServer) -> (i64, i64) {
    let counter = stored(server, NAME).await;
    let counter = counter.first().map_or(0, |text| text.parse().unwrap());
    let fields: Vec<String> = server.connection().await.hvals(HELD).await.unwrap();
    let permits = |field: &String| field.split(' ').next().unwrap().parse::<i64>().unwrap();
    (counter, fields.iter().map(permits).sum())
}

async fn until_books(server: &RedisServer, expected: (i64, i64)) {
    until(&format!("{expected:?}"), LIMIT, async || {
        books(server).await == expected
    })
    .await;
}

/// As a client leaves it that died when its time was up.
async fn bury(redis: &mut MultiplexedConnection, holder: &str, permits: i64) {
    let entry = format!("{permits} 1000 the late one");
    let () = redis::pipe()
        .hset(HELD, holder, entry)
        .zadd(ALIVE, holder, 1)
        .query_async(redis)
        .await
        .unwrap();
}

#[tokio::test]
async fn what_guards_hold_is_on_record_with_the_counter() {
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
    assert!(holder.since().elapsed().unwrap() < LIMIT);

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

    // Deleted while somebody holds some: they are given back as ever.
    let held = seats.permit(1).await.unwrap();
    assert!(seats.delete().await.unwrap());
    held.release().await.unwrap();
    assert_eq!(books(&server).await, (1, 0));
    client.shutdown().await.unwrap();
    let left: bool = redis.exists(&[HELD, ALIVE]).await.unwrap();
    assert!(!left, "a record of nothing");
}

/// A handle for each call is on record under one name.
#[tokio::test]
async fn handles_that_come_and_go_leave_one_name_on_record() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let client = connect(server.url(), HOUR).await;
    client.semaphore(NAME).add_permits(2).await.unwrap();
    for number in 0..20 {
        let guard = client.semaphore(NAME).watched().permit(1).await.unwrap();
        match number % 2 {
            0 => guard.release().await.unwrap(),
            _ => drop(guard),
        }
        until_books(&server, (2, 0)).await;
        let names: u64 = redis.hlen(HELD).await.unwrap();
        assert!(names <= 1, "{names} on record after {number}");
    }
    client.shutdown().await.unwrap();
    assert_eq!(redis.exists::<_, u32>(&[HELD, ALIVE]).await.unwrap(), 0);
}

/// Neither while the client lives nor at its shutdown, whether or not anybody has a handle by then.
#[tokio::test]
async fn nothing_stays_on_record_of_a_client_that_holds_nothing() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    for (is_kept, ends) in [(true, true), (false, true), (false, false)] {
        let client = connect(server.url(), Duration::from_secs(2)).await;
        let seats = client.semaphore(NAME).watched();
        seats.add_permits(1).await.unwrap();
        seats.permit(1).await.unwrap().release().await.unwrap();
        let kept = is_kept.then_some(seats);
        if ends {
            client.shutdown().await.unwrap();
        }
        until("nothing is left on record", LIMIT, async || {
            redis.exists::<_, u32>(&[HELD, ALIVE]).await.unwrap() == 0
        })
        .await;
        drop(kept);
    }
}

/// Not a byte is sent for it.
#[tokio::test]
async fn nothing_changes_for_those_who_are_not_watched() {
    let server = RedisServer::start().await;
    let client = connect(server.url(), Duration::from_millis(300)).await;
    let seats = client.semaphore(NAME);
    seats.try_set_permits(5).await.unwrap();
    // The server knows the scripts then.
    seats.permit(1).await.unwrap().release().await.unwrap();
    let mut monitor = Monitor::start(&server).await;
    let two = seats.permit(2).await.unwrap();
    let one = seats.permit(1).await.unwrap();
    two.release().await.unwrap();
    let (added, forgotten) = tokio::join!(seats.add_permits(1), async { one.forget() });
    assert!(added.is_ok() && forgotten == 1);
    // Whoever is watched looks three times in this.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let commands = monitor.until_marker().await;
    let id = client.id();
    let sent: Vec<String> = commands
        .iter()
        .filter(|command| command.name.starts_with("EVAL"))
        .map(|command| command.args[1..].join(" ").replace(id, "ID"))
        .collect();
    let alone = |number: u64, change: i64| {
        format!(
            "3 redisson_sc_once:{{seats}}:ID seats redisson_sc:{{seats}} PUBLISH {number:016} 600000 {change}"
        )
    };
    // Which record such a call uses is its own matter.
    let sent: Vec<String> = sent.iter().map(|text| with_one_record(text)).collect();
    let whole = "3 redisson_sc_once:{seats}:ID seats redisson_sc:{seats} PUBLISH 0000000000000007 600000 0 add 1 1";
    let expected = [alone(4, -2), alone(5, -1), alone(6, 2), whole.to_owned()];
    assert_eq!(sent, expected);
    let beside =
        |key: &String| key.contains("redisson_sc_held") || key.contains("redisson_sc_alive");
    assert!(
        !commands
            .iter()
            .any(|command| command.args.iter().any(beside))
    );
}

/// The records of calls that travel alone have numbers.
fn with_one_record(text: &str) -> String {
    match text.split_once("redisson_sc_once:ID:") {
        Some((start, rest)) => {
            let rest = rest.split_once(' ').map_or("", |(_, rest)| rest);
            format!("{start}redisson_sc_once:{{seats}}:ID {rest}")
        }
        None => text.to_owned(),
    }
}

#[tokio::test]
async fn what_the_dead_held_comes_back_to_those_who_wait() {
    let server = RedisServer::start().await;
    let time_out = Duration::from_secs(1);
    let keeper = connect(server.url(), time_out).await;
    let used = keeper.semaphore(NAME).watched();
    used.try_set_permits(1).await.unwrap();
    // It has used the semaphore, and holds nothing.
    used.permit(1).await.unwrap().release().await.unwrap();
    let mut redis = server.connection().await;
    let stranger = connect(server.url(), HOUR).await.semaphore(NAME);
    stranger.acquire(1).await.unwrap();
    let waiting = tokio::spawn(async move { stranger.acquire(3).await });
    support::waiters::until_subscribers(&mut redis, "redisson_sc:{seats}", 1).await;
    bury(&mut redis, "dead:1", 2).await;
    bury(&mut redis, "dead:2", 1).await;
    timeout(LIMIT, waiting).await.unwrap().unwrap().unwrap();
    assert_eq!(books(&server).await, (0, 0));
    assert!(
        !redis
            .exists::<_, bool>("redisson_sc_held:{dead}")
            .await
            .unwrap()
    );
}

#[tokio::test]
async fn what_the_dead_held_comes_back_where_nobody_knows_their_ends_any_more() {
    let server = RedisServer::start().await;
    let keeper = connect(server.url(), Duration::from_secs(1)).await;
    let used = keeper.semaphore(NAME).watched();
    used.try_set_permits(1).await.unwrap();
    let held = used.permit(1).await.unwrap();
    let mut redis = server.connection().await;
    bury(&mut redis, "dead:1", 2).await;
    // Evicted, or deleted by hand.
    let () = redis.del(ALIVE).await.unwrap();
    until_books(&server, (2, 1)).await;
    assert!(!held.is_lost());
    held.release().await.unwrap();
    until_books(&server, (3, 0)).await;
}

#[tokio::test]
async fn the_dead_give_back_once_however_many_look() {
    let server = RedisServer::start().await;
    let (_client, seats, mut redis) = watched(&server).await;
    seats.try_set_permits(100).await.unwrap();
    let () = redis.hset(HELD, "live:1", "5 1000 x").await.unwrap();
    let () = redis.zadd(ALIVE, "live:1", 1e15).await.unwrap();
    for round in 0..5 {
        for number in 0..200 {
            bury(&mut redis, &format!("dead:{number}"), 2).await;
        }
        let mut looking = Vec::new();
        for _ in 0..6 {
            let seats = connect(server.url(), HOUR).await.semaphore(NAME);
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

/// Each kind of call about permits on record, alone and with others, each of whose scripts goes astray in each way.
#[tokio::test]
async fn what_goes_astray_takes_effect_once() {
    let server = RedisServer::start().await;
    let (_client, near, _redis) = watched(&server).await;
    near.try_set_permits(9).await.unwrap();
    // The server knows the scripts then.
    near.permit(1).await.unwrap().release().await.unwrap();
    let proxy = Proxy::start(&server).await;
    let far = connect(proxy.url(), HOUR).await.semaphore(NAME).watched();
    let kept = far.permit(1).await.unwrap();
    let [close, lose] = LOST_REPLIES;
    for fate in [
        close,
        lose,
        Fate::LoseRequest,
        Fate::HoldRequest,
        Fate::HoldReply,
    ] {
        let mut struck = proxy.struck();
        let mut astray = || {
            proxy.at_script(1, fate);
            struck += 1;
        };
        astray();
        let two = far.permit(2).await.unwrap();
        proxy.let_go();
        until_books(&server, (6, 3)).await;
        astray();
        let (one, three) = tokio::join!(far.permit(1), far.try_permit(3));
        let (one, three) = (one.unwrap(), three.unwrap().expect("there are enough"));
        proxy.let_go();
        until_books(&server, (2, 7)).await;
        astray();
        let (released, again) = tokio::join!(one.release(), three.release());
        assert_eq!((released, again), (Ok(()), Ok(())), "{fate:?}");
        proxy.let_go();
        until_books(&server, (6, 3)).await;
        astray();
        two.release().await.unwrap();
        proxy.let_go();
        until_books(&server, (8, 1)).await;
        assert_eq!(proxy.struck(), struck, "{fate:?}");
    }
    assert!(!kept.is_lost());
    kept.release().await.unwrap();
    assert_eq!(books(&server).await, (9, 0));
}

#[tokio::test]
async fn a_lost_reply_of_the_reclaiming_script_changes_nothing() {
    let server = RedisServer::start().await;
    let (_client, seats, mut redis) = watched(&server).await;
    seats.try_set_permits(3).await.unwrap();
    let proxy = Proxy::start(&server).await;
    let far = connect(proxy.url(), Duration::from_secs(1)).await;
    let far = far.semaphore(NAME);
    far.reclaim().await.unwrap();
    for fate in LOST_REPLIES {
        let (before, _) = books(&server).await;
        bury(&mut redis, "dead:1", 2).await;
        proxy.at_script(1, fate);
        let lost = far.reclaim().await.unwrap_err();
        assert!(matches!(lost, Error::OutcomeUnknown { .. }), "{lost}");
        until_books(&server, (before + 2, 0)).await;
        until("it is back", LIMIT, async || {
            matches!(far.reclaim().await.as_deref(), Ok([]))
        })
        .await;
        assert_eq!(books(&server).await, (before + 2, 0));
    }
    // The same in the background: the next look finds nothing.
    let (before, _) = books(&server).await;
    let guard = far.clone().watched().permit(1).await.unwrap();
    let fates = [LOST_REPLIES[0], LOST_REPLIES[1], Fate::LoseRequest];
    for (number, fate) in fates.into_iter().enumerate() {
        let struck = proxy.struck();
        bury(&mut redis, &format!("dead:{number}"), 1).await;
        proxy.at_script(1, fate);
        proxy.until_struck(struck + 1).await;
    }
    until_books(&server, (before + 2, 1)).await;
    assert!(!guard.is_lost());
}

#[tokio::test]
async fn who_was_cut_off_has_lost_its_permits_before_others_have_them() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(&server).await;
    let time_out = Duration::from_millis(1500);
    let far = connect(proxy.url(), time_out).await;
    let far = far.semaphore(NAME).watched();
    far.try_set_permits(2).await.unwrap();
    let (one, two) = (far.permit(1).await.unwrap(), far.permit(1).await.unwrap());
    // Longer than it is believed alive.
    tokio::time::sleep(2 * time_out).await;
    assert!(!one.is_lost() && !two.is_lost(), "they are put off");

    let near = connect(server.url(), time_out).await;
    let near = near.semaphore(NAME).watched();
    proxy.blackhole();
    let waiting = near.permit(1);
    tokio::select! {
        biased;
        () = one.lost() => {}
        _ = waiting => panic!("somebody has it, and its holder does not know"),
    }
    assert!(two.is_lost());
    let taken = timeout(LIMIT, near.permit(2))
        .await
        .expect("they are back")
        .unwrap();
    drop(two);
    proxy.clear();
    let lost = one.release().await.unwrap_err();
    assert!(matches!(lost, Error::NotHeld { .. }), "{lost}");
    assert_eq!(books(&server).await, (0, 2));
    taken.release().await.unwrap();
    let anew = far.permit(1).await.unwrap();
    assert!(!anew.is_lost());
    assert_eq!(books(&server).await, (1, 1));
    anew.release().await.unwrap();
    assert_eq!(books(&server).await, (2, 0));
}

#[tokio::test]
async fn a_client_that_is_not_on_record_any_more_is_told_and_goes_on() {
    let server = RedisServer::start().await;
    let (_client, seats, mut redis) = watched(&server).await;
    seats.try_set_permits(4).await.unwrap();
    let held = seats.permit(1).await.unwrap();
    let (mut early, other) = (
        seats.permit(1).await.unwrap(),
        seats.permit(1).await.unwrap(),
    );
    // As after a step of the server's clock: others have given back for it.
    let () = redis.del(&[HELD, ALIVE]).await.unwrap();
    let () = redis.set(NAME, 4).await.unwrap();
    assert!(!held.is_lost());
    let late = seats.try_permit(1).await.unwrap().expect("there are 4");
    assert!(held.is_lost() && early.is_lost() && !late.is_lost());
    assert_eq!(books(&server).await, (3, 1));
    assert!(held.release().await.is_err());
    drop(other);
    // What was lost is not there to be merged.
    early.merge(late);
    assert!(!early.is_lost() && early.permits() == 1);
    assert_eq!(books(&server).await, (3, 1));
    early.release().await.unwrap();
    assert_eq!(books(&server).await, (4, 0));

    // It is told while it only holds them, too.
    let client = connect(server.url(), Duration::from_millis(600)).await;
    let held = client.semaphore(NAME).watched().permit(1).await.unwrap();
    let () = redis.del(&[HELD, ALIVE]).await.unwrap();
    timeout(LIMIT, held.lost()).await.expect("it is told");
}

/// Counter and record change together, so they are lost together.
#[tokio::test]
async fn writes_that_a_failover_has_lost_leave_the_books_right() {
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
    until_books(&server, (4, 2)).await;

    // An acquisition is lost.
    let earlier = dump(&mut redis).await;
    let fourth = seats.permit(2).await.unwrap();
    restore(&mut redis, &earlier).await;
    assert_eq!(books(&server).await, (4, 2), "but two more are held");
    seats.permit(1).await.unwrap().release().await.ok();
    assert!(first.is_lost() && third.is_lost() && fourth.is_lost());
    drop((first, third, fourth));
    let new = seats.permit(1).await.unwrap();
    assert!(!new.is_lost());
    // What is on record of those that are lost comes back when the time is up.
    let (counter, held) = books(&server).await;
    assert_eq!(counter + held, 6);
}

type Dump = Vec<(&'static str, Option<Vec<u8>>)>;

async fn dump(redis: &mut MultiplexedConnection) -> Dump {
    let mut all = Vec::new();
    for key in [NAME, HELD, ALIVE] {
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
async fn permits_that_go_from_guard_to_guard_stay_on_record() {
    const CALLERS: usize = 32;
    const ROUNDS: usize = 50;
    let server = RedisServer::start().await;
    let (client, seats, mut redis) = watched(&server).await;
    seats.try_set_permits(3).await.unwrap();
    let before = scripts(&mut redis).await;
    let mut callers = Vec::new();
    for number in 0..CALLERS {
        let seats = seats.clone();
        callers.push(tokio::spawn(async move {
            for round in 0..ROUNDS {
                // Some come without a guard, some go without waiting for it.
                if number % 8 == 0 {
                    seats.acquire(1).await.unwrap();
                    seats.release(1).await.unwrap();
                } else if round % 5 == 0 {
                    let _gone = seats.permit_for(1, Duration::ZERO).await.unwrap();
                } else {
                    let guard = seats.permit(1).await.unwrap();
                    tokio::task::yield_now().await;
                    drop(guard);
                }
            }
        }));
    }
    for caller in callers {
        timeout(LIMIT, caller).await.expect("it is served").unwrap();
    }
    let sent = scripts(&mut redis).await - before;
    until_books(&server, (3, 0)).await;
    assert!(sent < 2 * (CALLERS * ROUNDS) as u64, "{sent} scripts");
    assert_eq!(client.stats().held_permits, 0);
}

#[tokio::test]
async fn however_many_semaphores_are_held_one_script_a_period_puts_them_off() {
    const SEMAPHORES: usize = 90;
    let server = RedisServer::start().await;
    let period = Duration::from_secs(1);
    let client = connect(server.url(), 3 * period).await;
    let mut held = Vec::new();
    for number in 0..SEMAPHORES {
        let seats = client.semaphore(&format!("s{number}")).watched();
        seats.try_set_permits(1).await.unwrap();
        held.push(seats.permit(1).await.unwrap());
    }
    let mut redis = server.connection().await;
    let began = tokio::time::Instant::now();
    let before = scripts(&mut redis).await;
    tokio::time::sleep(4 * period).await;
    let sent = scripts(&mut redis).await - before;
    let periods = began.elapsed().as_secs_f64() / period.as_secs_f64();
    assert!(
        sent >= 2 && (sent as f64) <= periods + 1.0,
        "{sent} in {periods}"
    );
    assert!(held.iter().all(|guard| !guard.is_lost()));
}

#[tokio::test]
async fn hostile_values_harm_nobody_else() {
    let server = RedisServer::start().await;
    let (_client, seats, mut redis) = watched(&server).await;
    seats.try_set_permits(5).await.unwrap();
    // More than the counter can take stays on record.
    bury(&mut redis, "dead:1", i64::from(i32::MAX)).await;
    let refused = seats.reclaim().await.unwrap_err();
    assert!(matches!(refused, Error::Server { .. }), "{refused}");
    let held = seats.permit(1).await.unwrap();
    for entry in ["", "x", "-3 1 x", "9 ", "1e3 2 x"] {
        let () = redis.hset(HELD, "dead:1", entry).await.unwrap();
        let () = redis.zadd(ALIVE, "dead:1", 1).await.unwrap();
        seats.holders().await.unwrap();
        seats.reclaim().await.unwrap();
    }
    assert_eq!(stored(&server, NAME).await, ["13"], "9 was a number");
    held.release().await.unwrap();
    // Deleted by somebody: the dead don't make it anew.
    let () = redis.del(NAME).await.unwrap();
    bury(&mut redis, "dead:1", 3).await;
    assert_eq!(seats.reclaim().await.unwrap().len(), 1);
    assert!(!seats.exists().await.unwrap());
    let () = redis.del(HELD).await.unwrap();
    let () = redis.set(HELD, "no hash").await.unwrap();
    seats.release(2).await.unwrap();
    let wrong = seats.permit(1).await.unwrap_err();
    assert!(
        matches!(&wrong, Error::WrongType { key, .. } if key == HELD),
        "{wrong}"
    );
    assert_eq!(stored(&server, NAME).await, ["2"]);
}

#[tokio::test]
async fn a_restart_with_its_data_and_without() {
    let mut server = RedisServer::options().appendonly().start().await;
    let (_client, seats, _redis) = watched(&server).await;
    seats.try_set_permits(3).await.unwrap();
    let (one, two) = (
        seats.permit(1).await.unwrap(),
        seats.permit(1).await.unwrap(),
    );
    server.kill().await;
    server.restart().await;
    assert_eq!(books(&server).await, (1, 2));
    one.release().await.unwrap();
    assert_eq!(books(&server).await, (2, 1));
    let mut redis = server.connection().await;
    let () = redis::cmd("FLUSHALL")
        .query_async(&mut redis)
        .await
        .unwrap();
    assert!(
        seats.try_permit(1).await.unwrap().is_none(),
        "there is nothing"
    );
    // Nobody has said that there was something; but what was never there does not come back.
    let gone = two.release().await;
    assert_eq!(books(&server).await, (0, 0), "{gone:?}");
}

/// The server's memory is that of its last snapshot.
#[tokio::test]
async fn a_restart_without_the_last_writes_leaves_the_books_right() {
    let mut server = RedisServer::start().await;
    let (_client, seats, _redis) = watched(&server).await;
    seats.try_set_permits(6).await.unwrap();
    let first = seats.permit(1).await.unwrap();
    let second = seats.permit(2).await.unwrap();
    snapshot(&server).await;
    second.release().await.unwrap();
    assert_eq!(books(&server).await, (5, 1));
    server.kill().await;
    server.restart().await;
    assert_eq!(books(&server).await, (3, 3), "nobody holds two of them");
    let third = seats.permit(1).await.unwrap();
    until_books(&server, (4, 2)).await;
    assert!(!first.is_lost() && !third.is_lost());

    snapshot(&server).await;
    let fourth = seats.permit(2).await.unwrap();
    server.kill().await;
    server.restart().await;
    assert_eq!(books(&server).await, (4, 2), "but two more are held");
    // Whose they are, nobody knows.
    seats.permit(1).await.unwrap().release().await.ok();
    assert!(first.is_lost() && third.is_lost() && fourth.is_lost());
    let anew = seats.permit(1).await.unwrap();
    assert!(!anew.is_lost());
    drop((first, third, fourth));
    anew.release().await.unwrap();
    let mut redis = server.connection().await;
    end_all_times(&mut redis).await;
    seats.reclaim().await.unwrap();
    assert_eq!(books(&server).await, (6, 0));
}

async fn snapshot(server: &RedisServer) {
    let mut redis = server.connection().await;
    let () = redis::cmd("SAVE").query_async(&mut redis).await.unwrap();
}

/// What this client holds is in its slot, and its own: nothing is taken from another client's record.
#[tokio::test]
async fn clients_that_hold_beside_each_other() {
    let server = RedisServer::start().await;
    let (one, seats, _redis) = watched(&server).await;
    let two = connect(server.url(), HOUR).await;
    seats.try_set_permits(6).await.unwrap();
    let held = seats.permit(2).await.unwrap();
    let others = two.semaphore(NAME).watched().permit(3).await.unwrap();
    let mut holders = seats.holders().await.unwrap();
    holders.sort_by_key(|holder| holder.permits());
    let ids: Vec<&str> = holders.iter().map(|holder| holder.client_id()).collect();
    assert_eq!(ids, [one.id(), two.id()]);
    held.release().await.unwrap();
    assert_eq!(books(&server).await, (3, 3));
    // A guard that is not on record, of the same client, is nobody's business here.
    let plain = one.semaphore(NAME).permit(1).await.unwrap();
    assert_eq!(books(&server).await, (2, 3));
    plain.release().await.unwrap();
    others.release().await.unwrap();
    assert_eq!(books(&server).await, (6, 0));
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
    until_subscribers(&mut server.connection().await, "redisson_sc:{seats}", 1).await;
    // All but the last third, in which nothing was put off.
    tokio::time::sleep(TIME_OUT * 3 / 4).await;
    seats.release(1).await.unwrap();
    let held = waiting.await.unwrap().unwrap();
    let lost = timeout(TIME_OUT * 2, held.lost()).await;
    assert!(lost.is_err(), "its process lives");
    held.release().await.unwrap();
    assert_eq!(books(&server).await, (1, 0));
}
