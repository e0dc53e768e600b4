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

/// The outcome of a call. Times and time spans are in milliseconds, -1 without expiry, -2 without object.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Nothing,
    Flag(bool),
    Number(i64),
    /// The texts of the two sides' errors may differ. Both sides must fail in the same cases.
    Failed(String),
}

impl Outcome {
    /// Whether two outcomes are equal. All errors count as equal.
    pub fn agrees(&self, other: &Outcome) -> bool {
        match (self, other) {
            (Outcome::Failed(_), Outcome::Failed(_)) => true,
            (one, two) => one == two,
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
    let permits = |permits: &u32| json!({ "permits": permits });
    let plain = json!({});
    let (command, mut args) = match op {
        Op::TrySet(n) => ("trySetPermits", permits(n)),
        Op::TrySetFor(n, ttl) => (
            "trySetPermits",
            json!({"permits": n, "ttlMs": millis(*ttl)}),
        ),
        Op::Acquire(n) => ("acquire", permits(n)),
        Op::TryAcquire(n) => ("tryAcquire", permits(n)),
        Op::TryAcquireFor(n, wait) => {
            ("tryAcquire", json!({"permits": n, "waitMs": millis(*wait)}))
        }
        Op::Release(n) => ("release", permits(n)),
        Op::ReleaseIfExists(n) => ("releaseIfExists", permits(n)),
        Op::Add(delta) => ("addPermits", json!({ "permits": delta })),
        Op::Drain => ("drainPermits", plain),
        Op::Available => ("availablePermits", plain),
        Op::Exists => ("isExists", plain),
        Op::Delete => ("delete", plain),
        Op::Unlink => ("unlink", plain),
        Op::Touch => ("touch", plain),
        Op::Size => ("sizeInMemory", plain),
        Op::Rename(new) => ("rename", json!({ "newName": new })),
        Op::RenameNx(new) => ("renamenx", json!({ "newName": new })),
        Op::Copy(new) => ("copy", json!({ "dest": new })),
        Op::CopyAndReplace(new) => ("copyAndReplace", json!({ "dest": new })),
        Op::Expire(ttl, _) => ("expire", json!({ "ttlMs": millis(*ttl) })),
        Op::ExpireAt(time, _) => ("expireAt", json!({ "epochMs": epoch_millis(*time) })),
        Op::ClearExpire => ("clearExpire", plain),
        Op::RemainingTtl => ("remainTimeToLive", plain),
        Op::ExpireTime => ("getExpireTime", plain),
    };
    args["name"] = json!(name);
    if let Op::Expire(_, Some(condition)) | Op::ExpireAt(_, Some(condition)) = op {
        args["condition"] = json!(match condition {
            ExpireCondition::NotSet => "NX",
            ExpireCondition::Set => "XX",
            ExpireCondition::Greater => "GT",
            ExpireCondition::Less => "LT",
            other => unreachable!("{other:?}"),
        });
    }
    (command, args)
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
    let object = semaphore.object();
    let nothing = |()| Outcome::Nothing;
    match op {
        Op::TrySet(n) => semaphore.try_set_permits(*n).await.map(Outcome::Flag),
        Op::TrySetFor(n, ttl) => semaphore
            .try_set_permits_for(*n, *ttl)
            .await
            .map(Outcome::Flag),
        Op::Acquire(n) => semaphore.acquire(*n).await.map(nothing),
        Op::TryAcquire(n) => semaphore.try_acquire(*n).await.map(Outcome::Flag),
        Op::TryAcquireFor(n, wait) => semaphore
            .try_acquire_for(*n, *wait)
            .await
            .map(Outcome::Flag),
        Op::Release(n) => semaphore.release(*n).await.map(nothing),
        Op::ReleaseIfExists(n) => semaphore.release_if_exists(*n).await.map(Outcome::Flag),
        Op::Add(delta) => semaphore.add_permits(*delta).await.map(nothing),
        Op::Drain => semaphore.drain_permits().await.map(Outcome::Number),
        Op::Available => semaphore.available_permits().await.map(Outcome::Number),
        Op::Exists => semaphore.exists().await.map(Outcome::Flag),
        Op::Delete => semaphore.delete().await.map(Outcome::Flag),
        Op::Unlink => object.unlink().await.map(Outcome::Flag),
        Op::Touch => object.touch().await.map(Outcome::Flag),
        Op::Size => object
            .size_in_memory()
            .await
            .map(|size| Outcome::Number(size as i64)),
        Op::Rename(new) => object.rename(new).await.map(|renamed| {
            assert_eq!(renamed.name(), new);
            Outcome::Nothing
        }),
        Op::RenameNx(new) => object.rename_nx(new).await.map(|renamed| {
            assert!(renamed.as_ref().is_none_or(|renamed| renamed.name() == new));
            Outcome::Flag(renamed.is_some())
        }),
        Op::Copy(new) => object.copy(new).await.map(Outcome::Flag),
        Op::CopyAndReplace(new) => object.copy_and_replace(new).await.map(Outcome::Flag),
        Op::Expire(ttl, None) => semaphore.expire(*ttl).await.map(Outcome::Flag),
        Op::Expire(ttl, Some(only)) => semaphore.expire_if(*ttl, *only).await.map(Outcome::Flag),
        Op::ExpireAt(time, None) => semaphore.expire_at(*time).await.map(Outcome::Flag),
        Op::ExpireAt(time, Some(only)) => semaphore
            .expire_at_if(*time, *only)
            .await
            .map(Outcome::Flag),
        Op::ClearExpire => semaphore.clear_expire().await.map(Outcome::Flag),
        Op::RemainingTtl => semaphore.remaining_ttl().await.map(|ttl| {
            Outcome::Number(match ttl {
                RemainingTtl::Missing => -2,
                RemainingTtl::Persistent => -1,
                RemainingTtl::Expires(ttl) => millis(ttl),
            })
        }),
        Op::ExpireTime => object.expire_time().await.map(|end| {
            Outcome::Number(match end {
                ExpireTime::Missing => -2,
                ExpireTime::Persistent => -1,
                ExpireTime::At(time) => epoch_millis(time),
            })
        }),
    }
}

pub fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).expect("within the range of Redis")
}

pub fn epoch_millis(time: SystemTime) -> i64 {
    millis(time.duration_since(UNIX_EPOCH).expect("after 1970"))
}
