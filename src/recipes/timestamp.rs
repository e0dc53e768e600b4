//! [`TimestampSemaphore`].

use std::time::Duration;

use super::handle::{Handle, setting};
use crate::units::Units;

/// The timestamp semaphore of the classic recipes. Its operations are those of
/// [`LeasedSemaphore`](crate::LeasedSemaphore).
///
/// Redis: the zset `name`, id -> time of the acquisition or last refresh; see [the module](super) for what stands
/// beside it. Recipe: drop entries older than the timeout, add one's own, keep it if its rank is below the limit.
/// DIFFERENCE: one atomic step, by the server's clock; a refused caller leaves nothing behind. The original's rank goes
/// by the clocks of the programs, so there a clock that is behind steals permits, and so does a try whose steps are
/// interrupted by another one's acquisition or refresh; here it is the number of entries that counts. Ours steal from
/// nobody; what peers do to others they do to ours, too.
///
/// ```no_run
/// # async fn work(client: redisson_semaphore::Client) -> redisson_semaphore::Result<()> {
/// use redisson_semaphore::LeasedSemaphore;
/// use std::time::Duration;
///
/// let jobs = client.timestamp_semaphore("jobs", 5).timeout(Duration::from_secs(30));
/// let job = jobs.permit().await?;                  // refreshed every 10 s
/// tokio::select! {
///     () = job.lost() => println!("another caller may hold it now"),
///     () = async { /* work */ } => {}
/// }
/// job.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct TimestampSemaphore {
    pub(super) handle: Handle,
}

impl TimestampSemaphore {
    setting! {
        /// How long a permit lasts without a refresh; 10 s by default. Must be the same for all programs.
        timeout: Duration
    }

    setting! {
        /// The unit of the times in the zset; milliseconds by default.
        units: Units
    }
}
