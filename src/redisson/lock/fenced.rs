//! [`RFencedLock`].

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::RLock;
use super::names;
use crate::engine::Core;
use crate::engine::command::Commands;
use crate::error::{Error, Result};
use crate::transport::Command;

/// A lock that gives a token each time it is taken, shared with Java's `RFencedLock` of the same name.
///
/// Tokens rise, whoever takes the lock, here or in Java. A holder that sends its token along with what it writes
/// can be refused by the place it writes to once a later holder has been there: that makes a holder harmless that
/// has lost the lock and does not know yet.
///
/// It is an [`RLock`] in everything else; every way of taking it gives a token, and guards show it
/// ([`LockGuard::token`](crate::LockGuard::token)). A lock of one name must be used as one kind throughout.
///
/// # In Redis
///
/// As [`RLock`], and the key `redisson_lock_token:{name}`: string, the last token, a decimal integer without a time to
/// live. It rises by one each time that the lock is taken, also by the owner that holds it, and stays when the lock goes.
/// Where somebody has written something else there than a whole number from 0 to 2^53 - 2, the lock is not taken, with
/// [`Error::Server`]: no token could follow that is known to be larger. Calls on the lock that travel in the same script get that error, too.
///
/// # DIFFERENCE from Redisson
///
/// As [`RLock`]; and `lock_and_get_token_with_lease` keeps to its lease, which Redisson's blocking
/// `lockAndGetToken(long, TimeUnit)` does not.
#[derive(Clone, Debug)]
pub struct RFencedLock(RLock);

impl RFencedLock {
    pub(crate) fn new(core: &Arc<Core>, name: &str) -> Self {
        RFencedLock(RLock {
            fenced: true,
            ..RLock::new(core, name)
        })
    }

    pub(super) fn fresh(&self) -> Self {
        RFencedLock(self.0.fresh())
    }

    /// This lock for the owner number `id`; see [`RLock::with_owner`].
    #[must_use]
    pub fn with_owner(&self, id: u64) -> Self {
        RFencedLock(self.0.with_owner(id))
    }

    /// As [`RLock::lock`]; returns the token. Redisson: `lockAndGetToken()`.
    pub async fn lock_and_get_token(&self) -> Result<u64> {
        let token = self.taken(None, None).await?;
        Ok(token.expect("waited for"))
    }

    /// As [`RLock::lock_with_lease`]; returns the token. Redisson: `lockAndGetToken(long, TimeUnit)`.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn lock_and_get_token_with_lease(&self, lease: Duration) -> Result<u64> {
        let token = self.taken(None, Some(lease)).await?;
        Ok(token.expect("waited for"))
    }

    /// As [`RLock::try_lock`]; returns the token, or `None`. Redisson: `tryLockAndGetToken()`.
    pub async fn try_lock_and_get_token(&self) -> Result<Option<u64>> {
        self.taken(Some(Duration::ZERO), None).await
    }

    /// As [`RLock::try_lock_for`]; returns the token, or `None`. Redisson: `tryLockAndGetToken(long, TimeUnit)`.
    pub async fn try_lock_and_get_token_for(&self, wait: Duration) -> Result<Option<u64>> {
        self.taken(Some(wait), None).await
    }

    /// As [`RLock::try_lock_for_with_lease`]; returns the token, or `None`. Redisson:
    /// `tryLockAndGetToken(long, long, TimeUnit)`.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn try_lock_and_get_token_for_with_lease(
        &self,
        wait: Duration,
        lease: Duration,
    ) -> Result<Option<u64>> {
        self.taken(Some(wait), Some(lease)).await
    }

    /// The last token that was given, to whomever; `None` if there was none. Redis: `GET`. Redisson: `getToken()`, which
    /// says 0 then.
    ///
    /// # Errors
    ///
    /// [`Error::NotANumber`] where the counter is no whole number, and [`Error::Server`] where it is below zero.
    pub async fn token(&self) -> Result<Option<u64>> {
        let key = names::of_lock_token(self.0.line.keys().object());
        let command = Command::new("GET").key(&key.into());
        let token = self.0.object().read_with("token", command).await?;
        let token = u64::try_from(token).map_err(|_| Error::Server {
            name: self.0.line.keys().name().to_owned(),
            detail: format!("the last fencing token is negative: {token}"),
        })?;
        Ok((token > 0).then_some(token))
    }

    async fn taken(&self, wait: Option<Duration>, lease: Option<Duration>) -> Result<Option<u64>> {
        let hold = self.0.hold(wait, lease).await?;
        Ok(hold.and_then(|hold| hold.token()))
    }
}

impl Deref for RFencedLock {
    type Target = RLock;

    fn deref(&self) -> &RLock {
        &self.0
    }
}
