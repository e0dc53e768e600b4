//! Every operation of a semaphore in one vocabulary, carried out by either side.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redisson_semaphore::{Client, Error};
use redisson_semaphore::{ExpireCondition, ExpireTime, RemainingTtl};
use serde_json::{Value, json};

use crate::support::peer::{JavaPeer, PeerError};

#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    TrySet(u32),
    TrySetFor(u32, Duration),
    Acquire(u32),
    TryAcquire(u32),
    TryAcquireFor(u32, Duration),
    Release(u32),
    ReleaseIfExists(u32),
    Add(i32),
    Drain,
    Available,
    Exists,
    Delete,
    Unlink,
    Touch,
    Size,
    Rename(String),
    RenameNx(String),
    Copy(String),
    CopyAndReplace(String),
    Expire(Duration, Option<ExpireCondition>),
    ExpireAt(SystemTime, Option<ExpireCondition>),
    ClearExpire,
    RemainingTtl,
    ExpireTime,
}

/// What a call answered. Times and time spans are in milliseconds, -1 without expiry, -2 without object.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Nothing,
    Flag(bool),
    Number(i64),
    /// What the error says differs between the two; that there is one must not.
    Failed(String),
}

impl Outcome {
    /// Equal, where an error is like any other.
    pub fn agrees(&self, other: &Outcome) -> bool {
        match (self, other) {
            (Outcome::Failed(_), Outcome::Failed(_)) => true,
            (one, two) => one == two,
        }
    }

    pub fn number(&self) -> i64 {
        match self {
            Outcome::Number(number) => *number,
            other => panic!("not a number: {other:?}"),
        }
    }
}

/// One of the two sides.
#[derive(Clone, Copy)]
pub enum Side<'a> {
    Java(&'a JavaPeer),
    Rust(&'a Client),
}

impl Side<'_> {
    pub fn name(&self) -> &'static str {
        match self {
            Side::Java(_) => "Java",
            Side::Rust(_) => "Rust",
        }
    }

    pub async fn run(&self, name: &str, op: &Op) -> Outcome {
        match self {
            Side::Java(peer) => {
                let (command, args) = java_command(name, op);
                java_outcome(
                    op,
                    peer.call(command, args).await.map(|answer| answer.value),
                )
            }
            Side::Rust(client) => rust_outcome(client, name, op)
                .await
                .unwrap_or_else(|error| Outcome::Failed(error.to_string())),
        }
    }
}

fn java_command(name: &str, op: &Op) -> (&'static str, Value) {
    let permits = |permits: &u32| json!({"name": name, "permits": permits});
    let plain = json!({ "name": name });
    match op {
        Op::TrySet(n) => ("trySetPermits", permits(n)),
        Op::TrySetFor(n, ttl) => (
            "trySetPermits",
            json!({"name": name, "permits": n, "ttlMs": millis(*ttl)}),
        ),
        Op::Acquire(n) => ("acquire", permits(n)),
        Op::TryAcquire(n) => ("tryAcquire", permits(n)),
        Op::TryAcquireFor(n, wait) => (
            "tryAcquire",
            json!({"name": name, "permits": n, "waitMs": millis(*wait)}),
        ),
        Op::Release(n) => ("release", permits(n)),
        Op::ReleaseIfExists(n) => ("releaseIfExists", permits(n)),
        Op::Add(delta) => ("addPermits", json!({"name": name, "permits": delta})),
        Op::Drain => ("drainPermits", plain),
        Op::Available => ("availablePermits", plain),
        Op::Exists => ("isExists", plain),
        Op::Delete => ("delete", plain),
        Op::Unlink => ("unlink", plain),
        Op::Touch => ("touch", plain),
        Op::Size => ("sizeInMemory", plain),
        Op::Rename(new) => ("rename", json!({"name": name, "newName": new})),
        Op::RenameNx(new) => ("renamenx", json!({"name": name, "newName": new})),
        Op::Copy(new) => ("copy", json!({"name": name, "dest": new})),
        Op::CopyAndReplace(new) => ("copyAndReplace", json!({"name": name, "dest": new})),
        Op::Expire(ttl, condition) => (
            "expire",
            conditional(json!({"name": name, "ttlMs": millis(*ttl)}), *condition),
        ),
        Op::ExpireAt(time, condition) => (
            "expireAt",
            conditional(
                json!({"name": name, "epochMs": epoch_millis(*time)}),
                *condition,
            ),
        ),
        Op::ClearExpire => ("clearExpire", plain),
        Op::RemainingTtl => ("remainTimeToLive", plain),
        Op::ExpireTime => ("getExpireTime", plain),
    }
}

fn conditional(mut args: Value, condition: Option<ExpireCondition>) -> Value {
    if let Some(condition) = condition {
        args["condition"] = json!(match condition {
            ExpireCondition::NotSet => "NX",
            ExpireCondition::Set => "XX",
            ExpireCondition::Greater => "GT",
            ExpireCondition::Less => "LT",
            other => unreachable!("{other:?}"),
        });
    }
    args
}

fn java_outcome(op: &Op, result: Result<Value, PeerError>) -> Outcome {
    match result {
        // A call that the peer itself could not make proves nothing.
        Err(error) if error.class.is_empty() || error.class == "Unsupported" => {
            panic!("{op:?}: {error}")
        }
        Err(error) => Outcome::Failed(error.to_string()),
        Ok(Value::Null) => Outcome::Nothing,
        Ok(Value::Bool(flag)) => Outcome::Flag(flag),
        Ok(Value::Number(number)) => Outcome::Number(number.as_i64().expect("an integer")),
        Ok(other) => panic!("{op:?}: {other}"),
    }
}

async fn rust_outcome(client: &Client, name: &str, op: &Op) -> Result<Outcome, Error> {
    let semaphore = client.semaphore(name);
    Ok(match op {
        Op::TrySet(n) => Outcome::Flag(semaphore.try_set_permits(*n).await?),
        Op::TrySetFor(n, ttl) => Outcome::Flag(semaphore.try_set_permits_for(*n, *ttl).await?),
        Op::Acquire(n) => {
            semaphore.acquire(*n).await?;
            Outcome::Nothing
        }
        Op::TryAcquire(n) => Outcome::Flag(semaphore.try_acquire(*n).await?),
        Op::TryAcquireFor(n, wait) => Outcome::Flag(semaphore.try_acquire_for(*n, *wait).await?),
        Op::Release(n) => {
            semaphore.release(*n).await?;
            Outcome::Nothing
        }
        Op::ReleaseIfExists(n) => Outcome::Flag(semaphore.release_if_exists(*n).await?),
        Op::Add(delta) => {
            semaphore.add_permits(*delta).await?;
            Outcome::Nothing
        }
        Op::Drain => Outcome::Number(semaphore.drain_permits().await?),
        Op::Available => Outcome::Number(semaphore.available_permits().await?),
        Op::Exists => Outcome::Flag(semaphore.exists().await?),
        Op::Delete => Outcome::Flag(semaphore.delete().await?),
        Op::Unlink => Outcome::Flag(semaphore.object().unlink().await?),
        Op::Touch => Outcome::Flag(semaphore.object().touch().await?),
        Op::Size => Outcome::Number(semaphore.object().size_in_memory().await? as i64),
        Op::Rename(new) => {
            let renamed = semaphore.object().rename(new).await?;
            assert_eq!(renamed.name(), new);
            Outcome::Nothing
        }
        Op::RenameNx(new) => {
            let renamed = semaphore.object().rename_nx(new).await?;
            assert!(renamed.as_ref().is_none_or(|renamed| renamed.name() == new));
            Outcome::Flag(renamed.is_some())
        }
        Op::Copy(new) => Outcome::Flag(semaphore.object().copy(new).await?),
        Op::CopyAndReplace(new) => Outcome::Flag(semaphore.object().copy_and_replace(new).await?),
        Op::Expire(ttl, None) => Outcome::Flag(semaphore.expire(*ttl).await?),
        Op::Expire(ttl, Some(condition)) => {
            Outcome::Flag(semaphore.expire_if(*ttl, *condition).await?)
        }
        Op::ExpireAt(time, None) => Outcome::Flag(semaphore.expire_at(*time).await?),
        Op::ExpireAt(time, Some(condition)) => {
            Outcome::Flag(semaphore.expire_at_if(*time, *condition).await?)
        }
        Op::ClearExpire => Outcome::Flag(semaphore.clear_expire().await?),
        Op::RemainingTtl => Outcome::Number(match semaphore.remaining_ttl().await? {
            RemainingTtl::Missing => -2,
            RemainingTtl::Persistent => -1,
            RemainingTtl::Expires(ttl) => millis(ttl),
        }),
        Op::ExpireTime => Outcome::Number(match semaphore.object().expire_time().await? {
            ExpireTime::Missing => -2,
            ExpireTime::Persistent => -1,
            ExpireTime::At(time) => epoch_millis(time),
        }),
    })
}

pub fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).expect("within the range of Redis")
}

pub fn epoch_millis(time: SystemTime) -> i64 {
    millis(time.duration_since(UNIX_EPOCH).expect("after 1970"))
}
