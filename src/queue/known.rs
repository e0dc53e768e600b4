//! The knowledge about other clients.

use std::time::Duration;

use tokio::time::Instant;

/// Among callers of this client alone it counts for so many times as long.
const ALONE: u32 = 4;

/// The last answer's information about other clients.
pub(super) struct Known {
    pub(super) seen: Instant,
    pub(super) available: i64,
    /// When the first waiter of another client came.
    pub(super) foreign: Option<Instant>,
    pub(super) jvms: u32,
}

impl Known {
    /// Nobody else waits.
    pub(super) fn is_alone(&self) -> bool {
        self.foreign.is_none() && self.jvms == 0
    }

    /// Until when it is used: for `window` where another client waits or listens, else for four times that.
    pub(super) fn until(&self, window: Duration) -> Instant {
        match self.is_alone() {
            true => self.seen + ALONE * window,
            false => self.seen + window,
        }
    }
}
