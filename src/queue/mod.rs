//! How callers wait: one queue in Redis, served by the script that frees something.
//!
//! Callers that must wait stand in a zset, in the order of their arrival, whichever process they are in. A script that frees permits
//! moves them to the first entries that they suffice for, and notifies the clients of these.
//!
//! A *grant* is a short lease. The client confirms it, and its caller goes on; a client that does not confirm in time loses
//! the grant to the next in the queue. The permits of a guard are a grant under a longer lease, and its confirmation is the first
//! renewal. So a guard may go on at once when the notification is fresh, and the permits of a killed process come back.
//!
//! *Entries belong to the client, not to one caller.* The first 64 waiters of a client have an entry, and so have the
//! first 64 of each smaller amount; a grant goes to the earliest waiter that wants the same. A surplus entry leaves the queue. A release serves a
//! waiter of the same client without Redis while no other client has waited for longer.
//!
//! One batch of an object is under way at a time. It carries all calls that came meanwhile, has a number, and is sent again as
//! it is until it is answered: the script keeps the number and the answer of the client's last batch, so it takes
//! effect once. A notification that is lost costs order, never permits: all entries are confirmed anew when the subscription is made
//! anew, when a grant has run out, and every few seconds while a caller waits.
//!
//! The steps of a batch of one client, and the answer of its script (the unit test [`tests::cases::a_batch_reads_so`] has it from the code):
//!
//! ```text
//! release 1 1                  one permit comes back, by one call
//! wait 2 1 a 7 1500 0 3000 1   two permits for one caller: kind a, ticket 7, it has waited for 1500 us, no entry of the client stands
//!                              before it, its grant would last for 3000 ms, and it may queue
//! done 1 -1 -1 0 0 1000000000 1 0 |
//!                              one permit is free; no batch is asked for, no other client waits, no JVM listens, nor does this client to
//!                              JVMs; the server's clock in us; one release was carried out, and no caller was served
//! ```
//!
//! A latch grants nothing, so its waiters have no entries. They ask together when one joins them, when a message comes or may have been
//! missed, and when the latch may have vanished.
//!
//! ```text
//! caller -> Object -> State (no I/O) -> Batch -> Core::carry_out -> lua/queue, and the primitive's part
//!             ^ wake     ^ answer, notification
//! ```
//!
//! # One wait
//!
//! 1. `Object::wait` adds the waiter (`State::join`). Where the object is at rest its caller carries the round out itself, else a task does.
//! 2. `State::depart` chooses the next batch. In its *runs* stand the waiters without an entry, each with a ticket for the entry that it may
//!    get. `Object::round` sends it.
//! 3. The script grants what is free, or makes an entry. `State::answered` gives the grant to the earliest waiter that wants the same
//!    (`give_to_waiter`), or notes the entry in `entries`.
//! 4. Some script frees permits, and a notification comes (`State::notified`). A guard has its grant by that, which is `unconfirmed` until a batch
//!    *extends* it. Other waiters have theirs when a batch has *confirmed* it.
//! 5. `Object::finish` sends outcomes when no mutex is held, starts the next round, and subscribes to what is to be heard.
//!
//! A waiter that goes, or is served otherwise, leaves its entry in `leaving`, or as a *surplus* one; a batch takes it out of the queue.
//! Without an answer `failures` ends the callers whose time is over, and leaves the rest to the next batch.
//!
//! # Files, in the order to read
//!
//! | File | Contents |
//! |---|---|
//! | `outcome`, `primitive` | wants and grants; what a primitive says of its calls, and of what is held |
//! | `waiters`, `entries`, `by_want` | the tables of waiters and entries |
//! | `state` | all that a client knows of an object, and its times; what callers do |
//! | `sending`, `batch` | the choice of a batch; a batch as arguments of the script |
//! | `answer`, `effects`, `grants` | the answer as it reads; its effect on waiters and calls |
//! | `messages`, `known`, `hand_off`, `announcements` | notifications; other clients and JVMs |
//! | `failures`, `closing` | batches without an answer; the end of the client |
//! | `object`, `pending`, `round` | the object with its channels and its timer; a caller's future; one batch from departure to answer |
//! | `held` | the leases of the guards of a semaphore |
//!
//! `src/lua.rs` puts a script together from the files in `lua/`; these share their `local` names. Read one from its end: `steps.lua` calls the
//! others. Where nobody waits, `short.lua` does the whole work of one call. Its effect must be that of `steps.lua`.
//!
//! # Keys and arguments of a script
//!
//! | | |
//! |---|---|
//! | `KEYS[1..3]` | record, object, channel of JVMs |
//! | `KEYS[4..6]` | queue; grants, or another key of the primitive; notes |
//! | `ARGV[1..4]` | publish command, number of the batch, life of the record in ms, earlier sendings (`Request`) |
//! | `ARGV[5..8]` | client's id, lease of a guard in ms, what is held (`Held::header`), for how many ms queue and notes are kept |
//! | `ARGV[9..10]` | releases of JVMs that were heard, callers that were served without Redis |
//! | `ARGV[11..]` | the steps |

mod announcements;
mod answer;
mod batch;
mod by_want;
mod closing;
mod effects;
mod entries;
mod failures;
mod grants;
mod hand_off;
mod held;
mod known;
mod messages;
mod object;
mod outcome;
mod pending;
mod primitive;
mod round;
mod sending;
mod state;
mod waiters;

#[cfg(test)]
mod tests;

pub(crate) use self::answer::taking;
pub(crate) use self::held::Leases;
pub(crate) use self::object::{Object, QueueKeys};
pub(crate) use self::outcome::{Amount, Grant, Outcome, Taken, Ticket, Want};
pub(crate) use self::primitive::{Call, Held, NotDone, Nothing, Overtaking, Primitive, Result};
