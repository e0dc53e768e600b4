//! Locks of both sides, of each kind.

use redisson_semaphore::{Client, Error, RLock, Result};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::world::{NEWEST, World};
use crate::support::peer;
use crate::support::waiters::until_subscribers;

/// A lock, or one side of a read-write lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Plain,
    Fair,
    Read,
    Write,
}

impl Kind {
    /// Of an owner of its own.
    pub fn of(self, client: &Client, name: &str) -> RLock {
        match self {
            Kind::Plain => client.lock(name),
            Kind::Fair => client.fair_lock(name).as_lock().clone(),
            Kind::Read => client.read_write_lock(name).read(),
            Kind::Write => client.read_write_lock(name).write(),
        }
    }

    /// The same lock for a thread of Java.
    pub fn args(self, name: &str, thread: &str) -> Value {
        let mut args = json!({"name": name, "thread": thread});
        match self {
            Kind::Plain => {}
            Kind::Fair => args["fair"] = json!(true),
            Kind::Read => args["side"] = json!("read"),
            Kind::Write => args["side"] = json!("write"),
        }
        args
    }

    /// Where an end of it is announced to all waiters.
    pub fn channel(self, name: &str) -> String {
        match self {
            Kind::Plain | Kind::Fair => format!("redisson_lock__channel:{{{name}}}"),
            Kind::Read | Kind::Write => format!("redisson_rwlock:{{{name}}}"),
        }
    }

    /// Waits until as many connections listen for the end of the lock.
    pub async fn until_listeners(self, world: &mut World, name: &str, count: u64) {
        until_subscribers(&mut world.redis, &self.channel(name), count).await;
    }
}

/// Locks that exclude each other, the one that is held first. Read-write locks are tested beside Redisson 3.52.0, too, and plain
/// ones beside 3.16.8.
pub fn exclusive(version: &str) -> Vec<(Kind, Kind)> {
    use Kind::{Plain, Read, Write};
    let both_sides = [(Read, Write), (Write, Read), (Write, Write)];
    match version {
        "3.16.8" => vec![(Plain, Plain)],
        "3.52.0" => both_sides.to_vec(),
        _ => [&[(Plain, Plain)], &both_sides[..]].concat(),
    }
}

/// For plain locks.
pub fn versions() -> Vec<&'static str> {
    peer::versions(&[NEWEST, "3.16.8"])
}

/// For fair locks and read-write locks.
pub fn newer_versions() -> Vec<&'static str> {
    peer::versions(&[NEWEST, "3.52.0"])
}

/// For all of them.
pub fn all_versions() -> Vec<&'static str> {
    peer::versions(&[NEWEST, "3.52.0", "3.16.8"])
}

/// `lock` in a task.
pub fn locking(lock: &RLock) -> JoinHandle<Result<()>> {
    let lock = lock.clone();
    tokio::spawn(async move { lock.lock().await })
}

/// The answer of a call here, as the Java peer gives it.
pub fn as_java_says(answer: Result<Value>) -> Value {
    match answer {
        Ok(value) => value,
        Err(Error::NotHeld { .. }) => json!("IllegalMonitorStateException"),
        Err(error) => panic!("{error}"),
    }
}
