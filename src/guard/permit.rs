//! [`Permit`]: permits that give themselves back.

use std::sync::Arc;

use crate::api::Semaphore;
use crate::error::Result;

/// Permits held; given back when dropped.
///
/// Dropping never blocks: the release is carried out in the background, and a failure is only logged.
/// [`release`](Permit::release) waits for it and tells. [`forget`](Permit::forget) keeps the permits
/// taken, for someone else to release.
#[must_use = "the permits are given back when the guard is dropped"]
#[derive(Debug)]
pub struct Permit {
    semaphore: Arc<dyn Semaphore>,
    permits: u32,
}

impl Permit {
    pub(crate) fn new(semaphore: Arc<dyn Semaphore>, permits: u32) -> Self {
        Permit { semaphore, permits }
    }

    /// How many permits are held.
    #[must_use]
    pub fn permits(&self) -> u32 {
        self.permits
    }

    /// The semaphore that they were taken from.
    #[must_use]
    pub fn semaphore(&self) -> &Arc<dyn Semaphore> {
        &self.semaphore
    }

    /// Gives the permits back and waits until that is done.
    ///
    /// # Errors
    ///
    /// Those of [`Semaphore::release`]. The guard is spent either way: where nothing took effect the permits are
    /// still taken, and may be released again through [`semaphore`](Permit::semaphore), kept from before.
    ///
    /// # Cancel safety
    ///
    /// The release is on its way as soon as the future has been polled; a future dropped before that
    /// releases in the background, as dropping the guard does.
    pub async fn release(mut self) -> Result<()> {
        let permits = self.permits;
        let semaphore = Arc::clone(&self.semaphore);
        let release = semaphore.release(permits);
        // From here on the semaphore's own future carries the release out, even when it is dropped.
        self.permits = 0;
        release.await
    }

    /// Keeps the permits taken: they are not given back on drop. Returns how many.
    pub fn forget(mut self) -> u32 {
        std::mem::take(&mut self.permits)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.permits > 0 {
            self.semaphore.release_detached(self.permits);
        }
    }
}
