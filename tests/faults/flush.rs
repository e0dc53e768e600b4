//! A server whose script cache or data are flushed.

use crate::support::clients::{KINDS, LIMIT, connect, kill_and_release, served, stored};
use crate::support::server::RedisServer;
use crate::support::waiters::waiter;

#[tokio::test]
async fn scripts_forgotten_while_callers_wait() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let client = connect(server.url()).await;
    let semaphore = client.semaphore("forgotten");
    for kinds in KINDS {
        let task = waiter(&mut control, &semaphore, 1).await;
        let _: () = redis::cmd("SCRIPT")
            .arg("FLUSH")
            .query_async(&mut control)
            .await
            .unwrap();
        kill_and_release(&mut control, kinds, "forgotten", 1).await;
        served(task).await;
    }
    assert_eq!(stored(&server, "forgotten").await, ["0"]);
}

#[tokio::test]
async fn everything_is_flushed_while_callers_wait() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let client = connect(server.url()).await;
    let other = connect(server.url()).await;
    let semaphore = client.semaphore("flushed");
    semaphore.try_set_permits(1).await.unwrap();
    let first = waiter(&mut control, &semaphore, 2).await;
    let second = waiter(&mut control, &semaphore, 3).await;
    let _: () = redis::cmd("FLUSHALL")
        .query_async(&mut control)
        .await
        .unwrap();
    assert!(other.semaphore("flushed").try_set_permits(5).await.unwrap());
    served(first).await;
    served(second).await;
    assert_eq!(stored(&server, "flushed").await, ["0"]);
}

#[tokio::test]
async fn forgotten_scripts_are_sent_again() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let semaphore = connect(server.url()).await.semaphore("flushed");
    let mut flush = async || {
        let _: () = redis::cmd("SCRIPT")
            .arg("FLUSH")
            .query_async(&mut control)
            .await
            .unwrap();
    };
    for _ in 0..5 {
        flush().await;
        semaphore.release(3).await.unwrap();
        flush().await;
        semaphore.acquire(2).await.unwrap();
        flush().await;
        assert!(semaphore.expire(LIMIT).await.unwrap());
        assert!(semaphore.clear_expire().await.unwrap());
        flush().await;
        assert_eq!(semaphore.drain_permits().await, Ok(1));
        flush().await;
        let waiting = semaphore.clone();
        let waiting = tokio::spawn(async move { waiting.acquire(1).await });
        semaphore.release(1).await.unwrap();
        served(waiting).await;
    }
    assert_eq!(semaphore.available_permits().await, Ok(0));
}
