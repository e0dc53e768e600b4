//! The operations of Redisson's `RObject` and `RExpirable`.

use super::RSemaphore;
use crate::error::Result;
use crate::redisson::object::{copyable_methods, expirable_methods, renamable_methods};

expirable_methods!(RSemaphore);
renamable_methods!(
    RSemaphore,
    "The permits are announced to the JVMs and clients that wait for the new name, which Redisson does not do. Queue and grants stay with \
     the old name, whose waiters find out by their own slow check."
);
copyable_methods!(RSemaphore);

impl RSemaphore {
    fn other(&self, name: &str) -> Result<RSemaphore> {
        let other = RSemaphore::new(self.core(), name);
        other.queue.keys().check()?;
        Ok(other)
    }
}
