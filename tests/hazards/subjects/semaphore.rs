use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, RSemaphore, Result};

use crate::subject::Kind::{self, Change, Give, Look, Nothing, Take};
use crate::subject::{SHORT, Subject};
use crate::support::snapshot::snapshot;

pub struct Semaphore(RSemaphore);

impl Subject for Semaphore {
    const NAME: &'static str = "semaphore";
    const CALLS: &'static [(&'static str, Kind)] = &[
        ("try_set_permits", Change),
        ("acquire", Take),
        ("try_acquire", Take),
        ("try_acquire_for", Take),
        ("try_acquire_for, in vain", Nothing),
        ("permit", Nothing),
        ("release", Give),
        ("release_if_exists", Give),
        ("add_permits", Change),
        ("set_permits", Change),
        ("drain_permits", Change),
        ("available_permits", Look),
        ("delete", Change),
    ];
    const NEEDS: &'static [&'static str] = &["get", "set", "publish"];

    fn new(client: &Client, name: &str) -> Self {
        Semaphore(client.semaphore(name))
    }

    fn keys(&self) -> Vec<String> {
        vec![self.0.name().to_owned()]
    }

    async fn left(&self, redis: &mut MultiplexedConnection) -> String {
        format!("{:?}", snapshot(redis, self.0.name()).await.value)
    }

    async fn prepare(&self, call: &'static str) -> Result<()> {
        if call != "try_set_permits" {
            self.0.try_set_permits(5).await?;
        }
        Ok(())
    }

    async fn call(&self, call: &'static str) -> Result<bool> {
        match call {
            "try_set_permits" => self.0.try_set_permits(3).await,
            "acquire" => self.0.acquire(2).await.map(|()| true),
            "try_acquire" => self.0.try_acquire(2).await,
            "try_acquire_for" => self.0.try_acquire_for(2, SHORT).await,
            "try_acquire_for, in vain" => Ok(!self.0.try_acquire_for(9, SHORT).await?),
            "permit" => self.0.permit(2).await.map(|_| true),
            "release_if_exists" => self.0.release_if_exists(2).await,
            "add_permits" => self.0.add_permits(-7).await.map(|()| true),
            "set_permits" => self.0.set_permits(9).await.map(|()| true),
            "drain_permits" => Ok(self.0.drain_permits().await? == 5),
            "available_permits" => Ok(self.0.available_permits().await? == 5),
            "delete" => self.0.delete().await,
            _ => self.0.release(2).await.map(|()| true),
        }
    }

    async fn close(&self) -> Result<()> {
        self.0.try_set_permits(0).await.map(drop)
    }

    async fn begin_anew(&self) -> Result<()> {
        self.0.try_set_permits(1).await.map(drop)
    }

    async fn take(&self, limit: Option<Duration>) -> Result<bool> {
        match limit {
            None => self.0.acquire(1).await.map(|()| true),
            Some(limit) => self.0.try_acquire_for(1, limit).await,
        }
    }

    async fn give(&self) -> Result<()> {
        self.0.release(1).await
    }
}
