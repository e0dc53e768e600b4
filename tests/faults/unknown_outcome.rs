//! Calls that are not answered within the retry window: the caller is told what may have happened, and it is settled
//! later.

use std::pin::Pin;
use std::time::Duration;

use crate::support::clients::{LIMIT, stored};
use crate::support::monitor::Monitor;
use crate::support::proxy::Proxy;
use crate::support::sequence::{builder, start};
use crate::support::server::RedisServer;
use crate::support::waiters::{channel, until, until_subscribers};
use redis::AsyncCommands;
use redisson_semaphore::{Effect, Error};
use tokio::time::{Instant, timeout};

/// Over before a lost answer is noticed.
const SHORT: Duration = Duration::from_millis(100);

/// The wait ends while its question lies in a server that is frozen.
#[tokio::test]
async fn a_timed_call_whose_question_is_out_is_not_told_that_nothing_happened() {
    let mut server = RedisServer::start().await;
    let client = builder(server.url())
        .retry_window(Duration::from_secs(1))
        .connect()
        .await
        .unwrap();
    let semaphore = client.semaphore("frozen");
    semaphore.try_set_permits(1).await.unwrap();
    server.freeze();
    let error = semaphore.permit_for(1, SHORT).await.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown, "{error}");
    server.thaw();
    // It happened, and is given back.
    until("the permit is back", LIMIT, async || {
        matches!(semaphore.available_permits().await, Ok(1))
    })
    .await;
    assert!(semaphore.try_acquire_for(1, SHORT).await.unwrap());
    assert!(!semaphore.try_acquire_for(1, SHORT).await.unwrap());
}

/// Of two callers who would have asked together, the first is told that it was not sent.
#[tokio::test]
async fn who_was_told_that_nothing_was_sent_is_not_named_later() {
    let window = Duration::from_secs(4);
    for wait in [None, Some(SHORT)] {
        let mut gone = RedisServer::start().await;
        let proxy = Proxy::start(&gone).await;
        let client = builder(proxy.url())
            .retry_window(window)
            .connect()
            .await
            .unwrap();
        let semaphore = client.semaphore("named");
        gone.stop().await;
        // Found out by something else.
        client.semaphore("other").exists().await.unwrap_err();
        let first = semaphore.clone();
        let first = tokio::spawn(async move {
            match wait {
                None => first.acquire(2).await,
                Some(wait) => first.try_acquire_for(2, wait).await.map(drop),
            }
        });
        tokio::time::sleep(window * 3 / 4).await;
        let second = semaphore.clone();
        let second = tokio::spawn(async move { second.acquire(1).await });
        let error = first.await.unwrap().unwrap_err();
        assert_eq!(error.effect(), Effect::NotApplied, "{error}");
        let server = RedisServer::start().await;
        let _: () = server.connection().await.set("named", 5).await.unwrap();
        let mut monitor = Monitor::start(&server).await;
        proxy.lead_to(&server);
        second.await.unwrap().unwrap();
        assert_eq!(stored(&server, "named").await, ["4"]);
        for command in monitor.until_marker().await {
            let steps = command.args.join(" ");
            assert!(!steps.contains("wait 2"), "{error}, but then: {steps}");
        }
    }
}

/// A change travels together with the question of a caller that waits for as long as it takes.
#[tokio::test]
async fn what_was_told_not_to_have_happened_does_not_happen_later() {
    let mut server = RedisServer::options().appendonly().start().await;
    let mut control = server.connection().await;
    let client = builder(server.url())
        .retry_window(Duration::from_millis(300))
        .connect()
        .await
        .unwrap();
    let semaphore = client.semaphore("told");
    let waiting = {
        let semaphore = semaphore.clone();
        tokio::spawn(async move { semaphore.acquire(3).await })
    };
    until_subscribers(&mut control, &channel("told"), 1).await;
    semaphore.available_permits().await.unwrap();
    server.stop().await;
    // Found out by something else, so that nothing about this semaphore is under way.
    client.semaphore("other").exists().await.unwrap_err();
    let error = semaphore.add_permits(1).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert_eq!(error.effect(), Effect::NotApplied);
    server.restart().await;
    let mut control = server.connection().await;
    until_subscribers(&mut control, &channel("told"), 1).await;
    until("the client is back", LIMIT, async || {
        semaphore.available_permits().await.is_ok()
    })
    .await;
    assert_eq!(
        stored(&server, "told").await,
        [""; 0],
        "though told: {error}"
    );
    waiting.abort();
}

/// Longer than any call is asked about.
const HORIZON: Duration = Duration::from_secs(301);

/// No time passes for the tests while nothing can be answered for this long.
async fn outage(proxy: &Proxy) {
    tokio::time::pause();
    tokio::time::sleep(HORIZON).await;
    tokio::time::resume();
    proxy.clear();
}

/// A permit may have been taken by a question that was never answered: a later "no" does not mean that nothing was.
#[tokio::test]
async fn a_timed_call_one_of_whose_questions_stays_unknown_is_told_so() {
    let (server, proxy) = start().await;
    let mut control = server.connection().await;
    let client = builder(proxy.url())
        .local_hand_over(Duration::ZERO)
        .connect()
        .await
        .unwrap();
    let semaphore = client.semaphore("taken");
    let waiting = {
        let semaphore = semaphore.clone();
        let wait = HORIZON + Duration::from_secs(3);
        tokio::spawn(async move { semaphore.try_acquire_for(1, wait).await })
    };
    until_subscribers(&mut control, &channel("taken"), 1).await;
    semaphore.available_permits().await.unwrap();
    proxy.mute();
    let releasing = {
        let semaphore = semaphore.clone();
        tokio::spawn(async move { semaphore.release(1).await })
    };
    until("released and taken", LIMIT, async || {
        stored(&server, "taken").await == ["0"]
    })
    .await;
    outage(&proxy).await;
    let error = releasing.await.unwrap().unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown, "{error}");
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown, "{error}");
}

/// Object commands travel one by one; who stands behind one in doubt waits through a window of its own, and was not sent.
#[tokio::test]
async fn each_command_has_its_own_deadline() {
    let (_server, proxy) = start().await;
    let window = Duration::from_secs(1);
    let client = builder(proxy.url())
        .retry_window(window)
        .connect_timeout(Duration::from_millis(300))
        .connect()
        .await
        .unwrap();
    let timed = async |call: Pin<Box<dyn Future<Output = Error>>>| {
        let began = Instant::now();
        let error = timeout(LIMIT, call).await.expect("it ends");
        (error, began.elapsed())
    };
    let semaphore = client.semaphore("deadlines");
    let lock = client.lock("deadlines-lock");
    semaphore.try_set_permits(5).await.unwrap();
    proxy.blackhole();
    let (first, lock_first) = (semaphore.clone(), lock.clone());
    let firsts = async {
        tokio::join!(
            timed(Box::pin(async move { first.delete().await.unwrap_err() })),
            timed(Box::pin(async move {
                lock_first.force_unlock().await.unwrap_err()
            })),
        )
    };
    let began = Instant::now();
    let later = async {
        until("some of the first window has passed", LIMIT, async || {
            began.elapsed() > window / 2
        })
        .await;
        tokio::join!(
            timed(Box::pin(async move {
                semaphore.expire(LIMIT).await.unwrap_err()
            })),
            timed(Box::pin(
                async move { lock.hold_count().await.unwrap_err() }
            )),
        )
    };
    let (firsts, later) = tokio::join!(firsts, later);
    for (error, waited) in [firsts.0, firsts.1] {
        assert!(matches!(error, Error::OutcomeUnknown { .. }), "{error}");
        assert!(waited >= window, "{waited:?}");
    }
    for (error, waited) in [later.0, later.1] {
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        assert!(waited >= window, "{waited:?}");
    }
}
