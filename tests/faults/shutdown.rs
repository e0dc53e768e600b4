//! Clients that are shut down and runtimes that end, with calls under way.

use std::pin::Pin;
use std::time::Duration;

use crate::support::clients::{LIMIT, NEVER, builder, connect, stored, until_stored};
use crate::support::log;
use crate::support::polls::{poll_once, poll_times};
use crate::support::proxy::{Fate, Proxy};
use crate::support::server::RedisServer;
use crate::support::waiters::{until, until_subscribers};
use redisson_semaphore::{Client, ConnectionState, Effect, Error, Permit, RSemaphore};
use tokio::time::{Instant, timeout};

/// The runtime that a client lives in ends while guards, waiters and calls are alive.
#[test]
fn a_runtime_that_ends_takes_its_waiters_along_and_panics_nowhere() {
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap()
    };
    let outer = runtime();
    let server = outer.block_on(RedisServer::start());
    let inner = runtime();
    let (client, kept, held): (Client, RSemaphore, Permit) = inner.block_on(async {
        let client = connect(server.url()).await;
        let semaphore = client.semaphore("ended");
        semaphore.try_set_permits(4).await.unwrap();
        // One is given back before the end, in the background.
        drop(semaphore.permit(1).await.unwrap());
        let held = semaphore.permit(1).await.unwrap();
        let waiting = semaphore.clone();
        tokio::spawn(async move { waiting.acquire(4).await });
        let mut control = server.connection().await;
        until_subscribers(&mut control, "redisson_sc:{ended}", 1).await;
        until_stored(&server, "ended", 3).await;
        (client, semaphore, held)
    });
    let waiter = {
        let semaphore = kept.clone();
        outer.spawn(async move { semaphore.acquire(4).await })
    };
    inner.shutdown_timeout(Duration::from_secs(5));
    // No runtime, nobody to carry it out: it is only logged.
    drop(held);
    let told = outer.block_on(async { timeout(LIMIT, waiter).await.expect("it is told").unwrap() });
    // Its request may have been under way.
    assert!(
        matches!(
            told,
            Err(Error::RuntimeEnded { .. } | Error::OutcomeUnknown { .. })
        ),
        "{told:?}"
    );
    let told = outer.block_on(async { timeout(LIMIT, kept.try_acquire(1)).await.expect("told") });
    assert!(told.is_err(), "{told:?}");
    drop((client, kept));
    outer.block_on(async {
        let other = connect(server.url()).await.semaphore("ended");
        assert!(other.try_acquire_for(3, LIMIT).await.unwrap());
        assert_eq!(other.available_permits().await, Ok(0));
    });
}

#[test]
fn a_runtime_that_ends_at_any_moment_of_a_call_loses_no_release_and_panics_nowhere() {
    let outer = tokio::runtime::Runtime::new().unwrap();
    let server = outer.block_on(RedisServer::start());
    for polls in 0..12 {
        let inner = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let name = format!("moment-{polls}");
        let mut calls: Vec<Pin<Box<dyn Future<Output = ()> + Send>>> = Vec::new();
        inner.block_on(async {
            let semaphore = connect(server.url()).await.semaphore(&name);
            semaphore.try_set_permits(4).await.unwrap();
            for number in 0..3_u32 {
                let semaphore = semaphore.clone();
                calls.push(Box::pin(async move {
                    // What becomes of it is told by the counter.
                    let _ = semaphore.permit(1 + number).await;
                }));
            }
            for call in &mut calls {
                for _ in 0..polls {
                    if poll_once(&mut call.as_mut()).await.is_ready() {
                        *call = Box::pin(std::future::pending());
                        break;
                    }
                    tokio::task::yield_now().await;
                }
            }
        });
        drop(inner);
        // Dropped without a runtime.
        drop(calls);
        let left: i64 = outer.block_on(async {
            let left = stored(&server, &name).await;
            left[0].parse().unwrap()
        });
        assert!((0..=4).contains(&left), "{left} permits");
    }
}

#[tokio::test]
async fn shutdown_without_a_server_ends_and_says_so() {
    log::record();
    let mut server = RedisServer::start().await;
    let client = builder(server.url())
        .retry_window(Duration::from_millis(200))
        .connect()
        .await
        .unwrap();
    let permit = client.semaphore("gone").permit(0).await.unwrap();
    assert_eq!(permit.permits(), 0);
    drop(permit);
    let semaphore = client.semaphore("gone");
    semaphore.try_set_permits(2).await.unwrap();
    let permit = semaphore.permit(2).await.unwrap();
    server.stop().await;
    drop(permit);
    let told = timeout(LIMIT, client.shutdown()).await.expect("it ends");
    unfinished(&told.expect_err("the server has gone"));
    // Asked again, it says the same, at once.
    let again = timeout(LIMIT, client.shutdown()).await.expect("it ends");
    unfinished(&again.expect_err("the server has gone"));
    until("the release is given up", LIMIT, async || {
        !log::lines(tracing::Level::ERROR, "\"gone\"").is_empty()
    })
    .await;
    let told = log::lines(tracing::Level::INFO, "\"gone\"");
    let wrong = |line: &&log::Line| line.text.contains("answered");
    assert_eq!(told.iter().find(wrong).map(|line| &line.text), None);
}

/// The retry window is an hour, and a later shutdown is in a hurry.
#[tokio::test]
async fn a_shutdown_with_a_time_of_its_own_ends_then() {
    let mut server = RedisServer::start().await;
    let client = builder(server.url()).retry_window(NEVER);
    let client = client.connect().await.unwrap();
    let semaphore = client.semaphore("hurry");
    semaphore.try_set_permits(2).await.unwrap();
    let permit = semaphore.permit(2).await.unwrap();
    server.stop().await;
    drop(permit);
    let mut patient = std::pin::pin!(client.shutdown());
    assert!(poll_once(&mut patient.as_mut()).await.is_pending());
    let hurried = client.shutdown_for(Duration::from_millis(100));
    let both = async { tokio::join!(patient, hurried) };
    let told = timeout(LIMIT, both).await.expect("both end");
    unfinished(&told.0.expect_err("the server has gone"));
    unfinished(&told.1.expect_err("the server has gone"));

    server.restart().await;
    let client = connect(server.url()).await;
    drop(client.semaphore("hurry").permit(0).await.unwrap());
    client.semaphore("hurry").release(3).await.unwrap();
    drop(client.semaphore("hurry").permit(3).await.unwrap());
    client.shutdown_for(LIMIT).await.unwrap();
    assert_eq!(stored(&server, "hurry").await, ["3"]);
}

/// It can't be known whether anything took effect.
fn unfinished(error: &Error) {
    assert!(matches!(error, Error::Unfinished { .. }), "{error}");
    assert_eq!(error.effect(), Effect::Unknown);
    assert!(!error.to_string().contains("nothing"), "{error}");
}

/// What is in doubt has had its retry window, and its caller knows it.
#[tokio::test]
async fn shutdown_does_not_wait_for_a_second_window_when_all_callers_have_been_told() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(&server).await;
    let window = Duration::from_secs(6);
    let client = builder(proxy.url())
        .retry_window(window)
        .connect()
        .await
        .unwrap();
    let semaphore = client.semaphore("doubt");
    semaphore.try_set_permits(2).await.unwrap();
    proxy.mute();
    let error = semaphore.try_acquire(1).await.unwrap_err();
    assert!(matches!(error, Error::OutcomeUnknown { .. }), "{error}");
    let began = Instant::now();
    let told = timeout(LIMIT, client.shutdown()).await.expect("it ends");
    unfinished(&told.expect_err("nothing has been settled"));
    assert!(began.elapsed() < window, "{:?}", began.elapsed());
}

/// Who has just gone was told nothing: what it may have been granted is given back, within a retry window.
#[tokio::test]
async fn shutdown_waits_for_what_somebody_may_have_been_granted_who_has_just_gone() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(&server).await;
    let client = builder(proxy.url()).retry_window(LIMIT);
    let client = client.connect().await.unwrap();
    let semaphore = client.semaphore("just-gone");
    semaphore.try_set_permits(2).await.unwrap();
    semaphore.acquire(1).await.unwrap();
    proxy.mute();
    let taking = semaphore.clone();
    let taking = tokio::spawn(async move { taking.try_acquire(1).await });
    until_stored(&server, "just-gone", 0).await;
    taking.abort();
    // For longer than a shutdown waits for those who have been told.
    let away = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        proxy.clear();
    };
    let (told, ()) = tokio::join!(timeout(LIMIT, client.shutdown()), away);
    assert_eq!(told.expect("it ends"), Ok(()));
    assert_eq!(stored(&server, "just-gone").await, ["1"]);
}

/// It still has a chance, though, if the server is there.
#[tokio::test]
async fn shutdown_settles_what_is_in_doubt_if_it_can() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(&server).await;
    let client = builder(proxy.url())
        .retry_window(Duration::from_millis(500))
        .connect()
        .await
        .unwrap();
    let semaphore = client.semaphore("settled");
    semaphore.try_set_permits(2).await.unwrap();
    proxy.mute();
    let error = semaphore.try_acquire(1).await.unwrap_err();
    assert!(matches!(error, Error::OutcomeUnknown { .. }), "{error}");
    proxy.clear();
    timeout(LIMIT, client.shutdown())
        .await
        .expect("it ends")
        .unwrap();
    assert_eq!(stored(&server, "settled").await, ["2"]);
}

#[tokio::test]
async fn two_shutdowns_at_once_end_together() {
    let server = RedisServer::start().await;
    connect(server.url())
        .await
        .semaphore("warm-up")
        .release(1)
        .await
        .unwrap();
    let proxy = Proxy::start(&server).await;
    let client = Client::connect(proxy.url()).await.unwrap();
    let semaphore = client.semaphore("twice");
    semaphore.try_set_permits(2).await.unwrap();
    let permit = semaphore.permit(2).await.unwrap();
    proxy.at_script(1, Fate::HoldReply);
    drop(permit);
    proxy.until_struck(1).await;
    let other = client.clone();
    let deliver = async {
        // Both wait by now.
        tokio::task::yield_now().await;
        proxy.deliver(1).await;
    };
    let ended = async { tokio::join!(client.shutdown(), other.shutdown(), deliver) };
    let (first, second, ()) = timeout(LIMIT, ended).await.expect("they end");
    assert_eq!((first, second), (Ok(()), Ok(())));
    assert_eq!(stored(&server, "twice").await, ["2"]);
}

/// The caller of another runtime carries a round out there, and leaves it to others when it is dropped.
/// What becomes of that runtime must not matter to them: here it has ended, or nobody drives it.
fn begun_on_another_runtime(ended: bool) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (server, proxy, client) = runtime.block_on(async {
        let server = RedisServer::start().await;
        connect(server.url())
            .await
            .semaphore("warm-up")
            .release(1)
            .await
            .unwrap();
        let proxy = Proxy::start(&server).await;
        let client = connect(proxy.url()).await;
        (server, proxy, client)
    });
    let semaphore = client.semaphore("foreign");
    runtime.block_on(semaphore.try_set_permits(5)).unwrap();
    proxy.at_script(1, Fate::LoseReply);
    let other = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let answer = other.block_on(poll_times(semaphore.acquire(2), 1));
    assert_eq!(answer, None);
    let other = (!ended).then_some(other);
    runtime.block_on(async {
        let seen = timeout(LIMIT, semaphore.available_permits()).await;
        seen.expect("no answer").expect("the client goes on");
        until_stored(&server, "foreign", 5).await;
    });
    drop(other);
}

#[test]
fn a_round_begun_on_a_runtime_that_ends_goes_on() {
    begun_on_another_runtime(true);
}

#[test]
fn a_round_begun_on_a_runtime_that_nobody_drives_goes_on() {
    begun_on_another_runtime(false);
}

#[tokio::test]
async fn a_guard_dropped_during_shutdown_gives_back() {
    let server = RedisServer::start().await;
    let client = Client::connect(server.url()).await.unwrap();
    let semaphore = client.semaphore("owed");
    semaphore.try_set_permits(2).await.unwrap();
    let guard = semaphore.permit(2).await.unwrap();
    let mut shutdown = std::pin::pin!(client.shutdown());
    // Something is under way, so the first poll does not end it.
    let busy = semaphore.clone();
    let under_way = tokio::spawn(async move { busy.exists().await });
    tokio::task::yield_now().await;
    let _ = std::future::poll_fn(|cx| std::task::Poll::Ready(shutdown.as_mut().poll(cx))).await;
    drop(guard);
    shutdown.await.unwrap();
    let _ = under_way.await.unwrap();
    let other = Client::connect(server.url()).await.unwrap();
    assert_eq!(other.semaphore("owed").available_permits().await, Ok(2));
}

/// The last thing that a client does is to give back what it wrote beside objects; what is owed by then is more.
#[tokio::test]
async fn a_guard_dropped_at_the_very_end_of_a_shutdown_gives_back() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(&server).await;
    let client = builder(proxy.url()).response_timeout(LIMIT);
    let client = client.connect().await.unwrap();
    let semaphore = client.semaphore("owed");
    semaphore.try_set_permits(2).await.unwrap();
    let guards = [
        semaphore.permit(1).await.unwrap(),
        semaphore.permit(1).await.unwrap(),
    ];
    proxy.at_forget(Fate::HoldReply);
    let closing = tokio::spawn(async move { client.shutdown().await });
    for (guard, struck) in guards.into_iter().zip(1..) {
        proxy.until_struck(struck).await;
        proxy.at_forget(Fate::HoldReply);
        drop(guard);
        proxy.let_go();
    }
    proxy.until_struck(3).await;
    proxy.let_go();
    let closed = timeout(LIMIT, closing).await.expect("it ends").unwrap();
    assert_eq!(closed, Ok(()));
    assert_eq!(stored(&server, "owed").await, ["2"]);
}

/// Callers whose first question has been carried out and not been answered: what they were granted is given back, but
/// nobody can say so before the answer is there.
#[tokio::test]
async fn who_is_on_the_way_at_the_end_is_not_told_that_nothing_was_sent() {
    for locks in [false, true] {
        let server = RedisServer::start().await;
        let proxy = Proxy::start(&server).await;
        let client = builder(proxy.url())
            .response_timeout(LIMIT)
            .connect()
            .await
            .unwrap();
        let semaphore = client.semaphore("closing");
        semaphore.try_set_permits(1).await.unwrap();
        let lock = client.lock("closing-lock");
        assert!(!lock.is_locked().await.unwrap());
        proxy.at_script(1, Fate::HoldReply);
        let asks = lock.clone();
        let waiter = tokio::spawn(async move {
            match locks {
                true => asks.lock().await,
                false => semaphore.acquire(1).await,
            }
        });
        proxy.until_struck(1).await;
        let closing = tokio::spawn(async move { client.shutdown().await });
        let error = timeout(LIMIT, waiter).await.expect("it ends").unwrap();
        let error = error.unwrap_err();
        assert_eq!(error.effect(), Effect::Unknown, "{error}");
        proxy.let_go();
        timeout(LIMIT, closing).await.unwrap().unwrap().unwrap();
        assert_eq!(stored(&server, "closing").await, ["1"]);
        assert_eq!(stored(&server, "closing-lock").await, [""; 0]);
    }
}

/// The server went away before they asked: nothing was sent, so nothing has happened.
#[tokio::test]
async fn who_could_not_ask_is_told_that_nothing_was_sent() {
    let mut server = RedisServer::start().await;
    let client = builder(server.url()).retry_window(NEVER);
    let client = client.connect().await.unwrap();
    let semaphore = client.semaphore("unsent");
    semaphore.try_set_permits(1).await.unwrap();
    let (lock, permits) = (
        client.lock("unsent-lock"),
        client.permit_expirable_semaphore("unsent-ids"),
    );
    server.stop().await;
    let mut state = client.connection_state();
    let gone = |state: &ConnectionState| matches!(state, ConnectionState::Disconnected { .. });
    state.wait_for(gone).await.unwrap();
    let mut waiters: [Pin<Box<dyn Future<Output = redisson_semaphore::Result<()>>>>; 3] = [
        Box::pin(semaphore.acquire(1)),
        Box::pin(lock.lock()),
        Box::pin(async { permits.acquire().await.map(drop) }),
    ];
    for waiter in &mut waiters {
        assert!(poll_once(&mut waiter.as_mut()).await.is_pending());
    }
    let closing = client.shutdown_for(Duration::from_millis(100));
    let waiting = timeout(LIMIT, futures::future::join_all(waiters));
    let (told, closed) = tokio::join!(waiting, timeout(LIMIT, closing));
    for told in told.expect("they end") {
        let error = told.unwrap_err();
        assert!(matches!(error, Error::ShutDown { .. }), "{error}");
        assert_eq!(error.effect(), Effect::NotApplied);
    }
    drop(closed.expect("it ends"));
}
