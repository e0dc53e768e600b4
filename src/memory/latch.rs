//! [`CountDownLatch`]: the latch inside this process.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

use super::faults::{Faults, fault_switch};
use crate::api;
use crate::api::check_name;
use crate::error::Result;

/// A count-down latch inside this process.
///
/// Cloning it is cheap and gives another handle to the same count. There is no registry: two latches of the same name are
/// two. It behaves as [`RCountDownLatch`](crate::RCountDownLatch) does, except that no waiter misses an opening after
/// which the latch is set again at once.
///
/// Every operation returns [`Error::InvalidName`](crate::Error::InvalidName) if the name is empty.
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
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    name: String,
    faults: Faults,
    /// The count, if there is one; and how often it has come to zero.
    count: watch::Sender<(Option<u32>, u64)>,
}

impl CountDownLatch {
    /// A latch that does not exist yet, which is open.
    #[must_use]
    pub fn new(name: &str) -> Self {
        CountDownLatch {
            shared: Arc::new(Shared {
                name: name.to_owned(),
                faults: Faults::default(),
                count: watch::Sender::new((None, 0)),
            }),
        }
    }

    /// Loses the count, as a server does that restarts without its data: the latch is open.
    pub fn lose(&self) {
        self.shared.count.send_if_modified(|(known, opened)| {
            let lost = known.take().is_some();
            *opened += u64::from(lost);
            lost
        });
    }

    /// Unless something is wrong with it, or on purpose.
    async fn pass(&self, wait: Option<Duration>) -> Result<()> {
        check_name(&self.shared.name)?;
        self.shared.faults.pass(&self.shared.name, wait).await
    }

    async fn open(&self) {
        let mut watch = self.shared.count.subscribe();
        let before = watch.borrow().1;
        let open =
            |(count, opened): &(Option<u32>, u64)| count.unwrap_or(0) == 0 || *opened > before;
        // The sender is here.
        let _ = watch.wait_for(open).await;
    }
}

fault_switch!(CountDownLatch: shared.faults);

impl api::Sealed for CountDownLatch {}

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
        let set = |(known, _): &mut (Option<u32>, u64)| {
            let new = known.is_none();
            *known = known.or(Some(count));
            new
        };
        self.pass(None).await?;
        Ok(self.shared.count.send_if_modified(set))
    }

    async fn count_down(&self) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let count_down = move || {
            shared.count.send_if_modified(|(known, opened)| {
                let Some(count) = *known else { return false };
                *known = count.checked_sub(1).filter(|left| *left > 0);
                *opened += u64::from(known.is_none());
                true
            });
        };
        let Shared { name, faults, .. } = &*self.shared;
        check_name(name)?;
        faults.carry_out(name, "count_down", count_down).await
    }

    async fn count(&self) -> Result<i64> {
        self.pass(None).await?;
        Ok(self.shared.count.borrow().0.unwrap_or(0).into())
    }

    async fn wait(&self) -> Result<()> {
        self.pass(None).await?;
        self.open().await;
        Ok(())
    }

    async fn wait_for(&self, wait: Duration) -> Result<bool> {
        self.pass((!wait.is_zero()).then_some(wait)).await?;
        Ok(tokio::time::timeout(wait, self.open()).await.is_ok())
    }
}
