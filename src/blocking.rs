//! The most used calls, guards and errors for code without an async runtime. [`Client::run`] carries out the others.
//!
//! A [`Client`] has a thread of its own that looks after its connections; calls are made, and waited for, on the thread that makes
//! them. Handles and guards go to any thread. Each type here is a thin wrapper around the async type of the same name, which documents
//! its effects, guarantees and errors.
//!
//! ```no_run
//! use redisson_semaphore::blocking::Client;
//! use std::time::Duration;
//!
//! # fn main() -> redisson_semaphore::Result<()> {
//! let client = Client::connect("redis://127.0.0.1:6379")?;
//! let seats = client.semaphore("seats");
//! seats.try_set_permits(8)?;
//!
//! let seat = seats.permit(1)?;                     // waits; given back when dropped, or by release()
//! if let Some(two) = seats.permit_for(2, Duration::from_secs(1))? {
//!     println!("{} seats for a while", two.permits());
//! }
//! seat.release()?;
//!
//! let done = client.run(client.asynchronous().semaphore("seats").delete())?;   // whatever has no shell
//! println!("deleted: {done}");
//! client.shutdown()
//! # }
//! ```
//!
//! # Panics
//!
//! All that waits panics inside of an async runtime, where nothing may block: there the async calls are at hand.

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::api::{self, Held, Hold, Holder, RemainingTtl};
use crate::client::ClientBuilder;
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::stats::Stats;

/// A client for code without a runtime; see [`Client`](crate::Client).
///
/// Its thread ends when the last handle and guard are gone, and what they owe has been carried out, as far as the process lives
/// that long: [`shutdown`](Client::shutdown) waits for that.
#[derive(Debug, Clone)]
pub struct Client {
    client: crate::Client,
    runtime: Handle,
}

impl Client {
    /// Connects with the default settings; see [`Client::connect`](crate::Client::connect).
    pub fn connect(url: impl Into<String>) -> Result<Self> {
        Self::with(crate::Client::builder(url))
    }

    /// Connects with these settings; see [`ClientBuilder::connect`].
    ///
    /// # Errors
    ///
    /// As there; [`Error::Configuration`] where no thread can be had.
    pub fn with(builder: ClientBuilder) -> Result<Self> {
        let (end, ended) = oneshot::channel::<()>();
        let runtime = start(ended).map_err(|error| Error::Configuration {
            reason: format!("no thread for the client: {error}"),
        })?;
        let client = runtime.block_on(builder.connect())?;
        client.ends_with(end);
        Ok(Client { client, runtime })
    }

    /// The client for async calls, to be [run](Self::run).
    #[must_use]
    pub fn asynchronous(&self) -> &crate::Client {
        &self.client
    }

    /// Waits for a future: for what has no shell here.
    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// See [`Client::semaphore`](crate::Client::semaphore).
    #[must_use]
    pub fn semaphore(&self, name: &str) -> Semaphore {
        Semaphore::new(self, self.client.semaphore(name))
    }

    /// See [`Client::permit_expirable_semaphore`](crate::Client::permit_expirable_semaphore).
    #[must_use]
    pub fn permit_expirable_semaphore(&self, name: &str) -> LeasedSemaphore {
        LeasedSemaphore::new(self, self.client.permit_expirable_semaphore(name))
    }

    /// See [`Client::lock`](crate::Client::lock).
    #[must_use]
    pub fn lock(&self, name: &str) -> Lock {
        Lock::new(self, self.client.lock(name))
    }

    /// See [`Client::fenced_lock`](crate::Client::fenced_lock).
    #[must_use]
    pub fn fenced_lock(&self, name: &str) -> Lock {
        Lock::new(self, self.client.fenced_lock(name))
    }

    /// See [`Client::fair_lock`](crate::Client::fair_lock).
    #[must_use]
    pub fn fair_lock(&self, name: &str) -> Lock {
        Lock::new(self, self.client.fair_lock(name))
    }

    /// See [`Client::read_write_lock`](crate::Client::read_write_lock).
    #[must_use]
    pub fn read_write_lock(&self, name: &str) -> ReadWriteLock {
        let lock = self.client.read_write_lock(name);
        ReadWriteLock {
            read: Lock::new(self, lock.read()),
            write: Lock::new(self, lock.write()),
        }
    }

    /// See [`Client::count_down_latch`](crate::Client::count_down_latch).
    #[must_use]
    pub fn count_down_latch(&self, name: &str) -> CountDownLatch {
        CountDownLatch::new(self, self.client.count_down_latch(name))
    }

    /// See [`Client::stats`](crate::Client::stats).
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.client.stats()
    }

    /// See [`Client::shutdown`](crate::Client::shutdown).
    pub fn shutdown(&self) -> Result<()> {
        self.run(self.client.shutdown())
    }

    /// See [`Client::shutdown_for`](crate::Client::shutdown_for).
    pub fn shutdown_for(&self, limit: Duration) -> Result<()> {
        self.run(self.client.shutdown_for(limit))
    }
}

/// A thread that carries on whatever is spawned, until there is no client any more.
fn start(ended: oneshot::Receiver<()>) -> std::io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    thread::Builder::new()
        .name("redisson-sem".to_owned())
        .spawn(move || {
            // Never sent: it is dropped.
            let _ = runtime.block_on(ended);
        })?;
    Ok(handle)
}

/// A shell around the handles of a trait.
macro_rules! shell {
    (
        $(#[$doc:meta])*
        $name:ident;
        now { $(fn $now:ident(&self) -> $answer:ty;)* }
        waits { $(fn $verb:ident(&self $(, $arg:ident: $arg_type:ty)*) -> $result:ty;)* }
        guards {
            $(fn $guard:ident(&self $(, $guard_arg:ident: $guard_type:ty)*) -> $guarded:ty, $shell:ident;)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub struct $name {
            inner: Arc<dyn api::$name>,
            /// Where it is of no client, as in memory, nothing else keeps the runtime that its waits need.
            client: Client,
        }

        impl $name {
            /// A shell around any of them: of the classic recipes, or in memory. One in Redis has to be of this `client`, which lives as
            /// long as any shell, or guard of one.
            pub fn new(client: &Client, inner: impl api::$name) -> Self {
                $name {
                    inner: Arc::new(inner),
                    client: client.clone(),
                }
            }

            $(
                #[doc = concat!("See [`", stringify!($now), "`](crate::", stringify!($name), "::", stringify!($now), ").")]
                #[must_use]
                pub fn $now(&self) -> $answer {
                    self.inner.$now()
                }
            )*

            $(
                #[doc = concat!("See [`", stringify!($verb), "`](crate::", stringify!($name), "::", stringify!($verb), ").")]
                pub fn $verb(&self $(, $arg: $arg_type)*) -> Result<$result> {
                    self.client.run(self.inner.$verb($($arg),*))
                }
            )*

            $(
                #[doc = concat!("See [`", stringify!($guard), "`](crate::", stringify!($name), "::", stringify!($guard), ").")]
                pub fn $guard(&self $(, $guard_arg: $guard_type)*) -> Result<$guarded> {
                    let taken = self.client.run(self.inner.$guard($($guard_arg),*))?;
                    Ok($shell(taken, &self.client))
                }
            )*
        }
    };
}

shell! {
    /// A counting semaphore; see [`Semaphore`](crate::Semaphore).
    Semaphore;
    now {
        fn name(&self) -> &str;
    }
    waits {
        fn try_set_permits(&self, permits: u32) -> bool;
        fn try_set_permits_for(&self, permits: u32, ttl: Duration) -> bool;
        fn acquire(&self, permits: u32) -> ();
        fn try_acquire(&self, permits: u32) -> bool;
        fn try_acquire_for(&self, permits: u32, wait: Duration) -> bool;
        fn release(&self, permits: u32) -> ();
        fn release_if_exists(&self, permits: u32) -> bool;
        fn add_permits(&self, delta: i32) -> ();
        fn drain_permits(&self) -> i64;
        fn available_permits(&self) -> i64;
    }
    guards {
        fn permit(&self, permits: u32) -> Permit, permit;
        fn permit_for(&self, permits: u32, wait: Duration) -> Option<Permit>, some_permit;
        fn try_permit(&self, permits: u32) -> Option<Permit>, some_permit;
    }
}

shell! {
    /// A semaphore whose permits have ids; see [`LeasedSemaphore`](crate::LeasedSemaphore).
    ///
    /// ```no_run
    /// # fn main() -> redisson_semaphore::Result<()> {
    /// # let client = redisson_semaphore::blocking::Client::connect("redis://127.0.0.1")?;
    /// use redisson_semaphore::blocking::LeasedSemaphore;
    ///
    /// let fair = LeasedSemaphore::new(&client, client.asynchronous().fair_semaphore("jobs", 3));
    /// let job = fair.permit()?;
    /// # drop(job);
    /// # Ok(())
    /// # }
    /// ```
    LeasedSemaphore;
    now {
        fn name(&self) -> &str;
        fn limit(&self) -> Option<u32>;
        fn lease(&self) -> Option<Duration>;
    }
    waits {
        fn acquire(&self) -> Held;
        fn try_acquire(&self) -> Option<Held>;
        fn try_acquire_for(&self, wait: Duration) -> Option<Held>;
        fn release(&self, id: &str) -> bool;
        fn refresh(&self, id: &str) -> bool;
        fn holders(&self) -> Vec<Holder>;
        fn release_all(&self) -> u64;
    }
    guards {
        fn permit(&self) -> LeasedPermit, leased_permit;
        fn permit_for(&self, wait: Duration) -> Option<LeasedPermit>, some_leased_permit;
        fn try_permit(&self) -> Option<LeasedPermit>, some_leased_permit;
    }
}

shell! {
    /// A lock; see [`Lock`](crate::Lock). Each guard is an owner of its own. Calls without a guard go by handle: its clones are one owner.
    Lock;
    now {
        fn name(&self) -> &str;
        fn owner(&self) -> &str;
        fn lease(&self) -> Lease;
    }
    waits {
        fn lock(&self) -> ();
        fn try_lock(&self) -> bool;
        fn try_lock_for(&self, wait: Duration) -> bool;
        fn unlock(&self) -> ();
        fn force_unlock(&self) -> bool;
        fn is_locked(&self) -> bool;
        fn is_held(&self) -> bool;
        fn hold_count(&self) -> u32;
        fn remaining_ttl(&self) -> RemainingTtl;
    }
    guards {
        fn guard(&self) -> LockGuard, guard;
        fn try_guard(&self) -> Option<LockGuard>, some_guard;
        fn guard_for(&self, wait: Duration) -> Option<LockGuard>, some_guard;
    }
}

impl Lock {
    /// See [`Lock::with_lease`](crate::Lock::with_lease).
    #[must_use]
    pub fn with_lease(&self, lease: Duration) -> Lock {
        Lock {
            inner: self.inner.with_lease(lease),
            client: self.client.clone(),
        }
    }
}

/// Both sides of a read-write lock, of one owner; see [`RReadWriteLock`](crate::RReadWriteLock).
#[derive(Debug, Clone)]
pub struct ReadWriteLock {
    read: Lock,
    write: Lock,
}

impl ReadWriteLock {
    /// The side for readers.
    #[must_use]
    pub fn read(&self) -> &Lock {
        &self.read
    }

    /// The side for one writer.
    #[must_use]
    pub fn write(&self) -> &Lock {
        &self.write
    }
}

shell! {
    /// A count-down latch; see [`CountDownLatch`](crate::CountDownLatch).
    CountDownLatch;
    now {
        fn name(&self) -> &str;
    }
    waits {
        fn try_set_count(&self, count: u32) -> bool;
        fn count_down(&self) -> ();
        fn count(&self) -> i64;
        fn wait(&self) -> ();
        fn wait_for(&self, wait: Duration) -> bool;
    }
    guards {}
}

/// A shell around a guard.
macro_rules! guard_shell {
    ($(#[$doc:meta])* $name:ident, $make:ident, $make_some:ident) => {
        $(#[$doc])*
        #[must_use = "it is given back when the guard is dropped"]
        pub struct $name {
            inner: api::$name,
            client: Client,
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.inner.fmt(f)
            }
        }

        fn $make(inner: api::$name, client: &Client) -> $name {
            $name {
                inner,
                client: client.clone(),
            }
        }

        fn $make_some(inner: Option<api::$name>, client: &Client) -> Option<$name> {
            inner.map(|inner| $make(inner, client))
        }
    };
}

guard_shell! {
    /// Permits held; given back when dropped, without blocking. See [`Permit`](crate::Permit).
    Permit, permit, some_permit
}

impl Permit {
    /// How many permits are held.
    #[must_use]
    pub fn permits(&self) -> u32 {
        self.inner.permits()
    }

    /// See [`Permit::split`](crate::Permit::split).
    pub fn split(&mut self, permits: u32) -> Option<Permit> {
        some_permit(self.inner.split(permits), &self.client)
    }

    /// See [`Permit::merge`](crate::Permit::merge).
    ///
    /// # Panics
    ///
    /// As there.
    pub fn merge(&mut self, other: Permit) {
        self.inner.merge(other.inner);
    }

    /// See [`Permit::release`](crate::Permit::release).
    pub fn release(self) -> Result<()> {
        self.client.run(self.inner.release())
    }

    /// See [`Permit::forget`](crate::Permit::forget).
    pub fn forget(self) -> u32 {
        self.inner.forget()
    }
}

guard_shell! {
    /// A permit held; refreshed in the background, and given back when dropped, without blocking. See
    /// [`LeasedPermit`](crate::LeasedPermit).
    LeasedPermit, leased_permit, some_leased_permit
}

impl LeasedPermit {
    /// The permit's id.
    #[must_use]
    pub fn id(&self) -> &str {
        self.inner.id()
    }

    /// See [`LeasedPermit::slot`](crate::LeasedPermit::slot).
    #[must_use]
    pub fn slot(&self) -> Option<u32> {
        self.inner.slot()
    }

    /// The lease, as far as it is known here.
    #[must_use]
    pub fn lease(&self) -> &Lease {
        self.inner.lease()
    }

    /// Whether the permit has been lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.inner.is_lost()
    }

    /// See [`LeasedPermit::release`](crate::LeasedPermit::release).
    pub fn release(self) -> Result<bool> {
        self.client.run(self.inner.release())
    }

    /// See [`LeasedPermit::forget`](crate::LeasedPermit::forget).
    #[must_use = "the permit stays taken"]
    pub fn forget(self) -> Held {
        self.inner.forget()
    }
}

guard_shell! {
    /// A lock held; unlocked when dropped, without blocking. See [`LockGuard`](crate::LockGuard).
    LockGuard, guard, some_guard
}

impl LockGuard {
    /// See [`LockGuard::token`](crate::LockGuard::token).
    #[must_use]
    pub fn token(&self) -> Option<u64> {
        self.inner.token()
    }

    /// The lease, as far as it is known here.
    #[must_use]
    pub fn lease(&self) -> &Lease {
        self.inner.lease()
    }

    /// Whether the lock has been lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.inner.is_lost()
    }

    /// See [`LockGuard::again`](crate::LockGuard::again).
    pub fn again(&self) -> Result<LockGuard> {
        Ok(guard(self.client.run(self.inner.again())?, &self.client))
    }

    /// See [`LockGuard::unlock`](crate::LockGuard::unlock).
    pub fn unlock(self) -> Result<()> {
        self.client.run(self.inner.unlock())
    }

    /// See [`LockGuard::forget`](crate::LockGuard::forget).
    #[must_use = "the lock stays held"]
    pub fn forget(self) -> Hold {
        self.inner.forget()
    }
}
