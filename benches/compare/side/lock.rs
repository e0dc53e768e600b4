//! Locks: this crate's, and what one writes without it, one script per call over the `redis` crate.
//!
//! A caller takes the lock with `acquire` and gives it back with `release`, of 1.

use std::sync::{Arc, LazyLock};

use redis::Script;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, RLock};

use super::{Semaphore, Side, plain};
use crate::Result;

/// A client, and the lock of a name.
pub(crate) struct Ours(Client, fn(&Client, &str) -> RLock);

impl Ours {
    pub(crate) async fn connect(url: &str, lock: fn(&Client, &str) -> RLock) -> Result<Ours> {
        Ok(Ours(Client::connect(url).await?, lock))
    }
}

impl Side for Ours {
    type Semaphore = RLock;

    fn semaphore(&self, name: &str) -> RLock {
        (self.1)(&self.0, name)
    }
}

impl Semaphore for RLock {
    async fn acquire(&self, _permits: u32) -> Result<()> {
        Ok(RLock::lock(self).await?)
    }

    async fn release(&self, _permits: u32) -> Result<()> {
        Ok(RLock::unlock(self).await?)
    }
}

/// The hash, the time to live and the message of Redisson's lock, and nothing more.
static TAKE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('exists', KEYS[1]) == 1 and redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
             return redis.call('pttl', KEYS[1])
         end
         redis.call('hincrby', KEYS[1], ARGV[1], 1)
         redis.call('pexpire', KEYS[1], ARGV[2])
         return false",
    )
});

static GIVE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return false end
         local left = redis.call('hincrby', KEYS[1], ARGV[1], -1)
         if left > 0 then
             redis.call('pexpire', KEYS[1], ARGV[2])
             return 0
         end
         redis.call('del', KEYS[1])
         redis.call('publish', KEYS[2], '0')
         return 1",
    )
});

const LEASE_MILLIS: u32 = 30_000;

pub(crate) struct Plain {
    connection: MultiplexedConnection,
}

impl Plain {
    pub(crate) async fn connect(url: &str) -> Result<Plain> {
        let (_, connection) = plain::connect(url).await?;
        Ok(Plain { connection })
    }
}

impl Side for Plain {
    type Semaphore = Handle;

    fn semaphore(&self, name: &str) -> Handle {
        Handle {
            connection: self.connection.clone(),
            name: name.into(),
            channel: format!("redisson_lock__channel:{{{name}}}").into(),
            owner: format!("{}:1", uuid::Uuid::new_v4()).into(),
        }
    }
}

#[derive(Clone)]
pub(crate) struct Handle {
    connection: MultiplexedConnection,
    name: Arc<str>,
    channel: Arc<str>,
    owner: Arc<str>,
}

impl Semaphore for Handle {
    async fn acquire(&self, _permits: u32) -> Result<()> {
        let mut connection = self.connection.clone();
        let busy: Option<i64> = TAKE
            .key(&*self.name)
            .arg(&*self.owner)
            .arg(LEASE_MILLIS)
            .invoke_async(&mut connection)
            .await?;
        match busy {
            None => Ok(()),
            Some(_) => Err("measured without anybody else".into()),
        }
    }

    async fn release(&self, _permits: u32) -> Result<()> {
        let mut connection = self.connection.clone();
        let left: Option<i64> = GIVE
            .key(&*self.name)
            .key(&*self.channel)
            .arg(&*self.owner)
            .arg(LEASE_MILLIS)
            .invoke_async(&mut connection)
            .await?;
        left.map(drop).ok_or_else(|| "not held".into())
    }
}
