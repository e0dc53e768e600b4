//! The crate's scripts, put together as it does.

pub const SEMAPHORE: &str = concat!(
    include_str!("../../lua/semaphore/counter.lua"),
    include_str!("../../lua/semaphore/turns.lua"),
    include_str!("../../lua/semaphore/batch.lua"),
);
pub const LONE: &str = include_str!("../../lua/semaphore/lone.lua");
pub const SETTLE: &str = include_str!("../../lua/semaphore/settle.lua");
pub const NUDGE: &str = include_str!("../../lua/semaphore/nudge.lua");
pub const LOCK: &str = include_str!("../../lua/lock/batch.lua");
pub const TAKE: &str = include_str!("../../lua/lock/take.lua");
pub const GIVE: &str = include_str!("../../lua/lock/give.lua");
pub const RENEW: &str = include_str!("../../lua/lock/renew.lua");
pub const ONCE: &str = include_str!("../../lua/engine/once.lua");
pub const TIMESTAMP: &str = concat!(
    include_str!("../../lua/recipes/record.lua"),
    include_str!("../../lua/recipes/ids.lua"),
    include_str!("../../lua/recipes/times.lua"),
    include_str!("../../lua/recipes/timestamp.lua"),
    include_str!("../../lua/recipes/batch.lua"),
);
pub const FAIR: &str = concat!(
    include_str!("../../lua/recipes/record.lua"),
    include_str!("../../lua/recipes/ids.lua"),
    include_str!("../../lua/recipes/usual.lua"),
    include_str!("../../lua/recipes/times.lua"),
    include_str!("../../lua/recipes/fair.lua"),
    include_str!("../../lua/recipes/batch.lua"),
);
pub const SET: &str = concat!(
    include_str!("../../lua/recipes/record.lua"),
    include_str!("../../lua/recipes/ids.lua"),
    include_str!("../../lua/recipes/set.lua"),
    include_str!("../../lua/recipes/batch.lua"),
);
pub const SLOTS: &str = concat!(
    include_str!("../../lua/recipes/record.lua"),
    include_str!("../../lua/recipes/ids.lua"),
    include_str!("../../lua/recipes/slots.lua"),
    include_str!("../../lua/recipes/batch.lua"),
);

/// The digest by which a script is called.
pub fn digest(source: &str) -> String {
    sha1_smol::Sha1::from(source).digest().to_string()
}
