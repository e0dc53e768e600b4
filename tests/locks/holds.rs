//! What an owner holds, several times and for several terms: each hold is given back once, and for what it was; nobody
//! holds what was given back; and a loss is told.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::acl::set_user;
use crate::support::channel::Channel;
use crate::support::monitor::{Command, Monitor};
use crate::support::polls::poll_once;
use crate::support::proxy::{Fate, LOST_REPLIES, Proxy};
use crate::support::server::RedisServer;
use crate::support::waiters::{until, until_lock_queued, until_subscribers};
use futures::future::{join_all, try_join_all};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, Error, Lease, Lock, RLock};
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(30);
const HOUR: Duration = Duration::from_secs(3600);

/// Short, so that a test sees many periods; long enough for a machine that is busy with something else.
const WATCHDOG: Duration = Duration::from_secs(3);

async fn connect(url: String, watchdog: Duration) -> Client {
    Client::builder(url)
        .lock_watchdog_timeout(watchdog)
        .response_timeout(Duration::from_secs(2))
        .retry_window(LIMIT)
        .safety_interval(HOUR)
        .connect()
        .await
        .expect("the server runs")
}

/// A server that knows the scripts.
async fn start() -> RedisServer {
    let server = RedisServer::start().await;
    let lock = connect(server.url(), LIMIT).await.lock("warm-up");
    lock.lock().await.unwrap();
    lock.unlock().await.unwrap();
    lock.force_unlock().await.unwrap();
    server
}

async fn ttl(redis: &mut MultiplexedConnection, key: &str) -> Duration {
    let left: i64 = redis.pttl(key).await.unwrap();
    Duration::from_millis(u64::try_from(left).expect("it is there, and has an end"))
}

/// Waits until `time` has passed by the server's clock: a key of that life is gone.
async fn until_passed(redis: &mut MultiplexedConnection, time: Duration) {
    let _: () = redis
        .pset_ex("clock", 1, time.as_millis() as u64)
        .await
        .unwrap();
    until("time passes", time + LIMIT, async || {
        !redis.exists::<_, bool>("clock").await.unwrap()
    })
    .await;
}

async fn lost(lease: &Lease) {
    timeout(LIMIT, lease.lost())
        .await
        .expect("the loss is told");
}

/// Lets end what goes on behind the last handle of a lock.
async fn settled() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

fn assert_not_held(result: Result<(), Error>) {
    let error = result.expect_err("it is not held");
    assert!(matches!(error, Error::NotHeld { .. }), "{error}");
}

/// Another client unlocks while a request of the same owner is on its way: the notification of the grant crosses it.
#[tokio::test]
async fn two_callers_of_one_owner_are_counted_twice() {
    let server = start().await;
    let mut redis = server.connection().await;
    let elsewhere = connect(server.url(), LIMIT).await.lock("shared");
    for wait in [None, Some(Duration::ZERO)] {
        let proxy = Proxy::start(&server).await;
        let client = connect(proxy.url(), LIMIT).await;
        let lock = client.lock("shared");
        let take = |wait| {
            let lock = lock.clone();
            tokio::spawn(async move { lock.hold(wait).await.unwrap().is_some() })
        };
        elsewhere.lock().await.unwrap();
        let first = take(None);
        until_lock_queued(&mut redis, "shared", 1).await;
        let grants = format!("redisson_lock_waiters:{{shared}}:{}", client.id());
        until_subscribers(&mut redis, &grants, 1).await;
        // Answered behind the first caller's own requests.
        assert!(!lock.is_held().await.unwrap());
        proxy.at_script(1, Fate::HoldRequest);
        let second = take(wait);
        proxy.until_struck(1).await;
        let mut grants = Channel::subscribe(&server, &grants).await;
        elsewhere.unlock().await.unwrap();
        assert!(grants.next().await.payload.starts_with("grant "));
        settled().await;
        proxy.deliver(1).await;
        assert!(first.await.unwrap() && second.await.unwrap(), "{wait:?}");
        assert_eq!(lock.hold_count().await, Ok(2), "{wait:?}");
        lock.unlock().await.unwrap();
        assert!(!elsewhere.try_lock().await.unwrap(), "{wait:?}");
        lock.unlock().await.unwrap();
        assert_eq!(lock.is_locked().await, Ok(false), "{wait:?}");
    }
}

/// A hold with a short lease that is taken at the same time as one that is renewed does not shorten it.
#[tokio::test]
async fn leases_taken_together_do_not_shorten_a_renewed_hold() {
    const SHORT: Duration = Duration::from_millis(5);
    let server = start().await;
    let mut redis = server.connection().await;
    let client = connect(server.url(), LIMIT).await;
    for round in 0..50 {
        let name = format!("together-{round}");
        let lock = client.lock(&name);
        let short = lock.with_lease(SHORT);
        // The first call travels alone, and the others together.
        let (_, renewed, leased) = tokio::join!(lock.is_locked(), lock.hold(None), short.lock());
        leased.unwrap();
        let renewed = renewed.unwrap().expect("it waits for it");
        assert!(ttl(&mut redis, &name).await > LIMIT / 2, "{round}");
        assert!(!renewed.lease().is_lost(), "{round}");
        lock.unlock().await.unwrap();
        lock.unlock().await.unwrap();
    }
}

/// Another client has taken a renewed lock away, which its owner does not know yet: a short lease is not taken for a renewed one.
#[tokio::test]
async fn short_lease_behind_an_unnoticed_loss_ends_in_time() {
    let server = start().await;
    let client = connect(server.url(), LIMIT).await;
    let elsewhere = connect(server.url(), LIMIT).await;
    let lock = client.lock("robbed");
    lock.lock().await.unwrap();
    assert!(elsewhere.lock("robbed").force_unlock().await.unwrap());
    let short = lock.with_lease(Duration::from_millis(100));
    let hold = short.hold(None).await.unwrap().expect("it waits for it");
    let left = hold.lease().remaining().expect("it has an end");
    assert!(left <= Duration::from_millis(100), "{left:?}");
    lost(hold.lease()).await;
}

/// A guard that was lost is dropped while its owner takes the lock again: what is taken stays.
#[tokio::test]
async fn end_of_a_lost_guard_does_not_undo_a_take() {
    const LEASE: Duration = Duration::from_millis(50);
    let server = start().await;
    let client = connect(server.url(), LIMIT).await;
    let elsewhere = connect(server.url(), LIMIT).await;
    for (forced, dropped) in [(false, false), (false, true), (true, false), (true, true)] {
        let lock = client.lock(&format!("dead-{forced}-{dropped}"));
        let stranger = elsewhere.lock(lock.name());
        let lease = if forced { HOUR } else { LEASE };
        let guard = lock.with_lease(lease).guard().await.unwrap();
        match forced {
            true => assert!(stranger.force_unlock().await.unwrap()),
            false => lost(guard.lease()).await,
        }
        let owner = Arc::clone(guard.handle());
        let end = async {
            match dropped {
                true => drop(guard),
                false => assert_not_held(guard.unlock().await),
            }
        };
        // The first call travels alone, and the others together.
        let (_, taken, ()) = tokio::join!(lock.is_locked(), owner.try_lock(), end);
        assert_eq!(taken, Ok(true), "{forced}, {dropped}");
        settled().await;
        assert_eq!(owner.is_held().await, Ok(true), "{forced}, {dropped}");
        lock.force_unlock().await.unwrap();
    }
}

/// A lease ends by this client's clock while a reentrant call is answered late: both holds count.
#[tokio::test]
async fn late_answer_to_a_reentrant_call_counts_both_holds() {
    const LEASE: Duration = Duration::from_millis(300);
    let server = start().await;
    let proxy = Proxy::start(&server).await;
    let client = connect(proxy.url(), LIMIT).await;
    let elsewhere = connect(server.url(), LIMIT).await.lock("late count");
    let lock = client.lock("late count");
    let first = lock.with_lease(LEASE).hold(None).await.unwrap();
    proxy.at_script(1, Fate::HoldReply);
    let again = lock.clone();
    let again = tokio::spawn(async move { again.lock().await });
    proxy.until_struck(1).await;
    lost(first.expect("it waits for it").lease()).await;
    proxy.deliver(1).await;
    again.await.unwrap().unwrap();
    lock.unlock().await.unwrap();
    assert!(!elsewhere.try_lock().await.unwrap());
    lock.unlock().await.unwrap();
    assert!(!lock.is_locked().await.unwrap());
}

/// The answer to an unlock or a forced one, which was carried out before, does not end what was granted since.
#[tokio::test]
async fn late_answers_do_not_end_later_grants() {
    let server = start().await;
    let mut redis = server.connection().await;
    let [elsewhere, third] = [(); 2].map(|()| connect(server.url(), LIMIT));
    let (elsewhere, third) = (elsewhere.await.lock("late"), third.await.lock("late"));
    for force in [false, true] {
        let proxy = Proxy::start(&server).await;
        let client = connect(proxy.url(), LIMIT).await;
        let lock = client.lock("late");
        elsewhere.lock().await.unwrap();
        let other = third.clone();
        let other = tokio::spawn(async move { !force || other.lock().await.is_ok() });
        until_lock_queued(&mut redis, "late", force.into()).await;
        let waiting = lock.clone();
        let waiting = tokio::spawn(async move { waiting.hold(None).await.unwrap() });
        until_lock_queued(&mut redis, "late", 1 + u64::from(force)).await;
        let grants = format!("redisson_lock_waiters:{{late}}:{}", client.id());
        until_subscribers(&mut redis, &grants, 1).await;
        assert!(!lock.is_held().await.unwrap());
        let mut grants = Channel::subscribe(&server, &grants).await;
        proxy.at_script(1, Fate::HoldReply);
        let late = lock.clone();
        let late = tokio::spawn(async move {
            match force {
                true => late.force_unlock().await.map(|_| ()),
                false => late.unlock().await,
            }
        });
        proxy.until_struck(1).await;
        assert!(other.await.unwrap());
        let holder = if force { &third } else { &elsewhere };
        holder.unlock().await.unwrap();
        assert!(grants.next().await.payload.starts_with("grant "));
        settled().await;
        proxy.deliver(1).await;
        match (force, late.await.unwrap()) {
            (true, told) => told.unwrap(),
            (false, told) => assert_not_held(told),
        }
        let hold = waiting.await.unwrap().expect("it waits for it");
        assert!(!hold.lease().is_lost() && lock.is_held().await.unwrap());
        assert!(!holder.try_lock().await.unwrap());
        lock.unlock().await.unwrap();
        assert!(!lock.is_locked().await.unwrap());
        if force {
            assert_not_held(elsewhere.unlock().await);
        }
    }
}

/// A lease is over by the owner's clock, which counts from before the sending, while Redis, which was asked later, still
/// has the lock: taken again, it is held once.
#[tokio::test]
async fn retaken_while_the_hold_that_was_lost_is_still_there() {
    let server = start().await;
    let mut cases = Vec::new();
    for held_before in 0..2 {
        for lease in [None, Some(HOUR)] {
            for fate in [None, Some(LOST_REPLIES[0]), Some(LOST_REPLIES[1])] {
                cases.push(retaken(&server, held_before, lease, fate));
            }
        }
    }
    join_all(cases).await;
}

async fn retaken(
    server: &RedisServer,
    held_before: u32,
    lease: Option<Duration>,
    fate: Option<Fate>,
) {
    const LEASE: Duration = Duration::from_secs(2);
    let proxy = Proxy::start(server).await;
    let client = connect(proxy.url(), HOUR).await;
    let name = format!("retaken-{held_before}-{lease:?}-{fate:?}");
    let lock = client.fenced_lock(&name);
    for _ in 0..held_before {
        lock.with_lease(LEASE).lock().await.unwrap();
    }
    // Its request is late by nearly all of its lease.
    proxy.at_script(1, Fate::HoldRequest);
    let began = Instant::now();
    let late = tokio::spawn({
        let lock = lock.clone();
        async move { lock.with_lease(LEASE).hold(None).await }
    });
    proxy.until_struck(1).await;
    until("the lease is nearly over", LIMIT, async || {
        began.elapsed() >= LEASE - LEASE / 4
    })
    .await;
    proxy.deliver(1).await;
    let old = late.await.unwrap().unwrap().expect("waited for");
    lost(old.lease()).await;

    if let Some(fate) = fate {
        proxy.at_script(1, fate);
    }
    let lock = lease.map_or_else(|| lock.clone(), |lease| lock.with_lease(lease));
    let hold = lock.hold(None).await.unwrap().expect("waited for");
    assert!(hold.token() > old.token(), "{name}: the same token");
    assert_eq!(lock.hold_count().await.unwrap(), 1, "{name}");
    assert!(!hold.lease().is_lost());
    assert_not_held(lock.unlock_hold(&old).await);
    assert_eq!(lock.hold_count().await.unwrap(), 1, "{name}");
    lock.unlock_hold(&hold).await.unwrap();
    assert!(!lock.is_locked().await.unwrap(), "{name} stays locked");
}

/// Renewals that are on their way, while what they are about is given back and taken anew: a longer lease is not cut
/// off, a shorter one is not put off.
#[tokio::test]
async fn a_renewal_in_parts_leaves_alone_what_was_taken_meanwhile() {
    const LOCKS: usize = 400;
    const WATCHDOG: Duration = Duration::from_secs(12);
    const SHORTER: Duration = Duration::from_secs(9);
    let server = start().await;
    let mut redis = server.connection().await;
    let proxy = Proxy::start(&server).await;
    let client = connect(proxy.url(), WATCHDOG).await;
    let mark = client.lock("mark").guard().await.unwrap();
    let locks: Vec<RLock> = (0..LOCKS)
        .map(|number| client.lock(&format!("held-{number}")))
        .collect();
    try_join_all(locks.iter().map(RLock::lock)).await.unwrap();

    let (made, struck) = (proxy.scripts(), proxy.struck());
    proxy.at_script(1, Fate::HoldReply);
    // The first part of a round has been sent.
    proxy.until_scripts(made + 1).await;
    let anew = locks.iter().enumerate().map(|(number, lock)| async move {
        lock.unlock().await?;
        let lease = if number % 2 == 0 { HOUR } else { SHORTER };
        lock.with_lease(lease).lock().await
    });
    let others = async {
        proxy.until_struck(struck + 1).await;
        proxy.until_scripts(made + 1 + LOCKS as u64).await;
        proxy.deliver(1).await;
    };
    let (taken, ()) = tokio::join!(join_all(anew), others);
    taken.into_iter().for_each(Result::unwrap);
    for _ in 0..2 {
        // This round, and the next one, are over.
        let _: () = redis.pexpire("mark", 6_000).await.unwrap();
        until("the mark is renewed", LIMIT, async || {
            ttl(&mut redis, "mark").await > Duration::from_secs(6)
        })
        .await;
        for (number, lock) in locks.iter().enumerate() {
            let key = lock.name();
            if number % 2 == 0 {
                let left = ttl(&mut redis, key).await;
                assert!(left > HOUR / 2, "{key} has only {left:?} left");
                assert!(lock.lease().remaining().unwrap() > HOUR / 2);
            } else {
                let left: i64 = redis.pttl(key).await.unwrap();
                assert!(left <= SHORTER.as_millis() as i64, "{key} has {left} ms");
            }
        }
    }
    mark.unlock().await.unwrap();
}

/// Redis counts fewer holds than there are, as after a failover that lost the last write: giving one back does not free
/// the lock under the other.
#[tokio::test]
async fn a_hold_whose_write_was_lost_does_not_cost_the_one_below() {
    let server = start().await;
    let mut redis = server.connection().await;
    let client = connect(server.url(), HOUR).await;
    let stranger = connect(server.url(), HOUR).await;
    let lock = client.lock("reentrant");
    let other = stranger.lock("reentrant");
    for count in [1, 7] {
        let outer = lock.guard().await.unwrap();
        let inner = outer.again().await.unwrap();
        let owner = outer.handle().owner();
        let _: () = redis.hset("reentrant", owner, count).await.unwrap();
        inner.unlock().await.unwrap();
        assert!(!other.try_lock().await.unwrap(), "the outer guard holds it");
        assert!(!outer.is_lost());
        outer.unlock().await.unwrap();
        assert!(other.try_lock().await.unwrap(), "nobody holds it");
        other.unlock().await.unwrap();
    }
    // Where nothing of it is left, all of them are lost.
    let outer = lock.guard().await.unwrap();
    let inner = outer.again().await.unwrap();
    let _: () = redis.del("reentrant").await.unwrap();
    other.lock().await.unwrap();
    assert_not_held(inner.unlock().await);
    lost(outer.lease()).await;
    assert_not_held(outer.unlock().await);
    assert!(other.is_held().await.unwrap());
    other.unlock().await.unwrap();
}

/// Each unlock takes effect once, though nothing but the owner's number is left of its handle.
#[tokio::test]
async fn unlocked_once_by_an_owner_that_is_found_again() {
    const HOLDS: u32 = 3;
    let server = start().await;
    let proxy = Proxy::start(&server).await;
    let client = connect(proxy.url(), WATCHDOG).await;
    for fate in LOST_REPLIES {
        let lock = || client.lock(&format!("found-{fate:?}")).with_owner(7);
        for _ in 0..HOLDS {
            lock().with_lease(HOUR).lock().await.unwrap();
            settled().await;
        }
        for left in (0..HOLDS).rev() {
            proxy.at_script(1, fate);
            lock().unlock().await.unwrap();
            settled().await;
            assert_eq!(lock().hold_count().await.unwrap(), left, "{fate:?}");
            settled().await;
        }
        assert!(!lock().is_locked().await.unwrap());
        assert_not_held(lock().unlock().await);
    }
}

/// Each hold keeps its own term, whichever goes first.
#[tokio::test]
async fn holds_that_go_in_any_order() {
    let server = start().await;
    let mut redis = server.connection().await;
    let client = connect(server.url(), WATCHDOG).await;
    let lock = client.lock("order");

    // The one that stays is renewed.
    let owner = lock.with_owner(7);
    let limited = owner.with_lease(WATCHDOG).hold(None).await.unwrap();
    let watched = owner.hold(None).await.unwrap().expect("waited for");
    owner
        .unlock_hold(&limited.expect("waited for"))
        .await
        .unwrap();
    until_passed(&mut redis, 2 * WATCHDOG).await;
    assert!(!watched.lease().is_lost(), "it is renewed");
    assert_eq!(owner.hold_count().await.unwrap(), 1);
    owner.unlock_hold(&watched).await.unwrap();
    assert!(!lock.is_locked().await.unwrap());

    // The one that stays is not.
    let watched = lock.guard().await.unwrap();
    let owner = Arc::clone(watched.handle());
    let limited = owner.with_lease(2 * WATCHDOG).hold(None).await.unwrap();
    let limited = limited.expect("waited for");
    watched.unlock().await.unwrap();
    assert!(ttl(&mut redis, "order").await > WATCHDOG);
    lost(limited.lease()).await;
    until("its lease is over", LIMIT, async || {
        !lock.is_locked().await.unwrap()
    })
    .await;

    // Of several with leases, the last of those that stay counts.
    let leased = [HOUR, 3 * HOUR, 2 * HOUR].map(|lease| lock.with_lease(lease));
    let holds = leased.iter().map(|lock| lock.hold(None));
    let holds = try_join_all(holds).await.unwrap();
    let give_back = async |number: usize| {
        let hold = holds[number].as_ref().expect("waited for");
        lock.unlock_hold(hold).await.unwrap();
    };
    give_back(1).await;
    let left = ttl(&mut redis, "order").await;
    assert!(left > HOUR && left <= 2 * HOUR, "{left:?}");
    give_back(2).await;
    assert!(ttl(&mut redis, "order").await <= HOUR);
}

/// What is known of an owner's holds does not depend on a handle in between.
#[tokio::test]
async fn an_owner_that_is_found_again_has_its_leases() {
    const SHORTER: Duration = Duration::from_secs(3);
    let server = start().await;
    let mut redis = server.connection().await;
    let client = connect(server.url(), 3 * SHORTER).await;
    let lock = |name: &str| client.lock(name).with_owner(7);

    lock("two").with_lease(SHORTER).lock().await.unwrap();
    settled().await;
    lock("two").with_lease(SHORTER).lock().await.unwrap();
    settled().await;
    let lease = lock("two").lease();
    assert!(lease.remaining().unwrap() > Duration::ZERO);
    lock("two").unlock().await.unwrap();
    settled().await;
    let left = ttl(&mut redis, "two").await;
    assert!(left <= SHORTER, "{left:?}");
    assert!(!lease.is_lost() && lease.remaining().unwrap() <= SHORTER);

    // Forced open by another handle of the client.
    assert!(client.lock("two").force_unlock().await.unwrap());
    assert!(lease.is_lost(), "the client knows");

    // What was taken with a lease is not renewed when the hold without one has gone.
    lock("kept").with_lease(SHORTER).lock().await.unwrap();
    settled().await;
    lock("kept").lock().await.unwrap();
    settled().await;
    lock("kept").unlock().await.unwrap();
    settled().await;
    let left = ttl(&mut redis, "kept").await;
    assert!(left <= SHORTER, "{left:?}");
    lost(&lock("kept").lease()).await;
    until("its lease is over", LIMIT, async || {
        !lock("kept").is_locked().await.unwrap()
    })
    .await;
}

/// A lease that is no whole number of milliseconds does not end earlier in Redis than it does here, whatever is held.
#[tokio::test]
async fn fractions_of_a_millisecond_are_rounded_up() {
    let server = start().await;
    let client = connect(server.url(), HOUR).await;
    let lease = HOUR + Duration::from_micros(300);
    let mut monitor = Monitor::start(&server).await;
    client.lock("lock").with_lease(lease).lock().await.unwrap();
    let string_lock = client.string_lock("string-lock");
    string_lock.with_lease(lease).lock().await.unwrap();
    let semaphore = client.semaphore("semaphore");
    assert!(semaphore.try_set_permits_for(1, lease).await.unwrap());
    assert!(semaphore.expire(lease).await.unwrap());
    let seen = monitor.until_marker().await;
    let set = |key: &str, time: &str| {
        let about = |command: &&Command| {
            command.is_lua() && command.args.iter().any(|arg| arg.ends_with(key))
        };
        let mut args = seen.iter().filter(about).flat_map(|command| &command.args);
        args.any(|arg| arg == time)
    };
    for key in ["lock", "string-lock", "semaphore"] {
        assert!(set(key, "3600001"), "{key}: {seen:?}");
        assert!(!set(key, "3600000"), "{key}: {seen:?}");
    }
}

/// While a step that makes the lease shorter is not answered, the lease is not taken to last longer than that.
#[tokio::test]
async fn a_lease_that_may_have_been_shortened_is_lost_in_time() {
    const SHORT: Duration = Duration::from_secs(2);
    let server = start().await;
    let proxy = Proxy::start(&server).await;
    let client = Client::builder(proxy.url())
        .response_timeout(HOUR)
        .connect()
        .await
        .unwrap();
    let lock = client.lock("shortened");
    let guard = lock.with_lease(HOUR).guard().await.unwrap();
    proxy.at_script(1, Fate::HoldReply);
    let on_top = tokio::spawn({
        let owner = Arc::clone(guard.handle());
        async move { owner.with_lease(SHORT).hold(None).await }
    });
    proxy.until_struck(1).await;
    lost(guard.lease()).await;
    assert!(!on_top.is_finished(), "it has not been answered");
    proxy.deliver(1).await;
    let on_top = on_top.await.unwrap().unwrap().expect("waited for");
    assert!(!on_top.lease().is_lost(), "it is taken again");
    assert_not_held(guard.unlock().await);
}

/// Changes what the user may do.
async fn acl(redis: &MultiplexedConnection, rule: &str) {
    set_user(&mut redis.clone(), &["app", rule]).await;
}

/// What could not be given back is held on, unless nobody is left who could.
#[tokio::test]
async fn an_unlock_that_is_refused() {
    let options = RedisServer::options().user("app on >pw ~* &* +@all");
    let server = options.start().await;
    let mut redis = server.connection().await;
    let client = connect(server.url_as("app", "pw"), WATCHDOG).await;
    let lock = client.lock("refused");
    lock.lock().await.unwrap();
    let control = redis.clone();
    let acl = async |rule: &str| acl(&control, rule).await;
    acl("-publish").await;
    let denied = |result: Result<(), Error>| {
        let error = result.expect_err("it may not publish");
        assert!(matches!(error, Error::PermissionDenied { .. }), "{error}");
    };
    denied(lock.unlock().await);
    until_passed(&mut redis, 2 * WATCHDOG).await;
    assert!(!lock.lease().is_lost() && lock.is_held().await.unwrap());
    acl("+publish").await;
    lock.unlock().await.unwrap();

    let guard = lock.guard().await.unwrap();
    let lease = guard.lease().clone();
    acl("-publish").await;
    denied(guard.unlock().await);
    lost(&lease).await;
    until("its lease is over", LIMIT, async || {
        !lock.is_locked().await.unwrap()
    })
    .await;

    acl("+publish").await;
    let hold = lock.hold(None).await.unwrap().expect("waited for");
    acl("-publish").await;
    denied(lock.unlock_hold(&hold).await);
    acl("+publish").await;
    lock.lock().await.unwrap();
    lock.unlock().await.unwrap();
    assert!(!lock.is_locked().await.unwrap(), "it does not count");

    // Of two holds, the other one's time does not begin.
    lock.lock().await.unwrap();
    lock.with_lease(2 * LIMIT).lock().await.unwrap();
    acl("-hset").await;
    denied(lock.unlock().await);
    let left: u64 = redis::cmd("PTTL")
        .arg("refused")
        .query_async(&mut redis)
        .await
        .unwrap();
    assert!(Duration::from_millis(left) > LIMIT, "{left} ms");
    let _: bool = redis.persist("refused").await.unwrap();
    denied(lock.unlock().await);
    assert!(lock.is_held().await.unwrap(), "it has no time to live");
    acl("+hset").await;
    lock.unlock().await.unwrap();
    lock.unlock().await.unwrap();
    assert!(!lock.is_locked().await.unwrap());
}

/// Nobody is left who could give it back, or who has learned that it must.
#[tokio::test]
async fn an_unlock_that_is_refused_behind_its_caller() {
    let options = RedisServer::options().user("app on >pw ~* &* +@all");
    let server = options.start().await;
    let redis = server.connection().await;
    let client = connect(server.url_as("app", "pw"), WATCHDOG).await;
    let lock = client.lock("left");
    for answered in [false, true] {
        lock.lock().await.unwrap();
        let lease = lock.lease();
        acl(&redis, "-del").await;
        let mut unlock = Box::pin(lock.unlock());
        let under_way = poll_once(&mut unlock.as_mut()).await.is_pending();
        assert!(under_way);
        if answered {
            assert!(lock.is_held().await.unwrap(), "behind the answer");
        }
        drop(unlock);
        lost(&lease).await;
        until("its lease is over", LIMIT, async || {
            !lock.is_locked().await.unwrap()
        })
        .await;
        acl(&redis, "+del").await;
    }
}

/// What somebody else gives back behind that is what is left.
#[tokio::test]
async fn an_unlock_behind_one_that_was_refused_to_nobody() {
    let options = RedisServer::options().user("app on >pw ~* &* +@all");
    let server = options.start().await;
    let redis = server.connection().await;
    let client = connect(server.url_as("app", "pw"), WATCHDOG).await;
    let lock = client.lock("both");
    lock.lock().await.unwrap();
    let hold = lock.hold(None).await.unwrap().expect("waited for");
    acl(&redis, "-evalsha").await;
    lock.unlock_hold_detached(&hold);
    assert!(lock.try_lock().await.is_err(), "behind that");
    acl(&redis, "+evalsha").await;
    lock.unlock().await.unwrap();
    assert!(!lock.is_locked().await.unwrap());
}

/// Of several keys the one is named that holds something else.
#[tokio::test]
async fn a_token_of_another_type_is_named() {
    let server = RedisServer::start().await;
    let mut redis = server.connection().await;
    let lock = connect(server.url(), WATCHDOG).await.fenced_lock("door");
    let token = "redisson_lock_token:{door}";
    let _: () = redis.lpush(token, 1).await.unwrap();
    for error in [
        lock.try_lock().await.unwrap_err(),
        lock.lock().await.unwrap_err(),
    ] {
        let named = matches!(&error, Error::WrongType { key, found: Some(found), .. } if key == token && found == "list");
        assert!(named, "{error}");
    }
    assert!(!lock.is_locked().await.unwrap());
}

/// Whoever locks without a guard asks the handle, which nobody has asked before.
#[tokio::test]
async fn a_handle_tells_a_loss_that_a_renewal_has_found() {
    let server = start().await;
    let mut control = server.connection().await;
    let client = connect(server.url(), WATCHDOG).await;
    for door in [client.lock("door"), client.lock("other-door")] {
        door.lock().await.unwrap();
        let _: () = control.del(door.name()).await.unwrap();
        until("the loss is known", LIMIT, async || door.lease().is_lost()).await;
        timeout(LIMIT, door.lease().lost()).await.unwrap();
        assert!(!door.with_owner(7).lease().is_lost());
        door.lock().await.unwrap();
        assert!(!door.lease().is_lost());
        door.unlock().await.unwrap();
        assert!(!door.lease().is_lost());
    }
}

/// Releases that are under way at the same time give back a hold each.
#[tokio::test]
async fn releases_at_the_same_time_give_back_different_holds() {
    let server = start().await;
    let client = connect(server.url(), LIMIT).await;
    let lock = client.lock("overlapping");
    for _ in 0..20 {
        for _ in 0..3 {
            lock.lock().await.unwrap();
        }
        try_join_all([lock.unlock(), lock.unlock()]).await.unwrap();
        lock.unlock().await.unwrap();
        assert_eq!(lock.hold_count().await.unwrap(), 0);

        lock.lock().await.unwrap();
        lock.lock().await.unwrap();
        let hold = lock.hold(None).await.unwrap().expect("waited for");
        lock.unlock_hold_detached(&hold);
        lock.unlock().await.unwrap();
        lock.unlock().await.unwrap();
        assert!(!lock.is_locked().await.unwrap());
    }
}
