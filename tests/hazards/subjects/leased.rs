use std::sync::Mutex;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, Held, LeasedPermit, Result};

use crate::layouts::{self, Handle, Layout, Shape};
use crate::subject::Kind::{self, Change, Give, Look, Nothing, Take};
use crate::subject::{HOUR, SHORT, Subject};
use crate::support::snapshot::snapshot;

/// A classic semaphore of two permits: `LAYOUT` is its place in [`layouts::ALL`].
pub struct Leased<const LAYOUT: usize> {
    semaphore: Handle,
    held: Mutex<Vec<Held>>,
    guard: Mutex<Option<LeasedPermit>>,
}

impl<const LAYOUT: usize> Leased<LAYOUT> {
    fn keep(&self, held: Option<Held>) -> bool {
        let taken = held.is_some();
        self.held.lock().unwrap().extend(held);
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
}

impl<const LAYOUT: usize> Subject for Leased<LAYOUT> {
    const NAME: &'static str = match layouts::ALL[LAYOUT] {
        Layout::Timestamp => "timestamp",
        Layout::TimestampInSeconds => "timestamp_in_seconds",
        Layout::Fair => "fair",
        Layout::FairUnderLock => "fair_under_lock",
        Layout::FairWithTokens => "fair_with_tokens",
        Layout::Set => "set",
        Layout::Slots => "slots",
    };
    const CALLS: &'static [(&'static str, Kind)] = &[
        ("try_acquire", Take),
        ("acquire", Take),
        ("try_acquire_for", Take),
        ("try_acquire_for, in vain", Nothing),
        ("permit", Take),
        ("permit, dropped", Nothing),
        ("release", Give),
        ("permit's release", Give),
        ("permit's drop", Give),
        ("refresh", Nothing),
        ("holders", Look),
        ("release_all", Change),
    ];
    const NEEDS: &'static [&'static str] = match layouts::ALL[LAYOUT] {
        Layout::Timestamp | Layout::TimestampInSeconds => &["get", "set", "time", "zadd", "zrem"],
        Layout::Fair | Layout::FairUnderLock | Layout::FairWithTokens => {
            &["get", "set", "time", "incr", "zadd", "zrem"]
        }
        Layout::Set => &["get", "set", "time", "sadd", "srem"],
        Layout::Slots => &["get", "set", "time", "mget", "del"],
    };

    const WAITS_FOR: Option<&'static str> = match layouts::ALL[LAYOUT] {
        Layout::FairUnderLock => Some("lock:"),
        _ => None,
    };
    const ONCE: &'static [&'static str] = &["permit's release"];

    fn new(client: &Client, name: &str) -> Self {
        Leased {
            semaphore: layouts::ALL[LAYOUT].make(client, name, Shape::new(2).lease(HOUR)),
            held: Mutex::default(),
            guard: Mutex::default(),
        }
    }

    /// The counter and the tokens are nobody's permits.
    fn keys(&self) -> Vec<String> {
        let ends: &[&str] = match layouts::ALL[LAYOUT] {
            Layout::Timestamp | Layout::TimestampInSeconds | Layout::Set => &[""],
            Layout::Fair | Layout::FairUnderLock => &["", ":owner"],
            Layout::FairWithTokens => &["", "-owners"],
            Layout::Slots => &[":1", ":2"],
        };
        let name = self.semaphore.name();
        ends.iter().map(|end| format!("{name}{end}")).collect()
    }

    /// How many hold it, by each of the keys; of the slots, whichever is taken.
    async fn left(&self, redis: &mut MultiplexedConnection) -> String {
        let mut counts = Vec::new();
        for key in self.keys() {
            counts.push(snapshot(redis, &key).await.value.len());
        }
        counts.sort_unstable();
        format!("{counts:?}")
    }

    async fn prepare(&self, call: &'static str) -> Result<()> {
        if call.starts_with("permit's") {
            let guard = self.semaphore.permit().await?;
            *self.guard.lock().unwrap() = Some(guard);
            return Ok(());
        }
        self.take(None).await?;
        if call.ends_with("in vain") {
            self.take(None).await?;
        }
        Ok(())
    }

    async fn call(&self, call: &'static str) -> Result<bool> {
        let semaphore = &self.semaphore;
        match call {
            "try_acquire" => Ok(self.keep(semaphore.try_acquire().await?)),
            "acquire" => Ok(self.keep(Some(semaphore.acquire().await?))),
            "try_acquire_for" => Ok(self.keep(semaphore.try_acquire_for(SHORT).await?)),
            "try_acquire_for, in vain" => Ok(semaphore.try_acquire_for(SHORT).await?.is_none()),
            "permit" => {
                let guard = semaphore.permit().await?;
                *self.guard.lock().unwrap() = Some(guard);
                Ok(true)
            }
            "permit, dropped" => semaphore.permit().await.map(|_| true),
            "release" => semaphore.release(&self.id()).await,
            "permit's release" => self.guard().release().await,
            "refresh" => semaphore.refresh(&self.id()).await,
            "holders" => Ok(semaphore.holders().await?.len() == 1),
            "release_all" => Ok(semaphore.release_all().await? == 1),
            _ => {
                drop(self.guard());
                Ok(true)
            }
        }
    }

    async fn close(&self) -> Result<()> {
        self.take(None).await?;
        self.take(None).await.map(drop)
    }

    async fn take(&self, limit: Option<Duration>) -> Result<bool> {
        let held = match limit {
            None => Some(self.semaphore.acquire().await?),
            Some(limit) => self.semaphore.try_acquire_for(limit).await?,
        };
        Ok(self.keep(held))
    }

    async fn give(&self) -> Result<()> {
        let held = self.held.lock().unwrap().pop().expect("one is held");
        self.semaphore.release(held.id()).await.map(drop)
    }
}
