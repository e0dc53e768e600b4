//! This crate with its default settings, or without local hand-off to measure the effect of that hand-off.

use std::time::Duration;

use redisson_semaphore::{Client, RSemaphore};

use super::{Semaphore, Side};
use crate::Result;

pub(crate) struct Ours(Client);

impl Ours {
    pub(crate) async fn connect(url: &str) -> Result<Ours> {
        Ok(Ours(Client::connect(url).await?))
    }

    pub(crate) async fn connect_via_redis(url: &str) -> Result<Ours> {
        let settings = Client::builder(url).local_hand_off(Duration::ZERO);
        Ok(Ours(settings.connect().await?))
    }
}

impl Side for Ours {
    type Semaphore = RSemaphore;

    fn semaphore(&self, name: &str) -> RSemaphore {
        self.0.semaphore(name)
    }
}

impl Semaphore for RSemaphore {
    async fn acquire(&self, permits: u32) -> Result<()> {
        Ok(RSemaphore::acquire(self, permits).await?)
    }

    async fn release(&self, permits: u32) -> Result<()> {
        Ok(RSemaphore::release(self, permits).await?)
    }

    async fn try_acquire(&self, permits: u32, wait: Duration) -> Result<bool> {
        Ok(RSemaphore::try_acquire_for(self, permits, wait).await?)
    }
}
