//! The keys and channels of Redisson's objects.
//!
//! Redisson derives every name from the mapped name `R`: with a prefix, `prefix:{R}`, or `prefix:R` where
//! `R` contains a `{` already; with a suffix, `{R}:suffix` or `R:suffix`. In a cluster the braces keep all keys of an object in one slot.

use std::sync::Arc;

use crate::config::NameMapper;
use crate::engine::keys::Keys;
use crate::queue::QueueKeys;

/// The names of a semaphore, and of its queue.
pub(crate) fn of_semaphore(name: &str, mapper: &NameMapper, client_id: &str) -> (Keys, QueueKeys) {
    let object = mapper.map(name);
    let channel = prefixed("redisson_sc", &object);
    let record = format!("{}:{client_id}", beside("redisson_sc_once", &object));
    let queue = QueueKeys::new(
        beside("redisson_sc_queue", &object),
        beside("redisson_sc_grants", &object),
        beside("redisson_sc_notes", &object),
        client_id,
    );
    let keys = Keys::new(name, object, "string", channel, record)
        .with_beside(Arc::clone(&queue.queue), "zset")
        .with_beside(Arc::clone(&queue.beside), "zset")
        .with_beside(Arc::clone(&queue.notes), "hash");
    (keys, queue)
}

/// The names of a lock, and of its queue. Beside it stands the counter of fencing tokens.
pub(crate) fn of_lock(name: &str, mapper: &NameMapper, client_id: &str) -> (Keys, QueueKeys) {
    let object = mapper.map(name);
    let channel = prefixed("redisson_lock__channel", &object);
    let record = format!("{}:{client_id}", beside("redisson_lock_once", &object));
    let queue = QueueKeys::new(
        beside("redisson_lock_waiters", &object),
        of_lock_token(&object),
        beside("redisson_lock_notes", &object),
        client_id,
    );
    let keys = Keys::new(name, object, "hash", channel, record)
        .with_beside(Arc::clone(&queue.beside), "string")
        .with_beside(Arc::clone(&queue.queue), "zset")
        .with_beside(Arc::clone(&queue.notes), "hash");
    (keys, queue)
}

/// The names of a fair lock, with Redisson's list of waiters and the zset of their ends. It has no notes: the record's key stands in their
/// place. The name of each waiter's channel begins with that of the lock.
pub(crate) fn of_fair_lock(name: &str, mapper: &NameMapper, client_id: &str) -> (Keys, QueueKeys) {
    let object = mapper.map(name);
    let channel = prefixed("redisson_lock__channel", &object);
    let record = format!("{}:{client_id}", beside("redisson_lock_fair_once", &object));
    let queue = QueueKeys::new(
        prefixed("redisson_lock_queue", &object),
        prefixed("redisson_lock_timeout", &object),
        record.clone(),
        client_id,
    );
    let keys = Keys::new(name, object, "hash", channel, record)
        .with_beside(Arc::clone(&queue.queue), "list")
        .with_beside(Arc::clone(&queue.beside), "zset");
    (keys, queue)
}

/// The names of a read-write lock, and of its queue. No further key has a fixed name, so the queue's stands in the place of one.
pub(crate) fn of_read_write(name: &str, mapper: &NameMapper, client_id: &str) -> (Keys, QueueKeys) {
    let object = mapper.map(name);
    let channel = prefixed("redisson_rwlock", &object);
    let record = format!("{}:{client_id}", beside("redisson_rwlock_once", &object));
    let waiters = beside("redisson_rwlock_waiters", &object);
    let notes = beside("redisson_rwlock_notes", &object);
    let queue = QueueKeys::new(waiters.clone(), waiters, notes, client_id);
    let keys = Keys::new(name, object, "hash", channel, record)
        .with_beside(Arc::clone(&queue.queue), "zset")
        .with_beside(Arc::clone(&queue.notes), "hash");
    (keys, queue)
}

/// The names of a count-down latch. Its channel has braces of its own, whatever stands in the name. There is no queue: the record's key
/// stands in the place of the keys of one, and clients are notified at the channel.
pub(crate) fn of_latch(name: &str, mapper: &NameMapper, client_id: &str) -> (Keys, QueueKeys) {
    let object = mapper.map(name);
    let channel = format!("redisson_countdownlatch__channel__{{{object}}}");
    let record = beside("redisson_countdownlatch_once", &object);
    let record: Arc<str> = format!("{record}:{client_id}").into();
    let queue = QueueKeys {
        queue: Arc::clone(&record),
        beside: Arc::clone(&record),
        notes: Arc::clone(&record),
        own_channel: channel.as_str().into(),
        client: client_id.into(),
    };
    let keys = Keys::new(name, object, "string", channel, record.to_string());
    (keys.in_any_slot(), queue)
}

/// The names of a semaphore whose permits have ids, and of its queue. Its counter and its channel are called like a semaphore's.
pub(crate) fn of_permit_expirable(
    name: &str,
    mapper: &NameMapper,
    client_id: &str,
) -> (Keys, QueueKeys) {
    let object = mapper.map(name);
    let channel = prefixed("redisson_sc", &object);
    let record = beside("redisson_sc_leased_once", &object);
    let record = format!("{record}:{client_id}");
    let permits = suffixed(&object, "timeout");
    let queue = QueueKeys::new(
        beside("redisson_sc_leased_queue", &object),
        permits.clone(),
        beside("redisson_sc_leased_notes", &object),
        client_id,
    );
    let keys = Keys::new(name, object, "string", channel, record)
        .with_part(permits, "zset")
        .with_beside(Arc::clone(&queue.queue), "zset")
        .with_beside(Arc::clone(&queue.notes), "hash");
    (keys, queue)
}

/// The counter of a lock's fencing tokens; `lock` is the mapped name.
pub(crate) fn of_lock_token(lock: &str) -> String {
    prefixed("redisson_lock_token", lock)
}

/// The key of a reader's hold with this number of the read-write lock.
pub(crate) fn of_read_hold(lock: &str, owner: &str, number: usize) -> Arc<str> {
    suffixed(lock, &format!("{owner}:rwlock_timeout:{number}")).into()
}

/// A key beside an object. `a` and `{a}` are two objects with one channel; what stands beside them must not be one.
fn beside(prefix: &str, object: &str) -> String {
    if object.contains('{') {
        format!("{prefix}::{object}")
    } else {
        format!("{prefix}:{{{object}}}")
    }
}

fn suffixed(name: &str, suffix: &str) -> String {
    if name.contains('{') {
        format!("{name}:{suffix}")
    } else {
        format!("{{{name}}}:{suffix}")
    }
}

fn prefixed(prefix: &str, name: &str) -> String {
    if name.contains('{') {
        format!("{prefix}:{name}")
    } else {
        format!("{prefix}:{{{name}}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    fn keys(name: &str) -> Keys {
        of_semaphore(name, &NameMapper::default(), "id").0
    }

    #[test]
    fn names_are_derived_as_redisson_does() {
        assert_eq!(&**keys("seats").channel(), "redisson_sc:{seats}");
        assert_eq!(&**keys("seats").record(), "redisson_sc_once:{seats}:id");
        for (name, queue) in [("seats", ":{seats}"), ("{seats}", "::{seats}")] {
            let (_, keys) = of_semaphore(name, &NameMapper::default(), "id");
            assert_eq!(&*keys.queue, format!("redisson_sc_queue{queue}"));
            assert_eq!(&*keys.own_channel, format!("redisson_sc_queue{queue}:id"));
            assert_eq!(&*keys.beside, format!("redisson_sc_grants{queue}"));
            assert_eq!(&*keys.notes, format!("redisson_sc_notes{queue}"));
        }
        assert_eq!(&**keys("a{b}c").channel(), "redisson_sc:a{b}c");
        assert_eq!(keys("{seats}").channel(), keys("seats").channel());
        assert_eq!(&**keys("{seats}").record(), "redisson_sc_once::{seats}:id");
        let (mapped, _) = of_semaphore("seats", &NameMapper::prefix("app:"), "id");
        assert_eq!(&**mapped.object(), "app:seats");
        assert_eq!(&**mapped.channel(), "redisson_sc:{app:seats}");
        assert_eq!(mapped.name(), "seats");
        let (lock, _) = of_lock("door", &NameMapper::default(), "id");
        assert_eq!(&**lock.channel(), "redisson_lock__channel:{door}");
        assert_eq!(&**lock.record(), "redisson_lock_once:{door}:id");
        assert_eq!(of_lock_token("door"), "redisson_lock_token:{door}");
        assert_eq!(of_lock_token("a{b}"), "redisson_lock_token:a{b}");
        for (name, queue) in [("door", ":{door}"), ("{door}", "::{door}")] {
            let (_, keys) = of_lock(name, &NameMapper::default(), "id");
            assert_eq!(&*keys.queue, format!("redisson_lock_waiters{queue}"));
            assert_eq!(&*keys.notes, format!("redisson_lock_notes{queue}"));
        }
        let (rw, _) = of_read_write("a{b}", &NameMapper::default(), "id");
        assert_eq!(&**rw.channel(), "redisson_rwlock:a{b}");
        assert_eq!(&**rw.record(), "redisson_rwlock_once::a{b}:id");
        for (name, permits, record) in [
            ("jobs", "{jobs}:timeout", ":{jobs}:id"),
            ("a{b}c", "a{b}c:timeout", "::a{b}c:id"),
        ] {
            let (leased, queue) = of_permit_expirable(name, &NameMapper::default(), "id");
            assert_eq!(&*queue.beside, permits);
            assert_eq!(leased.channel(), keys(name).channel());
            assert_eq!(
                leased.parts().map(|key| &**key).collect::<Vec<_>>(),
                [permits]
            );
            assert_eq!(
                &**leased.record(),
                format!("redisson_sc_leased_once{record}")
            );
        }
        for (name, channel, record) in [
            ("done", "{done}", ":{done}"),
            ("{job}:done", "{{job}:done}", "::{job}:done"),
        ] {
            let (latch, _) = of_latch(name, &NameMapper::default(), "id");
            let channel = format!("redisson_countdownlatch__channel__{channel}");
            let record = format!("redisson_countdownlatch_once{record}:id");
            assert_eq!(
                (&**latch.channel(), &**latch.record()),
                (&*channel, &*record)
            );
            assert!(latch.check().is_ok(), "{name}");
        }
        let (latch, _) = of_latch("", &NameMapper::default(), "id");
        assert!(latch.check().is_err());
        assert!(keys("").in_cluster(false).check().is_err());
    }

    #[test]
    fn names_that_would_fall_apart_in_a_cluster_are_refused() {
        for good in ["seats", "a b:c", "{a}b", "a{b}c", "ä€"] {
            assert!(keys(good).check().is_ok(), "{good}");
        }
        for bad in ["a{b", "a}b", "a{}b", "}", "{", "{}"] {
            let error = keys(bad).check().expect_err(bad);
            assert!(matches!(error, Error::InvalidName { .. }), "{bad}");
            assert!(keys(bad).in_cluster(false).check().is_ok(), "{bad}");
        }
    }
}
