//! Watched semaphores: the permits of guards come back when their process dies.

use std::pin::pin;
use std::time::Duration;

use futures::future::join_all;
use tokio::time::Instant;

use super::RSemaphore;
use super::call::Call;
use crate::api::{OnRecord, PermitHolder};
use crate::engine::call::{Dropped, Wait};
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::queue::{Grant, Outcome};
use crate::transport::Command;

impl RSemaphore {
    /// The same semaphore, with a watchdog: the permits that guards of this handle hold come back when their process dies.
    /// Redisson has nothing like it.
    ///
    /// For all semaphores of a client: [`watch_semaphores`](crate::ClientBuilder::watch_semaphores).
    ///
    /// What [`permit`](Self::permit), [`permit_for`](Self::permit_for) and [`try_permit`](Self::try_permit) take is on record
    /// beside the semaphore, with the time until which this client is believed alive. That is put off every third of the
    /// [watchdog time-out](crate::ClientBuilder::lock_watchdog_timeout), for all semaphores of a client together. Whose time is
    /// up is given back for: exactly the release that it would have made, announced as that would have been, to Java's waiters,
    /// too. Any client that uses the semaphore by a watched handle does so, a quarter of a second after the time or sooner, and
    /// tells in the log; so does [`reclaim`](Self::reclaim). Permits are back within the time-out and a second, as long as there is one.
    ///
    /// A process that was stopped, suspended or cut off for that long has lost its permits: its guards are
    /// [lost](crate::Permit::lost) by its own clock, before anybody else can have them, and give nothing back. What it takes after that
    /// is its own again.
    ///
    /// Java needs to know nothing of it, and nothing changes for clients and handles that are not watched.
    ///
    /// # What happens when ...
    ///
    /// | | |
    /// |---|---|
    /// | permits are taken without a guard (`acquire`), or released without one | they are anybody's, as in Redisson, and not on record |
    /// | a release serves a waiting caller of this client without Redis | the record stays as it is; only where both are guards' |
    /// | calls travel together, or are repeated after a lost reply | counter and record change by one script, once |
    /// | a future is dropped | what it is granted is given back, and goes off the record |
    /// | a guard is [forgotten](crate::Permit::forget) | its permits go off the record: they are anybody's |
    /// | guards are split or merged | both are on record as one was |
    /// | permits are drained, added, set by hand | the record says who holds how many, whatever the counter says |
    /// | the semaphore is deleted, or vanishes | guards give back as ever, which creates it anew; what the dead held does not |
    /// | it is renamed or copied | the record stays with the name under which the permits were taken |
    /// | a release is given up because the server does not answer | the next answer of the server shows that too much is on record, and it is given back |
    /// | a release is not allowed (ACL), and its caller is told so | the guard is spent, and the permits come back as soon as that is allowed: nobody else is to release them |
    /// | forgetting is not allowed | it is tried again: they stay taken, and on record until then |
    /// | the counter can take no more (2^31-1) | what the dead held stays on record until it can |
    /// | two clients find the same dead one, or it releases just then | one of them gives back, the others find nothing |
    /// | the server is restarted with its data | nobody is given back for before its time; who was cut off for so long has lost its permits |
    /// | the last writes are lost (failover) | those of counter and record are lost together: releases that are gone are made again, and where acquisitions are gone the client's guards of this semaphore are told that they are lost |
    /// | the server's clock is put forward | guards are told that they are lost with the next script; until then somebody else may have their permits |
    /// | the client is shut down | guards that are still there can't give back: others do when the time is up |
    ///
    /// # In Redis
    ///
    /// | | |
    /// |---|---|
    /// | key `redisson_sc_held:{name}` | hash: `<client id>:<number>` -> `<permits> <since when, in milliseconds since 1970> <client's name>`, and in a second line the client's last lone call here and the counter behind it, for once-only execution |
    /// | key `redisson_sc_alive:{name}` | zset: the same id -> until when it is believed alive, in milliseconds since 1970 by the server's clock |
    ///
    /// Both have no time to live, and vanish with the last holder. Scripts: `lua/semaphore/holders.lua`, a part of those
    /// that change the counter, and `lua/semaphore/reclaim.lua`.
    #[must_use]
    pub fn watched(mut self) -> Self {
        self.watched = true;
        self
    }

    /// The same semaphore, whose guards hold plain permits: they are anybody's, and do not come back when the process dies.
    #[must_use]
    pub fn unwatched(mut self) -> Self {
        self.watched = false;
        self
    }

    /// The clients whose guards hold permits of [watched](Self::watched) handles. The other permits are Java's, and those of callers
    /// without guards.
    ///
    /// Redis: `ZRANGE redisson_sc_grants:{name} 0 -1`.
    ///
    /// # Errors
    ///
    /// Those of every operation.
    pub async fn holders(&self) -> Result<Vec<PermitHolder>> {
        let request = Command::new("ZRANGE").key(self.line.grants());
        let request = request.arg("0").arg("-1");
        let entries = self.object().read_texts("holders", request).await?;
        Ok(PermitHolder::of(entries.iter().map(String::as_str)))
    }

    /// Gives the permits of dead clients back now; returns whose they were.
    ///
    /// Where the semaphore is in use this happens by itself.
    ///
    /// Redis: a batch of `lua/semaphore/steps.lua`: `name` rises by what they held, keeping its time to live, and the total is announced.
    ///
    /// # Errors
    ///
    /// Those of every operation.
    pub async fn reclaim(&self) -> Result<Vec<PermitHolder>> {
        let named = self.named("reclaim", Wait::No, Dropped::CarriedOut);
        let calling = async {
            Ok(match self.line.call(Call::Reclaim).await? {
                Outcome::Text(entries) => PermitHolder::of(entries.split(',')),
                _ => Vec::new(),
            })
        };
        self.core().call(named, pin!(Some(calling))).await
    }

    /// Takes permits for a guard.
    pub(super) async fn take(
        &self,
        permits: u32,
        wait: Option<Duration>,
    ) -> Result<Option<Option<OnRecord>>> {
        self.check(permits)?;
        if permits == 0 {
            return Ok(Some(None));
        }
        let granted = self.granted(permits, self.watched, wait).await?;
        let record = |grant: Grant| {
            grant.want.leased.then(|| OnRecord {
                parts: vec![(grant.ticket, permits)],
            })
        };
        Ok(granted.map(record))
    }

    pub(super) fn leases_of(&self, record: &OnRecord) -> Vec<Lease> {
        let lease = |(ticket, _): &(u64, u32)| {
            // What is not known any more has been lost.
            let lost = || Lease::until(Some(Instant::now()));
            self.line.lease(*ticket).unwrap_or_else(lost)
        };
        record.parts.iter().map(lease).collect()
    }

    pub(super) async fn release_recorded(&self, record: &OnRecord) -> Result<()> {
        let parts = record.parts.iter();
        let releases = parts.map(|(ticket, permits)| self.run(Call::GiveBack(*permits, *ticket)));
        let mut released = Ok(());
        for done in join_all(releases).await {
            match done {
                Ok(1) => {}
                Ok(_) if released.is_err() => {}
                Ok(_) => {
                    released = Err(self.core().stats.failed(Error::NotHeld {
                        name: self.name().to_owned(),
                        owner: self.core().id().to_owned(),
                    }));
                }
                Err(error) => released = Err(error),
            }
        }
        released
    }

    pub(super) fn release_recorded_detached(&self, record: &OnRecord) {
        for (ticket, permits) in &record.parts {
            self.line.owe(Call::GiveBack(*permits, *ticket));
        }
    }

    pub(super) fn forget_recorded(&self, record: &OnRecord) {
        for (ticket, permits) in &record.parts {
            self.line.owe(Call::Forget(*permits, *ticket));
        }
    }
}
