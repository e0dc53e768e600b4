//! What [`super::drive`] synchronises with. Its model test (`tests/drive_model.rs`) compiles that file with
//! the twins of these that try all schedules.

pub(crate) use crate::sync::{Mutex, MutexGuard};
pub(crate) use tokio::task::yield_now;
