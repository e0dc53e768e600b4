//! The trait, by the methods of the same names: an inherent method goes before the trait's.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::RSemaphore;
use crate::api::Semaphore;
use crate::engine::batch::Operation;
use crate::error::Result;

#[async_trait]
impl Semaphore for RSemaphore {
    fn name(&self) -> &str {
        self.name()
    }

    fn clone_handle(&self) -> Arc<dyn Semaphore> {
        Arc::new(self.clone())
    }

    async fn try_set_permits(&self, permits: u32) -> Result<bool> {
        self.try_set_permits(permits).await
    }

    async fn try_set_permits_for(&self, permits: u32, ttl: Duration) -> Result<bool> {
        self.try_set_permits_for(permits, ttl).await
    }

    async fn acquire(&self, permits: u32) -> Result<()> {
        self.acquire(permits).await
    }

    async fn try_acquire(&self, permits: u32) -> Result<bool> {
        self.try_acquire(permits).await
    }

    async fn try_acquire_for(&self, permits: u32, wait: Duration) -> Result<bool> {
        self.try_acquire_for(permits, wait).await
    }

    async fn release(&self, permits: u32) -> Result<()> {
        self.release(permits).await
    }

    async fn release_if_exists(&self, permits: u32) -> Result<bool> {
        self.release_if_exists(permits).await
    }

    async fn add_permits(&self, delta: i32) -> Result<()> {
        self.add_permits(delta).await
    }

    async fn drain_permits(&self) -> Result<i64> {
        self.drain_permits().await
    }

    async fn available_permits(&self) -> Result<i64> {
        self.available_permits().await
    }

    fn release_detached(&self, permits: u32) {
        match self.check(permits) {
            Ok(()) if permits > 0 => self.line.call_detached(Operation::Release(permits)),
            Ok(()) => {}
            Err(error) => tracing::error!(%error, permits, "not released"),
        }
    }
}
