//! A server whose script cache or data are flushed.

use crate::support::clients::{LIMIT, connect, served};
use crate::support::server::RedisServer;

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
