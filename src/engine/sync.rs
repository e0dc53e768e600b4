//! The synchronisation primitives of [`super::drive`]. Its model test (`tests/models/rounds.rs`) compiles that file with
//! replacements that try all schedules.

pub(crate) use crate::sync::{Mutex, MutexGuard};
pub(crate) use tokio::task::yield_now;
