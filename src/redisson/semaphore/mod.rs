//! [`RSemaphore`]: Redisson's counting semaphore.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

mod call;
mod handle;
mod object;
mod watched;

use call::{Call, Permits, SCRIPT};

use super::names;
use crate::api::{Permit, Semaphore, check_millis};
use crate::engine::Core;
use crate::error::Result;
use crate::queue::{Amount, Grant, Leases, Object, Outcome};
use crate::stats::What;

/// A counting semaphore shared with Java's `RSemaphore` of the same name.
///
/// A handle: cheap to clone, made without I/O by [`Client::semaphore`](crate::Client::semaphore). The guide has [the
/// promises](crate::guide::promises), [the order of waiters](crate::guide::queue), and [Redisson's
/// methods](crate::guide::from_redisson) beside ours.
///
/// ```no_run
/// # async fn example(client: redisson_semaphore::Client) -> redisson_semaphore::Result<()> {
/// let seats = client.semaphore("seats"); // Java: redisson.getSemaphore("seats")
/// seats.set_permits(8).await?;
/// let two = seats.permit(2).await?; // waits; released when dropped
/// println!("{} seats are left", seats.available_permits().await?);
/// two.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Waiting
///
/// 1. Waiters stand in one queue in Redis, in the order in which they came, whichever process they are in.
/// 2. The script that frees permits moves them to the first waiters in the queue that they suffice for, and notifies the clients
///    of these.
/// 3. A client that does not confirm a grant in time loses it to the next waiter.
/// 4. Smaller requests pass a request that is too large for what is free, except in windows that grow with its wait.
/// 5. JVMs do not queue. An equal share is left to them.
///
/// A client confirms a grant within 3 s, or that of a guard within the watchdog timeout where that is shorter. A window begins when a request has waited for 250 ms, 1 s, 4 s, and so
/// on. It lasts for half of that time, 20 s at the most. When the request was not served in it, no window begins for twice as long.
///
/// A waiting caller costs no polling and no task. Each client waits with 64 entries per semaphore, and 64 for callers of each smaller
/// amount, and serves its callers in the order of their arrival.
///
/// # Guards
///
/// [`permit`](Self::permit), [`permit_for`](Self::permit_for) and [`try_permit`](Self::try_permit) give guards. Guards are
/// [watched](Self::watched) by default: their permits come back when their process dies.
/// [`ClientBuilder::watch_semaphores(false)`](crate::ClientBuilder::watch_semaphores) and [`unwatched`](Self::unwatched) turn that off.
/// Permits that were taken without a guard are never watched.
///
/// # In Redis
///
/// | | |
/// |---|---|
/// | key `name` | string: the permits available now, a decimal integer, possibly negative |
/// | channel `redisson_sc:{name}` | the new total, where permits were added and some are left; then `0` for each further permit that was added and is left, 63 at the most, as long as a subscriber hears it. While a client of this crate waits, a `+` stands before each message; a JVM reads `+3` as `3`. After a release that leaves permits, the messages are repeated 50 ms, 200 ms, 1 s, 5 s and 30 s later, while permits are left and JVMs listen; the first says `16` where the total is less. Where no JVM listened at the release, the repeats begin after 1 s |
/// | key `redisson_sc_queue:{name}` | zset: an entry for each of the first 64 waiters of a client, and for the first 64 of each smaller amount, with its arrival in microseconds of the server's clock |
/// | channel `redisson_sc_queue:{name}:<client id>` | `grant`, a ticket and the time; `gone`: the client's entries have left the queue; `watch`: the client listens to JVMs from now on |
/// | key `redisson_sc_grants:{name}` | zset: an entry for each grant that is not confirmed yet and for each watched guard, with the end of its lease |
/// | key `redisson_sc_notes:{name}` | hash: the client that listens to JVMs, and the share of these |
/// | key `redisson_sc_once:{name}:<client id>` | string: the number of the client's last batch of calls and its answer, for once-only execution |
///
/// `name` is the mapped name. Where it contains a `{`, no braces are put around it, and the last five begin with
/// `redisson_sc_queue::` and so on. An entry reads `<client id>:<kind><ticket>:<permits>:<life of its grant in ms>`; the kind is `g` for a
/// guard and `a` for `acquire`, and the [name of the client](crate::ClientBuilder::client_name) stands percent-encoded behind entries of guards.
///
/// Queue and notes vanish a minute after their last use at the latest, or four safety intervals where that is longer. Grants have no time to live, and vanish with the last entry. The record is deleted
/// about a second after its last use. After a call that had to be repeated, or without a shutdown, it vanishes after ten
/// minutes, or four retry windows where that is longer.
///
/// Deleting the queue or the notes costs the order of some waiters. Deleting the grants loses the permits of their entries: the
/// guards are [lost](crate::Permit::lost), and the counter stays too low.
///
/// Scripts: `lua/semaphore/steps.lua` carries a batch of calls out, behind `short.lua`, `permits.lua` and `lua/queue/`;
/// `lua/engine/renew.lua` renews guards.
///
/// # Errors
///
/// Every operation can fail with [the errors of all operations](crate::guide::promises#errors). The methods name
/// further ones.
///
/// # Cancel safety
///
/// Any future may be dropped at any await point. A call is queued at the first poll. A release whose future is dropped after that is carried
/// out as soon as the server can be reached. Any other call that has not been sent is dropped. One that has been sent may take effect;
/// permits that it acquires are released.
///
/// # Bounds
///
/// While the server does not answer, a call takes no more memory than its caller, and ends with an error after the
/// [retry window](crate::ClientBuilder::retry_window). Releases without a caller are kept; other calls without a caller are dropped. One
/// script is under way at a time. It carries 1,024 calls and 1,024 new waiters at the most. A waiter that the server has answered once has no such limit.
///
/// # DIFFERENCE from Redisson
///
/// - Waiters of this crate are served in their order; Redisson's race.
/// - The permits of guards come back when their process dies; Redisson has no guards.
/// - A call whose answer was lost is repeated and takes effect once; Redisson's permit is lost.
/// - `add_permits` and `drain_permits` keep the time to live; Redisson's drop it.
/// - Results outside of signed 32 bits are refused; Redisson stores them and shows the low 32 bits. Where
///   another client has left such a counter, it is shown as it is, and can be moved back.
/// - A counter that is no integer of less than 15 digits is [`NotANumber`](crate::Error::NotANumber) to every
///   operation, and nothing is changed; Redisson's operations answer differently, and some store over it.
/// - A time to live of zero is refused before anything is sent.
/// - Keyspace notifications say `set` or `incrby` where Redisson's say `incrby` and `decrby`: a batch of calls writes
///   the counter once.
/// - Nothing is published where no permit is left, as no caller could acquire it; Redisson publishes 0 and
///   negative totals.
/// - Permits that are renamed or copied are announced to the JVMs and clients that wait for the new name.
/// - A channel stays subscribed for a second after its last waiter has gone.
/// - In a cluster, names whose braces would put the semaphore and its channel into different slots are refused.
#[derive(Clone)]
pub struct RSemaphore {
    queue: Arc<Object<Permits>>,
    /// Its guards hold their permits under leases.
    watched: bool,
}

impl RSemaphore {
    pub(crate) fn new(core: &Arc<Core>, name: &str) -> Self {
        let names = names::of_semaphore(name, &core.config.name_mapper, core.id());
        RSemaphore {
            queue: Object::of(core, names, &SCRIPT, Leases::new),
            watched: core.config.watch_semaphores,
        }
    }

    /// The name that the handle was made with, before mapping.
    #[must_use]
    pub fn name(&self) -> &str {
        self.queue.keys().name()
    }

    /// Sets the number of permits if the semaphore does not exist; `true` if this call has set it. To change the number at the next
    /// deployment, see [`set_permits`](Self::set_permits).
    ///
    /// Redis: `SET name permits`, without expiry, where the key is missing. Waiters are served, and the rest is announced.
    /// Redisson: `trySetPermits(int)`.
    ///
    /// # Errors
    ///
    /// [`InvalidPermits`](crate::Error::InvalidPermits) above 2^31-1.
    pub async fn try_set_permits(&self, permits: u32) -> Result<bool> {
        self.queue.check_permits(permits)?;
        self.flag(Call::TrySet(permits, None)).await
    }

    /// As [`try_set_permits`](Self::try_set_permits); the semaphore vanishes after `ttl`, rounded up to whole
    /// milliseconds.
    ///
    /// Redis: as there, with `PX ttl`. Redisson: `trySetPermits(int, Duration)`, since 3.29.
    ///
    /// # Errors
    ///
    /// [`InvalidDuration`](crate::Error::InvalidDuration) below a millisecond, and above 2^53 of them.
    pub async fn try_set_permits_for(&self, permits: u32, ttl: Duration) -> Result<bool> {
        self.queue.check_permits(permits)?;
        check_millis(self.name(), "time to live", ttl)?;
        self.flag(Call::TrySet(permits, Some(ttl))).await
    }

    /// Acquires `permits` permits, waiting until they are available. All or nothing; 0 succeeds at once.
    ///
    /// The permits are taken at once where enough are free and no waiter came before. Otherwise the caller [waits](Self#waiting) in the queue.
    /// A grant of another client's script counts when this client has confirmed it, which takes a message and a
    /// script. A release of this client may serve the caller without Redis
    /// ([`local_hand_off`](crate::ClientBuilder::local_hand_off)), while no other client has waited for longer.
    ///
    /// Redis: `name` falls by `permits`, keeping its time to live. A waiter stands in `redisson_sc_queue:{name}`, and its grant in
    /// `redisson_sc_grants:{name}` until it is confirmed. Redisson: `acquire(int)`.
    ///
    /// # Errors
    ///
    /// [`InvalidPermits`](crate::Error::InvalidPermits) above 2^31-1. A caller that the server has answered once goes on waiting while the server
    /// is away. A caller that has had no answer for the retry window ends with an error.
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves the queue. Permits that were granted meanwhile are released.
    #[must_use = "nothing gives back what this takes but a call of `release`; `permit` gives a guard"]
    pub async fn acquire(&self, permits: u32) -> Result<()> {
        self.taken(permits, None).await.map(drop)
    }

    /// Acquires `permits` permits if they are free now, past all waiters; 0 succeeds at once.
    ///
    /// Redis: `name` falls by `permits`, keeping its time to live. Redisson: `tryAcquire(int)`.
    ///
    /// # Errors
    ///
    /// [`InvalidPermits`](crate::Error::InvalidPermits) above 2^31-1.
    #[must_use = "nothing gives back what this takes but a call of `release`; `try_permit` gives a guard"]
    pub async fn try_acquire(&self, permits: u32) -> Result<bool> {
        self.taken(permits, Some(Duration::ZERO)).await
    }

    /// Acquires `permits` permits, waiting for `wait` at the most; `false` when the time is over.
    ///
    /// A wait of zero is [`try_acquire`](Self::try_acquire). Where the server has not answered the caller yet, the call ends with an error
    /// 5 s after `wait`, or after the [`call_timeout`](crate::ClientBuilder::call_timeout). A table has
    /// [wait, call timeout, retry window and lease](crate::ClientBuilder#names-and-times-of-calls).
    ///
    /// Redis: as [`acquire`](Self::acquire); at the end of `wait` the entry leaves the queue. Redisson: `tryAcquire(int, Duration)`.
    ///
    /// # Errors
    ///
    /// [`InvalidPermits`](crate::Error::InvalidPermits) above 2^31-1.
    #[must_use = "nothing gives back what this takes but a call of `release`; `permit_for` gives a guard"]
    pub async fn try_acquire_for(&self, permits: u32, wait: Duration) -> Result<bool> {
        self.taken(permits, Some(wait)).await
    }

    /// Releases `permits` permits, creating the semaphore if it does not exist; 0 does nothing.
    ///
    /// Redis: `name` rises by `permits`, keeping its time to live; waiters are served, and what is left is announced. Nothing is sent
    /// where the permits serve waiters of this client ([`local_hand_off`](crate::ClientBuilder::local_hand_off)). Redisson:
    /// `release(int)`.
    ///
    /// # Errors
    ///
    /// [`InvalidPermits`](crate::Error::InvalidPermits) above 2^31-1, [`OutOfRange`](crate::Error::OutOfRange) if the
    /// counter would pass that.
    pub async fn release(&self, permits: u32) -> Result<()> {
        self.queue.check_permits(permits)?;
        if permits == 0 {
            return Ok(());
        }
        self.run(Call::Release(permits)).await.map(drop)
    }

    /// Releases `permits` permits if the semaphore exists; `false` if it does not, or for 0.
    ///
    /// Redis: as [`release`](Self::release), but always sent. Redisson: `releaseIfExists(int)`, since 4.0.
    ///
    /// # Errors
    ///
    /// As [`release`](Self::release).
    pub async fn release_if_exists(&self, permits: u32) -> Result<bool> {
        self.queue.check_permits(permits)?;
        if permits == 0 {
            return Ok(false);
        }
        self.flag(Call::ReleaseIfExists(permits)).await
    }

    /// Changes the number of permits by `delta`, creating the semaphore if it does not exist.
    ///
    /// Never waits. A negative `delta` may make the counter negative; it has to rise above zero before permits can be acquired again.
    ///
    /// Redis: `name` changes by `delta`, keeping its time to live; waiters are served, and what is left is announced.
    /// Redisson: `addPermits(int)`.
    /// DIFFERENCE: Redisson's drops the time to live.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`](crate::Error::OutOfRange) if the counter would leave 32 bits.
    pub async fn add_permits(&self, delta: i32) -> Result<()> {
        self.run(Call::Add(delta)).await.map(drop)
    }

    /// Makes it `permits` permits with those that guards hold, creating the semaphore if it does not exist. Any number of processes may
    /// call it at each deployment.
    ///
    /// Guards keep what they hold, so the counter may become negative: after `set_permits(2)` beside a guard of 3 it is -1.
    /// The permits of [watched](Self::watched) guards are known. Others stand nowhere in Redis and count as available: those of
    /// [`acquire`](Self::acquire), of [unwatched](Self::unwatched) guards, and of JVMs. A release of such permits raises
    /// the number above `permits`. Where callers use those, [`add_permits`](Self::add_permits) changes the number by a difference.
    ///
    /// Redis: `name` changes, keeping its time to live; all of `redisson_sc_grants:{name}` is read; waiters are served, and what is left is
    /// announced. Redisson: none for this semaphore.
    ///
    /// ```no_run
    /// # async fn example(client: redisson_semaphore::Client) -> redisson_semaphore::Result<()> {
    /// let seats = client.semaphore("seats");
    /// seats.set_permits(8).await?;
    /// let seat = seats.permit(1).await?;
    /// seats.set_permits(10).await?;
    /// assert_eq!(seats.available_permits().await?, 9);
    /// # drop(seat);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidPermits`](crate::Error::InvalidPermits) above 2^31-1.
    pub async fn set_permits(&self, permits: u32) -> Result<()> {
        self.queue.check_permits(permits)?;
        self.run(Call::Set(permits)).await.map(drop)
    }

    /// Sets the counter to 0 and returns what it was, negative too; 0 if the semaphore does not exist.
    ///
    /// Redis: `name` becomes `0`, keeping its time to live; a missing key is not created.
    /// Redisson: `drainPermits()`.
    /// DIFFERENCE: Redisson's drops the time to live.
    pub async fn drain_permits(&self) -> Result<i64> {
        self.run(Call::Drain).await
    }

    /// The number of permits available now, as this client's earlier calls have left it; 0 if the
    /// semaphore does not exist.
    ///
    /// Redis: `GET name`. Redisson: `availablePermits()`.
    pub async fn available_permits(&self) -> Result<i64> {
        self.queue.read_counter("available_permits").await
    }

    /// Acquires `permits` permits as [`acquire`](Self::acquire) does, with a guard that gives them back.
    ///
    /// A [watched](Self::watched) guard goes on as soon as a fresh notification arrives. The client confirms the grant within 100 ms. Where
    /// the confirmation comes too late, the guard is [lost](Permit::lost), and the permits are the next waiter's.
    ///
    /// Redis: as [`acquire`](Self::acquire); a watched guard stands in `redisson_sc_grants:{name}`, and is renewed there.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn permit(&self, permits: u32) -> Result<Permit> {
        Semaphore::permit(self, permits).await
    }

    /// Acquires permits as [`try_acquire_for`](Self::try_acquire_for) does, with a guard; `None` when the time is over.
    ///
    /// # Errors
    ///
    /// As [`try_acquire_for`](Self::try_acquire_for).
    pub async fn permit_for(&self, permits: u32, wait: Duration) -> Result<Option<Permit>> {
        Semaphore::permit_for(self, permits, wait).await
    }

    /// Acquires permits as [`try_acquire`](Self::try_acquire) does, with a guard; `None` when there are not enough.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
    pub async fn try_permit(&self, permits: u32) -> Result<Option<Permit>> {
        Semaphore::try_permit(self, permits).await
    }

    /// Takes permits without a guard; see [`granted`](Self::granted).
    async fn taken(&self, permits: u32, wait: Option<Duration>) -> Result<bool> {
        self.queue.check_permits(permits)?;
        Ok(permits == 0 || self.granted(permits, false, wait).await?.is_some())
    }

    /// Takes permits, waiting for `wait` at the most (`None`: without limit); zero is no wait.
    async fn granted(
        &self,
        permits: u32,
        leased: bool,
        wait: Option<Duration>,
    ) -> Result<Option<Grant<Amount>>> {
        let tries = wait == Some(Duration::ZERO);
        let want = Amount {
            amount: permits,
            leased,
        };
        let taking = async {
            let outcome = match tries {
                true => self.queue.call(Call::Try(want)).await?,
                false => self.queue.wait(want, wait).await?,
            };
            Ok(match outcome {
                Outcome::Granted(grant) => Some(grant),
                _ => None,
            })
        };
        let what = (What::Permits, permits);
        self.core().take(self.name(), what, pin!(taking)).await
    }

    async fn run(&self, call: Call) -> Result<i64> {
        self.queue.keys().check()?;
        let calling = async {
            Ok(match self.queue.call(call).await? {
                Outcome::Number(number) => number,
                _ => 1,
            })
        };
        self.core().call(pin!(calling)).await
    }

    async fn flag(&self, call: Call) -> Result<bool> {
        self.run(call).await.map(|done| done == 1)
    }

    /// The client's.
    fn core(&self) -> &Arc<Core> {
        self.queue.client()
    }
}

impl fmt::Debug for RSemaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RSemaphore")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}
