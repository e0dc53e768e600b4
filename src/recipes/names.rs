//! The keys and the channel of our own that stand beside a semaphore's keys; other programs ignore them.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::settings::{Layout, Settings};
use crate::config::NameMapper;
use crate::engine::keys::{Keys, Typed};
use crate::queue::QueueKeys;

/// The digits of a client's id that tell its handles apart, at the end of it.
const DIGITS: usize = 12;

/// All names that the handles of a client with these settings use. The first own key is the object, the others and the peers' lock are
/// parts of it.
pub(super) fn of(settings: &Settings, mapper: &NameMapper, client_id: &str) -> (Keys, QueueKeys) {
    let base = settings.base(mapper);
    let client = client(settings, client_id);
    let name = |prefix: &str| format!("{prefix}:{base}");
    let the_queue = name("redisson_sc_recipe_queue");
    let queue = QueueKeys::new(
        the_queue.clone(),
        name("redisson_sc_recipe_grants"),
        name("redisson_sc_recipe_notes"),
        &client,
    );
    let types: &[&'static str] = match settings.layout {
        Layout::Timestamp => &["zset"],
        Layout::Fair => &["zset", "zset", "string", "list"],
        Layout::Set => &["set"],
        Layout::Slots | Layout::Lock => &["string"],
    };
    let types = types.iter().chain(types.last().into_iter().cycle());
    let mut own = settings.keys(mapper).into_iter().zip(types);
    let (object, kind) = own.next().expect("each layout has a key");
    let lock = settings.lock_key(mapper).map(|lock| (lock, &"string"));
    let parts: Vec<Typed> = own.chain(lock).map(|(key, kind)| (key, *kind)).collect();
    let record = format!("{}:{client}", name("redisson_sc_recipe_once"));
    let keys = Keys::new(&settings.name, object.to_string(), kind, the_queue, record)
        .with_parts(parts)
        .with_beside(queue.queue.clone(), "zset")
        .with_beside(queue.beside.clone(), "zset")
        .with_beside(queue.notes.clone(), "hash");
    (keys, queue)
}

/// By which the scripts know the client: its id, but that the last digits tell handles with different settings apart. Handles that come and
/// go have the same one.
fn client(settings: &Settings, id: &str) -> String {
    let mut hasher = DefaultHasher::new();
    format!("{settings:?}").hash(&mut hasher);
    let digits = format!("{:016x}", hasher.finish());
    format!("{}{}", &id[..id.len() - DIGITS], &digits[..DIGITS])
}

/// The id of what is taken under `ticket`, as `id_of` in `lua/recipes/setting.lua` makes it.
pub(super) fn permit_id(client_id: &str, ticket: u64) -> String {
    let digits = format!("{ticket:016}");
    format!("{}{}-{}", &client_id[..19], &digits[..4], &digits[4..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "6f1c1f0e-8d1c-4a57-9f0c-0123456789ab";

    fn names(settings: &Settings) -> (Keys, QueueKeys) {
        of(settings, &NameMapper::prefix("app:"), ID)
    }

    fn own(settings: &Settings) -> String {
        let (keys, _) = names(settings);
        let all = std::iter::once(keys.object()).chain(keys.parts());
        all.map(|key| &**key).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn keys_are_those_of_the_originals() {
        let keys = |layout| own(&Settings::new(layout, "s", 2));
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
        assert_eq!(own(&settings), "app:s app:o app:s:counter app:t lock:app:l");
    }

    #[test]
    fn names_of_our_own_share_the_hash_tag() {
        let (keys, queue) = names(&Settings::new(Layout::Fair, "s", 2));
        assert_eq!(&*queue.queue, "redisson_sc_recipe_queue:fair:{app:s}");
        assert_eq!(&*queue.notes, "redisson_sc_recipe_notes:fair:{app:s}");
        let record = format!("redisson_sc_recipe_once:fair:{{app:s}}:{}", queue.client);
        assert_eq!(**keys.record(), record);
        let (_, tagged) = names(&Settings::new(Layout::Slots, "{s}", 2));
        assert_eq!(&*tagged.queue, "redisson_sc_recipe_queue:slots::app:{s}");
        let (_, lock) = names(&Settings::new(Layout::Lock, "s", 1));
        assert_eq!(&*lock.queue, "redisson_sc_recipe_queue:lock:{lock:app:s}");
    }

    #[test]
    fn handles_are_told_apart_by_their_settings() {
        let client = |limit| names(&Settings::new(Layout::Set, "s", limit)).1.client;
        assert_eq!(client(2), client(2));
        assert_ne!(client(2), client(3));
        assert!(client(2).len() == ID.len() && client(2).starts_with(&ID[..24]));
    }

    #[test]
    fn ids_of_permits_look_like_uuids() {
        for ticket in [0, 1, 9_999_999_999_999_999] {
            uuid::Uuid::parse_str(&permit_id(ID, ticket)).expect("a UUID");
        }
        assert_eq!(
            permit_id(ID, 70_000_000_000_012),
            "6f1c1f0e-8d1c-4a57-0070-000000000012"
        );
    }
}
