//! Permits in guards of a default handle, which are dropped: the release is not awaited.
//!
//! Each caller has a handle of its own, which keeps what it holds.

use std::sync::{Arc, Mutex};

use redisson_semaphore::{Client, Permit, RSemaphore};

use super::{Semaphore, Side};
use crate::Result;

pub(crate) struct Guards(Client);

impl Guards {
    pub(crate) async fn connect(url: &str) -> Result<Guards> {
        Ok(Guards(Client::connect(url).await?))
    }
}

impl Side for Guards {
    type Semaphore = Handle;

    fn semaphore(&self, name: &str) -> Handle {
        Handle {
            semaphore: self.0.semaphore(name),
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
        match held {
            Some(held) => drop(held),
            None => return Err("it holds nothing".into()),
        }
        Ok(())
    }
}
