//! The crate's scripts by their names and digests.

#[path = "../../src/lua.rs"]
mod lua;

use std::collections::HashMap;
use std::sync::LazyLock;

pub(crate) use lua::*;

/// Each by its name.
pub const ALL: &[(&str, &str)] = &[
    ("SEMAPHORE", SEMAPHORE),
    ("LATCH", LATCH),
    ("PERMITS", PERMITS),
    ("LOCK", LOCK),
    ("FAIR_LOCK", FAIR_LOCK),
    ("READ_WRITE", READ_WRITE),
    ("ONCE", ONCE),
    ("FORGET", FORGET),
    ("RENEW", RENEW),
    ("TIMES", TIMES),
    ("SET", SET),
    ("SLOTS", SLOTS),
];

/// The name of the script that has this text or this digest.
pub fn name_of(word: &[u8]) -> Option<&'static str> {
    // Asked of each word of each command.
    static DIGESTS: LazyLock<HashMap<String, &'static str>> = LazyLock::new(|| {
        ALL.iter()
            .map(|(name, source)| (digest(source), *name))
            .collect()
    });
    if word.len() == 40 {
        return DIGESTS.get(std::str::from_utf8(word).ok()?).copied();
    }
    let known = |(_, source): &&(&str, &str)| source.as_bytes() == word;
    ALL.iter().find(known).map(|(name, _)| *name)
}

/// The digest by which a script is called.
pub fn digest(source: &str) -> String {
    sha1_smol::Sha1::from(source).digest().to_string()
}
