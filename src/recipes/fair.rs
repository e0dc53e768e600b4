//! [`FairSemaphore`].

use std::time::Duration;

use super::handle::{Handle, setting};
use crate::units::Units;

/// The fair semaphore of the classic recipes, in its three forms: plain, under a lock, with a list of wake-up tokens.
/// Its operations are those of [`LeasedSemaphore`](crate::LeasedSemaphore).
///
/// Redis: the zset `name`, id -> time; the zset `name:owner`, id -> counter; the string `name:counter`; see [the
/// module](super) for what stands beside them. Recipe: drop entries older than the timeout from `name`, intersect
/// `name:owner` with it, increment the counter, add one's own to both, keep it if its rank in `name:owner` is below
/// the limit.
///
/// DIFFERENCE: one atomic step. In the original one program can be given a counter, be overtaken by another, and then
/// steal its permit with the lower counter. This crate steals from no caller, and while a peer stands in the first zset,
/// but not yet in the second, it counts as a holder here. This crate cannot prevent that two peers do it to each other, or that a peer
/// does it to a caller of this crate. Peers that [lock](FairSemaphore::under_lock) can't.
///
/// The counter restarts when there is no holder: at once under a lock; else, as a peer could have been given a value and not
/// have used it yet, from 2^51 on only.
///
/// ```no_run
/// # async fn work(client: redisson_semaphore::Client) -> redisson_semaphore::Result<()> {
/// use redisson_semaphore::{LeasedSemaphore, recipes::Units};
/// use std::time::Duration;
///
/// // Python services with time.time(), under their lock:remote
/// let remote = client
///     .fair_semaphore("semaphore:remote", 5)
///     .units(Units::Seconds)
///     .under_lock("remote");
/// if let Some(permit) = remote.permit_for(Duration::from_secs(2)).await? {
///     permit.release().await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct FairSemaphore {
    pub(super) handle: Handle,
}

impl FairSemaphore {
    setting! {
        /// How long a permit lasts without a refresh; 10 s by default. Must be the same for all programs.
        timeout: Duration
    }

    setting! {
        /// The unit of the times in the first zset; milliseconds by default.
        units: Units
    }

    /// Peers do their steps under the lock `lock:name`, that of [`StringLock`](super::StringLock).
    ///
    /// Our scripts, being atomic, take no lock. While a peer holds it, no permit is granted. Callers that wait get their
    /// place in the order, and the first two clients look again after as long as the same peer has been seen to hold the lock, the check interval at
    /// the most: at once, after 1 ms, 2 ms, and so on. A `try_acquire` that finds the lock held waits as a caller with a limit does, for one check
    /// interval, or half of the [call timeout](crate::ClientBuilder::call_timeout) if that is shorter; then it is refused. As in the originals,
    /// releases, refreshes and what changes nothing do not wait for the lock. A lock without an expiry is given one, the
    /// [`lock_timeout`](FairSemaphore::lock_timeout).
    #[must_use]
    pub fn under_lock(self, name: &str) -> Self {
        let lock = Some(name.to_owned());
        let handle = self.handle.with(|settings| settings.lock = lock);
        FairSemaphore { handle }
    }

    /// How long a peer's lock that has no expiry lasts from when a caller waits for it; 10 s by default.
    #[must_use]
    pub fn lock_timeout(self, timeout: Duration) -> Self {
        let handle = self
            .handle
            .with(|settings| settings.lock_timeout = Some(timeout));
        FairSemaphore { handle }
    }

    /// Other names for the zset of owners and the counter than `name:owner` and `name:counter`.
    #[must_use]
    pub fn keys(self, owners: &str, counter: &str) -> Self {
        let (owners, counter) = (Some(owners.to_owned()), Some(counter.to_owned()));
        let handle = self.handle.with(|settings| {
            settings.owners = owners;
            settings.counter = counter;
        });
        FairSemaphore { handle }
    }

    /// Peers wait with `BRPOP` on this list, into which each release pushes a token.
    ///
    /// Redis: list of `1`s. With each release ours push as many tokens as there are permits left or peers' entries that
    /// have come within the limit, less those that lie there; and take away tokens for permits that ours have taken.
    /// So tokens never pile up, at most the limit of them.
    ///
    /// DIFFERENCE: the originals push one also where no caller waits; their failed tries leave entries behind, which
    /// count until they expire; and they take a token for a permit. Ours wait in their own queue, not for tokens, and they hold what a script has granted,
    /// nothing else. A peer's token that ours did not need is left to the peers.
    #[must_use]
    pub fn tokens(self, list: &str) -> Self {
        let tokens = Some(list.to_owned());
        let handle = self.handle.with(|settings| settings.tokens = tokens);
        FairSemaphore { handle }
    }
}
