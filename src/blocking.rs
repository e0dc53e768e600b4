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

/// A guard of `T`, or nothing.
trait Guarding<T> {
    fn of(inner: T, client: &Client) -> Self;
}

impl<T, S: Guarding<T>> Guarding<Option<T>> for Option<S> {
    fn of(inner: Option<T>, client: &Client) -> Self {
        inner.map(|inner| S::of(inner, client))
    }
}

/// A wrapper around the handles of a trait.
macro_rules! wrapper {
    (
        $(#[$doc:meta])*
        $name:ident;
        now { $(fn $now:ident(&self) -> $answer:ty;)* }
        waits { $(fn $verb:ident(&self $(, $arg:ident: $arg_type:ty)*) -> $result:ty;)* }
        guards {
            $(fn $guard:ident(&self $(, $guard_arg:ident: $guard_type:ty)*) -> $guarded:ty;)*
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
            /// A wrapper around any of them: of the classic recipes, or in memory. One in Redis has to be of this `client`, which lives as
            /// long as any wrapper, or guard of one.
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
                    Ok(Guarding::of(taken, &self.client))
                }
            )*
        }
    };
}

wrapper! {
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
        fn permit(&self, permits: u32) -> Permit;
        fn permit_for(&self, permits: u32, wait: Duration) -> Option<Permit>;
        fn try_permit(&self, permits: u32) -> Option<Permit>;
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
        fn permit(&self) -> LeasedPermit;
        fn permit_for(&self, wait: Duration) -> Option<LeasedPermit>;
        fn try_permit(&self) -> Option<LeasedPermit>;
    }
}

wrapper! {
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
        fn guard(&self) -> LockGuard;
        fn try_guard(&self) -> Option<LockGuard>;
        fn guard_for(&self, wait: Duration) -> Option<LockGuard>;
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

/// A wrapper around a guard.
macro_rules! guard_wrapper {
    (
        $(#[$doc:meta])*
        $name:ident;
        now { $(fn $now:ident(&self) -> $answer:ty;)* }
        ends { $(fn $end:ident(self) -> $result:ty;)* }
        stays { $($(#[$must_use:meta])? fn $stay:ident(self) -> $left:ty;)* }
    ) => {
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

        impl Guarding<api::$name> for $name {
            fn of(inner: api::$name, client: &Client) -> Self {
                let client = client.clone();
                $name { inner, client }
            }
        }

        impl $name {
            $(
                #[doc = concat!("See [`", stringify!($now), "`](crate::", stringify!($name), "::", stringify!($now), ").")]
                #[must_use]
                pub fn $now(&self) -> $answer {
                    self.inner.$now()
                }
            )*

            $(
                #[doc = concat!("See [`", stringify!($end), "`](crate::", stringify!($name), "::", stringify!($end), ").")]
                pub fn $end(self) -> Result<$result> {
                    self.client.run(self.inner.$end())
                }
            )*

            $(
                #[doc = concat!("See [`", stringify!($stay), "`](crate::", stringify!($name), "::", stringify!($stay), ").")]
                $(#[$must_use])?
                pub fn $stay(self) -> $left {
                    self.inner.$stay()
                }
            )*
        }
    };
}

guard_wrapper! {
    /// Permits held; given back when dropped, without blocking. See [`Permit`](crate::Permit).
    Permit;
    now {
        fn permits(&self) -> u32;
    }
    ends {
        fn release(self) -> ();
    }
    stays {
        fn forget(self) -> u32;
    }
}

impl Permit {
    /// See [`Permit::split`](crate::Permit::split).
    pub fn split(&mut self, permits: u32) -> Option<Permit> {
        Guarding::of(self.inner.split(permits), &self.client)
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

guard_wrapper! {
    /// A permit held; refreshed in the background, and given back when dropped, without blocking. See
    /// [`LeasedPermit`](crate::LeasedPermit).
    LeasedPermit;
    now {
        fn id(&self) -> &str;
        fn slot(&self) -> Option<u32>;
        fn lease(&self) -> &Lease;
        fn is_lost(&self) -> bool;
    }
    ends {
        fn release(self) -> bool;
    }
    stays {
        #[must_use = "the permit stays taken"]
        fn forget(self) -> Held;
    }
}

guard_wrapper! {
    /// A lock held; unlocked when dropped, without blocking. See [`LockGuard`](crate::LockGuard).
    LockGuard;
    now {
        fn token(&self) -> Option<u64>;
        fn lease(&self) -> &Lease;
        fn is_lost(&self) -> bool;
    }
    ends {
        fn unlock(self) -> ();
    }
    stays {
        #[must_use = "the lock stays held"]
        fn forget(self) -> Hold;
    }
}

impl LockGuard {
    /// See [`LockGuard::again`](crate::LockGuard::again).
    pub fn again(&self) -> Result<LockGuard> {
        let guard = self.client.run(self.inner.again())?;
        Ok(Guarding::of(guard, &self.client))
    }
}
