//! The count-down latch: what it does, and what it costs.

mod support;

use std::time::Duration;

use redisson_semaphore::Client;
use support::channel::Channel;
use support::clients::{LIMIT, NEVER, builder, connect, stored};
use support::monitor::Monitor;
use support::server::RedisServer;
use support::snapshot::snapshot_all;
use support::waiters::{until, until_subscribers};
use tokio::task::JoinHandle;
use tokio::time::timeout;

fn channel(name: &str) -> String {
    format!("redisson_countdownlatch__channel__{{{name}}}")
}

#[tokio::test]
async fn it_is_set_once_and_counted_down() {
    let server = RedisServer::start().await;
    let latch = connect(server.url()).await.count_down_latch("steps");
    assert_eq!(latch.count().await, Ok(0));
    latch.wait().await.unwrap();
    latch.count_down().await.unwrap();
    assert_eq!(latch.try_set_count(2).await, Ok(true));
    assert_eq!(latch.try_set_count(5).await, Ok(false));
    assert_eq!(latch.wait_for(Duration::ZERO).await, Ok(false));
    latch.count_down().await.unwrap();
    assert_eq!(latch.count().await, Ok(1));
    assert_eq!(
        latch.wait_for(Duration::from_millis(20)).await,
        Ok(false),
        "it is not open yet"
    );
    latch.count_down().await.unwrap();
    latch.wait().await.unwrap();
    assert_eq!(latch.wait_for(Duration::ZERO).await, Ok(true));
    assert_eq!(
        (latch.count().await, latch.exists().await),
        (Ok(0), Ok(false))
    );
    assert_eq!(stored(&server, "steps").await, [""; 0]);
}
