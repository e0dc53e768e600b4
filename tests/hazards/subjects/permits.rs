use std::sync::Mutex;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, Held, LeasedPermit, RPermitExpirableSemaphore, Result};

use crate::subject::Kind::{self, Change, Give, Look, Nothing, Take};
use crate::subject::{HOUR, SHORT, Subject};
use crate::support::snapshot::snapshot;

/// Three permits with ids.
pub struct Permits {
    semaphore: RPermitExpirableSemaphore,
    held: Mutex<Vec<Held>>,
    guard: Mutex<Option<LeasedPermit>>,
}

impl Permits {
    fn keep(&self, held: Option<Vec<Held>>) -> bool {
        let taken = held.is_some();
        self.held.lock().unwrap().extend(held.into_iter().flatten());
        taken
    }

    /// The last one's id.
    fn id(&self) -> String {
        let held = self.held.lock().unwrap();
        held.last().expect("one is held").id().to_owned()
    }

    fn guard(&self) -> LeasedPermit {
        let guard = self.guard.lock().unwrap().take();
        guard.expect("one is held")
    }

    fn taken(&self) -> String {
        format!("{{{}}}:timeout", self.semaphore.name())
    }
}

impl Subject for Permits {
    const NAME: &'static str = "permits";
    const CALLS: &'static [(&'static str, Kind)] = &[
        ("try_set_permits", Change),
        ("acquire", Take),
        ("acquire_many", Take),
        ("try_acquire", Take),
        ("try_acquire_for", Take),
        ("try_acquire_many_for, in vain", Nothing),
        ("permit", Take),
        ("permit, dropped", Nothing),
        ("release", Give),
        ("try_release", Give),
        ("release_many", Give),
        ("permit's release", Give),
        ("permit's drop", Give),
        ("update_lease_time", Nothing),
        ("available_permits", Look),
        ("holders", Look),
        ("set_permits", Change),
        ("add_permits", Change),
        ("release_all", Change),
        ("delete", Change),
    ];
    const NEEDS: &'static [&'static str] = &["get", "set", "time", "zadd", "zrem", "publish"];

    const ONCE: &'static [&'static str] = &["permit's release"];

    fn new(client: &Client, name: &str) -> Self {
        Permits {
            semaphore: client.permit_expirable_semaphore(name).with_lease(HOUR),
            held: Mutex::default(),
            guard: Mutex::default(),
        }
    }

    fn keys(&self) -> Vec<String> {
        vec![self.semaphore.name().to_owned(), self.taken()]
    }

    /// The counter, and how many are held.
    async fn left(&self, redis: &mut MultiplexedConnection) -> String {
        let counter = snapshot(redis, self.semaphore.name()).await.value;
        let held = snapshot(redis, &self.taken()).await.value.len();
        format!("{counter:?}, {held} held")
    }

    async fn prepare(&self, call: &'static str) -> Result<()> {
        if call == "try_set_permits" {
            return Ok(());
        }
        self.semaphore.try_set_permits(3).await?;
        if call.starts_with("permit's") {
            let guard = self.semaphore.permit().await?;
            *self.guard.lock().unwrap() = Some(guard);
            return Ok(());
        }
        self.take(None).await.map(drop)
    }

    async fn call(&self, call: &'static str) -> Result<bool> {
        let semaphore = &self.semaphore;
        let one = |held: Held| vec![held];
        match call {
            "try_set_permits" => semaphore.try_set_permits(2).await,
            "acquire" => Ok(self.keep(Some(one(semaphore.acquire().await?)))),
            "acquire_many" => Ok(self.keep(Some(semaphore.acquire_many(2).await?))),
            "try_acquire" => Ok(self.keep(semaphore.try_acquire().await?.map(one))),
            "try_acquire_for" => Ok(self.keep(semaphore.try_acquire_for(SHORT).await?.map(one))),
            "try_acquire_many_for, in vain" => {
                Ok(semaphore.try_acquire_many_for(3, SHORT).await?.is_none())
            }
            "permit" => {
                let guard = semaphore.permit().await?;
                *self.guard.lock().unwrap() = Some(guard);
                Ok(true)
            }
            "permit, dropped" => semaphore.permit().await.map(|_| true),
            "release" => semaphore.release(&self.id()).await.map(|()| true),
            "try_release" => semaphore.try_release(&self.id()).await,
            "release_many" => {
                let released = semaphore.release_many(&[self.id()]).await;
                released.map(|()| true)
            }
            "permit's release" => self.guard().release().await,
            "update_lease_time" => {
                semaphore
                    .update_lease_time(&self.id(), Some(2 * HOUR))
                    .await
            }
            "available_permits" => Ok(semaphore.available_permits().await? == 2),
            "holders" => Ok(semaphore.holders().await?.len() == 1),
            "set_permits" => semaphore.set_permits(5).await.map(|()| true),
            "add_permits" => semaphore.add_permits(4).await.map(|()| true),
            "release_all" => Ok(semaphore.release_all().await? == 1),
            "delete" => semaphore.delete().await,
            _ => {
                drop(self.guard());
                Ok(true)
            }
        }
    }

    async fn begin_anew(&self) -> Result<()> {
        self.semaphore.try_set_permits(1).await.map(drop)
    }

    async fn take(&self, limit: Option<Duration>) -> Result<bool> {
        let held = match limit {
            None => Some(self.semaphore.acquire().await?),
            Some(limit) => self.semaphore.try_acquire_for(limit).await?,
        };
        Ok(self.keep(held.map(|held| vec![held])))
    }

    async fn give(&self) -> Result<()> {
        let held = self.held.lock().unwrap().pop().expect("one is held");
        self.semaphore.release(held.id()).await
    }
}
