//! Locks: holding, renewal, waiting and lost connections.

mod fair;
mod holds;
mod read_write;
mod renewal;
mod trouble;
mod waking;

use std::time::Duration;

use crate::support::clients::LIMIT;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, Error, Lease, Result};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::support::waiters::until;

/// Short, so that a test sees many periods; long enough for a machine that is busy with something else.
const WATCHDOG: Duration = Duration::from_secs(6);

/// A client that renews for `watchdog`, waits for an answer for `response_timeout`, and never checks without a reason.
async fn connect(url: String, watchdog: Duration, response_timeout: Duration) -> Client {
    Client::builder(url)
        .lock_watchdog_timeout(watchdog)
        .response_timeout(response_timeout)
        .retry_window(Duration::from_secs(30))
        .safety_interval(Duration::from_secs(3600))
        .connect()
        .await
        .expect("the server runs")
}

/// The caller gets the lock; otherwise `what` is wrong.
async fn served(what: &str, task: JoinHandle<Result<()>>) {
    let answer = timeout(LIMIT, task).await;
    answer
        .unwrap_or_else(|_| panic!("{what}"))
        .unwrap()
        .unwrap();
}

/// Waits for the loss, which is reported in time.
async fn lost(lease: &Lease) {
    timeout(2 * LIMIT, lease.lost())
        .await
        .expect("the loss is told");
    assert!(lease.is_lost());
    assert_eq!(lease.remaining(), Some(Duration::ZERO));
}

fn assert_not_held(result: Result<()>) {
    let error = result.expect_err("it is not held");
    assert!(matches!(error, Error::NotHeld { .. }), "{error}");
}

/// Brings the end of a lock that is renewed nearer, and waits until a renewal has put it off again.
async fn until_renewed(redis: &mut MultiplexedConnection, key: &str, watchdog: Duration) {
    let nearer = watchdog.as_millis() as i64 * 3 / 4;
    let _: () = redis.pexpire(key, nearer).await.unwrap();
    until("it is renewed", 2 * LIMIT, async || {
        redis.pttl::<_, i64>(key).await.unwrap() > nearer
    })
    .await;
}
