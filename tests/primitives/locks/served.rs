//! Callers in tasks.

use std::time::Duration;

use redisson_semaphore::Result;
use tokio::task::JoinHandle;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(20);

/// The caller gets the lock; otherwise `what` is wrong.
pub(crate) async fn served(what: &str, task: JoinHandle<Result<()>>) {
    let answer = timeout(LIMIT, task).await;
    answer
        .unwrap_or_else(|_| panic!("{what}"))
        .unwrap()
        .unwrap();
}
