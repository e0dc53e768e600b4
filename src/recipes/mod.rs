//! The classic recipes: semaphores and a lock in the key layouts of "Redis in Action" and its relatives, as Java
//! and Python services write them by hand. Same keys, same values; but each step is one atomic script here.
//!
//! The guide has a chapter about [recipes](crate::guide::recipes), with an example.
//!
//! | Type | Keys of a semaphore `name` | A permit lasts |
//! |---|---|---|
//! | [`TimestampSemaphore`] | zset `name`: id -> time | until it is not refreshed for the timeout |
//! | [`FairSemaphore`] | zset `name`: id -> time; zset `name:owner`: id -> counter; string `name:counter`; perhaps a lock `lock:...`, perhaps a list of wake-up tokens | the same |
//! | [`SetSemaphore`] | set `name` of ids | for ever |
//! | [`SlotSemaphore`] | strings `name:1` to `name:limit`: id | as a key with an expiry |
//! | [`StringLock`] | string `lock:name`, or another [`key`](StringLock::key): id | the same |
//!
//! The semaphores are used through [`LeasedSemaphore`](crate::LeasedSemaphore), the lock through [`Lock`](crate::Lock).
//!
//! # Beside other programs
//!
//! - **Times** that this crate writes are the server's. Times of other programs are taken as they are: a program whose clock is
//!   ahead keeps its permits longer, an infinite time is kept until it is released. The [`Units`] must be the same for
//!   all; times that are off by a factor of 1,000 are [`WrongUnits`](crate::Error::WrongUnits) before anything is changed.
//! - **Waiting**: callers of this crate stand in one queue in Redis, in the order of their arrival by the server's clock, whichever process
//!   they are in. The script that frees a permit grants it to the first entry whose handle's limit leaves room, and notifies its client, which
//!   confirms the grant; then the caller has its permit. A grant that is not confirmed within 3 s, or its time where that is shorter, goes to the next one,
//!   and the other entries of that client leave the queue until it is heard from. A client counts as waiting once it is subscribed to its
//!   channel. The first 64 callers of a client have an entry.
//! - **Peers send no message** when they release. The first two clients in the queue check for that: when the first holder expires (of the first
//!   128 slots), and at the pace of the setting `check_interval` (100 ms). If both are frozen or were killed, the others find it by the slow check
//!   ([`safety_interval`](crate::ClientBuilder::safety_interval)).
//! - **Peers' share**: peers do not queue. While callers of this crate wait, one permit of five that come back is left free for 3 ms where there
//!   was a sign of peers within 10 s, and one of 31 else.
//! - **The list** of holders is read 256 at a time, so that no script is a long one. An id that holds all the while is listed once. One that
//!   comes or goes meanwhile may be listed or not.
//! - **The limit** is a setting of each program. A handle never takes a permit while as many as its own limit are
//!   held. Where it was lowered, it waits until enough have been released, and blocks no handle with a higher one.
//! - **Ids** look like UUIDs: the first 19 characters of the client's id, and a number that rises within the client.
//! - **Once**: a call whose reply was lost is repeated without taking effect twice.
//! - **ACL**: the [guide](crate::guide::operations#permissions) has the permissions of a user.
//! - **Clusters**: all keys of a semaphore must share a slot: give its name a part in braces, as in `{name}`.
//!   Without, a server of a cluster refuses the script, which is [`InvalidName`](crate::Error::InvalidName).
//!
//! # What stands beside a semaphore
//!
//! | | |
//! |---|---|
//! | key `redisson_sc_recipe_queue:<layout>:{name}` | zset: an entry for each waiter, with its arrival in microseconds of the server's clock |
//! | channel `redisson_sc_recipe_queue:<layout>:{name}:<client>` | `grant`, a ticket, the time and the slot; `none` and a ticket: the entry could not be granted; `first` and microseconds: the client looks for peers from now on; `gone`: its entries have left the queue |
//! | key `redisson_sc_recipe_grants:<layout>:{name}` | zset: an entry for each grant that is not confirmed, with the end of it |
//! | key `redisson_sc_recipe_notes:<layout>:{name}` | hash: the highest limit of those that wait, and what was seen of peers |
//! | key `redisson_sc_recipe_once:<layout>:{name}:<client>` | string: the number of the client's last batch of calls and its answer, for once-only execution |
//!
//! `<layout>` is `timestamp`, `fair`, `set`, `slots` or `lock`; of a string lock the name is that of its key. `<client>` is the client's id, but
//! that the last 12 digits differ for handles with other settings. An entry reads `<client>:<kind><ticket>:<limit>:<life of its grant in
//! ms>:<ms that the permit lasts>`; the kind is `n` for slots, `e` for sets, else `p`. Queue and notes vanish a minute after their last use;
//! records as [those of semaphores](crate::RSemaphore#in-redis). Deleting the queue or the notes costs the order of some waiters. Deleting the
//! grants of a set leaves ids of clients that have died before they confirmed them.
//!
//! A granted permit that is not confirmed stands among the holders, and ends soon: in a zset with a time at which it has all but expired, as a
//! slot or lock with a short time to live. In a set the next script of this crate takes it out.
//!
//! # Waiting, errors and effects of all operations
//!
//! All calls of a client that are made at the same time travel in one script: `lua/recipes/steps.lua`, behind the part for the layout and those of
//! `lua/queue`. Guards are refreshed by `lua/engine/renew.lua`, 250 with one script. That waits for no call; a
//! `refresh` by hand waits for the calls before it, and for replicas where the client waits for these.
//!
//! Cancel safety: a call that is dropped before it was sent is forgotten, except for a release. A grant to a caller that has gone is
//! released.
//!
//! Errors: [`InvalidName`](crate::Error::InvalidName), [`InvalidLimit`](crate::Error::InvalidLimit) and
//! [`InvalidDuration`](crate::Error::InvalidDuration) for settings that cannot be used;
//! [`WrongType`](crate::Error::WrongType), [`WrongUnits`](crate::Error::WrongUnits) and
//! [`NotANumber`](crate::Error::NotANumber) for what is found in the keys; those of the server and the connection
//! [as everywhere](crate::guide::promises#errors). Calls that travel in one script get the same error.

// | File | What it holds |
// |---|---|
// | `fair.rs`, `timestamp.rs`, `set.rs`, `slots.rs`, `string_lock.rs` | the public types |
// | `settings.rs`, `names.rs` | the settings of a handle, and the keys that follow from them |
// | `handle.rs` | what all of them share: the calls, what is refreshed in the background, and the trait for semaphores |
// | `call.rs`, `holders.rs` | the primitive for `queue`: what is asked for, and what is answered |

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
