//! Calls that are not answered within the retry window: the caller is told what may have happened, and it is settled
//! later.

mod support;

use std::pin::Pin;
use std::time::Duration;

use redisson_semaphore::{Effect, Error, RSemaphore};
use support::clients::{LIMIT, stored};
use support::proxy::Proxy;
use support::sequence::{builder, start};
use support::server::RedisServer;
use support::waiters::{channel, until, until_subscribers};
use tokio::time::{Instant, timeout};

/// An operation whose outcome stays unknown to the caller, on a counter of 5, and what it leaves once the
/// server answers again.
async fn unknown_at_first(
    lose: impl Fn(&Proxy),
    left: i64,
    call: impl AsyncFnOnce(&RSemaphore) -> Error,
) {
    let (server, proxy) = start().await;
    let client = builder(proxy.url())
        .retry_window(Duration::from_millis(300))
        .connect_timeout(Duration::from_millis(300))
        .connect()
        .await
        .unwrap();
    let semaphore = client.semaphore("unknown");
    semaphore.try_set_permits(5).await.unwrap();
    lose(&proxy);
    let error = timeout(LIMIT, call(&semaphore)).await.expect("it ends");
    let Error::OutcomeUnknown { name, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(
        (name.as_str(), error.effect()),
        ("unknown", Effect::Unknown)
    );
    let text = error.to_string();
    assert!(text.contains("may have taken effect"), "{text}");
    // Several repetitions arrive, or none does.
    let opened = proxy.opened();
    until("the client tries again", LIMIT, async || {
        proxy.opened() > opened + 1
    })
    .await;
    proxy.clear();
    let settled = async || matches!(semaphore.available_permits().await, Ok(now) if now == left);
    until(&format!("{left} permits are left"), LIMIT, settled).await;
    client.shutdown().await.unwrap();
    assert_eq!(stored(&server, "unknown").await, [left.to_string()]);
}

#[tokio::test]
async fn a_release_that_happened_unseen_happens_once() {
    let call = async |semaphore: &RSemaphore| semaphore.release(2).await.unwrap_err();
    unknown_at_first(Proxy::mute, 7, call).await;
}

#[tokio::test]
async fn a_release_that_never_arrived_is_carried_out_later() {
    let call = async |semaphore: &RSemaphore| semaphore.release(2).await.unwrap_err();
    unknown_at_first(Proxy::blackhole, 7, call).await;
}

#[tokio::test]
async fn an_acquisition_that_happened_unseen_is_given_back() {
    let call = async |semaphore: &RSemaphore| semaphore.acquire(2).await.unwrap_err();
    unknown_at_first(Proxy::mute, 5, call).await;
    let call = async |semaphore: &RSemaphore| semaphore.try_acquire(2).await.unwrap_err();
    unknown_at_first(Proxy::mute, 5, call).await;
    let long = Duration::from_secs(60);
    let call = async |semaphore: &RSemaphore| semaphore.try_acquire_for(2, long).await.unwrap_err();
    unknown_at_first(Proxy::mute, 5, call).await;
}

#[tokio::test]
async fn an_acquisition_that_never_arrived_leaves_nothing_taken() {
    let call = async |semaphore: &RSemaphore| semaphore.acquire(2).await.unwrap_err();
    unknown_at_first(Proxy::blackhole, 5, call).await;
    let call = async |semaphore: &RSemaphore| semaphore.try_acquire(2).await.unwrap_err();
    unknown_at_first(Proxy::blackhole, 5, call).await;
}

#[tokio::test]
async fn other_changes_with_an_unknown_outcome_happen_once() {
    let call = async |semaphore: &RSemaphore| semaphore.add_permits(-3).await.unwrap_err();
    unknown_at_first(Proxy::mute, 2, call).await;
    let call = async |semaphore: &RSemaphore| semaphore.drain_permits().await.unwrap_err();
    unknown_at_first(Proxy::mute, 0, call).await;
    let call = async |semaphore: &RSemaphore| semaphore.release_if_exists(1).await.unwrap_err();
    unknown_at_first(Proxy::blackhole, 6, call).await;
}

/// A release travels together with the question of a caller that waits for as long as it takes.
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
    let error = semaphore.release(1).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert_eq!(error.effect(), Effect::None);
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
