//! Guards: what is held is given back when they are dropped.

mod lock;
mod permit;

pub use lock::LockGuard;
pub use permit::Permit;
