//! The crate's scripts, put together as it does.

pub const SEMAPHORE: &str = concat!(
    include_str!("../../lua/semaphore/counter.lua"),
    include_str!("../../lua/engine/places.lua"),
    include_str!("../../lua/engine/line.lua"),
    include_str!("../../lua/semaphore/turns.lua"),
    include_str!("../../lua/semaphore/batch.lua"),
);
pub const WATCHED: &str = concat!(
    include_str!("../../lua/semaphore/held.lua"),
    include_str!("../../lua/semaphore/counter.lua"),
    include_str!("../../lua/semaphore/holders.lua"),
    include_str!("../../lua/engine/places.lua"),
    include_str!("../../lua/engine/line.lua"),
    include_str!("../../lua/semaphore/turns.lua"),
    include_str!("../../lua/semaphore/batch.lua"),
);
pub const RECLAIM: &str = include_str!("../../lua/semaphore/reclaim.lua");
pub const LATCH: &str = concat!(
    include_str!("../../lua/engine/envelope.lua"),
    include_str!("../../lua/latch/steps.lua"),
);
pub const PERMITS: &str = concat!(
    include_str!("../../lua/permit_expirable/lone.lua"),
    include_str!("../../lua/engine/envelope.lua"),
    include_str!("../../lua/engine/places.lua"),
    include_str!("../../lua/engine/line.lua"),
    include_str!("../../lua/permit_expirable/counter.lua"),
    include_str!("../../lua/semaphore/turns.lua"),
    include_str!("../../lua/permit_expirable/steps.lua"),
);
pub const RENEW_PERMITS: &str = include_str!("../../lua/permit_expirable/renew.lua");
pub const LONE: &str = include_str!("../../lua/semaphore/lone.lua");
pub const SETTLE: &str = include_str!("../../lua/semaphore/settle.lua");
pub const NUDGE: &str = include_str!("../../lua/semaphore/nudge.lua");
pub const LOCK: &str = include_str!("../../lua/lock/batch.lua");
pub const TAKE: &str = include_str!("../../lua/lock/take.lua");
pub const GIVE: &str = include_str!("../../lua/lock/give.lua");
pub const RENEW: &str = include_str!("../../lua/lock/renew.lua");
pub const ONCE: &str = include_str!("../../lua/engine/once.lua");
pub const FORGET: &str = include_str!("../../lua/engine/forget.lua");
pub const TIMESTAMP: &str = concat!(
    include_str!("../../lua/engine/envelope.lua"),
    include_str!("../../lua/engine/places.lua"),
    include_str!("../../lua/engine/line.lua"),
    include_str!("../../lua/recipes/ids.lua"),
    include_str!("../../lua/recipes/times.lua"),
    include_str!("../../lua/recipes/timestamp.lua"),
    include_str!("../../lua/recipes/batch.lua"),
);
pub const FAIR: &str = concat!(
    include_str!("../../lua/engine/envelope.lua"),
    include_str!("../../lua/engine/places.lua"),
    include_str!("../../lua/engine/line.lua"),
    include_str!("../../lua/recipes/ids.lua"),
    include_str!("../../lua/recipes/times.lua"),
    include_str!("../../lua/recipes/fair.lua"),
    include_str!("../../lua/recipes/batch.lua"),
);
pub const SET: &str = concat!(
    include_str!("../../lua/engine/envelope.lua"),
    include_str!("../../lua/engine/places.lua"),
    include_str!("../../lua/engine/line.lua"),
    include_str!("../../lua/recipes/ids.lua"),
    include_str!("../../lua/recipes/set.lua"),
    include_str!("../../lua/recipes/batch.lua"),
);
pub const SLOTS: &str = concat!(
    include_str!("../../lua/engine/envelope.lua"),
    include_str!("../../lua/engine/places.lua"),
    include_str!("../../lua/engine/line.lua"),
    include_str!("../../lua/recipes/ids.lua"),
    include_str!("../../lua/recipes/slots.lua"),
    include_str!("../../lua/recipes/batch.lua"),
);

/// Each by its name.
pub const ALL: &[(&str, &str)] = &[
    ("SEMAPHORE", SEMAPHORE),
    ("WATCHED", WATCHED),
    ("RECLAIM", RECLAIM),
    ("LATCH", LATCH),
    ("PERMITS", PERMITS),
    ("RENEW_PERMITS", RENEW_PERMITS),
    ("LONE", LONE),
    ("SETTLE", SETTLE),
    ("NUDGE", NUDGE),
    ("LOCK", LOCK),
    ("TAKE", TAKE),
    ("GIVE", GIVE),
    ("RENEW", RENEW),
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
