//! [`RReadWriteLock`].

use std::sync::{Arc, LazyLock};

use super::call::Kind;
use super::held::Holds;
use super::{RLock, names};
use crate::api::LockGuard;
use crate::engine::Core;
use crate::engine::request::Script;
use crate::error::Result;
use crate::lua;
use crate::queue;

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(lua::READ_WRITE));

/// A lock that many may hold for reading, or one for writing; shared with Java's `RReadWriteLock` of the same name.
///
/// A handle, made without I/O by [`Client::read_write_lock`](crate::Client::read_write_lock). Its sides, [`read`](Self::read) and
/// [`write`](Self::write), are [`RLock`]s: guards, leases, renewal, waiting, errors and cancel safety are as there.
///
/// ```no_run
/// # async fn example(client: redisson_semaphore::Client) -> redisson_semaphore::Result<()> {
/// let prices = client.read_write_lock("prices"); // Java: redisson.getReadWriteLock("prices")
/// let reader = prices.read().guard().await?; // beside other readers
/// reader.unlock().await?;
///
/// let writer = prices.write().guard().await?; // alone
/// let reader = prices.downgrade(writer).await?; // no other writer comes in between
/// reader.unlock().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Owner
///
/// Each guard is an owner of its own. For `lock` and `unlock` the handle is the owner, of both sides: an owner that writes may take the
/// reading side, too, and goes on as a reader when it gives the writing side back. An owner that reads waits for itself where it wants to
/// write.
///
/// # Waiting
///
/// Callers of both sides stand in one queue, in the order in which they came. Readers that follow each other are served together. A reader
/// waits behind a writer that came before it, so readers of this crate do not starve its writers; one that reads already does not wait.
/// `try_lock` takes the lock past those that wait. JVMs do not queue: their readers join readers at any time,
/// and their writers wait until no reader of either side is left.
///
/// A JVM whose writer goes on as a reader tells nobody. Readers of this crate learn of it by the slow check.
///
/// # In Redis
///
/// | | |
/// |---|---|
/// | key `name` | hash: `mode` is `read` or `write`; a reader `<client id>:<number>` or the writer `<client id>:<number>:write`, and how often it holds the lock; with a time to live, that of the longest hold |
/// | key `{name}:<client id>:<number>:rwlock_timeout:<n>` | string: `1`, with the time to live of a reader's `n`-th hold |
/// | channel `redisson_rwlock:{name}` | `0` or `1` when the lock has become free for JVMs, which wakes one or all of their waiters; `1` when they may read; with a `+` before it while a client of this crate waits |
/// | keys `redisson_rwlock_waiters:{name}`, `redisson_rwlock_notes:{name}`, `redisson_rwlock_once:{name}:<client id>` | as those of [`RLock`](RLock#in-redis); the kind of an entry is `r` or `w` |
///
/// Scripts: `lua/lock/steps.lua` behind `lua/read_write/hold.lua` and `lua/queue/`; `lua/engine/renew.lua` renews. A script in which a
/// reader goes looks at the holds of all readers that are left, as Redisson's does.
///
/// # DIFFERENCE from Redisson
///
/// As [`RLock`]; and
///
/// - That the longest lease counts is meant of each side: the write lock goes with the last hold of the writer, also where its owner reads on.
/// - Redisson adds the lease of a writer's second hold to what is left of the first. Here the longer one counts.
/// - Readers that wait learn of a writer of this crate that goes on as a reader, also those in JVMs.
/// - A reader with several holds gives back the one that ends first. Redisson takes away the time-out of the latest.
///
/// # Limits
///
/// - The lease of a writer ends with the lock's time to live: where its owner reads, too, other callers get in when that hold is over, also
///   where it is given back before the writing side.
/// - While another reader keeps the entry of a reader whose lease is over, `unlock` of that one is `Ok`, and it counts as held.
/// - The watchdog renews all holds of an owner together, also those with a lease.
/// - Readers of one owner that always overlap keep writers out, as one that reads already does not wait.
/// - The watchdog of a JVM sets the end of the whole lock. Where the JVM is killed, a reader whose lease is longer than that watchdog's
///   time-out loses its hold when that is over, and does not learn of it.
/// - A hash of the same name without a mode, as an [`RLock`] has, counts as held for writing by somebody else; Redisson writes into it.
#[derive(Clone, Debug)]
pub struct RReadWriteLock {
    read: RLock,
    write: RLock,
}

impl RReadWriteLock {
    pub(crate) fn new(core: &Arc<Core>, name: &str) -> Self {
        let names = names::of_read_write(name, &core.config.name_mapper, core.id());
        let place = Arc::clone(names.0.record());
        let queue = queue::Object::at(core, place, names, &SCRIPT, Holds::shared);
        let number = core.next_owner();
        let side = |kind| RLock::of_owner(core, &queue, number, kind).for_itself();
        RReadWriteLock {
            read: side(Kind::Read),
            write: side(Kind::Write),
        }
    }

    /// This lock for the owner number `id`; see [`RLock::with_owner`].
    #[must_use]
    pub fn with_owner(&self, id: u64) -> Self {
        RReadWriteLock {
            read: self.read.with_owner(id),
            write: self.write.with_owner(id),
        }
    }

    /// The name that the handle was made with, before mapping.
    #[must_use]
    pub fn name(&self) -> &str {
        self.read.name()
    }

    /// The side for readers. Its `is_locked` tells whether anybody reads, its `force_unlock` takes the lock from all readers; both say
    /// `false` while somebody only writes. While a writer reads, too, `is_locked` says `true`, and `force_unlock` says `false` and takes nothing.
    /// Redisson: `readLock()`.
    #[must_use]
    pub fn read(&self) -> RLock {
        self.read.clone()
    }

    /// The side for one writer. Its `is_locked` tells whether anybody writes, its `force_unlock` takes the lock from the writer; both say
    /// `false` while others read. Redisson: `writeLock()`.
    #[must_use]
    pub fn write(&self) -> RLock {
        self.write.clone()
    }

    /// Takes the reading side for the owner of `writer`, and gives `writer` back: no other writer comes in between. The hold is renewed, as
    /// with [`with_owner`](RLock::with_owner) also where the new guard is forgotten.
    ///
    /// # Errors
    ///
    /// [`NotHeld`](crate::Error::NotHeld) where the lock was lost; otherwise those of [`RLock::lock`]. `writer` is given back in any case.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, both are given back.
    pub async fn downgrade(&self, writer: LockGuard) -> Result<LockGuard> {
        let number = writer.handle().owner().rsplit(':').next();
        let number = number.and_then(|number| number.parse().ok());
        let reader = self.read.with_owner(number.unwrap_or(0));
        let not_held = || crate::Error::NotHeld {
            name: self.name().to_owned(),
            owner: writer.handle().owner().to_owned(),
        };
        let held = match writer.is_lost() || writer.handle().name() != self.name() {
            true => None,
            false => reader.hold(Some(std::time::Duration::ZERO)).await?,
        };
        let guard = held.map(|hold| LockGuard::new(Arc::new(reader), hold));
        let guard = guard.ok_or_else(not_held)?;
        writer.unlock().await?;
        Ok(guard)
    }
}

impl RLock {
    /// Whether anybody holds this side of a read-write lock, by the length of the word for its mode. Redis: `HSTRLEN`, `HLEN`.
    pub(super) async fn is_side_locked(&self) -> Result<bool> {
        let mode = self
            .queue
            .read_field("is_locked", "HSTRLEN", "mode")
            .await?;
        Ok(match (self.kind, mode) {
            (Kind::Write, mode) => mode == 5,
            (_, 5) => self.queue.read("is_locked", "HLEN").await? > 2,
            (_, mode) => mode == 4,
        })
    }
}
