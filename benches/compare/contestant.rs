//! The contestants.

use std::fmt;

/// The programs that are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Make {
    /// This crate.
    Ours,
    /// This crate without local hand-off: Redis carries out every call.
    OursViaRedis,
    /// One script per call over the `redis` crate.
    Plain,
    /// The real Redisson in a JVM.
    Redisson,
    /// The fair semaphore of the classic recipes, of this crate.
    Fair,
    /// The original, with a round trip for each step.
    FairOriginal,
    /// The original in two transactions.
    FairInTransactions,
    /// The lock of this crate.
    Lock,
    /// Its fair lock.
    FairLock,
    /// The side for readers of its read-write lock.
    ReadLock,
    /// The side for writers.
    WriteLock,
    /// One script per call over the `redis` crate.
    LockPlain,
    /// The semaphore with ids of this crate.
    Leased,
    /// One script per call over the `redis` crate.
    LeasedPlain,
    /// This crate, with guards that are renewed.
    LeasedGuards,
    /// This crate, with guards that are dropped.
    Guards,
}

impl Make {
    /// The name on the command line and in file names.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Make::Ours => "ours",
            Make::OursViaRedis => "ours-via-redis",
            Make::Plain => "plain",
            Make::Redisson => "redisson",
            Make::Fair => "fair",
            Make::FairOriginal => "fair-original",
            Make::FairInTransactions => "fair-in-transactions",
            Make::Lock => "lock",
            Make::FairLock => "fair-lock",
            Make::ReadLock => "read-lock",
            Make::WriteLock => "write-lock",
            Make::LockPlain => "lock-plain",
            Make::Leased => "leased",
            Make::LeasedPlain => "leased-plain",
            Make::LeasedGuards => "leased-guards",
            Make::Guards => "guards",
        }
    }
}

/// A program and how its callers call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contestant {
    Ours,
    OursViaRedis,
    Plain,
    /// One thread a caller.
    RedissonSync,
    /// All callers as futures.
    RedissonAsync,
    Fair,
    FairOriginal,
    FairInTransactions,
    Lock,
    LockPlain,
    FairLock,
    ReadLock,
    WriteLock,
    /// One thread a caller.
    RedissonLock,
    /// One thread a caller.
    RedissonFairLock,
    /// One thread a caller.
    RedissonReadLock,
    /// One thread a caller.
    RedissonWriteLock,
    Leased,
    LeasedPlain,
    /// One thread a caller.
    RedissonLeasedSync,
    /// All callers as futures.
    RedissonLeasedAsync,
    Guards,
}

impl Contestant {
    pub(crate) fn make(self) -> Make {
        match self {
            Contestant::Ours => Make::Ours,
            Contestant::OursViaRedis => Make::OursViaRedis,
            Contestant::Plain => Make::Plain,
            Contestant::RedissonSync
            | Contestant::RedissonAsync
            | Contestant::RedissonLock
            | Contestant::RedissonFairLock
            | Contestant::RedissonReadLock
            | Contestant::RedissonWriteLock
            | Contestant::RedissonLeasedSync
            | Contestant::RedissonLeasedAsync => Make::Redisson,
            Contestant::Fair => Make::Fair,
            Contestant::FairOriginal => Make::FairOriginal,
            Contestant::FairInTransactions => Make::FairInTransactions,
            Contestant::Lock => Make::Lock,
            Contestant::FairLock => Make::FairLock,
            Contestant::ReadLock => Make::ReadLock,
            Contestant::WriteLock => Make::WriteLock,
            Contestant::LockPlain => Make::LockPlain,
            Contestant::Leased => Make::Leased,
            Contestant::LeasedPlain => Make::LeasedPlain,
            Contestant::Guards => Make::Guards,
        }
    }

    /// The `object` field of the Java peer's `crowd` command. The other programs have one kind of object only.
    pub(crate) fn object(self) -> &'static str {
        match self {
            Contestant::RedissonLock => "lock",
            Contestant::RedissonFairLock => "fair",
            Contestant::RedissonReadLock => "read",
            Contestant::RedissonWriteLock => "write",
            Contestant::RedissonLeasedSync | Contestant::RedissonLeasedAsync => "leased",
            _ => "semaphore",
        }
    }

    /// Whether the contestant is a lock, which needs no permits to be set.
    pub(crate) fn is_lock(self) -> bool {
        let makes = [Make::Lock, Make::FairLock, Make::ReadLock, Make::WriteLock];
        let objects = ["lock", "fair", "read", "write"];
        makes.contains(&self.make()) || objects.contains(&self.object())
    }

    /// The `mode` field of the Java peer's commands. The other programs have one mode only.
    pub(crate) fn mode(self) -> &'static str {
        match self {
            Contestant::RedissonSync
            | Contestant::RedissonLock
            | Contestant::RedissonFairLock
            | Contestant::RedissonReadLock
            | Contestant::RedissonWriteLock
            | Contestant::RedissonLeasedSync => "sync",
            _ => "async",
        }
    }
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Contestant::Ours
            | Contestant::Fair
            | Contestant::Lock
            | Contestant::FairLock
            | Contestant::ReadLock
            | Contestant::WriteLock
            | Contestant::Leased => "ours",
            Contestant::FairOriginal => "original",
            Contestant::FairInTransactions => "in transactions",
            Contestant::OursViaRedis => "ours via Redis",
            Contestant::Plain | Contestant::LockPlain | Contestant::LeasedPlain => "plain",
            Contestant::RedissonSync
            | Contestant::RedissonLock
            | Contestant::RedissonFairLock
            | Contestant::RedissonReadLock
            | Contestant::RedissonWriteLock
            | Contestant::RedissonLeasedSync => "Redisson sync",
            Contestant::RedissonAsync | Contestant::RedissonLeasedAsync => "Redisson async",
            Contestant::Guards => "guards",
        })
    }
}
