//! [`CountDownLatch`]: the trait of all count-down latches.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::Sealed;
use crate::error::Result;

/// A latch that holds callers up until it has been counted down to zero, wherever its count is kept. Implemented by this crate alone.
///
/// The count is set once, counted down by one at a time, and gone when it comes to zero: a latch that does not exist is
/// open. It can be set again then.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> redisson_semaphore::Result<()> {
/// use redisson_semaphore::{CountDownLatch, memory};
/// use std::sync::Arc;
///
/// async fn party(ready: Arc<dyn CountDownLatch>) -> redisson_semaphore::Result<()> {
///     ready.count_down().await
/// }
///
/// let ready = Arc::new(memory::CountDownLatch::new("ready"));
/// ready.try_set_count(1).await?;
/// party(ready.clone()).await?;
/// ready.wait().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
///
/// Every future may be dropped at any await point. A count-down that was polled once is carried out; a wait
/// leaves nothing behind.
///
/// # Order
///
/// All waiters go through together.
#[async_trait]
pub trait CountDownLatch: Sealed + Send + Sync + std::fmt::Debug + 'static {
    /// The latch's name, as the user gave it.
    fn name(&self) -> &str;

    /// Another handle to the same latch; costs no I/O.
    #[doc(hidden)]
    fn clone_handle(&self) -> Arc<dyn CountDownLatch>;

    /// Sets the count if the latch does not exist; `true` if this call has set it.
    async fn try_set_count(&self, count: u32) -> Result<bool>;

    /// Counts down by one; nothing happens where the latch does not exist.
    async fn count_down(&self) -> Result<()>;

    /// The count; 0 where the latch does not exist.
    async fn count(&self) -> Result<i64>;

    /// Waits until the latch is open.
    async fn wait(&self) -> Result<()>;

    /// Waits until the latch is open, for `wait` at the most, and looks once more at the end of it; `false` when the time
    /// has run out.
    async fn wait_for(&self, wait: Duration) -> Result<bool>;
}
