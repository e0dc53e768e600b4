//! [`StringLock`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::handle::{Handle, setting};
use super::settings::Layout;
use crate::api::{Held, Hold, HoldId, Lock, RemainingTtl, Sealed};
use crate::engine::Core;
use crate::error::{Error, Result};
use crate::lease::{LastLease, Lease};
use crate::stats::{Holding, What};
use crate::sync::Mutex;

/// The lock of the classic recipes. Its operations are those of [`Lock`].
///
/// Redis: the string `lock:name`, an id that is new with each acquisition, with an expiry; see [the module](super) for what
/// stands beside it. Recipe: `SETNX`, then `EXPIRE`; `WATCH`, `GET`, compare, `DEL`. DIFFERENCE: each is one atomic step. As in the
/// recipe, a lock of a peer that has no expiry is given one when a caller asks for the lock, see [`missing_expiry`](StringLock::missing_expiry);
/// it is not taken away, so a peer between its two steps loses nothing. Questions, as [`is_locked`](Lock::is_locked), change nothing.
///
/// It is **not reentrant**: an owner that holds it and asks again waits like everybody else, `try_lock` is `false`, and
/// [`LockGuard::again`](crate::LockGuard::again) is an error.
/// Without a lease it lasts for the [`timeout`](StringLock::timeout) and is refreshed every third of it, as long as the handle that took
/// it, a clone of it or a guard is there: when nobody is who could unlock it, it ends with its time. It also does so where an `unlock` was
/// refused and is not tried again.
///
/// ```no_run
/// # async fn example(client: redisson_semaphore::Client) -> redisson_semaphore::Result<()> {
/// use redisson_semaphore::Lock;
/// use std::time::Duration;
///
/// let import = client.string_lock("import").timeout(Duration::from_secs(30));
/// if let Some(guard) = import.try_guard().await? {
///     guard.unlock().await?; // refreshed until here
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct StringLock {
    handle: Handle,
    owner: Arc<str>,
    held: Arc<Mutex<Option<Own>>>,
    last: LastLease,
    /// For how long this handle takes the lock; `None`: refreshed.
    lease: Option<Duration>,
}

/// The hold of this owner.
struct Own {
    /// The handle it was taken with: its timeout may be another one.
    handle: Handle,
    held: Held,
    lease: Lease,
}

/// Nobody is left who could unlock it: it ends with its time.
impl Drop for Own {
    fn drop(&mut self) {
        self.handle.unkeep(&self.held.id);
    }
}

impl Own {
    fn give_back_detached(self) {
        self.handle.release_detached(&self.held.id);
        self.lease.end();
    }
}

impl StringLock {
    pub(crate) fn new(core: &Arc<Core>, name: &str) -> Self {
        StringLock::of(Handle::new(core, Layout::Lock, name, 1), None)
    }

    fn of(handle: Handle, lease: Option<Duration>) -> Self {
        let core = &handle.core;
        StringLock {
            owner: format!("{}:{}", core.id(), core.next_sequence()).into(),
            handle,
            held: Arc::default(),
            last: LastLease::default(),
            lease,
        }
    }

    /// How long the lock lasts without a refresh; 10 s by default.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        let handle = self.handle.with(|settings| {
            if settings.lock_timeout == Some(settings.timeout) {
                settings.lock_timeout = Some(timeout);
            }
            settings.timeout = timeout;
        });
        StringLock { handle, ..self }
    }

    /// This lock, for the same owner, with a lease: it is free again after `lease` and is not refreshed; see
    /// [`Lock::with_lease`](crate::Lock::with_lease).
    #[must_use]
    pub fn with_lease(&self, lease: Duration) -> Self {
        StringLock {
            lease: Some(lease),
            ..self.clone()
        }
    }

    /// The expiry for a lock that has none when a caller of this handle asks for it: its holder is about to set one, or has died. By
    /// default the [`timeout`](StringLock::timeout). `None` leaves it alone, for programs that take the lock without an expiry on purpose.
    #[must_use]
    pub fn missing_expiry(self, expiry: Option<Duration>) -> Self {
        let handle = self.handle.with(|settings| settings.lock_timeout = expiry);
        StringLock { handle, ..self }
    }

    /// Another key than `lock:name`, for programs that use none with that prefix: redis-py's `lock("import")`, redsync and bsm/redislock
    /// take the name as it is. Errors and logs go on naming the lock by its name. The handle is an owner of its own.
    ///
    /// ```no_run
    /// # async fn f(client: redisson_semaphore::Client) -> redisson_semaphore::Result<()> {
    /// use redisson_semaphore::Lock;
    ///
    /// let import = client.string_lock("import").key("import");
    /// let guard = import.guard().await?;
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn key(self, key: &str) -> Self {
        let key = Some(key.to_owned());
        let handle = self.handle.with(|settings| settings.key = key);
        StringLock::of(handle, self.lease)
    }

    setting! {
        /// How often the first two clients that wait look for what other programs have released, at the least; 100 ms by default. They
        /// look again after as long as the lock has been seen in the same hands, up to this: at once, after 1 ms, 2 ms, and so on.
        check_interval: Duration
    }

    /// Takes what this owner holds, if it is that very `hold`, and not one that it has taken since.
    fn take_own(&self, hold: &Hold) -> Option<Own> {
        self.held
            .lock()
            .take_if(|own| own.lease.is_same(&hold.lease) && !own.lease.is_lost())
    }

    async fn give_back(&self, own: Option<Own>) -> Result<()> {
        let own = own.ok_or_else(|| self.not_held())?;
        own.handle.unkeep(&own.held.id);
        let lease = own.lease.clone().ended_on_drop();
        match own.handle.release(&own.held.id).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                lease.lose();
                Err(own.handle.core.stats.failed(self.not_held()))
            }
            Err(error) => {
                // It may be tried again, unless the owner has it anew by now.
                self.held.lock().get_or_insert(own);
                Err(error)
            }
        }
    }

    fn not_held(&self) -> Error {
        Error::NotHeld {
            name: self.name().to_owned(),
            owner: self.owner.to_string(),
        }
    }
}

impl Sealed for StringLock {}

#[async_trait]
impl Lock for StringLock {
    fn name(&self) -> &str {
        &self.handle.settings().name
    }

    fn owner(&self) -> &str {
        &self.owner
    }

    fn fresh_handle(&self) -> Arc<dyn Lock> {
        // As long as this handle is there, it keeps what the client knows of the lock.
        let _ = self.handle.queue();
        Arc::new(StringLock::of(self.handle.clone(), self.lease))
    }

    fn with_lease(&self, lease: Duration) -> Arc<dyn Lock> {
        Arc::new(self.with_lease(lease))
    }

    async fn hold(&self, wait: Option<Duration>) -> Result<Option<Hold>> {
        let handle = match self.lease {
            Some(lease) => (self.handle.clone()).with(|settings| settings.timeout = lease),
            None => self.handle.clone(),
        };
        let Some(held) = handle.take(wait).await? else {
            return Ok(None);
        };
        let lease = match self.lease {
            Some(_) => Lease::until(held.until),
            None => handle.keep(&held),
        };
        let own = Own {
            handle,
            held,
            lease: lease.clone(),
        };
        self.last.note(&lease);
        // Wakers run after the end of the mutex guard.
        let former = self.held.lock().replace(own);
        if let Some(former) = former {
            // It is in other hands, as this owner has it again.
            former.lease.lose();
            former.handle.unkeep(&former.held.id);
        }
        Ok(Some(Hold {
            lease,
            id: HoldId::new(0),
            token: None,
        }))
    }

    async fn unlock(&self) -> Result<()> {
        let own = self.held.lock().take();
        self.give_back(own).await
    }

    async fn unlock_hold(&self, hold: &Hold) -> Result<()> {
        let own = self.take_own(hold);
        self.give_back(own).await
    }

    fn unlock_hold_detached(&self, hold: &Hold) {
        if let Some(own) = self.take_own(hold) {
            own.give_back_detached();
        }
    }

    async fn force_unlock(&self) -> Result<bool> {
        Ok(self.handle.release_all().await? > 0)
    }

    async fn is_locked(&self) -> Result<bool> {
        Ok(!self.handle.holders().await?.is_empty())
    }

    async fn hold_count(&self) -> Result<u32> {
        let holders = self.handle.holders().await?;
        let own = self.held.lock();
        let own = own.as_ref().map(|own| &*own.held.id);
        Ok(holders.iter().any(|holder| own == Some(holder.id())).into())
    }

    async fn remaining_ttl(&self) -> Result<RemainingTtl> {
        Ok(match self.handle.holders().await?.first() {
            None => RemainingTtl::Missing,
            Some(holder) => match holder.remaining() {
                None => RemainingTtl::Persistent,
                Some(left) => RemainingTtl::Expires(left),
            },
        })
    }

    fn lease(&self) -> Lease {
        let held = self.held.lock().as_ref().map(|own| own.lease.clone());
        self.last.show(held)
    }

    fn holding(&self) -> Holding {
        self.handle.holding(What::Lock)
    }
}

impl fmt::Debug for StringLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StringLock")
            .field("name", &self.name())
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}
