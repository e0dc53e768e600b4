//! The most used calls, guards and errors for code without an async runtime. [`Client::run`] carries out the others.
//!
//! A [`Client`] has a thread of its own that looks after its connections; calls are made, and waited for, on the thread that makes
//! them. Handles and guards go to any thread. Each type here is a thin wrapper around the async type of the same name, which documents
//! its effects, guarantees and errors. It dereferences to that type: calls that do not wait, such as `name` or `is_lost`, are made on it,
//! and async calls without a wrapper are passed to [`Client::run`].
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
//! let done = client.run(client.asynchronous().semaphore("seats").delete())?;   // whatever has no wrapper
//! println!("deleted: {done}");
//! client.shutdown()
//! # }
//! ```
//!
//! # Panics
//!
//! All that waits panics inside of an async runtime, where nothing may block: there the async calls are at hand.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::api::{self, Held, Hold, Holder, RemainingTtl};
use crate::client::ClientBuilder;
use crate::error::{Error, Result};
use crate::stats::Stats;

/// A client for code without a runtime; see [`Client`](crate::Client).
///
/// Its thread ends when the last handle and guard are gone, and what they defer has been carried out, as far as the process lives
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
        let failed = |error| Error::Configuration {
            reason: format!("no thread for the client: {error}"),
        };
        let background = Builder::new_current_thread().enable_all().build();
        let background = background.map_err(failed)?;
        let runtime = background.handle().clone();
        // Carries on whatever is spawned, until there is no client any more and drops the end.
        let carry_on = move || drop(background.block_on(ended));
        let thread = thread::Builder::new().name("redisson-sem".to_owned());
        thread.spawn(carry_on).map_err(failed)?;
        let client = runtime.block_on(builder.connect())?;
        client.ends_with(end);
        Ok(Client { client, runtime })
    }

    /// The client for async calls, to be [run](Self::run).
    #[must_use]
    pub fn asynchronous(&self) -> &crate::Client {
        &self.client
    }

    /// Waits for a future: for what has no wrapper here.
    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
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

/// Methods of the client that make a wrapper around the handle of the same name.
macro_rules! handles {
    ($(fn $name:ident(&self) -> $wrapper:ident;)*) => {
        impl Client {
            $(
                #[doc = concat!("See [`Client::", stringify!($name), "`](crate::Client::", stringify!($name), ").")]
                #[must_use]
                pub fn $name(&self, name: &str) -> $wrapper {
                    $wrapper::new(self, self.client.$name(name))
                }
            )*
        }
    };
}

handles! {
    fn semaphore(&self) -> Semaphore;
    fn permit_expirable_semaphore(&self) -> LeasedSemaphore;
    fn lock(&self) -> Lock;
    fn fenced_lock(&self) -> Lock;
    fn fair_lock(&self) -> Lock;
    fn count_down_latch(&self) -> CountDownLatch;
}

/// A wrapper around the handles of a trait.
macro_rules! wrapper {
    (
        $(#[$doc:meta])*
        $name:ident;
        waits { $(fn $verb:ident(&self $(, $arg:ident: $arg_type:ty)*) -> $result:ty;)* }
        guards { $(fn $guard:ident(&self $(, $guard_arg:ident: $guard_type:ty)*) -> $held:ty;)* }
        tries { $(fn $try_:ident(&self $(, $try_arg:ident: $try_type:ty)*) -> $given:ty;)* }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub struct $name {
            inner: Arc<dyn api::$name>,
            /// Where it is of no client, as in memory, nothing else keeps the runtime that its waits need.
            client: Client,
        }

        impl $name {
            /// A wrapper around any of them: of the classic recipes, or in memory. One in Redis has to be of this `client`, which lives as
            /// long as any wrapper, or guard of one.
            pub fn new(client: &Client, inner: impl api::$name) -> Self {
                $name {
                    inner: Arc::new(inner),
                    client: client.clone(),
                }
            }

            $(
                #[doc = concat!("See [`", stringify!($verb), "`](crate::", stringify!($name), "::", stringify!($verb), ").")]
                pub fn $verb(&self $(, $arg: $arg_type)*) -> Result<$result> {
                    self.client.run(self.inner.$verb($($arg),*))
                }
            )*

            $(
                #[doc = concat!("See [`", stringify!($guard), "`](crate::", stringify!($name), "::", stringify!($guard), ").")]
                pub fn $guard(&self $(, $guard_arg: $guard_type)*) -> Result<$held> {
                    let held = self.client.run(self.inner.$guard($($guard_arg),*))?;
                    Ok(Guard::new(held, &self.client))
                }
            )*

            $(
                #[doc = concat!("See [`", stringify!($try_), "`](crate::", stringify!($name), "::", stringify!($try_), ").")]
                pub fn $try_(&self $(, $try_arg: $try_type)*) -> Result<Option<$given>> {
                    let given = self.client.run(self.inner.$try_($($try_arg),*))?;
                    Ok(given.map(|held| Guard::new(held, &self.client)))
                }
            )*
        }

        impl Deref for $name {
            type Target = dyn api::$name;

            fn deref(&self) -> &Self::Target {
                &*self.inner
            }
        }
    };
}

wrapper! {
    /// A counting semaphore; see [`Semaphore`](crate::Semaphore).
    Semaphore;
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
        fn permit(&self, permits: u32) -> Permit;
    }
    tries {
        fn permit_for(&self, permits: u32, wait: Duration) -> Permit;
        fn try_permit(&self, permits: u32) -> Permit;
    }
}

wrapper! {
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
        fn permit(&self) -> LeasedPermit;
    }
    tries {
        fn permit_for(&self, wait: Duration) -> LeasedPermit;
        fn try_permit(&self) -> LeasedPermit;
    }
}

wrapper! {
    /// A lock; see [`Lock`](crate::Lock). Each guard is an owner of its own. Calls without a guard go by handle: its clones are one owner.
    Lock;
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
        fn guard(&self) -> LockGuard;
    }
    tries {
        fn try_guard(&self) -> LockGuard;
        fn guard_for(&self, wait: Duration) -> LockGuard;
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

wrapper! {
    /// A count-down latch; see [`CountDownLatch`](crate::CountDownLatch).
    CountDownLatch;
    waits {
        fn try_set_count(&self, count: u32) -> bool;
        fn count_down(&self) -> ();
        fn count(&self) -> i64;
        fn wait(&self) -> ();
        fn wait_for(&self, wait: Duration) -> bool;
    }
    guards {}
    tries {}
}

/// A guard of the async type, with the client that its calls need; given back when dropped, without blocking.
#[must_use = "it is given back when the guard is dropped"]
pub struct Guard<G> {
    inner: G,
    client: Client,
}

impl<G> Guard<G> {
    fn new(inner: G, client: &Client) -> Self {
        let client = client.clone();
        Guard { inner, client }
    }
}

impl<G: fmt::Debug> fmt::Debug for Guard<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<G> Deref for Guard<G> {
    type Target = G;

    fn deref(&self) -> &G {
        &self.inner
    }
}

/// Permits held. See [`Permit`](crate::Permit).
pub type Permit = Guard<api::Permit>;

impl Permit {
    /// See [`Permit::release`](crate::Permit::release).
    pub fn release(self) -> Result<()> {
        self.client.run(self.inner.release())
    }

    /// See [`Permit::forget`](crate::Permit::forget).
    pub fn forget(self) -> u32 {
        self.inner.forget()
    }

    /// See [`Permit::split`](crate::Permit::split).
    pub fn split(&mut self, permits: u32) -> Option<Permit> {
        let part = self.inner.split(permits)?;
        Some(Guard::new(part, &self.client))
    }

    /// See [`Permit::merge`](crate::Permit::merge).
    ///
    /// # Panics
    ///
    /// As there.
    pub fn merge(&mut self, other: Permit) {
        self.inner.merge(other.inner);
    }
}

/// A permit held, refreshed in the background. See [`LeasedPermit`](crate::LeasedPermit).
pub type LeasedPermit = Guard<api::LeasedPermit>;

impl LeasedPermit {
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

/// A lock held. See [`LockGuard`](crate::LockGuard).
pub type LockGuard = Guard<api::LockGuard>;

impl LockGuard {
    /// See [`LockGuard::unlock`](crate::LockGuard::unlock).
    pub fn unlock(self) -> Result<()> {
        self.client.run(self.inner.unlock())
    }

    /// See [`LockGuard::forget`](crate::LockGuard::forget).
    #[must_use = "the lock stays held"]
    pub fn forget(self) -> Hold {
        self.inner.forget()
    }

    /// See [`LockGuard::again`](crate::LockGuard::again).
    pub fn again(&self) -> Result<LockGuard> {
        let guard = self.client.run(self.inner.again())?;
        Ok(Guard::new(guard, &self.client))
    }
}
