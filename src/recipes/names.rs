//! The keys and the channel of our own that stand beside a semaphore's keys; other programs ignore them.

use std::sync::Arc;

use super::settings::{Layout, Settings};
use crate::config::NameMapper;
use crate::engine::keys::{Keys, Typed};

/// What the mapper, which is the user's code, has to say to the names of a line: all but its number.
pub(super) struct Unnumbered {
    keys: Vec<Arc<str>>,
    lock: Option<Arc<str>>,
    base: Arc<str>,
}

/// All names that one line uses.
#[derive(Debug)]
pub(super) struct Names {
    /// The semaphore's own keys, in the order of its script.
    pub(super) own: Vec<Arc<str>>,
    pub(super) lock: Option<Arc<str>>,
    /// `redisson_sc_recipe_once:<layout>:{name}:<field>`: the line's last call, as a semaphore's.
    pub(super) record: Arc<str>,
    /// `redisson_sc_recipe_line:<layout>:{name}`: who of our clients waits; gone when nobody does.
    pub(super) line: Arc<str>,
    /// `redisson_sc_recipe_notes:<layout>:{name}`: what is known of them.
    pub(super) notes: Arc<str>,
    /// `redisson_sc_recipe_line:<layout>:{name}:<field>`: where this line's waiters are woken.
    pub(super) channel: Arc<str>,
}

impl Unnumbered {
    pub(super) fn new(settings: &Settings, mapper: &NameMapper) -> Self {
        Unnumbered {
            keys: settings.keys(mapper),
            lock: settings.lock_key(mapper),
            base: settings.base(mapper).into(),
        }
    }

    /// What all that stands beside the semaphore is named after.
    pub(super) fn base(&self) -> &Arc<str> {
        &self.base
    }

    /// The names of the line `number` of a client.
    pub(super) fn names(self, client_id: &str, number: u64) -> Names {
        let Unnumbered { keys, lock, base } = self;
        let field = format!("{client_id}:{number}");
        Names {
            lock,
            record: format!("redisson_sc_recipe_once:{base}:{field}").into(),
            line: format!("redisson_sc_recipe_line:{base}").into(),
            notes: format!("redisson_sc_recipe_notes:{base}").into(),
            channel: format!("redisson_sc_recipe_line:{base}:{field}").into(),
            own: keys,
        }
    }
}

impl Names {
    /// What a script of `settings` is called with: the line and this client's channel in front, and behind them the own
    /// keys, the lock and the notes.
    pub(super) fn keys(&self, settings: &Settings) -> Keys {
        let types: &[&'static str] = match settings.layout {
            Layout::Timestamp => &["zset"],
            Layout::Fair => &["zset", "zset", "string", "list"],
            Layout::Set => &["set"],
            Layout::Slots | Layout::Lock => &["string"],
        };
        let types = types.iter().chain(types.last().into_iter().cycle());
        let own = self.own.iter().zip(types);
        let lock = self.lock.iter().map(|key| (key, &"string"));
        let others = own.chain(lock).chain([(&self.notes, &"hash")]);
        let others = others.map(|(key, kind)| (Arc::clone(key), *kind) as Typed);
        Keys::new(
            &settings.name,
            self.line.to_string(),
            "zset",
            self.channel.to_string(),
            self.record.to_string(),
        )
        .with_parts(others.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(settings: &Settings) -> Names {
        Unnumbered::new(settings, &NameMapper::prefix("app:")).names("id", 3)
    }

    fn texts(keys: &[Arc<str>]) -> Vec<&str> {
        keys.iter().map(|key| &**key).collect()
    }

    #[test]
    fn keys_are_those_of_the_originals() {
        let keys = |layout| texts(&names(&Settings::new(layout, "s", 2)).own).join(" ");
        assert_eq!(keys(Layout::Timestamp), "app:s");
        assert_eq!(keys(Layout::Fair), "app:s app:s:owner app:s:counter");
        assert_eq!(keys(Layout::Set), "app:s");
        assert_eq!(keys(Layout::Slots), "app:s:1 app:s:2");
        assert_eq!(keys(Layout::Lock), "lock:app:s");
    }

    #[test]
    fn keys_may_be_named_otherwise() {
        let mut settings = Settings::new(Layout::Fair, "s", 2);
        settings.owners = Some("o".to_owned());
        settings.tokens = Some("t".to_owned());
        settings.lock = Some("l".to_owned());
        let names = names(&settings);
        assert_eq!(
            texts(&names.own),
            ["app:s", "app:o", "app:s:counter", "app:t"]
        );
        assert_eq!(names.lock.as_deref(), Some("lock:app:l"));
    }

    #[test]
    fn names_of_our_own_share_the_hash_tag() {
        let plain = names(&Settings::new(Layout::Fair, "s", 2));
        assert_eq!(&*plain.channel, "redisson_sc_recipe_line:fair:{app:s}:id:3");
        assert_eq!(&*plain.record, "redisson_sc_recipe_once:fair:{app:s}:id:3");
        assert_eq!(&*plain.notes, "redisson_sc_recipe_notes:fair:{app:s}");
        let tagged = names(&Settings::new(Layout::Slots, "{s}", 2));
        assert_eq!(&*tagged.line, "redisson_sc_recipe_line:slots::app:{s}");
        let lock = names(&Settings::new(Layout::Lock, "s", 1));
        assert_eq!(&*lock.line, "redisson_sc_recipe_line:lock:{lock:app:s}");
    }
}
