use std::sync::Mutex;
use std::time::Duration;

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, LockGuard, RReadWriteLock, Result};

use crate::subject::Kind::{self, Change, Give, Look, Nothing, Take};
use crate::subject::{HOUR, SHORT, Subject};
use crate::support::snapshot::snapshot;

/// Two owners of a read-write lock, and a guard.
pub struct ReadWrite {
    one: RReadWriteLock,
    two: RReadWriteLock,
    guard: Mutex<Option<LockGuard>>,
}

impl Subject for ReadWrite {
    const NAME: &'static str = "read_write";
    const CALLS: &'static [(&'static str, Kind)] = &[
        ("try_lock, to write", Take),
        ("lock, to write", Take),
        ("lock, to write with a lease", Take),
        ("lock, to write again", Take),
        ("try_lock, to read", Take),
        ("lock, to read", Take),
        ("lock, to read with a lease", Take),
        ("lock, to read again", Take),
        ("lock, to read beside another", Take),
        ("lock, to read as the writer", Take),
        ("try_lock_for, to write in vain", Nothing),
        ("try_lock_for, to read in vain", Nothing),
        ("guard, of a writer, dropped", Nothing),
        ("guard, of a reader, dropped", Nothing),
        ("unlock of a writer", Give),
        ("unlock of a writer that reads", Give),
        ("unlock of a reader", Give),
        ("unlock of a reader, one of two", Give),
        ("unlock of a reader that writes", Give),
        ("unlock of one of two readers", Give),
        ("guard's unlock", Give),
        ("guard's drop", Give),
        ("hold_count", Look),
        ("is_locked", Look),
        ("is_locked of the other side", Look),
        ("force_unlock of a writer", Change),
        ("force_unlock of readers", Change),
    ];
    const NEEDS: &'static [&'static str] = &[
        "hset", "hdel", "hget", "hlen", "hgetall", "hexists", "pexpire", "pttl", "set", "del",
        "publish",
    ];

    const ONCE: &'static [&'static str] = &["guard's unlock"];

    fn new(client: &Client, name: &str) -> Self {
        ReadWrite {
            one: client.read_write_lock(name),
            two: client.read_write_lock(name),
            guard: Mutex::default(),
        }
    }

    fn keys(&self) -> Vec<String> {
        vec![self.one.name().to_owned()]
    }

    /// How it is held, and how many of the holds have a time of their own.
    async fn left(&self, redis: &mut MultiplexedConnection) -> String {
        let name = self.one.name();
        let fields = snapshot(redis, name).await.value;
        let of = |field: &String| {
            let (field, count) = field.rsplit_once('=')?;
            let writes = field.ends_with(":write");
            Some(format!("{}={count}", if writes { "write" } else { "" }))
        };
        let mut holds: Vec<_> = fields.iter().filter_map(of).collect();
        holds.sort();
        let own: Vec<String> = redis
            .keys(format!("{{{name}}}:*:rwlock_timeout:*"))
            .await
            .unwrap_or_default();
        format!("{holds:?} {}", own.len())
    }

    async fn prepare(&self, call: &'static str) -> Result<()> {
        let (read, write) = (self.one.read(), self.one.write());
        match call {
            "lock, to write again"
            | "try_lock_for, to read in vain"
            | "unlock of a writer"
            | "lock, to read as the writer"
            | "hold_count"
            | "is_locked"
            | "force_unlock of a writer" => write.lock().await,
            "lock, to read again"
            | "unlock of a reader"
            | "try_lock_for, to write in vain"
            | "is_locked of the other side"
            | "force_unlock of readers" => read.lock().await,
            "lock, to read beside another" => self.two.read().lock().await,
            "unlock of one of two readers" => {
                self.two.read().lock().await?;
                read.lock().await
            }
            "unlock of a reader, one of two" => {
                read.lock().await?;
                read.lock().await
            }
            "unlock of a writer that reads" | "unlock of a reader that writes" => {
                write.lock().await?;
                read.lock().await
            }
            "guard's unlock" | "guard's drop" => {
                let guard = read.guard().await?;
                *self.guard.lock().unwrap() = Some(guard);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn call(&self, call: &'static str) -> Result<bool> {
        let (read, write) = (self.one.read(), self.one.write());
        let held = || {
            let guard = self.guard.lock().unwrap().take();
            guard.expect("it is held")
        };
        match call {
            "try_lock, to write" => write.try_lock().await,
            "try_lock, to read" => read.try_lock().await,
            "lock, to write with a lease" => write.with_lease(HOUR).lock().await.map(|()| true),
            "lock, to read with a lease" => read.with_lease(HOUR).lock().await.map(|()| true),
            "lock, to write" | "lock, to write again" => write.lock().await.map(|()| true),
            "try_lock_for, to write in vain" => Ok(!self.two.write().try_lock_for(SHORT).await?),
            "try_lock_for, to read in vain" => Ok(!self.two.read().try_lock_for(SHORT).await?),
            "guard, of a writer, dropped" => write.guard().await.map(|_| true),
            "guard, of a reader, dropped" => read.guard().await.map(|_| true),
            "unlock of a writer" | "unlock of a writer that reads" => {
                write.unlock().await.map(|()| true)
            }
            "guard's unlock" => held().unlock().await.map(|()| true),
            "guard's drop" => {
                drop(held());
                Ok(true)
            }
            "hold_count" => Ok(write.hold_count().await? == 1),
            "is_locked" => self.two.write().is_locked().await,
            "is_locked of the other side" => Ok(!self.two.write().is_locked().await?),
            "force_unlock of a writer" => self.two.write().force_unlock().await,
            "force_unlock of readers" => self.two.read().force_unlock().await,
            call if call.starts_with("unlock") => read.unlock().await.map(|()| true),
            _ => read.lock().await.map(|()| true),
        }
    }

    async fn take(&self, limit: Option<Duration>) -> Result<bool> {
        match limit {
            None => self.one.write().lock().await.map(|()| true),
            Some(limit) => self.one.write().try_lock_for(limit).await,
        }
    }

    async fn give(&self) -> Result<()> {
        self.one.write().unlock().await
    }
}
