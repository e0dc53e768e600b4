//! The operations of Redisson's `RObject` and `RExpirable`, for both keys of the semaphore.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use super::RPermitExpirableSemaphore;
use super::held::PermitExpirable;
use crate::api::check_millis;
use crate::engine::request::{Arg, Script};
use crate::error::{Error, Result};
use crate::lua;
use crate::redisson::object::{ExpireCondition, Object, RObject, expirable_methods, since_1970};

static KEYS: LazyLock<Script> = LazyLock::new(|| Script::new(lua::PERMITS_KEYS));

expirable_methods!(RPermitExpirableSemaphore);

impl RObject<'_, RPermitExpirableSemaphore> {
    /// Renames it, permits included, replacing an object of the new name, and returns the handle to the new name.
    ///
    /// Redis: `RENAME`, keeping times to live; the permits available are announced to waiters of the new name. Redisson:
    /// `rename(String)`. DIFFERENCE: Redisson's renames the counter alone, and its permits stay behind. This handle keeps
    /// the old name, and so do guards, which release and renew nothing any more.
    ///
    /// # Errors
    ///
    /// [`NoSuchObject`](Error::NoSuchObject) if it does not exist.
    pub async fn rename(self, new_name: &str) -> Result<RPermitExpirableSemaphore> {
        let renamed = self.0.other(new_name)?;
        self.0
            .change("RENAME", Arg::Word(""), "", Some(&renamed))
            .await?;
        Ok(renamed)
    }

    /// The same if there is no object of the new name; returns the handle to the new name if so. Redisson:
    /// `renamenx(String)`, with the differences of [`rename`](Self::rename).
    ///
    /// # Errors
    ///
    /// [`NoSuchObject`](Error::NoSuchObject) if it does not exist.
    pub async fn rename_nx(self, new_name: &str) -> Result<Option<RPermitExpirableSemaphore>> {
        let renamed = self.0.other(new_name)?;
        let done = self
            .0
            .change("RENAMENX", Arg::Word(""), "", Some(&renamed))
            .await?;
        Ok(done.then_some(renamed))
    }
}

/// The object itself, as Redisson's `RObject` and `RExpirable` offer it: the counter, and the permits that are held;
/// times to live are the counter's. None of these wakes a waiter, but for a rename.
///
/// Errors are those of every operation. Cancel safety: sent in its turn after the first poll. If the future is dropped after
/// that, what has not been sent is not sent any more.
impl RPermitExpirableSemaphore {
    fn operations(&self) -> Object<'_, PermitExpirable> {
        Object { queue: &self.queue }
    }

    /// Lets it vanish after `ttl`, rounded up to whole milliseconds; `false` if there is no such semaphore.
    ///
    /// Redis: `PEXPIRE`. Redisson: `expire(Duration)`.
    ///
    /// # Errors
    ///
    /// [`InvalidDuration`](Error::InvalidDuration) below a millisecond, and above 2^53 of them.
    pub async fn expire(&self, ttl: Duration) -> Result<bool> {
        let millis = check_millis(self.name(), "time to live", ttl)?;
        self.expire_with("PEXPIRE", millis, None).await
    }

    /// As [`expire`](Self::expire), for each of its keys where `condition` holds; `false` if it holds for neither.
    ///
    /// Redis 7: `PEXPIRE` with `NX`, `XX`, `GT`, `LT`. Redisson: `expireIfNotSet`, `expireIfSet`, `expireIfGreater`, `expireIfLess`.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn expire_if(&self, ttl: Duration, condition: ExpireCondition) -> Result<bool> {
        let millis = check_millis(self.name(), "time to live", ttl)?;
        self.expire_with("PEXPIRE", millis, Some(condition)).await
    }

    /// Lets it vanish at `time` by the server's clock, at once where that has passed; `false` if there is no such semaphore.
    ///
    /// Redis: `PEXPIREAT`. Redisson: `expire(Instant)`, `expireAt(long)`.
    pub async fn expire_at(&self, time: SystemTime) -> Result<bool> {
        self.expire_with("PEXPIREAT", since_1970(time), None).await
    }

    /// As [`expire_at`](Self::expire_at), for each of its keys where `condition` holds; `false` if it holds for neither.
    ///
    /// Redis 7: `PEXPIREAT` with `NX`, `XX`, `GT`, `LT`. Redisson: `expireIfNotSet(Instant)` and its sisters.
    pub async fn expire_at_if(&self, time: SystemTime, condition: ExpireCondition) -> Result<bool> {
        let millis = since_1970(time);
        self.expire_with("PEXPIREAT", millis, Some(condition)).await
    }

    /// Takes the expiry away; `false` if there was none. Redis: `PERSIST`. Redisson: `clearExpire()`.
    pub async fn clear_expire(&self) -> Result<bool> {
        self.change("PERSIST", Arg::Word(""), "", None).await
    }

    async fn expire_with(
        &self,
        command: &'static str,
        millis: i64,
        condition: Option<ExpireCondition>,
    ) -> Result<bool> {
        let condition = condition.map_or("", ExpireCondition::word);
        self.change(command, Arg::Number(millis), condition, None)
            .await
    }

    /// `to`: the semaphore under its new name.
    async fn change(
        &self,
        command: &'static str,
        time: Arg,
        condition: &'static str,
        to: Option<&Self>,
    ) -> Result<bool> {
        let keys_of = |one: &Self| [one.queue.keys().object(), one.queue.beside()].map(Arc::clone);
        let mut keys = vec![Arc::clone(self.queue.keys().record())];
        keys.extend(keys_of(self));
        keys.extend(to.into_iter().flat_map(keys_of));
        keys.extend(to.map(|to| Arc::clone(to.queue.keys().channel())));
        let steps = vec![Arg::Word(command), time, Arg::Word(condition)];
        let operation = match command {
            "PERSIST" => "clear_expire",
            "RENAME" | "RENAMENX" => "rename",
            _ => "expire",
        };
        let read = |word: &str| match word {
            "missing" => Err(Error::NoSuchObject {
                name: self.name().to_owned(),
            }),
            word => Ok(word == "1"),
        };
        self.operations()
            .run(operation, &KEYS, keys, steps, read)
            .await
    }

    fn other(&self, name: &str) -> Result<Self> {
        let mut other = Self::new(&self.core, name);
        other.lease = self.lease;
        other.queue.keys().check()?;
        Ok(other)
    }
}
