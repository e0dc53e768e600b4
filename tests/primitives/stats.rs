//! The statistics of a client's calls.

use std::time::Duration;

use crate::support::clients::{LIMIT, builder, connect, kill, served, start_controlled};
use crate::support::proxy::{Fate, Proxy};
use crate::support::waiters::{until, waiter};
use redis::AsyncCommands;
use redisson_semaphore::{LeasedSemaphore as _, Lock as _, Stats};

#[tokio::test]
async fn calls_and_holders_are_counted() {
    let (server, mut control) = start_controlled().await;
    let client = connect(server.url()).await;
    assert_eq!(client.stats(), Stats::default());
    let seats = client.semaphore("seats");
    seats.try_set_permits(5).await.unwrap();
    let mut four = seats.permit(4).await.unwrap();
    let one = four.split(1).unwrap();
    let door = client.fenced_lock("door");
    let guard = door.guard().await.unwrap();
    let place = client.set_semaphore("places", 1).permit().await.unwrap();
    assert!(seats.try_permit(2).await.unwrap().is_none());
    assert!(!client.lock("door").try_lock().await.unwrap());
    client.string_lock("gate").unlock().await.unwrap_err();
    let stats = client.stats();
    assert_eq!((stats.granted, stats.refused, stats.failed), (3, 2, 0));
    assert_eq!((stats.held_permits, stats.held_locks), (5, 1));
    let waiting = waiter(&mut control, &seats, 3).await;
    assert_eq!(client.stats().waiting, 1);
    four.release().await.unwrap();
    served(waiting).await;
    drop(one);
    guard.unlock().await.unwrap();
    assert!(place.release().await.unwrap());
    let stats = client.stats();
    assert_eq!((stats.waiting, stats.granted), (0, 4));
    assert_eq!((stats.held_permits, stats.held_locks), (0, 0));
    seats.release(u32::MAX).await.unwrap_err();
    seats.release(i32::MAX as u32).await.unwrap_err();
    assert_eq!(client.stats().failed, 1, "what was not sent does not count");
}

#[tokio::test]
async fn trouble_is_counted() {
    let (server, mut control) = start_controlled().await;
    let proxy = Proxy::start(&server).await;
    let client = builder(proxy.url()).call_timeout(Duration::from_secs(4));
    let client = client.connect().await.unwrap();
    let door = client.lock("door");
    let guard = door.guard().await.unwrap();
    assert!(client.lock("door").force_unlock().await.unwrap());
    guard.lost().await;
    drop(guard);
    assert_eq!(client.stats().lost, 1);
    assert_eq!(client.stats().held_locks, 0);

    kill(&mut control, "normal").await;
    until("it is back", LIMIT, async || {
        client.stats().reconnections == 1
    })
    .await;

    let before = client.stats();
    proxy.mute();
    let error = client.semaphore("seats").release(1).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    proxy.clear();
    until("it is settled", LIMIT, async || {
        client.semaphore("seats").available_permits().await == Ok(1)
    })
    .await;
    let stats = client.stats();
    assert_eq!(stats.outcomes_unknown, before.outcomes_unknown + 1);
    assert!(stats.failed > before.failed && stats.retries > before.retries);

    // A call whose reply is lost is repeated.
    let before = client.stats();
    proxy.at_script(1, Fate::LoseReply);
    let patient = builder(proxy.url()).connect().await.unwrap();
    patient.semaphore("seats").release(1).await.unwrap();
    assert!(patient.stats().retries > 0);
    assert_eq!(patient.stats().failed, 0);
    assert_eq!(client.stats().granted, before.granted);
}

/// Each error that a caller gets counts once, whatever has failed.
#[tokio::test]
async fn whatever_has_failed_is_counted() {
    let (server, mut control) = start_controlled().await;
    let client = connect(server.url()).await;
    macro_rules! fail {
        ($count:literal each: $($call:expr),+ $(,)?) => {
            $(
                let before = client.stats().failed;
                let error = $call.await.map(drop).unwrap_err();
                let counted = client.stats().failed - before;
                assert_eq!(counted, $count, "{}: {error}", stringify!($call));
            )+
        };
    }
    let jobs = client.permit_expirable_semaphore("jobs");
    jobs.try_set_permits(2).await.unwrap();
    let held = jobs.acquire().await.unwrap();
    jobs.release(held.id()).await.unwrap();
    let gate = client.string_lock("gate");
    gate.lock().await.unwrap();
    let elsewhere = connect(server.url()).await;
    elsewhere.string_lock("gate").force_unlock().await.unwrap();
    let seats = client.semaphore("seats").watched();
    seats.try_set_permits(1).await.unwrap();
    let nowhere = client.permit_expirable_semaphore("nowhere");
    assert_eq!(client.stats().failed, 0);
    fail!(1 each:
        jobs.release(held.id()),
        jobs.release_many(&[held.id()]),
        jobs.add_permits(i32::MAX),
        nowhere.object().rename("jobs"),
        client.ask(None, &["NO-SUCH-COMMAND"]),
        gate.unlock(),
        client.lock("door").unlock(),
        seats.release(i32::MAX.unsigned_abs()),
    );
    // Of another type than it should be.
    let grants = "redisson_sc_grants:{seats}";
    for key in ["jobs", "{jobs}:timeout", "places", "seats", grants] {
        let _: () = control.del(key).await.unwrap();
        let _: () = control.rpush(key, "x").await.unwrap();
    }
    fail!(1 each:
        jobs.acquire(),
        jobs.release(held.id()),
        jobs.available_permits(),
        jobs.lease_time(held.id()),
        jobs.update_lease_time(held.id(), None),
        jobs.holders(),
        jobs.release_all(),
        client.timestamp_semaphore("places", 1).holders(),
        seats.acquire(1),
        seats.holders(),
    );
    // A call that is not sent is a mistake of the program, and does not count.
    fail!(0 each:
        client.ask(None, &[]),
        jobs.release("no id"),
        jobs.set_permits(u32::MAX),
        jobs.acquire_many(5000),
    );
    assert_eq!(client.ping().await, Ok(()));
}
