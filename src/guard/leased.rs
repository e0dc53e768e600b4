//! [`LeasedPermit`]: a permit with an id that is refreshed and gives itself back.

use std::sync::Arc;

use crate::api::{Held, LeasedSemaphore};
use crate::error::Result;
use crate::lease::Lease;

/// A permit held; refreshed in the background, and given back when dropped.
///
/// Dropping never blocks: the release is carried out in the background, and a failure is only logged.
/// [`release`](LeasedPermit::release) waits for it and tells. [`forget`](LeasedPermit::forget) keeps the permit
/// taken until its time is over.
///
/// A permit can be lost while the guard is there: somebody takes it away, or the server can't be reached for
/// as long as it lasts; see [`lost`](LeasedPermit::lost).
#[must_use = "the permit is given back when the guard is dropped"]
#[derive(Debug)]
pub struct LeasedPermit {
    semaphore: Arc<dyn LeasedSemaphore>,
    lease: Lease,
    /// `None` once it has been given back or forgotten.
    held: Option<Held>,
    id: Arc<str>,
    slot: Option<u32>,
}

impl LeasedPermit {
    pub(crate) fn new(semaphore: Arc<dyn LeasedSemaphore>, held: Held) -> Self {
        LeasedPermit {
            lease: semaphore.keep(&held),
            id: Arc::clone(&held.id),
            slot: held.slot,
            held: Some(held),
            semaphore,
        }
    }

    /// The permit's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Which of the permits it is, from 1 to the limit, where they are told apart. It stays the same while it is held:
    /// good as the number of a shard or a worker.
    #[must_use]
    pub fn slot(&self) -> Option<u32> {
        self.slot
    }

    /// The semaphore that it was taken from.
    #[must_use]
    pub fn semaphore(&self) -> &Arc<dyn LeasedSemaphore> {
        &self.semaphore
    }

    /// What is known of the lease. Outlives the guard.
    #[must_use]
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Whether the permit has been lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.lease.is_lost()
    }

    /// Ends when the permit is lost: at the latest when the time that was granted has run out by this process's
    /// clock. Never ends where permits last for ever.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and asked again at any time.
    pub async fn lost(&self) {
        self.lease.lost().await;
    }

    /// Gives the permit back and waits until that is done; `false` if it had been lost.
    ///
    /// # Errors
    ///
    /// Those of [`LeasedSemaphore::release`]. The guard is spent either way: where nothing took effect the permit is
    /// taken until its time is over.
    ///
    /// # Cancel safety
    ///
    /// The release is on its way as soon as the future has been polled; a future dropped before that releases in
    /// the background, as dropping the guard does.
    pub async fn release(mut self) -> Result<bool> {
        let semaphore = Arc::clone(&self.semaphore);
        let id = Arc::clone(&self.id);
        let release = semaphore.release(&id);
        // From here on the semaphore's own future carries the release out, even when it is dropped.
        self.held = None;
        semaphore.unkeep(&self.id);
        let lease = self.lease.clone().ended_on_drop();
        let done = release.await;
        if done == Ok(false) {
            lease.lose();
        }
        done
    }

    /// Keeps the permit taken: it is not given back on drop, and not refreshed any more.
    #[must_use = "the permit stays taken"]
    pub fn forget(mut self) -> Held {
        self.semaphore.unkeep(&self.id);
        self.held.take().expect("held until it is given back")
    }
}

impl Drop for LeasedPermit {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            self.semaphore.release_detached(&held.id);
            self.lease.end();
        }
    }
}
