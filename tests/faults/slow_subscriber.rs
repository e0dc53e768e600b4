//! A subscriber that the server cuts off, as it reads too slowly (`client-output-buffer-limit`).

use crate::support::clients::{connect, served};
use crate::support::server::RedisServer;
use crate::support::waiters::{channel, waiter};

#[tokio::test]
async fn a_subscriber_that_is_cut_off_for_reading_too_slowly() {
    let server = RedisServer::start().await;
    let mut control = server.connection().await;
    let client = connect(server.url()).await;
    let semaphore = client.semaphore("slow");
    let _: () = redis::cmd("CONFIG")
        .arg(&["SET", "client-output-buffer-limit", "pubsub 100000 0 0"])
        .query_async(&mut control)
        .await
        .unwrap();
    let task = waiter(&mut control, &semaphore, 1).await;
    let mut pipe = redis::pipe();
    pipe.atomic();
    pipe.cmd("PUBLISH")
        .arg(channel("slow"))
        .arg(vec![b'x'; 1_000_000]);
    pipe.cmd("INCR").arg("slow");
    pipe.cmd("PUBLISH").arg(channel("slow")).arg(1);
    let _: (u64, i64, u64) = pipe.query_async(&mut control).await.unwrap();
    served(task).await;
    assert!(
        server.log().contains("output buffer limits"),
        "it was not cut off"
    );
}
