//! The common part of all calls, on the caller's side: their counts, and how long they may take.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::Instant;

use super::core::Core;
use crate::error::Result;
use crate::stats::What;

/// How long a timed call may take besides its wait, unless that is set.
const TIMED_CALL: Duration = Duration::from_secs(5);

impl Core {
    /// Makes a call that asks for so many permits of the object called `name`, or for a lock; it is counted by its result.
    pub(crate) async fn take<T>(
        &self,
        _name: &str,
        (what, _amount): (What, u32),
        taking: Pin<&mut impl Future<Output = Result<Option<T>>>>,
    ) -> Result<Option<T>> {
        let since = self.stats.since();
        #[cfg(feature = "spans")]
        let taking = tracing::Instrument::instrument(
            taking,
            tracing::info_span!(
                "wait",
                name = _name,
                what = what.word(),
                amount = i64::from(_amount)
            ),
        );
        let taken = self.call(std::pin::pin!(taking)).await?;
        match &taken {
            Some(_) => self.stats.note_granted(what, since),
            None => self.stats.note_refused(),
        }
        Ok(taken)
    }

    /// Makes a call; it is counted where it fails.
    pub(crate) async fn call<T>(
        &self,
        calling: Pin<&mut impl Future<Output = Result<T>>>,
    ) -> Result<T> {
        calling.await.map_err(|error| self.stats.failed(error))
    }

    /// When a call ends that begins now, may wait for so long, and has no answer by then; zero is no wait. `None`: the retry window alone
    /// ends it.
    pub(crate) fn due(&self, wait: Option<Duration>) -> Option<Instant> {
        match wait? {
            Duration::ZERO => Instant::now().checked_add(self.config.call_timeout?),
            wait => self.due_behind(wait),
        }
    }

    /// The same for a timed call, which is in its last step where nothing is left of its wait.
    pub(crate) fn due_behind(&self, wait: Duration) -> Option<Instant> {
        let limit = self.config.call_timeout.unwrap_or(TIMED_CALL);
        Instant::now().checked_add(wait.saturating_add(limit))
    }
}
