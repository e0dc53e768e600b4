use std::sync::Mutex;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redisson_semaphore::recipes;
use redisson_semaphore::{Client, Lock as _, LockGuard, Result};

use crate::subject::Kind::{self, Change, Give, Look, Nothing, Take};
use crate::subject::{HOUR, SHORT, Subject};
use crate::support::snapshot::snapshot;

/// Two owners of a lock, and a guard of the first one.
pub struct StringLock {
    one: recipes::StringLock,
    two: recipes::StringLock,
    guard: Mutex<Option<LockGuard>>,
}

impl Subject for StringLock {
    const NAME: &'static str = "string_lock";
    const CALLS: &'static [(&'static str, Kind)] = &[
        ("try_lock", Take),
        ("lock", Take),
        ("try_lock_for, in vain", Nothing),
        ("guard, dropped", Nothing),
        ("unlock", Give),
        ("guard's unlock", Give),
        ("guard's drop", Give),
        ("is_locked", Look),
        ("force_unlock", Change),
    ];
    const NEEDS: &'static [&'static str] = &["get", "set", "time", "mget", "del"];

    const LOOKS: bool = true;
    const ONCE: &'static [&'static str] = &["guard's unlock"];

    fn new(client: &Client, name: &str) -> Self {
        StringLock {
            one: client.string_lock(name).timeout(HOUR),
            two: client.string_lock(name).timeout(HOUR),
            guard: Mutex::default(),
        }
    }

    fn keys(&self) -> Vec<String> {
        vec![format!("lock:{}", self.one.name())]
    }

    async fn left(&self, redis: &mut MultiplexedConnection) -> String {
        let key = format!("lock:{}", self.one.name());
        snapshot(redis, &key).await.kind
    }

    async fn prepare(&self, call: &'static str) -> Result<()> {
        match call {
            "try_lock" | "lock" | "guard, dropped" => {}
            "guard's unlock" | "guard's drop" => {
                let guard = self.one.guard().await?;
                *self.guard.lock().unwrap() = Some(guard);
            }
            _ => self.one.lock().await?,
        }
        Ok(())
    }

    async fn call(&self, call: &'static str) -> Result<bool> {
        let held = || {
            let guard = self.guard.lock().unwrap().take();
            guard.expect("it is held")
        };
        match call {
            "try_lock" => self.one.try_lock().await,
            "lock" => self.one.lock().await.map(|()| true),
            "try_lock_for, in vain" => Ok(!self.two.try_lock_for(SHORT).await?),
            "guard, dropped" => self.one.guard().await.map(|_| true),
            "guard's unlock" => held().unlock().await.map(|()| true),
            "is_locked" => self.two.is_locked().await,
            "force_unlock" => self.two.force_unlock().await,
            "guard's drop" => {
                drop(held());
                Ok(true)
            }
            _ => self.one.unlock().await.map(|()| true),
        }
    }

    async fn take(&self, limit: Option<Duration>) -> Result<bool> {
        match limit {
            None => self.one.lock().await.map(|()| true),
            Some(limit) => self.one.try_lock_for(limit).await,
        }
    }

    async fn give(&self) -> Result<()> {
        self.one.unlock().await
    }
}
