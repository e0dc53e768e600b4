//! Permits with ids and leases: this crate's, and what one writes without it, one script per call over the `redis` crate.
//!
//! Each caller has a handle of its own, which keeps what it holds. A permit lasts for a minute; one in a guard for less, and is renewed.

use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::Script;
use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, Held, LeasedPermit, RPermitExpirableSemaphore};

use super::{Semaphore, Side, plain};
use crate::Result;

const LEASE: Duration = Duration::from_secs(60);
/// The lease of guards; they are renewed three times as often.
pub(crate) const RENEWED_LEASE: Duration = Duration::from_secs(6);
const NOBODY: &str = "it holds nothing";

pub(crate) struct Ours(Client);

impl Ours {
    pub(crate) async fn connect(url: &str) -> Result<Ours> {
        Ok(Ours(Client::connect(url).await?))
    }
}

impl Side for Ours {
    type Semaphore = OurHandle;

    fn semaphore(&self, name: &str) -> OurHandle {
        OurHandle {
            semaphore: self.0.permit_expirable_semaphore(name).with_lease(LEASE),
            held: Arc::default(),
        }
    }
}

#[derive(Clone)]
pub(crate) struct OurHandle {
    semaphore: RPermitExpirableSemaphore,
    held: Arc<Mutex<Option<Held>>>,
}

impl Semaphore for OurHandle {
    async fn acquire(&self, _permits: u32) -> Result<()> {
        let held = self.semaphore.acquire().await?;
        *self.held.lock().expect("no panic under this lock") = Some(held);
        Ok(())
    }

    async fn release(&self, _permits: u32) -> Result<()> {
        let held = self.held.lock().expect("no panic under this lock").take();
        Ok(self.semaphore.release(held.ok_or(NOBODY)?.id()).await?)
    }
}

/// Permits in guards, all of which one handle keeps.
pub(crate) struct Guards(Client);

impl Guards {
    pub(crate) async fn connect(url: &str) -> Result<Guards> {
        Ok(Guards(Client::connect(url).await?))
    }
}

impl Side for Guards {
    type Semaphore = GuardsHandle;

    fn semaphore(&self, name: &str) -> GuardsHandle {
        GuardsHandle {
            semaphore: self
                .0
                .permit_expirable_semaphore(name)
                .with_lease(RENEWED_LEASE),
            held: Arc::default(),
        }
    }
}

#[derive(Clone)]
pub(crate) struct GuardsHandle {
    semaphore: RPermitExpirableSemaphore,
    held: Arc<Mutex<Vec<LeasedPermit>>>,
}

impl Semaphore for GuardsHandle {
    async fn acquire(&self, _permits: u32) -> Result<()> {
        let held = self.semaphore.permit().await?;
        let mut all = self.held.lock().expect("no panic under this lock");
        all.push(held);
        Ok(())
    }

    async fn release(&self, _permits: u32) -> Result<()> {
        let held = self.held.lock().expect("no panic under this lock").pop();
        match held.ok_or(NOBODY)?.release().await? {
            true => Ok(()),
            false => Err(NOBODY.into()),
        }
    }
}

/// The commands of Redisson's, for one permit, and nothing more.
static ACQUIRE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local ended = redis.call('zrangebyscore', KEYS[2], 0, ARGV[2], 'limit', 0, 1)
         if #ended > 0 then
             redis.call('zrem', KEYS[2], unpack(ended))
             redis.call('incrby', KEYS[1], #ended)
         end
         local free = redis.call('get', KEYS[1])
         if free and tonumber(free) >= 1 then
             redis.call('decrby', KEYS[1], 1)
             redis.call('zadd', KEYS[2], ARGV[1], ARGV[3])
             local life = redis.call('pttl', KEYS[1])
             if life > 0 then redis.call('pexpire', KEYS[2], life) end
             return 1
         end
         return 0",
    )
});

static RELEASE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('zrem', KEYS[2], ARGV[1]) == 0 then return 0 end
         redis.call('publish', KEYS[3], redis.call('incrby', KEYS[1], 1))
         return 1",
    )
});

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
            permits: format!("{{{name}}}:timeout").into(),
            channel: format!("redisson_sc:{{{name}}}").into(),
            held: Arc::default(),
        }
    }
}

#[derive(Clone)]
pub(crate) struct Handle {
    connection: MultiplexedConnection,
    name: Arc<str>,
    permits: Arc<str>,
    channel: Arc<str>,
    held: Arc<Mutex<Option<[u8; 16]>>>,
}

impl Semaphore for Handle {
    async fn acquire(&self, _permits: u32) -> Result<()> {
        let mut connection = self.connection.clone();
        let id = *uuid::Uuid::new_v4().as_bytes();
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let taken: i64 = ACQUIRE
            .key(&*self.name)
            .key(&*self.permits)
            .arg((now + LEASE).as_millis() as u64)
            .arg(now.as_millis() as u64)
            .arg(&id[..])
            .invoke_async(&mut connection)
            .await?;
        if taken == 0 {
            return Err("measured with ample permits".into());
        }
        *self.held.lock().expect("no panic under this lock") = Some(id);
        Ok(())
    }

    async fn release(&self, _permits: u32) -> Result<()> {
        let mut connection = self.connection.clone();
        let id = self.held.lock().expect("no panic under this lock").take();
        let given: i64 = RELEASE
            .key(&*self.name)
            .key(&*self.permits)
            .key(&*self.channel)
            .arg(&id.ok_or(NOBODY)?[..])
            .invoke_async(&mut connection)
            .await?;
        if given == 1 {
            return Ok(());
        }
        Err(NOBODY.into())
    }
}
