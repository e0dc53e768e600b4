//! The keys beside an object, and where its waiters listen; `name` is as it stands in Redis.
//!
//! Redisson puts braces around a name that has none, so that all keys of an object are in one slot of a cluster.

pub(crate) fn semaphore_channel(name: &str) -> String {
    prefixed("redisson_sc", name)
}

pub(crate) fn lock_channel(name: &str) -> String {
    prefixed("redisson_lock__channel", name)
}

pub(crate) fn read_write_channel(name: &str) -> String {
    prefixed("redisson_rwlock", name)
}

pub(crate) fn fencing_token(name: &str) -> String {
    prefixed("redisson_lock_token", name)
}

pub(crate) fn fair_queue(name: &str) -> String {
    prefixed("redisson_lock_queue", name)
}

/// The permits of Redisson's `RPermitExpirableSemaphore`.
pub(crate) fn permit_leases(name: &str) -> String {
    format!("{}:timeout", inside(name))
}

/// Keys of this crate alone, one beside each object that has it.
const SINGLE: [&str; 9] = [
    "redisson_sc_queue",
    "redisson_sc_grants",
    "redisson_sc_notes",
    "redisson_sc_leased_queue",
    "redisson_sc_leased_notes",
    "redisson_lock_waiters",
    "redisson_lock_notes",
    "redisson_rwlock_waiters",
    "redisson_rwlock_notes",
];
/// The keys of which each client has its own.
const OF_CLIENTS: [&str; 6] = [
    "redisson_sc_once",
    "redisson_sc_leased_once",
    "redisson_lock_once",
    "redisson_lock_fair_once",
    "redisson_rwlock_once",
    "redisson_countdownlatch_once",
];
/// The same of the classic recipes; the layout comes behind.
const SINGLE_OF_RECIPES: [&str; 3] = [
    "redisson_sc_recipe_queue",
    "redisson_sc_recipe_grants",
    "redisson_sc_recipe_notes",
];
const OF_CLIENTS_OF_RECIPES: [&str; 1] = ["redisson_sc_recipe_once"];
const LAYOUTS: [&str; 5] = ["timestamp", "fair", "set", "slots", "lock"];

/// The keys beside it that have one name each.
pub(crate) fn single_records(name: &str) -> Vec<String> {
    let mut all: Vec<String> = SINGLE.iter().map(|prefix| beside(prefix, name)).collect();
    all.extend(of_recipes(&SINGLE_OF_RECIPES, name));
    all.extend([
        fencing_token(name),
        fair_queue(name),
        prefixed("redisson_lock_timeout", name),
        permit_leases(name),
    ]);
    all
}

fn of_recipes(prefixes: &[&str], name: &str) -> Vec<String> {
    let of_all = |prefix: &&str| LAYOUTS.map(|layout| beside(&format!("{prefix}:{layout}"), name));
    prefixes.iter().flat_map(of_all).collect()
}

/// The callers that wait at a semaphore. The same with a client's id behind it is the channel of that client.
pub(crate) fn queue(name: &str) -> String {
    beside("redisson_sc_queue", name)
}

/// The grants of a semaphore: to callers that have not confirmed it, and to guards.
pub(crate) fn grants(name: &str) -> String {
    beside("redisson_sc_grants", name)
}

/// The semaphore whose grants stand under `key`.
pub(crate) fn semaphore_of_grants(key: &str) -> Option<&str> {
    let name = key.strip_prefix("redisson_sc_grants:")?;
    match name.strip_prefix(':') {
        Some(with_braces) => Some(with_braces),
        None => name.strip_prefix('{')?.strip_suffix('}'),
    }
}

/// The notes of a semaphore's clients for each other.
pub(crate) fn notes(name: &str) -> String {
    beside("redisson_sc_notes", name)
}

/// The callers that wait for a lock. The same with a client's id behind it is the channel of that client.
pub(crate) fn lock_queue(name: &str) -> String {
    beside("redisson_lock_waiters", name)
}

/// The notes of a lock's clients for each other.
pub(crate) fn lock_notes(name: &str) -> String {
    beside("redisson_lock_notes", name)
}

/// As those of a lock: the queue, the notes, and a client's last call on a read-write lock.
pub(crate) fn of_read_write(name: &str, client: &str) -> [String; 3] {
    let record = beside("redisson_rwlock_once", name);
    let waiters = beside("redisson_rwlock_waiters", name);
    let notes = beside("redisson_rwlock_notes", name);
    [waiters, notes, format!("{record}:{client}")]
}

/// A reader's hold of a read-write lock.
pub(crate) fn read_hold(name: &str, owner: &str) -> String {
    format!("{}:{owner}:rwlock_timeout:1", inside(name))
}

/// A client's last call on a semaphore.
pub(crate) fn semaphore_record(name: &str, client: &str) -> String {
    format!("{}:{client}", beside("redisson_sc_once", name))
}

/// A client's last call on a lock.
pub(crate) fn lock_record(name: &str, client: &str) -> String {
    format!("{}:{client}", beside("redisson_lock_once", name))
}

/// How the keys begin of which each client has its own.
pub(crate) fn client_record_beginnings(name: &str) -> Vec<String> {
    let of_clients = OF_CLIENTS.iter().map(|prefix| beside(prefix, name));
    let all = of_clients.chain(of_recipes(&OF_CLIENTS_OF_RECIPES, name));
    all.map(|key| format!("{key}:")).collect()
}

/// Whether a key is one of this crate's, beside whichever object.
pub(crate) fn is_record(key: &str) -> bool {
    let beginning = key.split(':').next().unwrap_or_default();
    is_of_records(beginning)
}

fn is_of_records(beginning: &str) -> bool {
    [
        &SINGLE[..],
        &OF_CLIENTS,
        &SINGLE_OF_RECIPES,
        &OF_CLIENTS_OF_RECIPES,
    ]
    .iter()
    .any(|known| known.contains(&beginning))
}

/// The beginning of all of those.
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
    format!("{prefix}:{}", inside(name))
}

/// The name in braces, where it has none.
pub(crate) fn inside(name: &str) -> String {
    if name.contains('{') {
        name.to_owned()
    } else {
        format!("{{{name}}}")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// The keys and channels that Redisson has, too.
    const REDISSONS: [&str; 7] = [
        "redisson_sc",
        "redisson_lock__channel",
        "redisson_lock_queue",
        "redisson_lock_timeout",
        "redisson_lock_token",
        "redisson_rwlock",
        "redisson_countdownlatch__channel__",
    ];

    /// How the names begin that stand in the library's source.
    fn named_in(directory: &Path, all: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(directory).expect("the source") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                named_in(&path, all);
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("text");
            for name in text.split("\"redisson_").skip(1) {
                let is_end = |c: char| !c.is_ascii_lowercase() && c != '_';
                let end = name.find(is_end).unwrap_or(name.len());
                all.insert(format!("redisson_{}", &name[..end]));
            }
        }
    }

    #[test]
    fn all_that_the_library_keeps_beside_objects_is_known() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src");
        let mut named = BTreeSet::new();
        named_in(&source, &mut named);
        // Metrics are no keys.
        named.retain(|name| !name.starts_with("redisson_semaphore_"));
        for name in &named {
            assert!(
                is_of_records(name) || REDISSONS.contains(&name.as_str()),
                "{name}"
            );
        }
        let known = SINGLE.iter().chain(&OF_CLIENTS);
        let known = known
            .chain(&SINGLE_OF_RECIPES)
            .chain(&OF_CLIENTS_OF_RECIPES);
        for name in known {
            assert!(named.contains(*name), "{name} is none any more");
        }
    }
}
