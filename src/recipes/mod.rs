//! The classic recipes: semaphores and a lock in the key layouts of "Redis in Action" and its relatives, as Java
//! and Python services write them by hand. Same keys, same values; but each step is one atomic script here.
//!
//! A chapter of the guide is about [recipes](crate::guide::recipes), with an example.
//!
//! | Type | Keys of a semaphore `name` | A permit lasts |
//! |---|---|---|
//! | [`TimestampSemaphore`] | zset `name`: id -> time | until it is not refreshed for the timeout |
//! | [`FairSemaphore`] | zset `name`: id -> time; zset `name:owner`: id -> counter; string `name:counter`; perhaps a lock `lock:...`, perhaps a list of wake-up tokens | the same |
//! | [`SetSemaphore`] | set `name` of ids | for ever |
//! | [`SlotSemaphore`] | strings `name:1` to `name:limit`: id | as a key with an expiry |
//! | [`StringLock`] | string `lock:name`: id | the same |
//!
//! The semaphores are used through [`LeasedSemaphore`](crate::LeasedSemaphore), the lock through [`Lock`](crate::Lock).
//!
//! # Beside other programs
//!
//! - **Times** that we write are the server's. Times of others are honoured as they stand: a program whose clock is
//!   ahead keeps its permits longer, an infinite time is kept until it is released. The [`Units`] must be the same for
//!   all; times that are off by a factor of 1,000 are [`WrongUnits`](crate::Error::WrongUnits) before anything is changed.
//! - **Waiting**: other programs tell nobody when they release. While somebody waits, it looks at the pace of the
//!   setting `check_interval` (100 ms), and when the first holder expires: the first two clients in line do, the others now
//!   and then, all together some fifty times a second; and whoever finds a permit that is due to somebody else tells him.
//!   Our own releases tell those whose turn it is at once, each on a channel of its own,
//!   `redisson_sc_recipe_queue:<layout>:{name}:<client id>:<number>`.
//! - **Order**: ours are served in the order of their arrival by the server's clock, in all processes, as long as
//!   they wait: each client by the first of its callers, so that those behind it may be served with it where several permits
//!   come free at once. It stands in the zset `redisson_sc_recipe_queue:<layout>:{name}`, with the hash
//!   `redisson_sc_recipe_notes:<layout>:{name}`, which go when nobody waits. They have their place as soon as the server has
//!   seen them, also when a peer's lock keeps them waiting. A client that is told and does not come within 20 ms and two of
//!   its round trips (0.25 s at the most) is passed by until it comes; one whose connection is gone, at once, unless it has
//!   asked within the last second. It is the line of the semaphore's turns (`src/engine/turns/mod.rs` tells what is
//!   stored), but without an allowance, and with the limit in the place of what a client wants.
//!   Other programs know nothing of that line: they take what they find.
//! - **The list** of holders is read 256 at a time, so that no script is a long one: who holds all the while is listed,
//!   once, who comes or goes meanwhile perhaps.
//! - **The limit** is a setting of each program. A handle never takes a permit while as many as its own limit are
//!   held; where it was lowered, it waits until enough have been released, and stops nobody with a higher one.
//! - **Once**: `redisson_sc_recipe_once:<layout>:{name}:<client id>:<number>`, a string, keeps the sequence number and the answer of
//!   the client's last call, as for a semaphore, so that a call whose reply was lost is repeated without taking effect twice. There
//!   is one, and one more for each handle with other settings that is used at the same time (how long a slot or a string lock
//!   is held is none of these: it travels with each call).
//! - **ACL**: what a user needs stands in the [guide](crate::guide::operations#permissions).
//! - **Clusters**: all keys of a semaphore must share a slot: give its name a part in braces, as in `{name}`.
//!   Without, a server of a cluster refuses the script, which is [`InvalidName`](crate::Error::InvalidName).
//!
//! # Waiting, errors and effects of all operations
//!
//! All but one travel in one script: the part for the layout, `lua/recipes/look.lua`, which answers a look where nothing is free, and behind
//! `record.lua`, `steps.lua` and `line.lua` of `lua/engine` `lua/recipes/batch.lua`, which does all else; calls that the tasks of a client make at the same time travel together, 256 calls and 512
//! questions at the most. A refresh, which may be repeated as it is, travels in one of its own, `refresh.lua`, and waits for no
//! other call; those of guards travel together, 256 at the most. A waiter is woken by the channel, by a (re)confirmed subscription, by its pace, and when the first
//! holder expires or a peer's lock should be free.
//!
//! What is dropped before it was sent is forgotten, but for a release; what was granted to a caller who has gone is
//! released.
//!
//! Errors: [`InvalidName`](crate::Error::InvalidName), [`InvalidLimit`](crate::Error::InvalidLimit) and
//! [`InvalidDuration`](crate::Error::InvalidDuration) for settings that cannot be used;
//! [`WrongType`](crate::Error::WrongType), [`WrongUnits`](crate::Error::WrongUnits) and
//! [`NotANumber`](crate::Error::NotANumber) for what is found in the keys; those of the server and the connection
//! as everywhere.

// | File | What it holds |
// |---|---|
// | `fair.rs`, `timestamp.rs`, `set.rs`, `slots.rs`, `string_lock.rs` | the public types |
// | `settings.rs`, `names.rs`, `numbers.rs` | what a handle is told, and the keys that follow from it |
// | `handle.rs` | what all semaphores share, and the trait for them |
// | `keeping.rs`, `refresh.rs` | what is refreshed in the background, and how that travels |
// | `recipe.rs` | the primitive for `engine::primitive`: what travels, who asks, when to look again |
// | `calls.rs`, `steps.rs`, `outcome.rs`, `ids.rs` | what is asked, how that is written, what is answered, and the ids of those who are granted |
// | `scripts.rs` | the scripts of each layout |
// | `arrivals.rs`, `ends.rs`, `peers_lock.rs` | what it remembers: who came when, when holders expire, the lock of peers |

mod call;
mod fair;
mod handle;
mod holders;
mod names;
mod set;
mod settings;
mod slots;
mod string_lock;
mod timestamp;

pub use crate::units::Units;
pub use fair::FairSemaphore;
pub use set::SetSemaphore;
pub use slots::SlotSemaphore;
pub use string_lock::StringLock;
pub use timestamp::TimestampSemaphore;
