//! What every object in Redis has: Redisson's `RObject` and `RExpirable`.

use std::time::{Duration, SystemTime};

use super::RSemaphore;
use super::call::Permits;
use crate::engine::command::Commands;
use crate::error::Result;
use crate::queue;
use crate::redisson::object::{ExpireCondition, Object, expirable_methods};

expirable_methods!(RSemaphore);

/// The object itself, as Redisson's `RObject` and `RExpirable` offer it. Queue and grants stay with the name: waiters of the old name find
/// out by their own slow check.
///
/// Errors are those of every operation, and [`Server`](crate::Error::Server) where the server is too old for a
/// command. Cancel safety: sent in its turn after the first poll. If the future is dropped after that, what has not been sent is
/// not sent any more.
impl RSemaphore {
    pub(super) fn object(&self) -> Object<'_, queue::Object<Permits>> {
        Object { line: &self.line }
    }

    /// Renames it, replacing an object of the new name, and returns the handle to the new name.
    ///
    /// Redis: `RENAME`, keeping the time to live; the permits are announced to the JVMs and clients that wait for the new name, which
    /// Redisson does not do. Queue and grants are not renamed. Redisson: `rename(String)`. DIFFERENCE: this handle keeps the old name,
    /// and its waiters wait for the old one; Redisson's object takes the new name on.
    ///
    /// # Errors
    ///
    /// [`NoSuchObject`](crate::Error::NoSuchObject) if it does not exist.
    pub async fn rename(&self, new_name: &str) -> Result<RSemaphore> {
        let renamed = self.other(new_name)?;
        self.object().rename(renamed.line.keys()).await?;
        Ok(renamed)
    }

    /// Renames it if there is no object of the new name; returns the handle to the new name if so.
    ///
    /// Redis: `RENAMENX`, and the announcement of [`rename`](Self::rename). Redisson: `renamenx(String)`. DIFFERENCE: the new name is mapped, too;
    /// Redisson forgets to.
    ///
    /// # Errors
    ///
    /// [`NoSuchObject`](crate::Error::NoSuchObject) if it does not exist.
    pub async fn rename_nx(&self, new_name: &str) -> Result<Option<RSemaphore>> {
        let renamed = self.other(new_name)?;
        let done = self.object().rename_nx(renamed.line.keys()).await?;
        Ok(done.then_some(renamed))
    }

    /// Copies it, with its time to live, to a name where there is no object; `false` if there is one, or
    /// nothing to copy. Redis: `COPY`, since 6.2, and the announcement of [`rename`](Self::rename). Redisson:
    /// `copy(String)`.
    pub async fn copy(&self, new_name: &str) -> Result<bool> {
        self.copy_to(new_name, false).await
    }

    /// Copies it, with its time to live, replacing an object of that name. Redis: `COPY ... REPLACE`, and the
    /// announcement of [`rename`](Self::rename). Redisson: `copyAndReplace(String)`.
    pub async fn copy_and_replace(&self, new_name: &str) -> Result<bool> {
        self.copy_to(new_name, true).await
    }

    async fn copy_to(&self, new_name: &str, replace: bool) -> Result<bool> {
        let copy = self.other(new_name)?;
        self.object().copy(copy.line.keys(), replace).await
    }

    /// Lets it vanish after `ttl`, rounded up to whole milliseconds, where `condition` holds (`None`: in any case);
    /// `false` if it does not, or there is no such semaphore.
    ///
    /// ```no_run
    /// # async fn expire(seats: redisson_semaphore::RSemaphore) -> redisson_semaphore::Result<()> {
    /// use redisson_semaphore::ExpireCondition;
    /// use std::time::Duration;
    ///
    /// seats.expire(Duration::from_secs(60), None).await?;
    /// seats.expire(Duration::from_secs(90), ExpireCondition::Greater).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Redis: `PEXPIRE`; with a condition, which needs Redis 7, with `NX`, `XX`, `GT`, `LT`. Redisson: `expire(Duration)`;
    /// `expireIfNotSet`, `expireIfSet`, `expireIfGreater`, `expireIfLess`.
    ///
    /// # Errors
    ///
    /// [`InvalidDuration`](crate::Error::InvalidDuration) below a millisecond, and above 2^53 of them.
    pub async fn expire(
        &self,
        ttl: Duration,
        condition: impl Into<Option<ExpireCondition>>,
    ) -> Result<bool> {
        let condition = condition.into();
        self.object().expire(ttl, condition).await
    }

    /// Lets it vanish at `time` by the server's clock, at once where that has passed, where `condition` holds (`None`: in
    /// any case); `false` if it does not, or there is no such semaphore.
    ///
    /// Redis: `PEXPIREAT`, with a condition as at [`expire`](Self::expire). Redisson: `expire(Instant)`, `expireAt(long)`;
    /// `expireIfNotSet(Instant)` and its sisters.
    pub async fn expire_at(
        &self,
        time: SystemTime,
        condition: impl Into<Option<ExpireCondition>>,
    ) -> Result<bool> {
        let condition = condition.into();
        self.object().expire_at(time, condition).await
    }

    /// Takes the expiry away; `false` if there was none. Redis: `PERSIST`. Redisson: `clearExpire()`.
    pub async fn clear_expire(&self) -> Result<bool> {
        self.object().clear_expire().await
    }

    fn other(&self, name: &str) -> Result<RSemaphore> {
        let other = RSemaphore::new(self.core(), name);
        other.line.keys().check()?;
        Ok(other)
    }
}
