//! The operations of Redisson's `RObject` and `RExpirable`: for the counter, and for the permits that are held.

use super::RPermitExpirableSemaphore;
use crate::error::Result;
use crate::redisson::object::{expirable_methods, renamable_methods};

expirable_methods!(RPermitExpirableSemaphore);
renamable_methods!(
    RPermitExpirableSemaphore,
    "The permits that are held move, too; the permits available are announced to the JVMs and clients that wait for the new name. \
     Redisson's renames the counter alone, and its permits stay behind. Guards keep the old name, and release and renew nothing any more."
);

impl RPermitExpirableSemaphore {
    fn other(&self, name: &str) -> Result<Self> {
        let mut other = Self::new(&self.core, name);
        other.lease = self.lease;
        other.queue.keys().check()?;
        Ok(other)
    }
}
