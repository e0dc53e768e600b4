//! The contract suite for the semaphore with ids inside one process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::leased::{Expiring, Fixture};
use redisson_semaphore::{LeasedSemaphore, memory};

/// Makes semaphores out of nothing; clones are all the clients there are.
#[derive(Default)]
struct Memory {
    lease: Option<Duration>,
    made: AtomicU32,
}

impl Memory {
    fn make(&self, limit: u32, lease: Option<Duration>) -> Arc<dyn LeasedSemaphore> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let name = format!("semaphore-{number}");
        Arc::new(memory::LeasedSemaphore::new(name, limit, lease))
    }
}

impl Fixture for Memory {
    fn fresh(&self, limit: u32) -> Arc<dyn LeasedSemaphore> {
        self.make(limit, self.lease)
    }

    fn second(&self, of: &Arc<dyn LeasedSemaphore>) -> Arc<dyn LeasedSemaphore> {
        of.clone_handle()
    }

    fn has_slots(&self) -> bool {
        true
    }
}

impl Expiring for Memory {
    fn lasting(&self, limit: u32, lease: Duration) -> Arc<dyn LeasedSemaphore> {
        self.make(limit, Some(lease))
    }
}

fn lasting() -> Memory {
    Memory {
        lease: Some(Duration::from_secs(10)),
        ..Memory::default()
    }
}

leased_suite!(without_expiry, Memory::default());
leased_suite!(with_expiry, lasting());
expiring_suite!(expiring, lasting());
