//! The trait, by the methods of the same names: an inherent method goes before the trait's.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::RCountDownLatch;
use crate::api::{CountDownLatch, Sealed};
use crate::error::Result;

impl Sealed for RCountDownLatch {}

#[async_trait]
impl CountDownLatch for RCountDownLatch {
    fn name(&self) -> &str {
        self.name()
    }

    fn clone_handle(&self) -> Arc<dyn CountDownLatch> {
        Arc::new(self.clone())
    }

    async fn try_set_count(&self, count: u32) -> Result<bool> {
        self.try_set_count(count).await
    }

    async fn count_down(&self) -> Result<()> {
        self.count_down().await
    }

    async fn count(&self) -> Result<i64> {
        self.count().await
    }

    async fn wait(&self) -> Result<()> {
        self.wait().await
    }

    async fn wait_for(&self, wait: Duration) -> Result<bool> {
        self.wait_for(wait).await
    }
}
