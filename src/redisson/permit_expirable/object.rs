//! What every object in Redis has, for both keys of the semaphore: Redisson's `RObject` and `RExpirable`.

use std::pin::{Pin, pin};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use super::RPermitExpirableSemaphore;
use super::primitive::PermitExpirable;
use crate::api::check_millis;
use crate::engine::call::{Call, Dropped, Wait};
use crate::engine::command::Commands;
use crate::engine::keys::Keys;
use crate::engine::primitive::Line;
use crate::engine::request::{Arg, Script};
use crate::error::{Error, Result};
use crate::lua;
use crate::redisson::object::{ExpireCondition, Object, expirable_methods, since_1970};

static KEYS: LazyLock<Script> = LazyLock::new(|| Script::new(lua::PERMITS_KEYS));

expirable_methods!(RPermitExpirableSemaphore);

/// The object itself, as Redisson's `RObject` and `RExpirable` offer it: the counter, and the permits that are held;
/// times to live are the counter's. None of these wakes a waiter, but for a rename.
///
/// Errors are those of every operation. Cancel safety: sent in its turn after the first poll. If the future is dropped after
/// that, what has not been sent is not sent any more.
impl RPermitExpirableSemaphore {
    fn object(&self) -> Object<'_, Line<PermitExpirable>> {
        Object { line: &self.line }
    }

    /// Renames it, permits included, replacing an object of the new name, and returns the handle to the new name.
    ///
    /// Redis: `RENAME`, keeping times to live; the permits available are announced to those who wait for the new name. Redisson:
    /// `rename(String)`. DIFFERENCE: Redisson's renames the counter alone, and its permits stay behind. This handle keeps
    /// the old name, and so do guards: who holds one releases and renews nothing any more.
    ///
    /// # Errors
    ///
    /// [`NoSuchObject`](Error::NoSuchObject) if it does not exist.
    pub async fn rename(&self, new_name: &str) -> Result<RPermitExpirableSemaphore> {
        let renamed = self.other(new_name)?;
        self.move_to(&renamed, "rename").await?;
        Ok(renamed)
    }

    /// The same if there is no object of the new name; returns the handle to the new name if so. Redisson:
    /// `renamenx(String)`, with the differences of [`rename`](Self::rename).
    ///
    /// # Errors
    ///
    /// [`NoSuchObject`](Error::NoSuchObject) if it does not exist.
    pub async fn rename_nx(&self, new_name: &str) -> Result<Option<RPermitExpirableSemaphore>> {
        let renamed = self.other(new_name)?;
        let done = self.move_to(&renamed, "renamenx").await?;
        Ok(done.then_some(renamed))
    }

    /// Lets it vanish after `ttl`, rounded up to whole milliseconds, where `condition` holds (`None`: in any case), which is
    /// asked for each of its keys; `false` if it holds for neither, or there is no such semaphore.
    ///
    /// Redis: `PEXPIRE`. Redisson: `expire(Duration)`; `expireIfNotSet`, `expireIfSet`, `expireIfGreater`, `expireIfLess`.
    ///
    /// # Errors
    ///
    /// [`InvalidDuration`](Error::InvalidDuration) below a millisecond, and above 2^53 of them.
    pub async fn expire(
        &self,
        ttl: Duration,
        condition: impl Into<Option<ExpireCondition>>,
    ) -> Result<bool> {
        let millis = check_millis(self.name(), "time to live", ttl)?;
        self.expire_with("expire", millis, condition.into()).await
    }

    /// Lets it vanish at `time` by the server's clock, at once where that has passed; else as [`expire`](Self::expire).
    ///
    /// Redis: `PEXPIREAT`. Redisson: `expire(Instant)`, `expireAt(long)`; `expireIfNotSet(Instant)` and its sisters.
    pub async fn expire_at(
        &self,
        time: SystemTime,
        condition: impl Into<Option<ExpireCondition>>,
    ) -> Result<bool> {
        self.expire_with("expire_at", since_1970(time), condition.into())
            .await
    }

    /// Takes the expiry away; `false` if there was none. Redis: `PERSIST`. Redisson: `clearExpire()`.
    pub async fn clear_expire(&self) -> Result<bool> {
        self.change("persist", Arg::Word(""), "").await
    }

    async fn expire_with(
        &self,
        operation: &'static str,
        millis: i64,
        condition: Option<ExpireCondition>,
    ) -> Result<bool> {
        let condition = condition.map_or("", ExpireCondition::word);
        self.change(operation, Arg::Number(millis), condition).await
    }

    async fn change(
        &self,
        operation: &'static str,
        time: Arg,
        condition: &'static str,
    ) -> Result<bool> {
        let steps = vec![Arg::Word(operation), time, Arg::Word(condition)];
        let changing = async {
            let channel = self.line.keys().channel();
            let words = self
                .line
                .alone(operation, &KEYS, channel, Vec::new(), steps);
            Ok(words.await? == "1")
        };
        self.alone(operation, pin!(Some(changing))).await
    }

    async fn alone(
        &self,
        operation: &'static str,
        changing: Pin<&mut Option<impl Future<Output = Result<bool>>>>,
    ) -> Result<bool> {
        let call = Call::new(self.name(), operation, Wait::No, Dropped::Withdrawn);
        let call = call.about(self.line.keys().object());
        self.core.call(call, changing).await
    }

    async fn move_to(&self, to: &Self, operation: &'static str) -> Result<bool> {
        let to: &Keys = to.line.keys();
        let steps = vec![Arg::Word(operation), Arg::Word(""), Arg::Word("")];
        let others = [to.object()].into_iter().chain(to.parts()).map(Arc::clone);
        let others = others.collect();
        let moving = async {
            let words = self
                .line
                .alone(operation, &KEYS, to.channel(), others, steps)
                .await?;
            if words == "missing" {
                return Err(Error::NoSuchObject {
                    name: self.name().to_owned(),
                });
            }
            Ok(words == "1")
        };
        self.alone(operation, pin!(Some(moving))).await
    }

    fn other(&self, name: &str) -> Result<Self> {
        let mut other = Self::new(&self.core, name);
        other.lease = self.lease;
        other.line.keys().check()?;
        Ok(other)
    }
}
