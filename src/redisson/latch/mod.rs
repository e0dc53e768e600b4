//! [`RCountDownLatch`]: Redisson's count-down latch.

mod call;
mod handle;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::names;
use super::object::{copyable_methods, object_methods, renamable_methods};
use crate::engine::Core;
use crate::error::Result;
use crate::queue::{self, Outcome};
use call::{Call, Latch, OPEN, SCRIPT};

/// A count-down latch shared with Java's `RCountDownLatch` of the same name.
///
/// A handle: cheap to clone, made without I/O by [`Client::count_down_latch`](crate::Client::count_down_latch). The guide has
/// [the guarantees](crate::guide::promises).
///
/// ```no_run
/// # async fn example(client: redisson_semaphore::Client) -> redisson_semaphore::Result<()> {
/// let ready = client.count_down_latch("ready"); // Java: redisson.getCountDownLatch("ready")
/// ready.try_set_count(3).await?;
/// ready.count_down().await?; // each party calls this once
/// ready.wait().await?; // until all three have
/// # Ok(())
/// # }
/// ```
///
/// # Waiting
///
/// All callers of one client that wait ask together: when one joins them, when a message comes or may have been missed,
/// when the key's time to live has ended, and every few seconds
/// ([`safety_interval`](crate::ClientBuilder::safety_interval)). An opening costs one script a
/// client, however many of its callers wait. If a latch opens and is set again before a client looks,
/// callers of that client wait on, as in Redisson.
///
/// # In Redis
///
/// | | |
/// |---|---|
/// | key `name` | string: the count, a decimal integer; gone when it has been counted down to zero. A count that was set to 0 stays until `delete` or a count-down |
/// | channel `redisson_countdownlatch__channel__{name}` | `0` when the count has come to zero; `1` when one is set, and when the latch is deleted |
/// | key `redisson_countdownlatch_once:{name}:<client id>` | string: the client's last call that changed something and its answer, for once-only execution; deleted within a second of its last use; after a call that had to be repeated it vanishes after ten minutes, or four retry windows where that is longer |
///
/// `name` is the mapped name. The channel always has these braces, so that in a cluster that of a name with braces of
/// its own stands in another slot than the key; where the name contains a `{`, the last key begins with
/// `redisson_countdownlatch_once::`. Script: `lua/queue/record.lua` with `lua/latch/steps.lua`.
///
/// The [guide](crate::guide::operations#permissions) has the permissions that a user of the server's ACL needs.
///
/// # Errors
///
/// Every operation can fail with [the errors of all operations](crate::guide::promises#errors). A wait changes
/// nothing, so its outcome is never unknown. Calls that travel in one script get the same error. A refused call has
/// changed nothing; where `DEL` or `DECRBY` alone was refused, its message has been published.
///
/// # Cancel safety
///
/// Any future may be dropped at any await point. An operation takes its place at the first poll. If its future is
/// dropped after that, a count-down is carried out all the same; what else has not been sent is not sent any more.
///
/// # DIFFERENCE from Redisson
///
/// - A call whose answer was lost takes effect once; Redisson's count-down is lost, or repeated by the user.
/// - Callers that wait for a latch that is deleted go through, as callers do that come then; Redisson's wait on.
/// - A waiting call whose time runs out looks once more at the end.
/// - Counts are set up to 2^32-1; higher ones of Java's are counted down and shown as they are.
#[derive(Debug, Clone)]
pub struct RCountDownLatch {
    queue: Arc<queue::Object<Latch>>,
}

object_methods!(RCountDownLatch);
renamable_methods!(RCountDownLatch, "No waiter is notified.");
copyable_methods!(RCountDownLatch);

impl RCountDownLatch {
    pub(crate) fn new(core: &Arc<Core>, name: &str) -> Self {
        let names = names::of_latch(name, &core.config.name_mapper, core.id());
        RCountDownLatch {
            queue: queue::Object::of(core, names, &SCRIPT, |_, _, _| queue::Nothing),
        }
    }

    /// The name that the handle was made with, before mapping.
    #[must_use]
    pub fn name(&self) -> &str {
        self.queue.keys().name()
    }

    /// Sets the count if the latch does not exist; `true` if this call has set it.
    ///
    /// Redis: `name` is set to `count`, without expiry, and `1` is published, where the key is missing. Redisson:
    /// `trySetCount(long)`.
    pub async fn try_set_count(&self, count: u32) -> Result<bool> {
        self.run(Call::TrySet(count)).await
    }

    /// Counts down by one; nothing happens where the latch does not exist. Carried out even when the future is dropped
    /// after its first poll, and, where Redis is away, when it is back: by then the latch may have been set anew.
    ///
    /// Redis: `name` falls by one and keeps its time to live; at zero it is deleted, and `0` is published. Redisson:
    /// `countDown()`.
    pub async fn count_down(&self) -> Result<()> {
        self.run(Call::CountDown(1)).await.map(drop)
    }

    /// The count; 0 where the latch does not exist. Redis: `GET`. Redisson: `getCount()`.
    pub async fn count(&self) -> Result<i64> {
        self.queue.read("count", "GET").await
    }

    /// Waits until the count is zero, or there is none.
    ///
    /// Redis: nothing is changed. Redisson: `await()`.
    pub async fn wait(&self) -> Result<()> {
        self.passing(None).await.map(drop)
    }

    /// As [`wait`](Self::wait), for `wait` at the most, and looks once more at the end of it; `false` when the time has run
    /// out. A wait of zero looks once. For this and the other times see [there](crate::ClientBuilder#names-and-times-of-calls). Redisson:
    /// `await(long, TimeUnit)`.
    pub async fn wait_for(&self, wait: Duration) -> Result<bool> {
        self.passing(Some(wait)).await
    }

    /// Deletes it, which lets its waiters go through; `false` if it did not exist.
    ///
    /// Redis: `DEL`, and `1` is published. Redisson: `delete()`.
    pub async fn delete(&self) -> Result<bool> {
        self.run(Call::Delete).await
    }

    async fn run(&self, call: Call) -> Result<bool> {
        let due = self.queue.client().due(Some(Duration::ZERO));
        let running = self.is_done(call, due);
        self.queue.client().call(pin!(running)).await
    }

    /// Whether it was open in time.
    async fn passing(&self, wait: Option<Duration>) -> Result<bool> {
        let client = self.queue.client();
        let waiting = async {
            let in_time = wait != Some(Duration::ZERO)
                && self.queue.wait(OPEN, wait).await? != Outcome::TimedOut;
            let due = wait.and_then(|_| client.due_behind(Duration::ZERO));
            Ok(in_time || self.is_done(Call::Look, due).await?)
        };
        client.call(pin!(waiting)).await
    }

    async fn is_done(&self, call: Call, due: Option<Instant>) -> Result<bool> {
        Ok(self.queue.call_by(call, due).await? == Outcome::Number(1))
    }

    fn other(&self, name: &str) -> Result<RCountDownLatch> {
        let other = RCountDownLatch::new(self.queue.client(), name);
        other.queue.keys().check()?;
        Ok(other)
    }
}
