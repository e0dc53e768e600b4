//! Locks: who believes to hold them.

use redisson_semaphore::Lease;
use std::time::Duration;
use tokio::time::Instant;

use super::{Host, Judge, Object};

pub(super) struct HeldLock {
    pub(super) host: Host,
    pub(super) object: usize,
    pub(super) owner: String,
    pub(super) lease: Lease,
    /// Somebody has taken it away; until then its holder need not know.
    pub(super) robbed: Option<Instant>,
}

impl Judge {
    /// A lock is in hand. `number`: the call that it was granted to.
    pub fn locks(
        &mut self,
        number: u64,
        object: usize,
        host: Host,
        owner: &str,
        lease: Lease,
    ) -> u64 {
        self.granted += 1;
        self.last_number += 1;
        if self.rules.fair_locks {
            self.passes(number, Object::Lock(object), host, 1);
        }
        let now = Instant::now();
        let believes = |held: &&HeldLock| {
            held.object == object
                && held.owner != owner
                && !held.lease.is_lost()
                && held.robbed.is_none_or(|until| now > until)
        };
        let other = self.locks.values().find(believes).map(|held| held.host);
        // Who was not polled for longer than its lease is told so together with its hold.
        if let Some(other) = other.filter(|_| !lease.is_lost()) {
            self.accuse("owner", format!("c{host} holds l{object} beside c{other}"));
        }
        let held = HeldLock {
            host,
            object,
            owner: owner.to_owned(),
            lease,
            // What was on its way to its holder is taken away, too.
            robbed: self
                .robbed
                .get(&object)
                .copied()
                .filter(|until| now <= *until),
        };
        self.locks.insert(self.last_number, held);
        self.last_number
    }

    /// Somebody takes a lock away from its holder.
    pub fn robs(&mut self, object: usize) {
        let until = Instant::now() + self.rules.longest_lease + Duration::from_secs(1);
        self.robbed.insert(object, until);
        for held in self.locks.values_mut().filter(|held| held.object == object) {
            held.robbed.get_or_insert(until);
        }
    }

    pub fn unlocks(&mut self, number: u64) {
        self.locks.remove(&number);
    }
}
