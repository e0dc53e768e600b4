//! What is owed when its caller has gone, and who is told when a permission is taken away.

mod support;

use std::time::Duration;

use redisson_semaphore::{Client, Error};
use support::server::RedisServer;
use support::waiters::{until, until_subscribers};
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_release_whose_caller_has_gone_is_carried_out_when_the_server_is_back() {
    let mut server = RedisServer::options().appendonly().start().await;
    let client = Client::builder(server.url())
        .response_timeout(Duration::from_millis(300))
        .retry_window(Duration::from_millis(500))
        .connect()
        .await
        .unwrap();
    let semaphore = client.semaphore("owed");
    semaphore.try_set_permits(3).await.unwrap();
    semaphore.acquire(3).await.unwrap();
    server.stop().await;

    let release = timeout(Duration::from_millis(50), semaphore.release(2)).await;
    assert!(release.is_err(), "nobody answers");
    // Asked later, so that its retry window ends later than that of the release.
    let refused = timeout(LIMIT, semaphore.available_permits())
        .await
        .expect("it is told");
    assert!(matches!(
        refused,
        Err(Error::Unavailable { .. } | Error::OutcomeUnknown { .. })
    ));

    server.restart().await;
    until("the release is carried out", LIMIT, async || {
        semaphore.available_permits().await == Ok(2)
    })
    .await;
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

#[tokio::test]
async fn waiters_of_different_amounts_are_told_that_the_permission_is_gone() {
    let server = RedisServer::options()
        .user("app on >secret ~* &* +@all")
        .start()
        .await;
    let client = Client::builder(server.url_as("app", "secret"))
        .safety_interval(Duration::from_millis(50))
        .connect()
        .await
        .unwrap();
    let semaphore = client.semaphore("forbidden");
    let waiting: Vec<_> = [1, 2, 1]
        .map(|permits| {
            let semaphore = semaphore.clone();
            tokio::spawn(async move { semaphore.acquire(permits).await })
        })
        .into();
    let mut control = server.connection().await;
    until_subscribers(&mut control, "redisson_sc:{forbidden}", 1).await;
    let () = redis::cmd("ACL")
        .arg(&["SETUSER", "app", "-evalsha", "-eval"])
        .query_async(&mut control)
        .await
        .unwrap();
    for waiter in waiting {
        let told = timeout(LIMIT, waiter).await.expect("it is told").unwrap();
        assert!(
            matches!(told, Err(Error::PermissionDenied { .. })),
            "{told:?}"
        );
    }
}
