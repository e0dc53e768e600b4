//! [`RFencedLock`].

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::RLock;
use super::call::Kind;
use super::names;
use crate::api::{Hold, Lock, LockGuard};
use crate::engine::Core;
use crate::error::{Error, Result};
use crate::transport::Command;

/// A lock that gives a token each time it is taken, shared with Java's `RFencedLock` of the same name.
///
/// Tokens rise with each hold, here or in Java. A holder sends its token along with everything that it writes. The storage refuses a token that is
/// lower than one it has seen: so a holder that has lost the lock, and does not know yet, does no harm.
///
/// [`guard`](RFencedLock::guard) and its like give a [`FencedGuard`] that has the token, and
/// [`lock_and_get_token`](RFencedLock::lock_and_get_token) and its like return it. In everything else it is an [`RLock`], whose `lock` and
/// `try_lock` count a token and keep it to themselves. A lock of one name must be used as one kind throughout.
///
/// ```no_run
/// # async fn f(client: redisson_semaphore::Client) -> redisson_semaphore::Result<()> {
/// let ledger = client.fenced_lock("ledger"); // Java: redisson.getFencedLock("ledger")
/// let guard = ledger.guard().await?;
/// println!("the storage refuses writes below token {}", guard.token());
/// guard.unlock().await?;
/// # Ok(())
/// # }
/// ```
///
/// # In Redis
///
/// As [`RLock`], and the key `redisson_lock_token:{name}`: string, the last token, a decimal integer without a time to
/// live. It rises each time that the lock is taken, also by the owner that holds it, sometimes by more than one. It stays when the lock goes.
/// Where somebody has written something else there than a whole number from 0 to 2^53 - 2, the lock is not taken, with
/// [`Error::Server`]: no token could follow that is known to be larger. Calls on the lock that travel in the same script get that error, too.
///
/// # DIFFERENCE from Redisson
///
/// As [`RLock`]; and `lock_and_get_token` keeps to the lease of its handle, which Redisson's blocking
/// `lockAndGetToken(long, TimeUnit)` does not.
#[derive(Clone, Debug)]
pub struct RFencedLock(pub(super) RLock);

impl RFencedLock {
    pub(crate) fn new(core: &Arc<Core>, name: &str) -> Self {
        RFencedLock(RLock {
            kind: Kind::Fenced,
            ..RLock::new(core, name)
        })
    }

    /// As [`RLock::guard`], with a token.
    pub async fn guard(&self) -> Result<FencedGuard> {
        Lock::guard(self).await.map(FencedGuard)
    }

    /// As [`RLock::try_guard`], with a token.
    pub async fn try_guard(&self) -> Result<Option<FencedGuard>> {
        Ok(Lock::try_guard(self).await?.map(FencedGuard))
    }

    /// As [`RLock::guard_for`], with a token.
    pub async fn guard_for(&self, wait: Duration) -> Result<Option<FencedGuard>> {
        Ok(Lock::guard_for(self, wait).await?.map(FencedGuard))
    }

    /// As [`RLock::lock`]; returns the token. Redisson: `lockAndGetToken()`, `lockAndGetToken(long, TimeUnit)`.
    pub async fn lock_and_get_token(&self) -> Result<u64> {
        let token = self.taken(None).await?;
        Ok(token.expect("waited for"))
    }

    /// As [`RLock::try_lock`]; returns the token, or `None`. Redisson: `tryLockAndGetToken()`.
    pub async fn try_lock_and_get_token(&self) -> Result<Option<u64>> {
        self.taken(Some(Duration::ZERO)).await
    }

    /// As [`RLock::try_lock_for`]; returns the token, or `None`. Redisson: `tryLockAndGetToken(long, TimeUnit)`,
    /// `tryLockAndGetToken(long, long, TimeUnit)`.
    pub async fn try_lock_and_get_token_for(&self, wait: Duration) -> Result<Option<u64>> {
        self.taken(Some(wait)).await
    }

    /// The last token that was given to any holder; `None` if there was none. Redis: `GET`. Redisson: `getToken()`, which
    /// says 0 then.
    ///
    /// # Errors
    ///
    /// [`Error::NotANumber`] where the counter is no whole number, and [`Error::Server`] where it is below zero.
    pub async fn token(&self) -> Result<Option<u64>> {
        let key = names::of_lock_token(self.queue.keys().object());
        let command = Command::new("GET").key(&key.into());
        let token = self.queue.read_with("token", command).await?;
        let token = u64::try_from(token).map_err(|_| Error::Server {
            name: self.queue.keys().name().to_owned(),
            detail: format!("the last fencing token is negative: {token}"),
        })?;
        Ok((token > 0).then_some(token))
    }

    async fn taken(&self, wait: Option<Duration>) -> Result<Option<u64>> {
        let hold = self.0.hold(wait).await?;
        Ok(hold.and_then(|hold| hold.token()))
    }
}

/// A fenced lock held; unlocked when dropped. It is a [`LockGuard`] that has a [token](FencedGuard::token).
#[must_use = "the lock is given back when the guard is dropped"]
#[derive(Debug)]
pub struct FencedGuard(LockGuard);

impl FencedGuard {
    /// The fencing token.
    ///
    /// The holder sends it along with everything that it writes under the lock. The storage refuses a token that is lower than the highest it
    /// has seen: so it refuses a holder that has lost the lock.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.0.token().expect("a fenced lock gives one")
    }

    /// As [`LockGuard::again`]; the new guard has a token of its own, a higher one.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn again(&self) -> Result<FencedGuard> {
        self.0.again().await.map(FencedGuard)
    }

    /// As [`LockGuard::unlock`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn unlock(self) -> Result<()> {
        self.0.unlock().await
    }

    /// As [`LockGuard::forget`].
    #[must_use = "the lock stays held"]
    pub fn forget(self) -> Hold {
        self.0.forget()
    }
}

impl Deref for FencedGuard {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.0
    }
}
