use std::sync::Mutex;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, Permit, RSemaphore, Result};

use crate::subject::Kind::{self, Give, Look, Nothing, Take};
use crate::subject::{SHORT, Subject};
use crate::support::snapshot::snapshot;

/// The guards of a semaphore, watched or not.
pub struct Guarded<const WATCHED: bool> {
    semaphore: RSemaphore,
    held: Mutex<Vec<Permit>>,
}

pub type Watched = Guarded<true>;
pub type Unwatched = Guarded<false>;

impl<const WATCHED: bool> Guarded<WATCHED> {
    fn keep(&self, permit: Option<Permit>) -> bool {
        let taken = permit.is_some();
        self.held.lock().unwrap().extend(permit);
        taken
    }

    fn held(&self) -> Permit {
        let held = self.held.lock().unwrap().pop();
        held.expect("one is held")
    }

    fn grants(&self) -> String {
        format!("redisson_sc_grants:{{{}}}", self.semaphore.name())
    }
}

impl<const WATCHED: bool> Subject for Guarded<WATCHED> {
    const NAME: &'static str = if WATCHED { "watched" } else { "guards" };
    const CALLS: &'static [(&'static str, Kind)] = &[
        ("permit", Take),
        ("try_permit", Take),
        ("permit_for", Take),
        ("permit_for, in vain", Nothing),
        ("permit, dropped", Nothing),
        ("release", Give),
        ("drop", Give),
        ("available_permits", Look),
    ];
    const NEEDS: &'static [&'static str] = if WATCHED {
        &["get", "set", "publish", "zadd", "zrem"]
    } else {
        &["get", "set", "publish"]
    };

    const ONCE: &'static [&'static str] = &["release"];

    fn new(client: &Client, name: &str) -> Self {
        let semaphore = client.semaphore(name);
        Guarded {
            semaphore: if WATCHED {
                semaphore.watched()
            } else {
                semaphore.unwatched()
            },
            held: Mutex::default(),
        }
    }

    fn keys(&self) -> Vec<String> {
        vec![self.semaphore.name().to_owned(), self.grants()]
    }

    /// The counter, and how many are held.
    async fn left(&self, redis: &mut MultiplexedConnection) -> String {
        let counter = snapshot(redis, self.semaphore.name()).await.value;
        let record = snapshot(redis, &self.grants()).await.value;
        let permits = |entry: &String| -> u32 {
            let permits = entry.split(':').nth(2).expect("an entry");
            permits.parse().unwrap()
        };
        let held: u32 = record.iter().map(permits).sum();
        format!("{counter:?}, {held} held")
    }

    async fn prepare(&self, call: &'static str) -> Result<()> {
        self.semaphore.try_set_permits(5).await?;
        if ["release", "drop"].contains(&call) {
            self.keep(Some(self.semaphore.permit(2).await?));
        }
        Ok(())
    }

    async fn call(&self, call: &'static str) -> Result<bool> {
        let semaphore = &self.semaphore;
        match call {
            "permit" => Ok(self.keep(Some(semaphore.permit(2).await?))),
            "try_permit" => Ok(self.keep(semaphore.try_permit(2).await?)),
            "permit_for" => Ok(self.keep(semaphore.permit_for(2, SHORT).await?)),
            "permit_for, in vain" => Ok(semaphore.permit_for(9, SHORT).await?.is_none()),
            "permit, dropped" => semaphore.permit(2).await.map(|_| true),
            "release" => self.held().release().await.map(|()| true),
            "available_permits" => Ok(semaphore.available_permits().await? == 5),
            _ => {
                drop(self.held());
                Ok(true)
            }
        }
    }

    async fn begin_anew(&self) -> Result<()> {
        self.semaphore.try_set_permits(1).await.map(drop)
    }

    async fn take(&self, limit: Option<Duration>) -> Result<bool> {
        let taken = match limit {
            None => Some(self.semaphore.permit(1).await?),
            Some(limit) => self.semaphore.permit_for(1, limit).await?,
        };
        Ok(self.keep(taken))
    }

    async fn give(&self) -> Result<()> {
        self.held().release().await
    }
}
