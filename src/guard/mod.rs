//! Guards: what is held is given back when they are dropped.

mod leased;
mod lock;
mod permit;

pub use leased::LeasedPermit;
pub use lock::LockGuard;
pub use permit::Permit;
