//! [`RPermitExpirableSemaphore`]: Redisson's semaphore whose permits have ids and leases.

mod call;
mod handle;
mod held;
mod ids;
mod object;

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use super::names;
use crate::api::{Held, Holder, LeasedPermit, RemainingTtl, check_millis, shortened};
use crate::engine::Core;
use crate::engine::request::Request;
use crate::error::{Effect, Error, Result};
use crate::queue::{Grant, Object, Outcome};
use crate::stats::What;
use crate::transport::{Command, Value};
use call::{Call, Counted, Permits, millis};
use held::{Kept, PermitExpirable, SCRIPT};
use ids::Id;

/// One call takes, or releases, so many permits at the most.
const MOST_AT_ONCE: usize = 1024;

/// A semaphore whose permits have ids and leases, shared with Java's `RPermitExpirableSemaphore` of the same name.
///
/// A handle: cheap to clone, made without I/O by
/// [`Client::permit_expirable_semaphore`](crate::Client::permit_expirable_semaphore).
///
/// ```no_run
/// # async fn run(client: &redisson_semaphore::Client) -> redisson_semaphore::Result<()> {
/// use std::time::Duration;
///
/// let jobs = client.permit_expirable_semaphore("jobs");
/// jobs.try_set_permits(8).await?;
///
/// // A guard: renewed as long as it lives, released on drop, and free again when this process dies.
/// let job = jobs.permit().await?;
/// job.release().await?;
///
/// // As Redisson has it: by id, for ever or for a time.
/// let held = jobs.clone().with_lease(Duration::from_secs(60)).acquire().await?;
/// jobs.release(held.id()).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Which of the two semaphores
///
/// A permit of [`RSemaphore`](crate::RSemaphore) is a number. That semaphore is the faster one, any caller may release the permits of another one, and
/// it may be used as a signal. A permit of this one has an id, and ends by itself when its lease is over. Take this one where JVMs and
/// processes of this crate share permits that come back when their holder dies, and hold them by guards ([`permit`](Self::permit)).
///
/// To move a service over: both have the same counter and channel, but callers of the one know nothing of what the other
/// has given out. So give it a new name, set its permits, and let all services change from the old name to the new one;
/// while some still use the old one, the sum of both limits is in force. Under the old name it can be done when
/// no permit is held: stop the services of the one, see that the counter is at its full number, start the others.
///
/// # Leases
///
/// Without [`with_lease`](Self::with_lease) a permit that was acquired lasts for ever, as in Redisson. Guards have a lease in any case, which is
/// renewed every third of it. All permits of a client that last equally long are renewed together, 250 with one script.
///
/// Ends are counted by the server's clock, in whole milliseconds. JVMs write what their own clock says: a permit of a JVM whose clock is ahead
/// lasts longer by that time, and a permit of a JVM that is behind ends sooner, for everybody. Such ends are taken as they are written.
///
/// Waiters are served when a permit ends without a release: one waiting client checks then. A client that shortens a lease checks, too, while it
/// has a handle. If a JVM shortens it, waiters find out by their slow check ([`safety_interval`](crate::ClientBuilder::safety_interval)).
///
/// # Waiting
///
/// Waiters stand in one queue, as [those of `RSemaphore`](crate::RSemaphore#waiting), and JVMs get their share.
///
/// A grant is a permit that ends soon: in 3 s, but no later than its lease does. The client confirms it, which sets the lease. A guard goes on as soon as a fresh notification arrives, and its client confirms the grant within
/// 100 ms. A caller of [`acquire`](Self::acquire) goes on when the confirmation is answered. A permit that was not confirmed ends, and is free again. The
/// windows for large requests are those of `RSemaphore`. `try_acquire` takes what is free, past the queue.
///
/// A waiting caller costs no polling and no task. Each client waits with 64 entries per semaphore, and 64 for callers that want fewer
/// permits than these. It serves its callers that want the same in the order of their arrival.
///
/// # In Redis
///
/// | | |
/// |---|---|
/// | key `name` | string: the permits available now, a decimal integer, possibly negative |
/// | key `{name}:timeout` | zset: the id of each permit that is held or granted, 16 bytes, with its end in milliseconds since 1970; `922337203685477`: never. Has the time to live of `name` at the last acquisition |
/// | channel `redisson_sc:{name}` | the number of permits available, where some were released, have ended, or were added, and some are left; further messages as [those of `RSemaphore`](crate::RSemaphore#in-redis) |
/// | key `redisson_sc_leased_queue:{name}` | zset: an entry for each of the first 64 waiters of a client, and for the first 64 of each smaller amount, with its arrival in microseconds of the server's clock |
/// | channel `redisson_sc_leased_queue:{name}:<client id>` | `grant`, a ticket and the time; `none` and a ticket: the entry could not be granted; `gone`: the client's entries have left the queue; `watch`: the client listens to JVMs from now on |
/// | key `redisson_sc_leased_notes:{name}` | hash: the client that listens to JVMs, the share of these, and the clients that have not confirmed a grant |
/// | key `redisson_sc_leased_once:{name}:<client id>` | string: the number of the client's last batch of calls and its answer, for once-only execution |
///
/// `name` is the mapped name. Where it contains a `{`, no braces are put around it, and the last four begin with
/// `redisson_sc_leased_queue::` and so on. An entry reads `<client id>:<kind><ticket>:<permits>:<life of its grant in ms>:<lease in ms>:<secret>`; the
/// kind is `g` for a guard and `a` for `acquire`, and the lease is 0 where the permits do not end. The secret is the client's. The ids of an entry's permits are the
/// first 14 bytes of the SHA-1 of `<secret>:<ticket>`, and two bytes that count from 1.
///
/// Queue and notes vanish a minute after their last use, records as [those of semaphores](crate::RSemaphore#in-redis). Deleting the queue or the
/// notes costs the order of some waiters.
///
/// Scripts: `lua/permit_expirable/steps.lua` carries a batch of calls out, behind `short.lua`, `permits.lua`, `lua/semaphore/permits.lua` and
/// `lua/queue/`; `lua/engine/renew.lua` renews guards. A script takes out up to 1024 permits whose time is over; the rest counts as free, and is
/// taken out by the next ones. A call that travels alone leaves them where they are while enough is free.
///
/// The [guide](crate::guide::operations#permissions) has the permissions that a user of the server's ACL needs.
///
/// # Out of step
///
/// Where one of the two keys was deleted or has expired alone, nothing that is still held is lost: without the counter no permit is available,
/// each one that is released or ends is available again, and [`try_set_permits`](Self::try_set_permits) and [`set_permits`](Self::set_permits) count those that are
/// held. Without the zset its permits are gone: their holders learn that when they release or renew them, and
/// [`set_permits`](Self::set_permits) puts the number right.
///
/// # Errors
///
/// Every operation can fail with [the errors of all operations](crate::guide::promises#errors). The methods name
/// further ones.
///
/// Ids are hex digits, an even number of them, in either case. Any other text is
/// [`InvalidPermitId`](Error::InvalidPermitId), and so is an id that Redisson 3.16.8 or an earlier one has given: those keep ids in another form. Their permits are
/// counted, end, and are listed as all others; their ids as [`holders`](Self::holders) shows them can be released.
///
/// # Cancel safety
///
/// Any future may be dropped at any await point. A call is queued at the first poll. A release whose future is dropped after that is carried
/// out all the same; of several permits those that are held are released then. Permits that were granted to a dropped future are released.
/// Any other call that has not been sent is not sent any more.
///
/// # DIFFERENCE from Redisson
///
/// - An id cannot be guessed: it is a hash of a secret of the client. The ids of permits that are acquired together differ in their last two bytes.
/// - A call whose answer was lost takes effect once; Redisson's permit is lost, or its release is reported as failed.
/// - Waiters of this crate are served in their order; Redisson's race.
/// - A timed call ends at its deadline with `None`. A call for no permits is answered at once; Redisson's never ends.
/// - Permits whose time is over count as free in every operation.
/// - Messages carry the number of permits available; Redisson's sometimes what was added, or the maximum. Nothing is published where none is left.
/// - `try_set_permits` and `set_permits` of a missing counter leave out what is still held; Redisson's give it out twice.
/// - `add_permits` keeps the time to live; Redisson's drops it.
/// - A list with an id that stands there twice is released once, as in Redisson, but not an error.
/// - 1024 permits at a time at the most.
/// - `unlink`, `exists`, `touch` and renames are about both keys; Redisson's about the counter alone.
#[derive(Clone)]
pub struct RPermitExpirableSemaphore {
    core: Arc<Core>,
    queue: Arc<Object<PermitExpirable>>,
    lease: Option<Duration>,
}

impl RPermitExpirableSemaphore {
    pub(crate) fn new(core: &Arc<Core>, name: &str) -> Self {
        let names = names::of_permit_expirable(name, &core.config.name_mapper, core.id());
        RPermitExpirableSemaphore {
            queue: Object::of(core, names, &SCRIPT, Kept::new),
            core: Arc::clone(core),
            lease: None,
        }
    }

    /// The same semaphore; permits that are acquired with this handle last for `lease`, rounded up to whole milliseconds.
    /// From some thirty thousand years on they last for ever. Guards of this handle renew it until they are dropped: it is the time that a permit
    /// outlives a killed process.
    ///
    /// An acquisition answers [`InvalidDuration`](Error::InvalidDuration) below a millisecond, and above 2^53 of them.
    /// Redisson: `acquire(long, TimeUnit)` and its sisters.
    #[must_use]
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// The name that the handle was made with, before mapping.
    #[must_use]
    pub fn name(&self) -> &str {
        self.queue.keys().name()
    }

    /// How long the permits last that are acquired with this handle; `None`: for ever.
    #[must_use]
    pub fn lease(&self) -> Option<Duration> {
        self.lease
    }

    /// Takes a permit, waiting until there is one.
    ///
    /// Redis: `name` falls by one, and the id is entered in `{name}:timeout`, which takes the time to live of `name` over. A waiter stands in
    /// `redisson_sc_leased_queue:{name}`.
    /// Redisson: `acquire()`, `acquire(long, TimeUnit)`.
    ///
    /// # Errors
    ///
    /// Those of [`with_lease`](Self::with_lease). A caller that the server has answered once goes on waiting while the server is away. A
    /// caller that has had no answer for the retry window ends with an error.
    #[must_use = "nothing gives back what this takes but a call of `release`; `permit` gives a guard"]
    pub async fn acquire(&self) -> Result<Held> {
        let held = self.take_one(None, false).await?;
        Ok(held.expect(GRANTED))
    }

    /// Takes `permits` permits, waiting until all of them are there; none is had at once.
    ///
    /// Redis: as [`acquire`](Self::acquire). Redisson: `acquire(int)`, `acquire(int, long, TimeUnit)`.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), and [`TooManyAtOnce`](Error::TooManyAtOnce) above 1024.
    #[must_use = "nothing gives back what this takes but a call of `release`; `permit` gives a guard"]
    pub async fn acquire_many(&self, permits: u32) -> Result<Vec<Held>> {
        let held = self.take(permits, None, false).await?;
        Ok(held.expect(GRANTED))
    }

    /// Takes a permit if one is free now, past all waiters. Redisson: `tryAcquire()`.
    ///
    /// # Errors
    ///
    /// Those of [`with_lease`](Self::with_lease).
    #[must_use = "nothing gives back what this takes but a call of `release`; `try_permit` gives a guard"]
    pub async fn try_acquire(&self) -> Result<Option<Held>> {
        self.try_acquire_for(Duration::ZERO).await
    }

    /// Takes `permits` permits if they are free now, past all waiters. Redisson: `tryAcquire(int)`.
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Self::acquire_many).
    #[must_use = "nothing gives back what this takes but a call of `release`; `try_permit` gives a guard"]
    pub async fn try_acquire_many(&self, permits: u32) -> Result<Option<Vec<Held>>> {
        self.try_acquire_many_for(permits, Duration::ZERO).await
    }

    /// Takes a permit, waiting for `wait` at the most; `None` when the time is over. Redisson: `tryAcquire(long, TimeUnit)`,
    /// `tryAcquire(long, long, TimeUnit)`.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    #[must_use = "nothing gives back what this takes but a call of `release`; `permit_for` gives a guard"]
    pub async fn try_acquire_for(&self, wait: Duration) -> Result<Option<Held>> {
        self.take_one(Some(wait), false).await
    }

    /// Takes `permits` permits, waiting for `wait` at the most; `None` when the time is over. Redisson: `tryAcquire(int,
    /// long, long, TimeUnit)`.
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Self::acquire_many).
    #[must_use = "nothing gives back what this takes but a call of `release`; `permit_for` gives a guard"]
    pub async fn try_acquire_many_for(
        &self,
        permits: u32,
        wait: Duration,
    ) -> Result<Option<Vec<Held>>> {
        self.take(permits, Some(wait), false).await
    }

    /// Gives the permit with this id back; any client may do that.
    ///
    /// Redis: the id leaves `{name}:timeout`, and `name` rises by one; waiters are served, and what is left is announced. Redisson:
    /// `release(String)`.
    ///
    /// # Errors
    ///
    /// [`PermitNotHeld`](Error::PermitNotHeld) if it is not held, or not any more.
    pub async fn release(&self, id: &str) -> Result<()> {
        let release = Call::Release(self.id(id)?);
        let released = |number| match number {
            1 => Ok(()),
            _ => Err(self.not_held(id)),
        };
        self.run(release, |outcome| released(number_of(&outcome)))
            .await
    }

    /// Gives the permits with these ids back: all of them, or none if one of them is not held. After an unknown outcome those that are held are
    /// released one by one.
    ///
    /// Redis: as [`release`](Self::release). Redisson: `release(List)`.
    ///
    /// # Errors
    ///
    /// [`PermitNotHeld`](Error::PermitNotHeld) if one of them is not held, [`TooManyAtOnce`](Error::TooManyAtOnce) above 1024.
    pub async fn release_many(&self, ids: &[impl AsRef<str> + Sync]) -> Result<()> {
        self.give_back_together(ids, |count| match usize::try_from(-1 - count) {
            Ok(place) => Err(self.not_held(ids.get(place).map_or("", AsRef::as_ref))),
            Err(_) => Ok(()),
        })
        .await
    }

    /// Gives the permit with this id back; `false` if it is not held, or not any more. Redisson: `tryRelease(String)`.
    pub async fn try_release(&self, id: &str) -> Result<bool> {
        self.flag(Call::Release(self.id(id)?)).await
    }

    /// Gives the permits with these ids back: all of them, or none if one of them is not held. How many they were.
    ///
    /// Redisson: `tryRelease(List)`.
    ///
    /// # Errors
    ///
    /// [`TooManyAtOnce`](Error::TooManyAtOnce) above 1024.
    pub async fn try_release_many(&self, ids: &[impl AsRef<str> + Sync]) -> Result<u32> {
        self.give_back_together(ids, |count| Ok(u32::try_from(count).unwrap_or(0)))
            .await
    }

    /// Lets the permit with this id last for `lease` from now on (`None`: for ever); `false` if it is not held, or not any
    /// more.
    ///
    /// Redis: the id's score in `{name}:timeout` is set. Redisson: `updateLeaseTime(String, long, TimeUnit)`. A guard's
    /// permit is renewed all the same. Where another client lets it end earlier, the guard learns of that by its next renewal; where one
    /// lets it last longer, it does so after the death of the guard's process, too. A shorter lease counts for a guard of this client from the
    /// call on, also where the call fails.
    ///
    /// # Errors
    ///
    /// [`InvalidDuration`](Error::InvalidDuration) below a millisecond, and above 2^53 of them.
    pub async fn update_lease_time(&self, id: &str, lease: Option<Duration>) -> Result<bool> {
        let id = self.id(id)?;
        self.check_lease(lease)?;
        self.flag(Call::Prolong(id, millis(lease))).await
    }

    /// How long the permit with this id lasts: `Missing` if it is not held, or not any more; `Persistent` for ever.
    ///
    /// Redisson: `getLeaseTime(String)`, which throws for one that is not held.
    pub async fn lease_time(&self, id: &str) -> Result<RemainingTtl> {
        let left = self.number(Call::Remaining(self.id(id)?)).await?;
        Ok(match u64::try_from(left) {
            Ok(left) => RemainingTtl::Expires(Duration::from_millis(left)),
            Err(_) if left == -1 => RemainingTtl::Persistent,
            Err(_) => RemainingTtl::Missing,
        })
    }

    /// The permits available now; 0 if the semaphore does not exist. Redisson: `availablePermits()`.
    pub async fn available_permits(&self) -> Result<i64> {
        self.number(Call::Count(Counted::Available)).await
    }

    /// The permits that are held or granted now. Redisson: `acquiredPermits()`.
    pub async fn acquired_permits(&self) -> Result<i64> {
        self.number(Call::Count(Counted::Acquired)).await
    }

    /// The permits there are, held or not; 0 if the semaphore does not exist. Redisson: `getPermits()`.
    pub async fn total_permits(&self) -> Result<i64> {
        self.number(Call::Count(Counted::Total)).await
    }

    /// Sets the number of permits if the semaphore does not exist; `true` if this call has set it.
    ///
    /// Redis: where `name` is missing it is set, without expiry, to `permits` less those that are held. Redisson:
    /// `trySetPermits(int)`.
    ///
    /// # Errors
    ///
    /// [`InvalidPermits`](Error::InvalidPermits) above 2^31-1.
    pub async fn try_set_permits(&self, permits: u32) -> Result<bool> {
        self.queue.check_permits(permits)?;
        self.flag(Call::TrySet(permits)).await
    }

    /// Sets the number of permits, held or not. Those that are held stay so: the number available may become negative.
    ///
    /// Redis: `name` changes, keeping its time to live, so that with those that are held it comes to `permits`. Redisson:
    /// `setPermits(int)`.
    ///
    /// # Errors
    ///
    /// [`InvalidPermits`](Error::InvalidPermits) above 2^31-1, [`OutOfRange`](Error::OutOfRange) if the counter would
    /// leave 32 bits.
    pub async fn set_permits(&self, permits: u32) -> Result<()> {
        self.queue.check_permits(permits)?;
        self.number(Call::Set(permits)).await.map(drop)
    }

    /// Changes the number of permits by `delta`, creating the semaphore if it does not exist.
    ///
    /// Redis: `name` changes by `delta`, keeping its time to live. Redisson: `addPermits(int)`.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`](Error::OutOfRange) if the counter would leave 32 bits.
    pub async fn add_permits(&self, delta: i32) -> Result<()> {
        self.number(Call::Add(delta)).await.map(drop)
    }

    /// A guard: takes a permit, waiting until there is one, renews it from then on, and gives it back when dropped.
    ///
    /// The permit lasts for the lease of this handle, or for the client's
    /// [`lock_watchdog_timeout`](crate::ClientBuilder::lock_watchdog_timeout) where that has none, and is renewed every third of it. So it comes back by
    /// itself, within that time or that of [a grant](Self#waiting), when this process dies. The guard says when it is [`lost`](LeasedPermit::lost),
    /// also where the confirmation of a grant comes too late.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn permit(&self) -> Result<LeasedPermit> {
        let handle = self.renewing();
        let held = handle.take_one(None, true).await?;
        Ok(LeasedPermit::new(Arc::new(handle), held.expect(GRANTED)))
    }

    /// [`permit`](Self::permit), waiting for `wait` at the most; `None` when the time has run out.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn permit_for(&self, wait: Duration) -> Result<Option<LeasedPermit>> {
        let handle = self.renewing();
        let held = handle.take_one(Some(wait), true).await?;
        Ok(held.map(|held| LeasedPermit::new(Arc::new(handle), held)))
    }

    /// [`permit`](Self::permit), if one is free now; `None` if not.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn try_permit(&self) -> Result<Option<LeasedPermit>> {
        self.permit_for(Duration::ZERO).await
    }

    /// Returns the holders of permits, JVMs included: the id of each, and how long it lasts. The one that ends first is the first.
    ///
    /// A permit that is held all the time is listed once. One that is acquired, released or over meanwhile may be listed or missing.
    ///
    /// Redis: `TIME`, then `ZSCAN {name}:timeout`, some 256 permits at a time. Redisson has no counterpart.
    pub async fn holders(&self) -> Result<Vec<Holder>> {
        self.core.call(pin!(self.scan())).await
    }

    async fn scan(&self) -> Result<Vec<Holder>> {
        self.queue.keys().check()?;
        let time = Command::new("TIME").beside(self.queue.keys().object());
        let time = self.read(time).await?;
        let [Value::Bytes(seconds), Value::Bytes(micros)] = &time[..] else {
            return Err(self.queue.unexpected(&Value::Array(time)));
        };
        let number = |bytes: &[u8]| String::from_utf8_lossy(bytes).parse().unwrap_or(0.0_f64);
        let now = number(seconds) * 1000.0 + number(micros) / 1000.0;
        let mut ends = BTreeMap::new();
        let mut cursor = "0".to_owned();
        loop {
            let page = Command::new("ZSCAN").key(self.permits_key()).arg(&cursor);
            let page = self.read(page.arg("COUNT").arg("256")).await?;
            let [Value::Bytes(next), Value::Array(members)] = &page[..] else {
                return Err(self.queue.unexpected(&Value::Array(page)));
            };
            for pair in members.chunks(2) {
                // Somebody may have entered what is no id at all.
                if let [Value::Bytes(id), Value::Bytes(end)] = pair
                    && !id.is_empty()
                {
                    ends.insert(ids::to_hex(id), number(end));
                }
            }
            cursor = String::from_utf8_lossy(next).into_owned();
            if cursor == "0" {
                break;
            }
        }
        let held = ends.into_iter().filter(|(_, end)| *end > now);
        let holder = |(id, end): (Arc<str>, f64)| Holder {
            id: id.to_string(),
            remaining: (end < ENDLESS).then(|| Duration::from_millis((end - now) as u64)),
            slot: None,
        };
        let mut holders: Vec<Holder> = held.map(holder).collect();
        holders.sort_by_key(|holder| holder.remaining.unwrap_or(Duration::MAX));
        Ok(holders)
    }

    /// The parts of the answer to a command that changes nothing.
    async fn read(&self, command: Command) -> Result<Vec<Value>> {
        let request = Request::plain(command);
        match self.queue.request("holders", request).await? {
            Value::Array(parts) => Ok(parts),
            other => Err(self.queue.unexpected(&other)),
        }
    }

    /// Takes all permits away from their holders; how many they were. Guards learn of it by their next renewal, other holders do not.
    ///
    /// Redis: `DEL` of the permits, whose number is added to the counter. Redisson has no counterpart.
    pub async fn release_all(&self) -> Result<u64> {
        self.run(
            Call::Clear,
            |outcome| Ok(number_of(&outcome).unsigned_abs()),
        )
        .await
    }

    async fn take_one(&self, wait: Option<Duration>, guard: bool) -> Result<Option<Held>> {
        let held = self.take(1, wait, guard).await?;
        Ok(held.and_then(|held| held.into_iter().next()))
    }

    /// Takes permits, waiting for `wait` at the most (`None`: without limit); zero is no wait.
    async fn take(
        &self,
        permits: u32,
        wait: Option<Duration>,
        guard: bool,
    ) -> Result<Option<Vec<Held>>> {
        self.queue.keys().check()?;
        self.check_lease(self.lease)?;
        self.check_count(permits as usize)?;
        if permits == 0 {
            return Ok(Some(Vec::new()));
        }
        let want = Permits {
            amount: permits,
            guard,
            lease: millis(self.lease),
        };
        let taking = async {
            let outcome = match wait.is_some_and(|wait| wait.is_zero()) {
                true => self.queue.call(Call::Take(want)).await?,
                false => self.queue.wait(want, wait).await?,
            };
            Ok(match outcome {
                Outcome::Granted(grant) => Some(self.held(&grant)),
                _ => None,
            })
        };
        let what = (What::Permits, permits);
        self.core.take(self.name(), what, pin!(taking)).await
    }

    fn held(&self, grant: &Grant<Permits>) -> Vec<Held> {
        let until = grant.until.filter(|_| grant.want.lease > 0);
        let secret = self.queue.with_held(|kept| Arc::clone(&kept.secret));
        let ids = ids::of(&secret, grant.ticket, grant.want.amount);
        let held = |id| Held {
            id,
            slot: None,
            until,
        };
        ids.map(held).collect()
    }

    /// Reading the answer is a part of the call, so that it counts as failed where the answer is an error.
    async fn run<T>(
        &self,
        call: Call,
        read: impl FnOnce(Outcome<Permits>) -> Result<T>,
    ) -> Result<T> {
        let running = async { read(self.queue.call(call).await?) };
        self.core.call(pin!(running)).await
    }

    async fn number(&self, call: Call) -> Result<i64> {
        self.run(call, |outcome| Ok(number_of(&outcome))).await
    }

    async fn flag(&self, call: Call) -> Result<bool> {
        self.number(call).await.map(|number| number == 1)
    }

    /// `released` reads how many were released, or which one is not held, from -1 downwards.
    async fn give_back_together<T>(
        &self,
        ids: &[impl AsRef<str> + Sync],
        released: impl FnOnce(i64) -> Result<T>,
    ) -> Result<T> {
        self.check_count(ids.len())?;
        if ids.is_empty() {
            return released(0);
        }
        let ids = ids.iter().map(|id| self.id(id.as_ref()));
        let mut each = EachOnDrop {
            semaphore: self,
            ids: ids.collect::<Result<_>>()?,
        };
        let call = Call::Together(Arc::clone(&each.ids));
        let done = self.run(call, |outcome| released(number_of(&outcome)));
        let done = done.await;
        // A call whose outcome is unknown may still find one that is not held.
        if (done.as_ref()).map_or_else(Error::effect, |_| Effect::NotApplied) == Effect::NotApplied
        {
            each.ids = Arc::new([]);
        }
        done
    }

    fn id(&self, id: &str) -> Result<Id> {
        self.queue.keys().check()?;
        ids::read(id).ok_or_else(|| Error::InvalidPermitId {
            name: self.name().to_owned(),
            id: shortened(id),
            reason: "it is no even number of hex digits",
        })
    }

    fn not_held(&self, id: &str) -> Error {
        Error::PermitNotHeld {
            name: self.name().to_owned(),
            id: id.to_owned(),
        }
    }

    fn check_lease(&self, lease: Option<Duration>) -> Result<()> {
        lease.map_or(Ok(()), |lease| {
            check_millis(self.name(), "lease", lease).map(drop)
        })
    }

    fn check_count(&self, permits: usize) -> Result<()> {
        if permits <= MOST_AT_ONCE {
            return Ok(());
        }
        Err(Error::TooManyAtOnce {
            name: self.name().to_owned(),
            permits,
            most: MOST_AT_ONCE,
        })
    }
}

/// Dropped without an answer, it releases each by itself, where the call for all of them releases none.
struct EachOnDrop<'a> {
    semaphore: &'a RPermitExpirableSemaphore,
    ids: Arc<[Id]>,
}

impl Drop for EachOnDrop<'_> {
    fn drop(&mut self) {
        for id in self.ids.iter() {
            self.semaphore.queue.defer(Call::Release(id.clone()));
        }
    }
}

fn number_of(outcome: &Outcome<Permits>) -> i64 {
    match outcome {
        Outcome::Number(number) => *number,
        _ => 0,
    }
}

/// The end of a permit that does not end, in milliseconds.
const ENDLESS: f64 = 922_337_203_685_477.0;

const GRANTED: &str = "a wait without an end is granted, or ends with an error";

impl std::fmt::Debug for RPermitExpirableSemaphore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RPermitExpirableSemaphore")
            .field("name", &self.name())
            .field("lease", &self.lease)
            .finish_non_exhaustive()
    }
}
