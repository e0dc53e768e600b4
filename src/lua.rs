//! The scripts, put together from the files of `lua/`: several begin with the same parts.

macro_rules! lua {
    ($($file:literal),+ $(,)?) => {
        concat!($(include_str!(concat!("../lua/", $file, ".lua"))),+)
    };
}
/// A recipe's, whose holders are kept by `$file`.
macro_rules! recipe {
    ($file:literal) => {
        lua!(
            "queue/announce",
            "queue/record",
            "recipes/setting",
            "queue/entries",
            $file,
            "queue/grants",
            "recipes/holders",
            "queue/queue",
            "recipes/first",
            "queue/finish",
            "recipes/steps",
        )
    };
}

pub(crate) const ONCE: &str = lua!("queue/announce", "queue/record", "engine/once");
pub(crate) const FORGET: &str = lua!("engine/forget");
pub(crate) const RENEW: &str = lua!("engine/renew");

pub(crate) const SEMAPHORE: &str = lua!(
    "semaphore/short",
    "queue/announce",
    "queue/record",
    "semaphore/permits",
    "queue/entries",
    "queue/grants",
    "queue/queue",
    "queue/jvms",
    "queue/finish",
    "semaphore/steps"
);

pub(crate) const LOCK: &str = lua!(
    "lock/short",
    "queue/announce",
    "queue/record",
    "queue/entries",
    "lock/hold",
    "queue/queue",
    "queue/jvms",
    "queue/finish",
    "lock/steps"
);
pub(crate) const FAIR_LOCK: &str = lua!("queue/record", "queue/entries", "lock/hold", "lock/fair");

pub(crate) const READ_WRITE: &str = lua!(
    "queue/announce",
    "queue/record",
    "queue/entries",
    "read_write/hold",
    "queue/queue",
    "queue/jvms",
    "queue/finish",
    "lock/steps"
);

pub(crate) const LATCH: &str = lua!("queue/record", "latch/steps");

pub(crate) const PERMITS: &str = lua!(
    "permit_expirable/short",
    "queue/announce",
    "queue/record",
    "semaphore/permits",
    "queue/entries",
    "permit_expirable/permits",
    "queue/queue",
    "queue/jvms",
    "queue/finish",
    "permit_expirable/steps"
);

pub(crate) const TIMES: &str = recipe!("recipes/times");
pub(crate) const SET: &str = recipe!("recipes/set");
pub(crate) const SLOTS: &str = recipe!("recipes/slots");
