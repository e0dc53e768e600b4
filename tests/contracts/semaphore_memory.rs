//! The contract suite for the semaphore inside one process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::contract::Fixture;
use redisson_semaphore::{Semaphore, memory};

/// Makes semaphores out of nothing; clones are all the clients there are.
#[derive(Default)]
struct Memory {
    made: AtomicU32,
}

impl Fixture for Memory {
    fn fresh(&self, hint: &str) -> Arc<dyn Semaphore> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        Arc::new(memory::Semaphore::new(format!("{hint}-{number}")))
    }

    fn second(&self, of: &Arc<dyn Semaphore>) -> Arc<dyn Semaphore> {
        of.clone_handle()
    }
}

contract_suite!(memory_semaphore, Memory::default());
