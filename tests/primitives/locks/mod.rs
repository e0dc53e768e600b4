//! Locks: holding, renewal, waiting and lost connections.

mod fair;
mod herd;
mod holds;
mod lost_reply;
mod read_write;
mod renewal;
mod served;
mod trouble;
mod waking;

use std::time::Duration;

use redisson_semaphore::Client;

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
