//! Watched guards: their permits come back when their process dies.

use std::pin::pin;

use super::RSemaphore;
use super::call::Call;
use crate::api::PermitHolder;
use crate::error::Result;
use crate::queue::Outcome;
use crate::transport::Command;

impl RSemaphore {
    /// The same semaphore, whose guards are watched: their permits come back when their process dies.
    ///
    /// This is the default ([`watch_semaphores`](crate::ClientBuilder::watch_semaphores)). Redisson has no such thing, and a JVM sees only
    /// the counter.
    ///
    /// A watched guard has a lease of the [watchdog time-out](crate::ClientBuilder::lock_watchdog_timeout). The client renews the leases of
    /// all its guards every third of that time. A lease that ends gives the permits back: the next script that waits, or that takes or
    /// releases for a guard, frees them, serves the waiters, and announces the rest. A client that waits sends one in
    /// time, or at its next slow check where the client that was to send it has died as well. One that has a handle and has held a guard
    /// sends one at the latest after twice the time-out. [`reclaim`](Self::reclaim) does so, too.
    ///
    /// A process that was stopped, suspended or cut off for that long has lost its permits; one that was cut off for a second has, too, where that began
    /// within 100 ms of the notification of a grant. Its guards are [lost](crate::Permit::lost) by its own clock, before another caller can have them, and give nothing back.
    ///
    /// # What happens when ...
    ///
    /// | | |
    /// |---|---|
    /// | permits are taken or released without a guard | they are a plain number, as in Redisson, and do not come back |
    /// | a guard that is dropped serves a waiting guard of this client without Redis | the waiter takes the entry over, and its lease |
    /// | a future is dropped | the permits that it was granted are released |
    /// | a guard is [forgotten](crate::Permit::forget) | its entry is removed; the permits stay taken |
    /// | a guard is [split](crate::Permit::split) or [merged](crate::Permit::merge) | the parts keep their entries. Where the release of a part fails, the other parts of its entry are lost with its lease |
    /// | permits are drained, added or set by hand | guards release as many as they hold |
    /// | the semaphore is deleted, or vanishes | guards release nothing, and do not make it anew. They are lost when a call of this crate makes it anew. Where a JVM has made it anew, they release into it, as unwatched guards do |
    /// | it is renamed or copied | guards and waiters stay with the old name. Guards release nothing then. Guards of a semaphore that is replaced release into the new one |
    /// | a release is not allowed (ACL) | the caller gets an error, the guard is spent, and the permits come back with the end of the lease. Where `ZADD` or `ZREM` alone is taken from a client that runs, permits of the call that is refused can be lost, or be there twice |
    /// | the counter can take no more (2^31-1) | the release fails with [`OutOfRange`](crate::Error::OutOfRange), and the permits come back with the end of the lease, once there is room |
    /// | the server is restarted with its data | a client that was cut off for the time-out has lost its permits |
    /// | the last writes are lost (failover) | counter and grants are lost together. A guard whose grant is gone is lost; a release that was answered and is gone comes back with the end of the lease |
    /// | the server's clock steps forward | leases end early. The guards are lost with the next script. A grant whose notification is late may end early, and its guard then holds what another caller has, until the confirmation is answered |
    /// | the grants are deleted by hand | the guards are lost, and the counter stays too low by what they held |
    /// | the client is shut down | guards that are left give nothing back; their permits come back with the end of the lease |
    ///
    /// # In Redis
    ///
    /// Key `redisson_sc_grants:{name}`, [as described](Self#in-redis). Scripts: those of the semaphore, and `lua/engine/renew.lua`.
    #[must_use]
    pub fn watched(mut self) -> Self {
        self.watched = true;
        self
    }

    /// The same semaphore, whose guards are not watched: their permits do not come back when the process dies.
    ///
    /// A notified waiter goes on when its grant is confirmed, one round trip later than a watched guard.
    #[must_use]
    pub fn unwatched(mut self) -> Self {
        self.watched = false;
        self
    }

    /// Returns the clients whose [watched](Self::watched) guards hold permits, with their names and how many they hold.
    ///
    /// Permits of JVMs, and those that were taken without a guard, have no holder in Redis.
    ///
    /// Redis: `ZRANGE redisson_sc_grants:{name} 0 -1`.
    ///
    /// # Errors
    ///
    /// Those of every operation.
    pub async fn holders(&self) -> Result<Vec<PermitHolder>> {
        let request = Command::new("ZRANGE").key(self.queue.beside());
        let request = request.arg("0").arg("-1");
        let entries = self.queue.read_texts("holders", request).await?;
        Ok(PermitHolder::of(entries.iter().map(String::as_str)))
    }

    /// Gives the permits of guards back whose lease has ended, of 1,024 at the most; returns the clients that held them.
    ///
    /// Clients that use the semaphore do so by themselves: this is for when no client uses it any more.
    ///
    /// Redis: `name` rises by what they held, keeping its time to live; waiters are served, and what is left is announced.
    ///
    /// # Errors
    ///
    /// Those of every operation.
    pub async fn reclaim(&self) -> Result<Vec<PermitHolder>> {
        let calling = async {
            Ok(match self.queue.call(Call::Reclaim).await? {
                Outcome::Text(entries) => PermitHolder::of(entries.split(',')),
                _ => Vec::new(),
            })
        };
        self.core().call(pin!(calling)).await
    }
}
