//! Clients that are shut down and runtimes that end, with calls under way.

use std::time::Duration;

use crate::support::clients::{LIMIT, builder, connect, stored, until_stored};
use crate::support::polls::poll_times;
use crate::support::proxy::{Fate, Proxy};
use crate::support::server::RedisServer;
use redisson_semaphore::{Effect, Error};
use tokio::time::{Instant, timeout};

/// A call with an unknown outcome has had its retry window, and its caller has got the error.
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
    let error = told.expect_err("nothing has been settled");
    assert!(matches!(error, Error::Unfinished { .. }), "{error}");
    // It can't be known whether anything took effect.
    assert_eq!(error.effect(), Effect::Unknown);
    assert!(!error.to_string().contains("nothing"), "{error}");
    assert!(began.elapsed() < window, "{:?}", began.elapsed());
}

/// A caller of another runtime carries out a round there, and leaves the round to others when it is dropped. The state of that runtime
/// must not matter to the others: here it has ended, or no thread drives it.
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

/// A client ends by deleting its records. A guard that is dropped during this last step is still released.
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
