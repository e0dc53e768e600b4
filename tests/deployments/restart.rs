//! Servers that are away, for a moment or for longer: with their data, what was begun takes effect once, and who
//! waits goes on waiting; and who has asked in vain is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::clients::{
    LIMIT, builder, connect, kill_and_release, served, stored, until_stored,
};
use crate::support::refusals::assert_clear;
use crate::support::server::RedisServer;
use crate::support::waiters::{until, waiter};
use redisson_semaphore::{Client, Effect, Error};
use tokio::time::timeout;

#[tokio::test]
async fn a_server_that_restarts_while_callers_wait() {
    let mut server = RedisServer::options().appendonly().start().await;
    let mut control = server.connection().await;
    let client = connect(server.url()).await;
    let semaphore = client.semaphore("restarted");
    semaphore.try_set_permits(1).await.unwrap();
    for number in 0..3 {
        let task = waiter(&mut control, &semaphore, 2).await;
        if number == 0 {
            server.stop().await;
        } else {
            server.kill().await;
        }
        server.restart().await;
        control = server.connection().await;
        assert!(!task.is_finished());
        // Whether it has subscribed anew by now is not known.
        kill_and_release(&mut control, &[], "restarted", 1).await;
        served(task).await;
        assert_eq!(stored(&server, "restarted").await, ["0"]);
        semaphore.release(1).await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_is_killed_and_restarted_while_calls_are_under_way() {
    const PERMITS: i64 = 2;
    let mut server = RedisServer::options().appendonly().start().await;
    let client = connect(server.url()).await;
    let semaphore = client.semaphore("working");
    semaphore.try_set_permits(PERMITS as u32).await.unwrap();
    let done = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..6)
        .map(|number| {
            let (semaphore, done) = (semaphore.clone(), done.clone());
            tokio::spawn(async move {
                for _ in 0..40 {
                    if number % 2 == 0 {
                        semaphore.acquire(1).await.unwrap();
                        semaphore.release(1).await.unwrap();
                    } else {
                        drop(semaphore.permit(1).await.unwrap());
                        // Brings the others their turn.
                        semaphore.available_permits().await.unwrap();
                    }
                    done.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    for goal in [40, 110, 180] {
        until("the callers go on", LIMIT, async || {
            done.load(Ordering::SeqCst) >= goal
        })
        .await;
        server.kill().await;
        server.restart().await;
    }
    for task in tasks {
        timeout(LIMIT, task).await.expect("a caller hangs").unwrap();
    }
    client.shutdown().await.unwrap();
    assert_eq!(stored(&server, "working").await, [PERMITS.to_string()]);
}

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
async fn a_server_that_is_away_at_connect() {
    let mut server = RedisServer::start().await;
    let url = server.url();
    let short = Duration::from_millis(200);
    server.stop().await;
    let connecting = Client::builder(url.clone())
        .connect_timeout(short)
        .connect();
    let error = timeout(LIMIT, connecting).await.unwrap().expect_err("away");
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert_clear(&error, &format!("127.0.0.1:{}", server.port()));
    // One that comes while it is tried is found.
    let connecting = tokio::spawn(Client::connect(url.clone()));
    server.restart().await;
    let client = timeout(LIMIT, connecting).await.unwrap().unwrap().unwrap();
    client.semaphore("there").release(1).await.unwrap();
    // One that accepts and says nothing.
    server.freeze();
    let connecting = Client::builder(url).connect_timeout(short).connect();
    let error = timeout(LIMIT, connecting)
        .await
        .unwrap()
        .expect_err("silent");
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    server.thaw();
}

#[tokio::test]
async fn a_server_that_is_away_during_calls() {
    let mut server = RedisServer::options().appendonly().start().await;
    let client = builder(server.url())
        .retry_window(Duration::from_millis(400))
        .connect()
        .await
        .unwrap();
    let semaphore = client.semaphore("away");
    semaphore.try_set_permits(5).await.unwrap();
    // Sent, not answered.
    server.freeze();
    let error = timeout(LIMIT, semaphore.release(1))
        .await
        .unwrap()
        .unwrap_err();
    assert!(
        matches!(&error, Error::OutcomeUnknown { name, operation: "release", .. } if name == "away"),
        "{error}"
    );
    assert_eq!(error.effect(), Effect::Unknown);
    // Never sent: others stand in front of it, or there is no connection. Only a release will be.
    let error = semaphore.release(1).await.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown, "{error}");
    for error in [
        semaphore.try_acquire(1).await.unwrap_err(),
        semaphore.acquire(1).await.unwrap_err(),
        semaphore.delete().await.unwrap_err(),
    ] {
        if matches!(
            error,
            Error::OutcomeUnknown {
                operation: "acquire",
                ..
            }
        ) {
            continue;
        }
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        assert_clear(&error, "away");
    }
    server.thaw();
    // Each release is carried out once, the others are not.
    until("the client is back", LIMIT, async || {
        semaphore.available_permits().await == Ok(7)
    })
    .await;
    server.stop().await;
    let scouted = client.semaphore("scout").exists().await.unwrap_err();
    assert!(scouted.to_string().contains("scout"), "{scouted}");
    let error = semaphore.release(1).await.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown, "{error}");
    for error in [
        semaphore.acquire(1).await.unwrap_err(),
        semaphore.try_acquire(1).await.unwrap_err(),
        semaphore.expire(LIMIT).await.unwrap_err(),
        semaphore.available_permits().await.unwrap_err(),
    ] {
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        assert_clear(&error, "away");
    }
    server.restart().await;
    until("the client is back", LIMIT, async || {
        semaphore.available_permits().await.is_ok()
    })
    .await;
    until_stored(&server, "away", 8).await;
}
