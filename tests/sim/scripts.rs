//! The crate's scripts by their names and digests.

#[path = "../../src/lua.rs"]
mod lua;

pub(crate) use lua::*;

/// Each by its name.
pub const ALL: &[(&str, &str)] = &[
    ("SEMAPHORE", SEMAPHORE),
    ("WATCHED", WATCHED),
    ("RECLAIM", RECLAIM),
    ("LATCH", LATCH),
    ("PERMITS", PERMITS),
    ("PERMITS_KEYS", PERMITS_KEYS),
    ("RENEW_PERMITS", RENEW_PERMITS),
    ("LONE", LONE),
    ("SETTLE", SETTLE),
    ("NUDGE", NUDGE),
    ("LOCK", LOCK),
    ("TAKE", TAKE),
    ("GIVE", GIVE),
    ("RENEW_LOCKS", RENEW_LOCKS),
    ("ONCE", ONCE),
    ("FORGET", FORGET),
    ("TIMESTAMP", TIMESTAMP),
    ("FAIR", FAIR),
    ("SET", SET),
    ("SLOTS", SLOTS),
];

/// The name of the script that has this text or this digest.
pub fn name_of(word: &[u8]) -> Option<&'static str> {
    let known = |(_, source): &&(&str, &str)| {
        source.as_bytes() == word || word.len() == 40 && digest(source).as_bytes() == word
    };
    ALL.iter().find(known).map(|(name, _)| *name)
}

/// The digest by which a script is called.
pub fn digest(source: &str) -> String {
    sha1_smol::Sha1::from(source).digest().to_string()
}
