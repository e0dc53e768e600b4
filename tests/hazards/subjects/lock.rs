use std::sync::Mutex;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redisson_semaphore::recipes;
use redisson_semaphore::{
    Client, FencedGuard, Lock as _, LockGuard, RFairLock, RFencedLock, RLock, Result,
};

use crate::subject::Kind::{self, Change, Give, Look, Nothing, Take};
use crate::subject::{HOUR, SHORT, Subject};
use crate::support::snapshot::snapshot;

/// Two owners of a lock, and a guard of the first one.
macro_rules! lock {
    ($subject:ident, $name:literal, $lock:ty, $guard:ty, $make:expr, $key:literal, $looks:literal, $calls:expr, $needs:expr) => {
        pub struct $subject {
            one: $lock,
            two: $lock,
            guard: Mutex<Option<$guard>>,
        }

        impl Subject for $subject {
            const NAME: &'static str = $name;
            const CALLS: &'static [(&'static str, Kind)] = &$calls;
            const NEEDS: &'static [&'static str] = &$needs;

            const LOOKS: bool = $looks;
            const ONCE: &'static [&'static str] = &["guard's unlock"];

            fn new(client: &Client, name: &str) -> Self {
                let make: fn(&Client, &str) -> $lock = $make;
                $subject {
                    one: make(client, name),
                    two: make(client, name),
                    guard: Mutex::default(),
                }
            }

            fn keys(&self) -> Vec<String> {
                vec![format!("{}{}", $key, self.one.name())]
            }

            /// How often it is held, and how many wait in Redisson's queue.
            async fn left(&self, redis: &mut MultiplexedConnection) -> String {
                let holders = snapshot(redis, &self.keys()[0]).await.value;
                let holds: Vec<_> = holders.iter().map(|one| one.rsplit_once('=')).collect();
                let holds: Vec<_> = holds
                    .iter()
                    .map(|one| one.map(|(_, count)| count))
                    .collect();
                let queue = format!("redisson_lock_queue:{{{}}}", self.one.name());
                let queue = snapshot(redis, &queue).await.value;
                let ends = format!("redisson_lock_timeout:{{{}}}", self.one.name());
                let ends = snapshot(redis, &ends).await.value;
                format!("{holds:?}, {} and {} wait", queue.len(), ends.len())
            }

            async fn prepare(&self, call: &'static str) -> Result<()> {
                match call {
                    "try_lock" | "lock" | "lock with a lease" | "guard, dropped" => {}
                    "guard's unlock" | "guard's drop" => {
                        let guard = self.one.guard().await?;
                        *self.guard.lock().unwrap() = Some(guard);
                    }
                    "unlock, one of two" => {
                        self.one.lock().await?;
                        self.one.lock().await?;
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
                    "lock with a lease" => self.one.with_lease(HOUR).lock().await.map(|()| true),
                    "lock" | "lock, again" => self.one.lock().await.map(|()| true),
                    "try_lock_for, in vain" => Ok(!self.two.try_lock_for(SHORT).await?),
                    "guard, dropped" => self.one.guard().await.map(|_| true),
                    "guard's unlock" => held().unlock().await.map(|()| true),
                    "hold_count" => Ok(self.one.hold_count().await? == 1),
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
                    Some(limit) => {
                        let taken = self.one.try_lock_for(limit).await?;
                        if !taken && !Self::LOOKS {
                            // Behind the call that leaves the queue.
                            self.one.hold_count().await?;
                        }
                        Ok(taken)
                    }
                }
            }

            async fn give(&self) -> Result<()> {
                self.one.unlock().await
            }
        }
    };
}

const CALLS: [(&str, Kind); 13] = [
    ("try_lock", Take),
    ("lock", Take),
    ("lock with a lease", Take),
    ("lock, again", Take),
    ("try_lock_for, in vain", Nothing),
    ("guard, dropped", Nothing),
    ("unlock", Give),
    ("unlock, one of two", Give),
    ("guard's unlock", Give),
    ("guard's drop", Give),
    ("hold_count", Look),
    ("is_locked", Look),
    ("force_unlock", Change),
];
/// Of a lock that nobody can take again.
const CALLS_OF_ONE_HOLD: [(&str, Kind); 9] = [
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
const NEEDS: [&str; 6] = ["hset", "pexpire", "pttl", "del", "hget", "publish"];
/// A fair lock publishes only where somebody waits.
const NEEDS_OF_FAIR: [&str; 8] = [
    "hset", "pexpire", "pttl", "del", "hget", "lindex", "rpush", "zadd",
];
const NEEDS_OF_STRING: [&str; 5] = ["get", "set", "time", "mget", "del"];

lock!(
    Lock,
    "lock",
    RLock,
    LockGuard,
    |client, name| client.lock(name),
    "",
    false,
    CALLS,
    NEEDS
);
lock!(
    Fenced,
    "fenced",
    RFencedLock,
    FencedGuard,
    |client, name| client.fenced_lock(name),
    "",
    false,
    CALLS,
    NEEDS
);
lock!(
    Fair,
    "fair",
    RFairLock,
    LockGuard,
    |client, name| client.fair_lock(name),
    "",
    false,
    CALLS,
    NEEDS_OF_FAIR
);
lock!(
    StringLock,
    "string_lock",
    recipes::StringLock,
    LockGuard,
    |client, name| client.string_lock(name).timeout(HOUR),
    "lock:",
    true,
    CALLS_OF_ONE_HOLD,
    NEEDS_OF_STRING
);
