//! The permits or the lock held while the command runs.

use std::fmt;
use std::future::pending;
use std::time::Duration;

use redisson_semaphore::{Client, Lock, LockGuard, Permit, RSemaphore, Result};
use tokio::time::sleep;

/// A user that waits that long may want to know why.
const TOLD_AFTER: Duration = Duration::from_secs(1);

pub(crate) enum Hold {
    Permits(Permit),
    Lock(LockGuard),
}

impl Hold {
    pub(crate) async fn permits(
        client: &Client,
        name: &str,
        permits: u32,
        create: Option<u32>,
        wait: Option<Duration>,
    ) -> Result<Option<Hold>> {
        let semaphore = client.semaphore(name);
        if let Some(permits) = create {
            semaphore.try_set_permits(permits).await?;
        }
        let take = async {
            match wait {
                Some(wait) => semaphore.permit_for(permits, wait).await,
                None => semaphore.permit(permits).await.map(Some),
            }
        };
        let taken = tokio::select! {
            taken = take => taken?,
            () = tell_if_missing(&semaphore) => unreachable!("it has no end"),
        };
        Ok(taken.map(Hold::Permits))
    }

    pub(crate) async fn lock(
        client: &Client,
        name: &str,
        fenced: bool,
        wait: Option<Duration>,
    ) -> Result<Option<Hold>> {
        let lock: &dyn Lock = match fenced {
            true => &client.fenced_lock(name),
            false => &client.lock(name),
        };
        let guard = match wait {
            None => Some(lock.guard().await?),
            Some(wait) => lock.guard_for(wait).await?,
        };
        Ok(guard.map(Hold::Lock))
    }

    /// The variables that the command finds in its environment.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        match self {
            Hold::Permits(permit) => vec![
                ("RSEM_NAME", permit.semaphore().name().to_owned()),
                ("RSEM_PERMITS", permit.permits().to_string()),
            ],
            Hold::Lock(guard) => {
                let token = guard.token().map(|token| ("RSEM_TOKEN", token.to_string()));
                let name = ("RSEM_NAME", guard.handle().name().to_owned());
                [name].into_iter().chain(token).collect()
            }
        }
    }

    /// Returns when the hold is lost.
    pub(crate) async fn lost(&self) {
        match self {
            Hold::Permits(permit) => permit.lost().await,
            Hold::Lock(guard) => guard.lost().await,
        }
    }

    pub(crate) async fn give_back(self) -> Result<()> {
        match self {
            Hold::Permits(permit) => permit.release().await,
            Hold::Lock(guard) => guard.unlock().await,
        }
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hold::Permits(permit) => write!(
                f,
                "{} of semaphore {:?}",
                permit.permits(),
                permit.semaphore().name()
            ),
            Hold::Lock(guard) => write!(f, "lock {:?}", guard.handle().name()),
        }
    }
}

/// Warns of a semaphore that does not exist: a misspelled name would be waited for in silence. Never returns.
async fn tell_if_missing(semaphore: &RSemaphore) {
    sleep(TOLD_AFTER).await;
    // The call that waits reports an error.
    if let Ok(false) = semaphore.exists().await {
        eprintln!(
            "rsem: semaphore {:?} does not exist; waiting until it does (rsem set, or --create)",
            semaphore.name()
        );
    }
    pending().await
}
