//! The operations of Redisson's `RObject` and `RExpirable`.

use std::time::{Duration, SystemTime};

use super::RSemaphore;
use super::call::Permits;
use crate::error::Result;
use crate::redisson::object::{ExpireCondition, Object, expirable_methods, renamable_methods};

expirable_methods!(RSemaphore);
renamable_methods!(
    RSemaphore,
    "The permits are announced to the JVMs and clients that wait for the new name, which Redisson does not do. Queue and grants stay with \
     the old name, whose waiters find out by their own slow check."
);

/// When it expires, as Redisson's `RExpirable` offers it.
///
/// Errors are those of every operation, and [`Server`](crate::Error::Server) where the server is too old for a
/// command. Cancel safety: sent in its turn after the first poll. If the future is dropped after that, what has not been sent is
/// not sent any more.
impl RSemaphore {
    pub(super) fn operations(&self) -> Object<'_, Permits> {
        Object { queue: &self.queue }
    }

    /// Lets it vanish after `ttl`, rounded up to whole milliseconds; `false` if there is no such semaphore.
    ///
    /// Redis: `PEXPIRE`. Redisson: `expire(Duration)`.
    ///
    /// # Errors
    ///
    /// [`InvalidDuration`](crate::Error::InvalidDuration) below a millisecond, and above 2^53 of them.
    pub async fn expire(&self, ttl: Duration) -> Result<bool> {
        self.operations().expire(ttl, None).await
    }

    /// As [`expire`](Self::expire) where `condition` holds; `false` if it does not.
    ///
    /// ```no_run
    /// # async fn expire(seats: redisson_semaphore::RSemaphore) -> redisson_semaphore::Result<()> {
    /// use redisson_semaphore::ExpireCondition;
    /// use std::time::Duration;
    ///
    /// seats.expire(Duration::from_secs(60)).await?;
    /// seats.expire_if(Duration::from_secs(90), ExpireCondition::Greater).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Redis 7: `PEXPIRE` with `NX`, `XX`, `GT`, `LT`. Redisson: `expireIfNotSet`, `expireIfSet`, `expireIfGreater`, `expireIfLess`.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn expire_if(&self, ttl: Duration, condition: ExpireCondition) -> Result<bool> {
        self.operations().expire(ttl, Some(condition)).await
    }

    /// Lets it vanish at `time` by the server's clock, at once where that has passed; `false` if there is no such semaphore.
    ///
    /// Redis: `PEXPIREAT`. Redisson: `expire(Instant)`, `expireAt(long)`.
    pub async fn expire_at(&self, time: SystemTime) -> Result<bool> {
        self.operations().expire_at(time, None).await
    }

    /// As [`expire_at`](Self::expire_at) where `condition` holds; `false` if it does not.
    ///
    /// Redis 7: `PEXPIREAT` with `NX`, `XX`, `GT`, `LT`. Redisson: `expireIfNotSet(Instant)` and its sisters.
    pub async fn expire_at_if(&self, time: SystemTime, condition: ExpireCondition) -> Result<bool> {
        self.operations().expire_at(time, Some(condition)).await
    }

    /// Takes the expiry away; `false` if there was none. Redis: `PERSIST`. Redisson: `clearExpire()`.
    pub async fn clear_expire(&self) -> Result<bool> {
        self.operations().clear_expire().await
    }

    fn other(&self, name: &str) -> Result<RSemaphore> {
        let other = RSemaphore::new(self.core(), name);
        other.queue.keys().check()?;
        Ok(other)
    }
}
