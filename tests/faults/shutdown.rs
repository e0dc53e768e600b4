//! Clients that are shut down and runtimes that end, with calls under way.

use std::pin::Pin;
use std::time::Duration;

use crate::support::clients::{LIMIT, builder, connect, stored, until_stored};
use crate::support::polls::{poll_once, poll_times};
use crate::support::proxy::{Fate, Proxy};
use crate::support::server::RedisServer;
use redisson_semaphore::{Client, Effect, Error};
use tokio::time::{Instant, timeout};

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
