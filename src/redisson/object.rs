//! The operations of every object in Redis: Redisson's `RObject` and `RExpirable`.

use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::api::{LONGEST_MILLIS, MAX_PERMITS, RemainingTtl, check_millis};
use crate::engine::keys::Keys;
use crate::engine::once::unexpected_answer;
use crate::engine::request::{Arg, Request, Script};
use crate::error::{Error, Result};
use crate::lua;
use crate::queue::{Object, Primitive};
use crate::transport::{Command, Value};

static ONCE: LazyLock<Script> = LazyLock::new(|| Script::new(lua::ONCE));

/// Below this a counter is exact in Lua.
const MOST_COUNTED: u64 = 100_000_000_000_000;

/// When an expiry time is to be set; needs Redis 7.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ExpireCondition {
    /// Only where there is none (`NX`, Redisson's `expireIfNotSet`).
    NotSet,
    /// Only where there is one (`XX`, `expireIfSet`).
    Set,
    /// Only where the new one is later (`GT`, `expireIfGreater`); no expiry counts as the latest.
    Greater,
    /// Only where the new one is earlier (`LT`, `expireIfLess`).
    Less,
}

impl ExpireCondition {
    pub(crate) fn word(self) -> &'static str {
        match self {
            ExpireCondition::NotSet => "NX",
            ExpireCondition::Set => "XX",
            ExpireCondition::Greater => "GT",
            ExpireCondition::Less => "LT",
        }
    }
}

/// When an object vanishes, by the server's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExpireTime {
    /// It does not exist (Redisson: -2).
    Missing,
    /// It has no expiry (Redisson: -1).
    Persistent,
    /// It vanishes at this time.
    At(SystemTime),
}

/// In milliseconds. A time in the past deletes an object that expires then, as in Redis; so does any time before 1970.
pub(crate) fn since_1970(time: SystemTime) -> i64 {
    let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = i64::try_from(since_epoch.as_millis()).unwrap_or(LONGEST_MILLIS);
    millis.min(LONGEST_MILLIS)
}

/// The rarer operations on an object: Redisson's `RObject`. Made by the `object` method of a handle.
///
/// ```no_run
/// # async fn f(client: redisson_semaphore::Client) -> redisson_semaphore::Result<()> {
/// let chairs = client.semaphore("seats").object().rename("chairs").await?;
/// # Ok(())
/// # }
/// ```
///
/// Errors are those of every operation, and [`Server`](crate::Error::Server) where the server is too old for a command. Cancel
/// safety: sent in its turn after the first poll. If the future is dropped after that, what has not been sent is not sent any more.
#[derive(Debug, Clone, Copy)]
pub struct RObject<'a, T>(pub(super) &'a T);

/// Gives a handle the methods that are the same for every object in Redis; it has a `queue`.
macro_rules! object_methods {
    ($type:ty) => {
        impl $type {
            /// The rarer operations: rename, copy, touch and others.
            #[must_use]
            pub fn object(&self) -> $crate::RObject<'_, $type> {
                $crate::redisson::object::RObject(self)
            }

            /// Whether it exists. Redis: `EXISTS`. Redisson: `isExists()`.
            pub async fn exists(&self) -> $crate::Result<bool> {
                self.queue.read_all("exists", "EXISTS").await
            }
        }

        impl $crate::RObject<'_, $type> {
            /// Deletes it, freeing the memory in the background, and notifies nobody; `false` if it did not exist. Redis: `UNLINK`.
            /// Redisson: `unlink()`.
            pub async fn unlink(self) -> $crate::Result<bool> {
                self.0.queue.change("unlink", "UNLINK", None, &[]).await
            }

            /// Notes an access, for the server's eviction; `false` if it does not exist. Redis: `TOUCH`. Redisson: `touch()`.
            pub async fn touch(self) -> $crate::Result<bool> {
                self.0.queue.read_all("touch", "TOUCH").await
            }

            /// The bytes that it takes in the server; 0 if it does not exist. Redis: `MEMORY USAGE`. Redisson:
            /// `sizeInMemory()`.
            pub async fn size_in_memory(self) -> $crate::Result<u64> {
                self.0.queue.size_in_memory().await
            }
        }
    };
}
pub(crate) use object_methods;

/// The same for those that may expire.
macro_rules! expirable_methods {
    ($type:ty) => {
        $crate::redisson::object::object_methods!($type);

        /// The operations on its existence and expiry: Redisson's `RExpirable`. They are about all of its keys.
        ///
        /// Errors are those of every operation, and [`Server`](crate::Error::Server) where the server is too old for a command. Cancel safety:
        /// sent in its turn after the first poll. If the future is dropped after that, what has not been sent is not sent any more.
        impl $type {
            /// Deletes it, and notifies nobody; `false` if it did not exist. Redis: `DEL`. Redisson: `delete()`.
            pub async fn delete(&self) -> $crate::Result<bool> {
                self.queue.change("delete", "DEL", None, &[]).await
            }

            /// How long it goes on existing. Redis: `PTTL`. Redisson: `remainTimeToLive()`.
            pub async fn remaining_ttl(&self) -> $crate::Result<$crate::RemainingTtl> {
                self.queue.remaining_ttl().await
            }

            /// Lets it vanish after `ttl`, rounded up to whole milliseconds; `false` if there is no such semaphore.
            ///
            /// Redis: `PEXPIRE`. Redisson: `expire(Duration)`.
            ///
            /// # Errors
            ///
            /// [`InvalidDuration`](crate::Error::InvalidDuration) below a millisecond, and above 2^53 of them.
            pub async fn expire(&self, ttl: std::time::Duration) -> $crate::Result<bool> {
                self.queue.expire(ttl, None).await
            }

            /// As [`expire`](Self::expire), for each of its keys where `condition` holds; `false` if it holds for none.
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
            pub async fn expire_if(
                &self,
                ttl: std::time::Duration,
                condition: $crate::ExpireCondition,
            ) -> $crate::Result<bool> {
                self.queue.expire(ttl, Some(condition)).await
            }

            /// Lets it vanish at `time` by the server's clock, at once where that has passed; `false` if there is no such semaphore.
            ///
            /// Redis: `PEXPIREAT`. Redisson: `expire(Instant)`, `expireAt(long)`.
            pub async fn expire_at(&self, time: std::time::SystemTime) -> $crate::Result<bool> {
                self.queue.expire_at(time, None).await
            }

            /// As [`expire_at`](Self::expire_at), for each of its keys where `condition` holds; `false` if it holds for none.
            ///
            /// Redis 7: `PEXPIREAT` with `NX`, `XX`, `GT`, `LT`. Redisson: `expireIfNotSet(Instant)` and its sisters.
            pub async fn expire_at_if(
                &self,
                time: std::time::SystemTime,
                condition: $crate::ExpireCondition,
            ) -> $crate::Result<bool> {
                self.queue.expire_at(time, Some(condition)).await
            }

            /// Takes the expiry away; `false` if there was none. Redis: `PERSIST`. Redisson: `clearExpire()`.
            pub async fn clear_expire(&self) -> $crate::Result<bool> {
                self.queue
                    .change("clear_expire", "PERSIST", None, &[])
                    .await
            }
        }

        impl $crate::RObject<'_, $type> {
            /// The time at which it vanishes, by the server's clock. Redis 7: `PEXPIRETIME`. Redisson: `getExpireTime()`.
            pub async fn expire_time(self) -> $crate::Result<$crate::ExpireTime> {
                self.0.queue.expire_time().await
            }
        }
    };
}
pub(crate) use expirable_methods;

/// The same for those that may get another name; it has an `other(&self, name)`. `$notified` says which waiters are notified.
macro_rules! renamable_methods {
    ($type:ty, $notified:literal) => {
        /// The operations that put an object under another name, with its time to live. The handle keeps the old name, and
        /// its waiters wait for the old one. DIFFERENCE: Redisson's object takes the new name on.
        ///
        #[doc = $notified]
        impl $crate::RObject<'_, $type> {
            /// Renames it, replacing an object of the new name, and returns the handle to the new name. Redis: `RENAME`. Redisson:
            /// `rename(String)`.
            ///
            /// # Errors
            ///
            /// [`NoSuchObject`](crate::Error::NoSuchObject) if it does not exist.
            pub async fn rename(self, new_name: &str) -> $crate::Result<$type> {
                let renamed = self.0.other(new_name)?;
                let to = Some(renamed.queue.keys());
                self.0.queue.change("rename", "RENAME", to, &[]).await?;
                Ok(renamed)
            }

            /// Renames it if there is no object of the new name; returns the handle to the new name if so. Redis: `RENAME` behind `EXISTS`. Redisson:
            /// `renamenx(String)`. DIFFERENCE: the new name is mapped, too; Redisson forgets to.
            ///
            /// # Errors
            ///
            /// [`NoSuchObject`](crate::Error::NoSuchObject) if it does not exist.
            pub async fn rename_nx(self, new_name: &str) -> $crate::Result<Option<$type>> {
                let renamed = self.0.other(new_name)?;
                let to = Some(renamed.queue.keys());
                let done = self
                    .0
                    .queue
                    .change("rename_nx", "RENAMENX", to, &[])
                    .await?;
                Ok(done.then_some(renamed))
            }
        }
    };
}
pub(crate) use renamable_methods;

/// The same for those that may be copied.
macro_rules! copyable_methods {
    ($type:ty) => {
        impl $crate::RObject<'_, $type> {
            /// Copies it to a name where there is no object; `false` if there is one, or nothing to copy. Redis: `COPY`, since 6.2.
            /// Redisson: `copy(String)`.
            pub async fn copy(self, new_name: &str) -> $crate::Result<bool> {
                let copy = self.0.other(new_name)?;
                let to = Some(copy.queue.keys());
                self.0.queue.change("copy", "COPY", to, &[]).await
            }

            /// Copies it, replacing an object of that name. Redis: `COPY ... REPLACE`. Redisson: `copyAndReplace(String)`.
            pub async fn copy_and_replace(self, new_name: &str) -> $crate::Result<bool> {
                let copy = self.0.other(new_name)?;
                let (to, how) = (
                    Some(copy.queue.keys()),
                    $crate::engine::request::Arg::Word("REPLACE"),
                );
                self.0.queue.change("copy", "COPY", to, &[how]).await
            }
        }
    };
}
pub(crate) use copyable_methods;

/// The commands on one object: those that are about its existence, its expiry or its name are about all of its keys.
impl<P: Primitive> Object<P> {
    pub(crate) async fn expire(
        self: &Arc<Self>,
        ttl: Duration,
        condition: Option<ExpireCondition>,
    ) -> Result<bool> {
        let millis = check_millis(self.keys().name(), "time to live", ttl)?;
        self.expire_with("expire", "PEXPIRE", millis, condition)
            .await
    }

    pub(crate) async fn expire_at(
        self: &Arc<Self>,
        time: SystemTime,
        condition: Option<ExpireCondition>,
    ) -> Result<bool> {
        self.expire_with("expire_at", "PEXPIREAT", since_1970(time), condition)
            .await
    }

    async fn expire_with(
        self: &Arc<Self>,
        operation: &'static str,
        command: &'static str,
        millis: i64,
        condition: Option<ExpireCondition>,
    ) -> Result<bool> {
        let mut args = vec![Arg::Number(millis)];
        args.extend(condition.map(|condition| Arg::Word(condition.word())));
        self.change(operation, command, None, &args).await
    }

    pub(crate) async fn remaining_ttl(self: &Arc<Self>) -> Result<RemainingTtl> {
        Ok(match self.read("remaining_ttl", "PTTL").await? {
            -2 => RemainingTtl::Missing,
            -1 => RemainingTtl::Persistent,
            millis => RemainingTtl::Expires(Duration::from_millis(millis.unsigned_abs())),
        })
    }

    pub(crate) async fn expire_time(self: &Arc<Self>) -> Result<ExpireTime> {
        Ok(match self.read("expire_time", "PEXPIRETIME").await? {
            -2 => ExpireTime::Missing,
            -1 => ExpireTime::Persistent,
            millis => {
                let since = Duration::from_millis(millis.unsigned_abs());
                // Where the clock cannot express it there is no end.
                (UNIX_EPOCH.checked_add(since)).map_or(ExpireTime::Persistent, ExpireTime::At)
            }
        })
    }

    pub(crate) async fn size_in_memory(self: &Arc<Self>) -> Result<u64> {
        let keys = self.keys();
        let mut size = 0;
        for key in [keys.object()].into_iter().chain(keys.parts()) {
            let command = Command::new("MEMORY").arg("USAGE").key(key);
            let bytes = self.read_with("size_in_memory", command).await?;
            size += bytes.unsigned_abs();
        }
        Ok(size)
    }

    /// Whether `command`, which changes nothing, counts one of the object's keys.
    pub(crate) async fn read_all(
        self: &Arc<Self>,
        operation: &'static str,
        command: &'static str,
    ) -> Result<bool> {
        let keys = self.keys();
        let command = Command::new(command).key(keys.object());
        let command = keys.parts().fold(command, Command::key);
        let count = self.read_with(operation, command).await?;
        Ok(count > 0)
    }

    /// The answer of `command` about `field` of a hash.
    pub(crate) async fn read_field(
        self: &Arc<Self>,
        operation: &'static str,
        command: &'static str,
        field: &str,
    ) -> Result<i64> {
        let command = Command::new(command).key(self.keys().object());
        self.read_with(operation, command.arg(field)).await
    }

    /// A command that changes nothing, about the object's key.
    pub(crate) async fn read(
        self: &Arc<Self>,
        operation: &'static str,
        command: &'static str,
    ) -> Result<i64> {
        let command = Command::new(command).key(self.keys().object());
        self.read_with(operation, command).await
    }

    /// A command that changes nothing; 0 where there is nothing.
    pub(crate) async fn read_with(
        self: &Arc<Self>,
        operation: &'static str,
        command: Command,
    ) -> Result<i64> {
        let number = |value| self.number(&value);
        self.look(operation, command, number).await
    }

    async fn look<T>(
        self: &Arc<Self>,
        operation: &'static str,
        command: Command,
        read: impl FnOnce(Value) -> Result<T>,
    ) -> Result<T> {
        self.keys().check()?;
        let request = Request::plain(command);
        self.send(operation, request, read).await
    }

    /// Refuses names that no object can have, and more permits than a counter takes.
    pub(crate) fn check_permits(&self, permits: u32) -> Result<()> {
        self.keys().check()?;
        if permits <= MAX_PERMITS {
            return Ok(());
        }
        let name = self.keys().name().to_owned();
        Err(Error::InvalidPermits { name, permits })
    }

    /// A command for each of its keys, carried out once: whether it has changed something. `to`: the object under another name.
    pub(crate) async fn change(
        self: &Arc<Self>,
        operation: &'static str,
        command: &'static str,
        to: Option<&Keys>,
        args: &[Arg],
    ) -> Result<bool> {
        let keys = self.keys();
        keys.check()?;
        let own =
            |keys: &Keys| -> Vec<_> { keys.parts().chain([keys.object()]).cloned().collect() };
        let own_keys = own(keys);
        let mut steps = vec![Arg::Word(command), Arg::number(own_keys.len())];
        steps.extend_from_slice(args);
        let mut all = vec![Arc::clone(keys.record())];
        all.extend(own_keys.into_iter().chain(to.map_or(Vec::new(), own)));
        all.extend(to.and_then(|to| self.announced_at(to)).cloned());
        let record_life = self.client().config.record_life();
        let request = Request::once(&ONCE, all, record_life, steps);
        let changed = |value| match value {
            Value::Bytes(word) if word == b"missing" => Err(Error::NoSuchObject {
                name: keys.name().to_owned(),
            }),
            value => Ok(self.number(&value)? > 0),
        };
        self.send(operation, request, changed).await
    }

    /// The answer is read as a part of the call, so that a call with a wrong answer counts as failed.
    async fn send<T>(
        self: &Arc<Self>,
        operation: &'static str,
        request: Request,
        read: impl FnOnce(Value) -> Result<T>,
    ) -> Result<T> {
        let sending = async { read(self.request(operation, request).await?) };
        self.client().call(pin!(sending)).await
    }

    /// The counter at the object's key; 0 where there is none.
    pub(crate) async fn read_counter(self: &Arc<Self>, operation: &'static str) -> Result<i64> {
        let counter = |value| match self.number(&value)? {
            counter if counter.unsigned_abs() < MOST_COUNTED => Ok(counter),
            counter => Err(self.not_a_number(&counter.to_string())),
        };
        let command = Command::new("GET").key(self.keys().object());
        self.look(operation, command, counter).await
    }

    /// A command that changes nothing: the texts that it answers with.
    pub(crate) async fn read_texts(
        self: &Arc<Self>,
        operation: &'static str,
        command: Command,
    ) -> Result<Vec<String>> {
        let texts = |value| match value {
            Value::Nil => Ok(Vec::new()),
            Value::Array(items) => items
                .into_iter()
                .map(|item| match item {
                    Value::Bytes(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
                    other => Err(self.unexpected(&other)),
                })
                .collect(),
            other => Err(self.unexpected(&other)),
        };
        self.look(operation, command, texts).await
    }

    pub(crate) fn unexpected(&self, value: &Value) -> Error {
        unexpected_answer(self.keys().name(), value)
    }

    fn number(&self, value: &Value) -> Result<i64> {
        match value {
            Value::Int(number) => Ok(*number),
            Value::Nil => Ok(0),
            Value::Bytes(bytes) => {
                let text = String::from_utf8_lossy(bytes);
                // A text that the scripts do not take for a number is none.
                let number = text.parse().ok();
                let number = number.filter(|number: &i64| number.to_string() == text);
                number.ok_or_else(|| self.not_a_number(&text))
            }
            _ => Err(self.unexpected(value)),
        }
    }

    fn not_a_number(&self, text: &str) -> Error {
        Error::NotANumber {
            name: self.keys().name().to_owned(),
            found: text.chars().take(64).collect(),
        }
    }
}
