//! Permits in guards, watched or not: what it costs that they come back when their process dies.
//!
//! Each caller has a handle of its own, which keeps what it holds.

use std::sync::{Arc, Mutex};

use redisson_semaphore::{Client, Permit, RSemaphore};

use super::{Semaphore, Side};
use crate::Result;

pub(crate) struct Guards {
    client: Client,
    watched: bool,
}

impl Guards {
    pub(crate) async fn connect(url: &str, watched: bool) -> Result<Guards> {
        let client = Client::connect(url).await?;
        Ok(Guards { client, watched })
    }
}

impl Side for Guards {
    type Semaphore = Handle;

    fn semaphore(&self, name: &str) -> Handle {
        let semaphore = self.client.semaphore(name);
        Handle {
            semaphore: match self.watched {
                true => semaphore.watched(),
                false => semaphore,
            },
            held: Arc::default(),
        }
    }
}

#[derive(Clone)]
pub(crate) struct Handle {
    semaphore: RSemaphore,
    held: Arc<Mutex<Option<Permit>>>,
}

impl Semaphore for Handle {
    async fn acquire(&self, permits: u32) -> Result<()> {
        let held = self.semaphore.permit(permits).await?;
        *self.held.lock().expect("no panic under this lock") = Some(held);
        Ok(())
    }

    async fn release(&self, _permits: u32) -> Result<()> {
        let held = self.held.lock().expect("no panic under this lock").take();
        Ok(held.ok_or("it holds nothing")?.release().await?)
    }
}
