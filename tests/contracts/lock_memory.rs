//! The lock's contract for the lock inside one process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::lock_contract::Fixture;
use redisson_semaphore::{Lock, memory};

/// Makes locks out of nothing. The trait has no way to another owner, so the handles are kept by name.
#[derive(Default)]
struct Memory {
    made: AtomicU64,
    locks: std::sync::Mutex<Vec<memory::Lock>>,
}

impl Fixture for Memory {
    fn fresh(&self, hint: &str) -> Arc<dyn Lock> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let lock = memory::Lock::new(format!("{hint}-{number}"));
        self.locks.lock().unwrap().push(lock.clone());
        Arc::new(lock)
    }

    fn neighbour(&self, of: &Arc<dyn Lock>) -> Arc<dyn Lock> {
        let owner = self.made.fetch_add(1, Ordering::Relaxed) + 1;
        let locks = self.locks.lock().unwrap();
        let lock = locks.iter().find(|lock| Lock::name(*lock) == of.name());
        Arc::new(lock.expect("made here").with_owner(owner))
    }

    fn stranger(&self, to: &Arc<dyn Lock>) -> Arc<dyn Lock> {
        self.neighbour(to)
    }
}

lock_suite!(memory_lock, Memory::default());
