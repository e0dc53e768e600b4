//! What stands beside an object, and where its waiters listen; `name` is as it stands in Redis.
//!
//! Redisson puts braces around a name that has none, so that all keys of an object are in one slot of a cluster.

pub(crate) fn semaphore_channel(name: &str) -> String {
    prefixed("redisson_sc", name)
}

pub(crate) fn lock_channel(name: &str) -> String {
    prefixed("redisson_lock__channel", name)
}

pub(crate) fn fencing_token(name: &str) -> String {
    prefixed("redisson_lock_token", name)
}

pub(crate) fn fair_queue(name: &str) -> String {
    prefixed("redisson_lock_queue", name)
}

/// The permits of Redisson's `RPermitExpirableSemaphore`.
pub(crate) fn permit_leases(name: &str) -> String {
    if name.contains('{') {
        format!("{name}:timeout")
    } else {
        format!("{{{name}}}:timeout")
    }
}

/// The keys beside it that have one name each.
pub(crate) fn single_records(name: &str) -> Vec<String> {
    vec![
        turns(name),
        beside("redisson_sc_turns_notes", name),
        permits_held(name),
        believed_alive(name),
        beside("redisson_lock_next", name),
        fencing_token(name),
        fair_queue(name),
        prefixed("redisson_lock_timeout", name),
        permit_leases(name),
    ]
}

/// Which client's guards hold how many permits of a watched semaphore.
pub(crate) fn permits_held(name: &str) -> String {
    beside("redisson_sc_held", name)
}

/// Until when each of them is believed alive.
pub(crate) fn believed_alive(name: &str) -> String {
    beside("redisson_sc_alive", name)
}

/// Of which semaphore that is.
pub(crate) fn watched_by_alive(key: &str) -> Option<&str> {
    let name = key.strip_prefix("redisson_sc_alive:")?;
    match name.strip_prefix(':') {
        Some(with_braces) => Some(with_braces),
        None => name.strip_prefix('{')?.strip_suffix('}'),
    }
}

pub(crate) fn turns(name: &str) -> String {
    beside("redisson_sc_turns", name)
}

/// How the keys begin of which each client has its own: a semaphore's, and a lock's.
pub(crate) fn client_record_beginnings(name: &str) -> [String; 2] {
    ["redisson_sc_once", "redisson_lock_fence"].map(|prefix| format!("{}:", beside(prefix, name)))
}

/// Whether a key is one of this crate's, beside whichever object.
pub(crate) fn is_record(key: &str) -> bool {
    [
        "redisson_sc_once:",
        "redisson_sc_turns:",
        "redisson_sc_turns_notes:",
        "redisson_sc_held:",
        "redisson_sc_alive:",
        "redisson_lock_next:",
        "redisson_lock_fence:",
    ]
    .iter()
    .any(|beginning| key.starts_with(beginning))
}

/// What all of those begin with.
pub(crate) const ALL_RECORDS: &str = "redisson_*";

/// A key of this crate alone: the object's own braces must not be taken for those around it.
fn beside(prefix: &str, name: &str) -> String {
    if name.contains('{') {
        format!("{prefix}::{name}")
    } else {
        format!("{prefix}:{{{name}}}")
    }
}

fn prefixed(prefix: &str, name: &str) -> String {
    if name.contains('{') {
        format!("{prefix}:{name}")
    } else {
        format!("{prefix}:{{{name}}}")
    }
}
