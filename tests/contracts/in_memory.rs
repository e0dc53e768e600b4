//! The contract suites inside one process. Objects are made out of nothing; clones are all the clients there are.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::clients::name;
use redisson_semaphore::{LeasedSemaphore, Lock, Semaphore, memory};

struct Semaphores;

impl crate::contract::Fixture for Semaphores {
    fn fresh(&self, hint: &str) -> Arc<dyn Semaphore> {
        Arc::new(memory::Semaphore::new(name(hint)))
    }

    fn second(&self, of: &Arc<dyn Semaphore>) -> Arc<dyn Semaphore> {
        of.clone_handle()
    }
}

/// With the lease of its permits.
struct Leased(Option<Duration>);

impl Leased {
    fn make(&self, limit: u32, lease: Option<Duration>) -> Arc<dyn LeasedSemaphore> {
        Arc::new(memory::LeasedSemaphore::new(name("leased"), limit, lease))
    }
}

impl crate::leased::Fixture for Leased {
    fn fresh(&self, limit: u32) -> Arc<dyn LeasedSemaphore> {
        self.make(limit, self.0)
    }

    fn second(&self, of: &Arc<dyn LeasedSemaphore>) -> Arc<dyn LeasedSemaphore> {
        of.clone_handle()
    }

    fn has_slots(&self) -> bool {
        true
    }
}

impl crate::leased::Expiring for Leased {
    fn lasting(&self, limit: u32, lease: Duration) -> Arc<dyn LeasedSemaphore> {
        self.make(limit, Some(lease))
    }
}

/// The trait has no way to another owner, so each lock is kept, as a function from an owner's number to a handle.
struct Locks {
    make: fn(String) -> (Arc<dyn Lock>, Owners),
    owners: AtomicU64,
    made: Mutex<Vec<(String, Owners)>>,
}

type Owners = Box<dyn Fn(u64) -> Arc<dyn Lock> + Send>;

impl Locks {
    fn new(make: fn(String) -> (Arc<dyn Lock>, Owners)) -> Self {
        Locks {
            make,
            owners: AtomicU64::new(1),
            made: Mutex::default(),
        }
    }
}

impl crate::lock_contract::Fixture for Locks {
    fn fresh(&self, hint: &str) -> Arc<dyn Lock> {
        let (lock, owners) = (self.make)(name(hint));
        let mut made = self.made.lock().unwrap();
        made.push((lock.name().to_owned(), owners));
        lock
    }

    fn neighbour(&self, of: &Arc<dyn Lock>) -> Arc<dyn Lock> {
        let made = self.made.lock().unwrap();
        let (_, owners) = made
            .iter()
            .find(|(name, _)| name == of.name())
            .expect("made here");
        owners(self.owners.fetch_add(1, Ordering::Relaxed))
    }

    fn stranger(&self, to: &Arc<dyn Lock>) -> Arc<dyn Lock> {
        self.neighbour(to)
    }
}

fn lock(name: String) -> (Arc<dyn Lock>, Owners) {
    let lock = memory::Lock::new(name);
    let owners = lock.clone();
    (
        Arc::new(lock),
        Box::new(move |owner| Arc::new(owners.with_owner(owner))),
    )
}

fn writer(name: String) -> (Arc<dyn Lock>, Owners) {
    let lock = memory::ReadWriteLock::new(name);
    (
        Arc::new(lock.write()),
        Box::new(move |owner| Arc::new(lock.with_owner(owner).write())),
    )
}

/// The first owner reads; the others write.
fn reader(name: String) -> (Arc<dyn Lock>, Owners) {
    let lock = memory::ReadWriteLock::new(name);
    (
        Arc::new(lock.read()),
        Box::new(move |owner| Arc::new(lock.with_owner(owner).write())),
    )
}

contract_suite!(memory_semaphore, Semaphores);
lock_suite!(memory_lock, Locks::new(lock));
lock_suite!(memory_writers, Locks::new(writer));
lock_suite!(memory_readers, Locks::new(reader); each reentrant);

const LEASE: Option<Duration> = Some(Duration::from_secs(10));

leased_suite!(without_expiry, Leased(None));
leased_suite!(with_expiry, Leased(LEASE));
expiring_suite!(expiring, Leased(LEASE));
