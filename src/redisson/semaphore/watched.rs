//! Watched semaphores: the permits of guards come back when their process dies.

use std::pin::pin;
use std::time::Duration;

use super::calls::{Call, Grant};
use super::{RSemaphore, nudge};
use crate::api::{OnRecord, PermitHolder};
use crate::engine;
use crate::engine::call::{Dropped, Wait};
use crate::engine::command::Commands;
use crate::error::{Error, Result};
use crate::lease::Lease;

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

    /// Who holds how many permits, as far as they are on record: those of guards of [watched](Self::watched) handles, of all
    /// clients. What clients have lost, and nobody has given back for yet, is among them. The rest is Java's, and that of callers without guards.
    ///
    /// Redis: `HGETALL redisson_sc_held:{name}`.
    ///
    /// # Errors
    ///
    /// Those of every operation. It is not repeated: [`Unavailable`](Error::Unavailable) at once where there is no connection.
    pub async fn holders(&self) -> Result<Vec<PermitHolder>> {
        self.line.keys().check()?;
        let holders = self.core().holders(self.line.keys());
        let holders = self.asked("holders", Dropped::Harmless, holders).await?;
        Ok(holders
            .into_iter()
            .filter(|holder| holder.permits() > 0)
            .collect())
    }

    /// Gives the permits of dead clients back now, whether this handle is [watched](Self::watched) or not; returns who they were and
    /// what they held.
    ///
    /// Where watched handles are in use this happens by itself.
    ///
    /// Redis: `lua/semaphore/reclaim.lua`: `name` rises by what they held, keeping its time to live, and the total is announced;
    /// their fields vanish from `redisson_sc_held:{name}` and `redisson_sc_alive:{name}`.
    ///
    /// # Errors
    ///
    /// Those of every operation, and [`Server`](Error::Server) where the counter can take no more. It is not repeated:
    /// [`Unavailable`](Error::Unavailable) at once where there is no connection, and
    /// [`OutcomeUnknown`](Error::OutcomeUnknown) where there is no answer, or where it fails behind the first 64 of many: their permits
    /// are back then, and who they were is not told. It may be called again.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time.
    pub async fn reclaim(&self) -> Result<Vec<PermitHolder>> {
        self.line.keys().check()?;
        let dead = self.core().reclaim(self.line.keys());
        let dead = self.asked("reclaim", Dropped::CarriedOut, dead).await?;
        if !dead.is_empty() {
            nudge::has_been_given_more(&self.line);
        }
        Ok(dead
            .into_iter()
            .filter(|holder| holder.permits() > 0)
            .collect())
    }

    /// What is asked of the server without the line, within the time that a call has.
    async fn asked<T>(
        &self,
        operation: &'static str,
        dropped: Dropped,
        asking: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let call = engine::call::Call::new(self.name(), operation, Wait::No, dropped);
        let asking = self.core().within(asking);
        self.core().call(call, pin!(Some(asking))).await
    }

    /// Takes permits for a guard.
    pub(super) async fn take(
        &self,
        permits: u32,
        wait: Option<Duration>,
    ) -> Result<Option<Option<OnRecord>>> {
        if !self.watched || permits == 0 {
            let taken = match wait {
                None => self.acquire(permits).await.map(|()| true),
                Some(Duration::ZERO) => self.try_acquire(permits).await,
                Some(wait) => self.try_acquire_for(permits, wait).await,
            };
            return taken.map(|taken| taken.then_some(None));
        }
        self.check(permits)?;
        let granted = self.granted(permits, true, wait).await?;
        let on_record = |grant: Grant| grant.life.map(|life| OnRecord { life });
        Ok(granted.map(on_record))
    }

    pub(super) fn lease_of(&self, record: &OnRecord) -> Lease {
        self.line
            .primitive(|permits| permits.record.lease(record.life))
    }

    pub(super) async fn release_recorded(&self, permits: u32, record: &OnRecord) -> Result<()> {
        if permits == 0 {
            return Ok(());
        }
        if self.run(Call::GiveBack(permits, record.life)).await? == 1 {
            return Ok(());
        }
        Err(self.core().stats.failed(Error::NotHeld {
            name: self.name().to_owned(),
            owner: self.core().id().to_owned(),
        }))
    }

    pub(super) fn release_recorded_detached(&self, permits: u32, record: &OnRecord) {
        self.line.owe(Call::GiveBack(permits, record.life));
    }

    pub(super) fn forget_recorded(&self, permits: u32, record: &OnRecord) {
        self.line.owe(Call::Forget(permits, record.life));
    }
}
