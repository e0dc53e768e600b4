use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redisson_semaphore::{Client, RCountDownLatch, Result};

use crate::subject::Kind::{self, Change, Give, Look, Nothing};
use crate::subject::{SHORT, Subject};
use crate::support::snapshot::snapshot;

pub struct Latch(RCountDownLatch);

impl Subject for Latch {
    const NAME: &'static str = "latch";
    const CALLS: &'static [(&'static str, Kind)] = &[
        ("try_set_count", Change),
        ("count_down", Give),
        ("count_down, the last", Give),
        ("delete", Change),
        ("wait", Nothing),
        ("wait_for, in vain", Nothing),
        ("count", Look),
    ];
    const NEEDS: &'static [&'static str] = &["get", "set", "decrby", "del", "publish", "pttl"];

    fn new(client: &Client, name: &str) -> Self {
        Latch(client.count_down_latch(name))
    }

    fn keys(&self) -> Vec<String> {
        vec![self.0.name().to_owned()]
    }

    async fn left(&self, redis: &mut MultiplexedConnection) -> String {
        format!("{:?}", snapshot(redis, self.0.name()).await.value)
    }

    async fn prepare(&self, call: &'static str) -> Result<()> {
        let count = match call {
            "try_set_count" | "wait" => return Ok(()),
            "count_down" => 2,
            _ => 1,
        };
        self.0.try_set_count(count).await.map(drop)
    }

    async fn call(&self, call: &'static str) -> Result<bool> {
        match call {
            "try_set_count" => self.0.try_set_count(3).await,
            "delete" => self.0.delete().await,
            "wait" => self.0.wait().await.map(|()| true),
            "wait_for, in vain" => Ok(!self.0.wait_for(SHORT).await?),
            "count" => Ok(self.0.count().await? == 1),
            _ => self.0.count_down().await.map(|()| true),
        }
    }

    async fn close(&self) -> Result<()> {
        self.0.try_set_count(1).await.map(drop)
    }

    async fn open(&self) -> Result<()> {
        self.0.count_down().await
    }

    async fn take(&self, limit: Option<Duration>) -> Result<bool> {
        match limit {
            None => self.0.wait().await.map(|()| true),
            Some(limit) => self.0.wait_for(limit).await,
        }
    }

    async fn give(&self) -> Result<()> {
        Ok(())
    }
}
