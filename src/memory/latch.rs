//! [`CountDownLatch`]: the latch inside this process.

use std::sync::Arc;
use std::time::Duration;

use super::faults::fault_switch;
use super::queue::{Rules, Shared};
use crate::api;
use crate::error::Result;
use async_trait::async_trait;

/// A count-down latch inside this process.
///
/// It behaves as [`RCountDownLatch`](crate::RCountDownLatch) does, except that no waiter misses an opening after
/// which the latch is set again at once.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> redisson_semaphore::Result<()> {
/// use redisson_semaphore::{CountDownLatch, memory};
///
/// let ready = memory::CountDownLatch::new("ready");
/// ready.try_set_count(2).await?;
/// ready.count_down().await?;
/// ready.count_down().await?;
/// ready.wait().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct CountDownLatch {
    shared: Arc<Shared<Count>>,
}

/// The count, if there is one.
struct Count(Option<u32>);

impl Count {
    fn left(&self) -> u32 {
        self.0.unwrap_or(0)
    }
}

/// Nothing is taken: all waiters pass when the count has come to zero.
impl Rules for Count {
    type Want = ();
    type Grant = ();

    fn fits(&self, (): &(), _behind: bool) -> bool {
        self.left() == 0
    }

    fn take(&mut self, (): &()) {}

    fn take_back(&mut self, (): &(), (): ()) {}
}

impl CountDownLatch {
    /// A latch that does not exist yet, which is open.
    #[must_use]
    pub fn new(name: &str) -> Self {
        CountDownLatch {
            shared: Shared::new(name.to_owned(), Ok(()), Count(None)),
        }
    }

    /// Loses the count, as a server does that restarts without its data: the latch is open.
    pub fn lose(&self) {
        self.shared.change(|count| count.0 = None);
    }
}

fault_switch!(CountDownLatch);

/// The methods take effect at their first poll, and only the waits wait.
#[async_trait]
impl api::CountDownLatch for CountDownLatch {
    fn name(&self) -> &str {
        &self.shared.name
    }

    fn clone_handle(&self) -> Arc<dyn api::CountDownLatch> {
        Arc::new(self.clone())
    }

    async fn try_set_count(&self, count: u32) -> Result<bool> {
        let set = |known: &mut Count| {
            let new = known.0.is_none();
            known.0 = known.0.or(Some(count));
            new
        };
        self.shared.call(set).await
    }

    async fn count_down(&self) -> Result<()> {
        let count_down =
            |count: &mut Count| count.0 = count.left().checked_sub(1).filter(|left| *left > 0);
        self.shared.carry_out("count_down", count_down).await
    }

    async fn count(&self) -> Result<i64> {
        self.shared.call(|count| count.left().into()).await
    }

    async fn wait(&self) -> Result<()> {
        self.shared.acquire((), None).await.map(drop)
    }

    async fn wait_for(&self, wait: Duration) -> Result<bool> {
        Ok(self.shared.acquire((), Some(wait)).await?.is_some())
    }
}
