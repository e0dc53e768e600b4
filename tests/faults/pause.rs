//! A server that pauses (`CLIENT PAUSE`): calls are repeated and take effect once.

use crate::support::clients::{connect, served, stored};
use crate::support::server::RedisServer;
use crate::support::waiters::waiter;

#[tokio::test]
async fn a_server_that_pauses_for_longer_than_the_response_timeout() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let client = connect(server.url()).await;
    let semaphore = client.semaphore("paused");
    semaphore.try_set_permits(3).await.unwrap();
    let (other, third) = (client.semaphore("other"), client.semaphore("third"));
    let waiting = waiter(&mut control, &semaphore, 6).await;
    for _ in 0..2 {
        let _: () = redis::cmd("CLIENT")
            .arg(&["PAUSE", "900", "ALL"])
            .query_async(&mut control)
            .await
            .unwrap();
        let (acquired, released, drained, added) = tokio::join!(
            semaphore.try_acquire(2),
            semaphore.release(1),
            other.drain_permits(),
            third.add_permits(2),
        );
        assert_eq!(
            (acquired, released, drained, added),
            (Ok(true), Ok(()), Ok(0), Ok(()))
        );
    }
    assert_eq!(stored(&server, "paused").await, ["1"]);
    assert_eq!(stored(&server, "third").await, ["4"]);
    semaphore.release(5).await.unwrap();
    served(waiting).await;
    assert_eq!(stored(&server, "paused").await, ["0"]);
}
