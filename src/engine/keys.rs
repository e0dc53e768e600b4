//! The names that belong to one object in Redis, whichever family derives them.

use std::sync::Arc;

use crate::api::{flaw_of_name, refuse};
use crate::error::Result;
use crate::transport::hash_tag;

/// A key, and the type that it has where it exists.
pub(crate) type Typed = (Arc<str>, &'static str);

/// The names of one object.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    name: String,
    object: Arc<str>,
    /// The type of the object's key.
    kind: &'static str,
    channel: Arc<str>,
    record: Arc<str>,
    /// Further keys of the object: its script has them behind the channel.
    parts: Vec<Typed>,
    /// Keys that its scripts need besides, and that say nothing of whether it exists.
    beside: Vec<Typed>,
    /// The flaw that makes the name unusable; and one that does so in a cluster alone.
    flaw: Option<&'static str>,
    flaw_in_cluster: Option<&'static str>,
}

impl Keys {
    /// `name` is what the user gave, `kind` the type of the object's key, `record` what the client writes beside the object to make repeated
    /// calls harmless.
    pub(crate) fn new(
        name: &str,
        object: String,
        kind: &'static str,
        channel: String,
        record: String,
    ) -> Self {
        Keys {
            name: name.to_owned(),
            flaw: flaw_of_name(&object),
            flaw_in_cluster: flaw_in_cluster(&object, &channel),
            object: object.into(),
            kind,
            channel: channel.into(),
            record: record.into(),
            parts: Vec::new(),
            beside: Vec::new(),
        }
    }

    /// Lets the object and its channel fall into different slots: for objects that Redisson keeps so.
    pub(crate) fn in_any_slot(mut self) -> Self {
        self.flaw_in_cluster = None;
        self
    }

    /// The same for the client of a cluster, or of a single server, where slots do not matter.
    pub(crate) fn in_cluster(self, yes: bool) -> Self {
        if yes { self } else { self.in_any_slot() }
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

    /// The client's own key beside the object; see `engine::once`.
    pub(crate) fn record(&self) -> &Arc<str> {
        &self.record
    }

    /// The same, and a further key of the object, which holds the type `kind`.
    pub(crate) fn with_part(mut self, key: String, kind: &'static str) -> Self {
        self.parts.push((key.into(), kind));
        self
    }

    /// The same, and a key beside it, which holds the type `kind`.
    pub(crate) fn with_beside(mut self, key: impl Into<Arc<str>>, kind: &'static str) -> Self {
        self.beside.push((key.into(), kind));
        self
    }

    /// The same, with all its further keys. Its names have been looked at before.
    pub(crate) fn with_parts(mut self, parts: Vec<Typed>) -> Self {
        self.parts = parts;
        (self.flaw, self.flaw_in_cluster) = (None, None);
        self
    }

    /// The object's further keys.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Arc<str>> {
        self.parts.iter().map(|(key, _)| key)
    }

    /// Those that come first in a script of the object.
    pub(crate) fn own(&self) -> [&Arc<str>; 3] {
        [&self.record, &self.object, &self.channel]
    }

    /// All of them, with the types that they have.
    pub(crate) fn typed(&self) -> Vec<Typed> {
        let mut all = self.parts.clone();
        all.extend([
            (Arc::clone(&self.object), self.kind),
            (Arc::clone(&self.record), "string"),
        ]);
        all.extend(self.beside.iter().cloned());
        all
    }

    /// Refuses names that no object can have.
    pub(crate) fn check(&self) -> Result<()> {
        refuse(&self.object, self.flaw.or(self.flaw_in_cluster))
    }
}

/// The flaw that makes a name unusable in a cluster. Redisson asks only whether there is a `{`.
fn flaw_in_cluster(object: &str, channel: &str) -> Option<&'static str> {
    (hash_tag(object) != hash_tag(channel))
        .then_some("its braces would put the object and its channel into different slots")
}
