//! The keys and channels of Redisson's objects.
//!
//! Redisson derives every name from the mapped name `R`: with a prefix, `prefix:{R}`, or `prefix:R` where
//! `R` contains a `{` already. In a cluster the braces keep all keys of an object in one slot.

use std::sync::Arc;

use crate::config::NameMapper;
use crate::error::{Error, Result};

/// The names that belong to one object.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    name: String,
    object: Arc<str>,
    channel: Arc<str>,
    record: Arc<str>,
    turns: Arc<str>,
    flaw: Option<&'static str>,
}

impl Keys {
    pub(crate) fn of_semaphore(name: &str, mapper: &NameMapper, client_id: &str) -> Self {
        let object = mapper.map(name);
        let channel = prefixed("redisson_sc", &object);
        Keys {
            name: name.to_owned(),
            record: format!("{}:{client_id}", beside("redisson_sc_once", &object)).into(),
            turns: beside("redisson_sc_turns", &object).into(),
            flaw: flaw(&object, &channel),
            channel: channel.into(),
            object: object.into(),
        }
    }

    /// The name that the user gave.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The object's own key.
    pub(crate) fn object(&self) -> &Arc<str> {
        &self.object
    }

    /// Where waiters listen.
    pub(crate) fn channel(&self) -> &Arc<str> {
        &self.channel
    }

    /// The client's record of its last call; see `engine::once`.
    pub(crate) fn record(&self) -> &Arc<str> {
        &self.record
    }

    /// Whose callers wait since when; see `engine::turns`.
    pub(crate) fn turns(&self) -> &Arc<str> {
        &self.turns
    }

    /// Refuses names that no object can have.
    pub(crate) fn check(&self) -> Result<()> {
        match self.flaw {
            None => Ok(()),
            Some(reason) => Err(Error::InvalidName {
                name: self.object.to_string(),
                reason,
            }),
        }
    }
}

/// What makes a name unusable.
fn flaw(object: &str, channel: &str) -> Option<&'static str> {
    if object.is_empty() {
        return Some("it is empty");
    }
    // Redisson asks only whether there is a `{`, and such objects break when the Redis they live in
    // becomes a cluster.
    (hash_tag(object) != hash_tag(channel)).then_some(
        "in a cluster its braces would put the object and its channel into different slots",
    )
}

/// `a` and `{a}` are two objects with one channel; their records must not be one.
fn beside(prefix: &str, object: &str) -> String {
    if object.contains('{') {
        format!("{prefix}::{object}")
    } else {
        format!("{prefix}:{{{object}}}")
    }
}

fn prefixed(prefix: &str, name: &str) -> String {
    if name.contains('{') {
        format!("{prefix}:{name}")
    } else {
        format!("{prefix}:{{{name}}}")
    }
}

/// The part of a key that decides its slot in a cluster.
fn hash_tag(key: &str) -> &str {
    let tag = key
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'))
        .map(|(tag, _)| tag);
    match tag {
        Some(tag) if !tag.is_empty() => tag,
        _ => key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(name: &str) -> Keys {
        Keys::of_semaphore(name, &NameMapper::default(), "id")
    }

    #[test]
    fn names_are_derived_as_redisson_does() {
        assert_eq!(&**keys("seats").channel(), "redisson_sc:{seats}");
        assert_eq!(&**keys("seats").record(), "redisson_sc_once:{seats}:id");
        assert_eq!(&**keys("seats").turns(), "redisson_sc_turns:{seats}");
        assert_eq!(&**keys("{seats}").turns(), "redisson_sc_turns::{seats}");
        assert_eq!(&**keys("a{b}c").channel(), "redisson_sc:a{b}c");
        assert_eq!(keys("{seats}").channel(), keys("seats").channel());
        assert_eq!(&**keys("{seats}").record(), "redisson_sc_once::{seats}:id");
        let mapped = Keys::of_semaphore("seats", &NameMapper::prefix("app:"), "id");
        assert_eq!(&**mapped.object(), "app:seats");
        assert_eq!(&**mapped.channel(), "redisson_sc:{app:seats}");
        assert_eq!(mapped.name(), "seats");
    }

    #[test]
    fn names_that_would_fall_apart_in_a_cluster_are_refused() {
        for good in ["seats", "a b:c", "{a}b", "a{b}c", "ä€"] {
            assert!(keys(good).check().is_ok(), "{good}");
        }
        for bad in ["", "a{b", "a}b", "a{}b", "}", "{", "{}"] {
            let error = keys(bad).check().expect_err(bad);
            assert!(matches!(error, Error::InvalidName { .. }), "{bad}");
        }
    }
}
