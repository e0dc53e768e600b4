//! Callers of a read-write lock that read.

use fastrand::Rng;

use super::chance::chance;
use super::settings::{LockKind, Settings};
use super::{Event, What};
use crate::judge::Object;

/// Two of three callers read. Drawn apart.
pub(super) fn some_read(seed: u64, settings: &Settings, events: &mut [Event]) {
    let rng = &mut Rng::with_seed(seed ^ 0x0072_6561_6465_7273);
    for event in events {
        if let What::Call(_, call) = &mut event.what
            && let (Object::Lock(_), LockKind::ReadWrite) = (call.object, settings.lock_kind)
        {
            call.reads = chance(rng, 67);
        }
    }
}
