//! [`RSemaphore`]: Redisson's counting semaphore.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

mod watched;

use super::names;
use super::object::{ExpireCondition, ExpireTime, Object};
use crate::api::{
    MAX_PERMITS, OnRecord, Permit, RemainingTtl, Semaphore, check_millis,
    semaphore_by_inherent_methods,
};
use crate::engine::batch::Operation;
use crate::engine::call::{Call, Dropped, Wait};
use crate::engine::command::Commands;
use crate::engine::line::deadline;
use crate::engine::{Core, Line};
use crate::error::{Error, Result};
use crate::stats::{Counters, What};

/// A counting semaphore shared with Java's `RSemaphore` of the same name.
///
/// A handle: cheap to clone, made without I/O by [`Client::semaphore`](crate::Client::semaphore). The guide tells [what is
/// promised](crate::guide::promises), [who is next](crate::guide::turns) where many wait, and how
/// [Redisson's methods](crate::guide::from_redisson) are called here.
///
/// # In Redis
///
/// | | |
/// |---|---|
/// | key `name` | string: the permits available now, a decimal integer, possibly negative |
/// | channel `redisson_sc:{name}` | the new total, where permits were added and some are left; then `0` for each further one that was added and is left, up to 63, as long as somebody hears it. Later, while permits are left and others listen, `+n` and `+0`, which JVMs take for `n` and `0`: for those of their callers who were left asleep |
/// | key `redisson_sc_once:{name}:<client id>` | string: the client's last call that changed something and its answer, for once-only execution; deleted, with others, some seconds after its last use, or at the shutdown; after a call that had to be repeated it vanishes after ten minutes, or four retry windows where that is longer |
/// | keys `redisson_sc_once:<mapped client id>:<number>` | strings: the same for calls that travelled together with those on other semaphores; a few for the whole client; deleted at the shutdown |
/// | keys `redisson_sc_turns:{name}`, `redisson_sc_turns_notes:{name}` | zset, hash: which client's callers wait since when, for turns between processes; only while several clients wait; vanish a minute after their last use |
///
/// `name` is the mapped name; where it contains a `{`, no braces are put around it, and the keys with it begin with
/// `redisson_sc_once::` and so on. Every operation on the counter is a step of one script,
/// `lua/semaphore/batch.lua`; the calls that the tasks of a client make at the same time travel in one call of it. An
/// acquisition or release that is alone at its semaphore goes through a shorter one, `lua/semaphore/lone.lua`,
/// together with those that are alone at others.
///
/// # Errors
///
/// What every operation can answer with: [`InvalidName`](Error::InvalidName),
/// [`WrongType`](Error::WrongType) and [`NotANumber`](Error::NotANumber) for a key that holds something
/// else, [`PermissionDenied`](Error::PermissionDenied),
/// [`Server`](Error::Server) for any other refusal, [`Unavailable`](Error::Unavailable),
/// [`RefusedForNow`](Error::RefusedForNow) and [`OutcomeUnknown`](Error::OutcomeUnknown) when the retry window has passed, and [`ShutDown`](Error::ShutDown). Below stands only what comes in addition.
///
/// # Cancel safety
///
/// Any future may be dropped at any await point. An operation takes its place in the line at the first
/// poll. If its future is dropped after that, a release is carried out as soon as the server can be reached; any
/// other operation is not sent any more, where it has not been sent yet. One that was sent may take effect; permits that it
/// acquires are given back.
///
/// # Bounds
///
/// While the server does not answer, a call takes no more memory than its caller, and has its deadline, the
/// [retry window](crate::ClientBuilder::retry_window). Calls whose callers have gone do not pile up: releases are
/// added up, everything else is dropped. One script with at most 4096 calls is under way at a time. Callers
/// that stand in line for permits and have been answered once have no deadline.
///
/// # DIFFERENCE from Redisson
///
/// - `add_permits` and `drain_permits` keep the time to live; Redisson's drop it.
/// - Results outside of signed 32 bits are refused; Redisson stores them and shows the low 32 bits. Where
///   another client has left such a counter, it is shown as it is, and can be moved back.
/// - A counter that is no integer of less than 15 digits is [`NotANumber`](Error::NotANumber) to every
///   operation, and nothing is changed; Redisson's operations answer differently, and some store over it.
/// - A time to live of zero is refused before anything is sent.
/// - Keyspace notifications say `set` or `incrby` where Redisson's say `incrby` and `decrby`: a batch of calls writes
///   the counter once, with `SET ... KEEPTTL`.
/// - Nothing is published where no permit is left, as nobody could acquire it; Redisson publishes 0 and
///   negative totals.
/// - Permits that are renamed or copied are announced to those who wait for the new name.
/// - A channel stays subscribed for one to two seconds after its last waiter has gone.
/// - A call whose answer was lost is repeated and takes effect once; Redisson's permit is lost.
/// - A waiting call whose time runs out tries once more at the end.
/// - Names whose braces would put the semaphore and its channel into different slots of a cluster are
///   refused.
#[derive(Clone)]
pub struct RSemaphore {
    line: Arc<Line>,
    /// The permits of its guards are on record.
    watched: bool,
}

impl RSemaphore {
    pub(crate) fn new(core: &Arc<Core>, name: &str) -> Self {
        let keys = names::of_semaphore(name, &core.config.name_mapper, core.id());
        RSemaphore {
            line: Line::of(core, keys),
            watched: core.config.watch_semaphores,
        }
    }

    /// The name that the handle was made with, before mapping.
    #[must_use]
    pub fn name(&self) -> &str {
        self.line.keys().name()
    }

    /// The same semaphore, without turns between processes: this client takes what it can get.
    ///
    /// By default the callers of all clients of this crate are served in the order of their arrival, to within some
    /// milliseconds, and JVMs get their share. Without that, a client with many callers hands its permits round among
    /// them and may keep everybody else waiting for as long as it is busy; it saves some scripts, and the line in
    /// `redisson_sc_turns:{name}`. It holds for all handles that this client has of the semaphore, those made
    /// later included, until the last one is dropped. Others treat the client as they treat a JVM.
    #[must_use]
    pub fn without_turns(self) -> Self {
        self.line.without_turns();
        self
    }

    /// Sets the number of permits if the semaphore does not exist; `true` for the caller who did.
    ///
    /// Redis: `name` is set to `permits`, without expiry, and that is announced, where the key is missing.
    /// Redisson: `trySetPermits(int)`.
    ///
    /// # Errors
    ///
    /// [`InvalidPermits`](Error::InvalidPermits) above 2^31-1.
    pub async fn try_set_permits(&self, permits: u32) -> Result<bool> {
        self.check(permits)?;
        self.flag(Operation::TrySet(permits, None)).await
    }

    /// As [`try_set_permits`](Self::try_set_permits); the semaphore vanishes after `ttl`, rounded up to whole
    /// milliseconds.
    ///
    /// Redis: as there, with `PX ttl`. Redisson: `trySetPermits(int, Duration)`, since 3.29.
    ///
    /// # Errors
    ///
    /// [`InvalidDuration`](Error::InvalidDuration) below a millisecond, and above 2^53 of them.
    pub async fn try_set_permits_for(&self, permits: u32, ttl: Duration) -> Result<bool> {
        self.check(permits)?;
        check_millis(self.name(), "time to live", ttl)?;
        self.flag(Operation::TrySet(permits, Some(ttl))).await
    }

    /// Takes `permits` permits, waiting until they are there. All or nothing; 0 succeeds at once.
    ///
    /// Waiting costs no polling and no task: the caller is woken by the channel, by this client's own
    /// releases, when the subscription was made anew, and looks by itself every few seconds
    /// ([`safety_interval`](crate::ClientBuilder::safety_interval)). The callers of one client are served
    /// in the order of their arrival; smaller requests may pass the first in line, if that does not fit, for 5
    /// seconds, then the line stops until it is served. Between clients the order is that of arrival, too, to
    /// within a few milliseconds ([`without_turns`](Self::without_turns) switches that off); JVMs are given an equal
    /// share.
    ///
    /// Redis: `name` falls by `permits`, keeping its time to live, where there are enough; nothing is sent where
    /// a release of this client serves the caller (`local_hand_over`). Redisson: `acquire(int)`.
    ///
    /// # Errors
    ///
    /// [`InvalidPermits`](Error::InvalidPermits) above 2^31-1. A caller that the server has answered once
    /// goes on waiting while it is away; one that has had no answer for the retry window is told.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the line; permits granted in that moment are given back.
    #[must_use = "nothing gives back what this takes but a call of `release`; `permit` gives a guard"]
    pub async fn acquire(&self, permits: u32) -> Result<()> {
        self.check(permits)?;
        if permits == 0 {
            return Ok(());
        }
        self.acquire_number(permits, false).await.map(drop)
    }

    /// Takes `permits` permits if they are free now, whoever waits; 0 succeeds at once.
    ///
    /// Redis: as [`acquire`](Self::acquire). Redisson: `tryAcquire(int)`.
    ///
    /// # Errors
    ///
    /// [`InvalidPermits`](Error::InvalidPermits) above 2^31-1.
    #[must_use = "nothing gives back what this takes but a call of `release`; `try_permit` gives a guard"]
    pub async fn try_acquire(&self, permits: u32) -> Result<bool> {
        self.check(permits)?;
        if permits == 0 {
            return Ok(true);
        }
        let taken = self.try_acquire_number(permits, false).await?;
        Ok(taken.is_some())
    }

    /// As [`acquire`](Self::acquire), waiting for `wait` at the most; `false` when it is over.
    ///
    /// At the end of `wait` it tries once more, whoever waits. Where the server does not answer, it ends with an error 5 s after that, or
    /// after the [`call_timeout`](crate::ClientBuilder::call_timeout). How wait, call timeout, retry window and lease go together is
    /// told [in one place](crate::ClientBuilder#names-and-times-of-calls). Redisson: `tryAcquire(int, Duration)`.
    ///
    /// # Errors
    ///
    /// [`InvalidPermits`](Error::InvalidPermits) above 2^31-1.
    #[must_use = "nothing gives back what this takes but a call of `release`; `permit_for` gives a guard"]
    pub async fn try_acquire_for(&self, permits: u32, wait: Duration) -> Result<bool> {
        if permits == 0 || wait.is_zero() {
            return self.try_acquire(permits).await;
        }
        let Some(deadline) = deadline(wait) else {
            return self.acquire(permits).await.map(|()| true);
        };
        self.check(permits)?;
        let taken = self
            .acquire_number_until(permits, false, wait, deadline)
            .await?;
        Ok(taken.is_some())
    }

    /// Gives `permits` permits back, creating the semaphore if it does not exist; 0 does nothing.
    ///
    /// Redis: `name` rises by `permits`, keeping its time to live, and the total is announced; nothing is sent
    /// where that serves a waiting caller of this client (`local_hand_over`). Redisson: `release(int)`.
    ///
    /// # Errors
    ///
    /// [`InvalidPermits`](Error::InvalidPermits) above 2^31-1, [`OutOfRange`](Error::OutOfRange) if the
    /// counter would pass that.
    pub async fn release(&self, permits: u32) -> Result<()> {
        self.check(permits)?;
        if permits == 0 {
            return Ok(());
        }
        self.run(Operation::Release(permits)).await.map(drop)
    }

    /// Gives `permits` permits back if the semaphore exists; `false` if it does not, or for 0.
    ///
    /// Redis: as [`release`](Self::release), but always sent. Redisson: `releaseIfExists(int)`, since 4.0.
    ///
    /// # Errors
    ///
    /// As [`release`](Self::release).
    pub async fn release_if_exists(&self, permits: u32) -> Result<bool> {
        self.check(permits)?;
        if permits == 0 {
            return Ok(false);
        }
        self.flag(Operation::ReleaseIfExists(permits)).await
    }

    /// Changes the number of permits by `delta`, creating the semaphore if it does not exist.
    ///
    /// Never waits: with a negative `delta` the counter may become negative, and has to rise above zero
    /// before anyone acquires again.
    ///
    /// Redis: `name` changes by `delta`, keeping its time to live; the total is announced where it is positive.
    /// Redisson: `addPermits(int)`.
    /// DIFFERENCE: Redisson's drops the time to live.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`](Error::OutOfRange) if the counter would leave 32 bits.
    pub async fn add_permits(&self, delta: i32) -> Result<()> {
        self.run(Operation::Add(delta)).await.map(drop)
    }

    /// Sets the counter to 0 and returns what it was, negative too; 0 if the semaphore does not exist.
    ///
    /// Redis: `name` becomes `0`, keeping its time to live; a missing key is not created.
    /// Redisson: `drainPermits()`.
    /// DIFFERENCE: Redisson's drops the time to live.
    pub async fn drain_permits(&self) -> Result<i64> {
        self.run(Operation::Drain).await
    }

    /// The number of permits available now, as this client's earlier calls have left it; 0 if the
    /// semaphore does not exist.
    ///
    /// Redis: `GET name`. Redisson: `availablePermits()`.
    pub async fn available_permits(&self) -> Result<i64> {
        self.run(Operation::Available).await
    }

    /// [`acquire`](Self::acquire) with a guard that gives the permits back.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn permit(&self, permits: u32) -> Result<Permit> {
        Semaphore::permit(self, permits).await
    }

    /// [`try_acquire_for`](Self::try_acquire_for) with a guard; `None` when the time has run out.
    ///
    /// # Errors
    ///
    /// As [`try_acquire_for`](Self::try_acquire_for).
    pub async fn permit_for(&self, permits: u32, wait: Duration) -> Result<Option<Permit>> {
        Semaphore::permit_for(self, permits, wait).await
    }

    /// [`try_acquire`](Self::try_acquire) with a guard; `None` when there are not enough permits.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
    pub async fn try_permit(&self, permits: u32) -> Result<Option<Permit>> {
        Semaphore::try_permit(self, permits).await
    }

    /// Waits for permits, which are to be on record; the number that they are granted by.
    async fn acquire_number(&self, permits: u32, recorded: bool) -> Result<i64> {
        let waiting = async { self.line.join(permits, recorded)?.served().await.map(Some) };
        let call = Call::new(self.name(), "acquire", Wait::Forever, Dropped::Withdrawn);
        let waiting = pin!(waiting);
        let granted = self.core().take(call, What::Permits, permits, waiting);
        let granted = granted.await?;
        Ok(granted.unwrap_or_default())
    }

    async fn try_acquire_number(&self, permits: u32, recorded: bool) -> Result<Option<i64>> {
        let operation = if recorded {
            Operation::TryTake(permits)
        } else {
            Operation::TryAcquire(permits)
        };
        let trying = async { self.line.call(operation).await.map(granted) };
        let call = Call::new(self.name(), "try_acquire", Wait::No, Dropped::Withdrawn);
        let trying = pin!(trying);
        let taken = self.core().take(call, What::Permits, permits, trying);
        taken.await
    }

    async fn acquire_number_until(
        &self,
        permits: u32,
        recorded: bool,
        wait: Duration,
        deadline: tokio::time::Instant,
    ) -> Result<Option<i64>> {
        let waiting = async {
            let mut seat = self.line.join(permits, recorded)?;
            seat.served_until(deadline).await.map(granted)
        };
        let call = Call::new(self.name(), "acquire", Wait::For(wait), Dropped::Withdrawn);
        let waiting = pin!(waiting);
        let taken = self.core().take(call, What::Permits, permits, waiting);
        taken.await
    }

    fn check(&self, permits: u32) -> Result<()> {
        self.line.keys().check()?;
        if permits > MAX_PERMITS {
            return Err(Error::InvalidPermits {
                name: self.name().to_owned(),
                permits,
            });
        }
        Ok(())
    }

    async fn run(&self, operation: Operation) -> Result<i64> {
        self.line.keys().check()?;
        let dropped = match operation {
            operation if operation.is_owed() => Dropped::CarriedOut,
            Operation::Available => Dropped::Harmless,
            _ => Dropped::Withdrawn,
        };
        let call = Call::new(self.name(), operation.name(), Wait::No, dropped);
        self.core()
            .call(call, pin!(self.line.call(operation)))
            .await
    }

    async fn flag(&self, operation: Operation) -> Result<bool> {
        self.run(operation).await.map(|done| done == 1)
    }

    fn counters(&self) -> Option<&Counters> {
        Some(&self.core().stats)
    }

    /// The client's.
    fn core(&self) -> &Arc<Core> {
        self.line.client()
    }
}

/// The object itself, as Redisson's `RObject` and `RExpirable` offer it. None of these wakes a waiter:
/// waiting callers find out by their own slow check.
///
/// Errors are those of every operation, and [`Server`](Error::Server) where the server is too old for a
/// command. Cancel safety: sent in its turn after the first poll, and carried out even if the future is
/// dropped after that.
impl RSemaphore {
    fn object(&self) -> Object<'_, Line> {
        Object { line: &self.line }
    }

    /// Whether the semaphore exists. Redis: `EXISTS`. Redisson: `isExists()`.
    pub async fn exists(&self) -> Result<bool> {
        self.object().exists().await
    }

    /// Deletes it; `false` if it did not exist. Redis: `DEL`. Redisson: `delete()`.
    pub async fn delete(&self) -> Result<bool> {
        self.object().delete().await
    }

    /// Deletes it, freeing the memory in the background. Redis: `UNLINK`. Redisson: `unlink()`.
    pub async fn unlink(&self) -> Result<bool> {
        self.object().unlink().await
    }

    /// Notes an access, for the server's eviction; `false` if it does not exist. Redis: `TOUCH`.
    /// Redisson: `touch()`.
    pub async fn touch(&self) -> Result<bool> {
        self.object().touch().await
    }

    /// Renames it, replacing an object of the new name, and returns the handle to the new name.
    ///
    /// Redis: `RENAME`, keeping the time to live; the permits are announced to those who wait for the new name, which
    /// Redisson does not do. Redisson: `rename(String)`. DIFFERENCE: this handle keeps the old name, and its waiters wait for the old one; Redisson's
    /// object takes the new name on.
    ///
    /// # Errors
    ///
    /// [`NoSuchObject`](Error::NoSuchObject) if it does not exist.
    pub async fn rename(&self, new_name: &str) -> Result<RSemaphore> {
        let renamed = self.other(new_name)?;
        self.object().rename(renamed.line.keys()).await?;
        renamed.line.has_been_given_more();
        Ok(renamed)
    }

    /// Renames it if there is no object of the new name; returns the handle to the new name if so.
    ///
    /// Redis: `RENAMENX`, and the announcement of [`rename`](Self::rename). Redisson: `renamenx(String)`. DIFFERENCE: the new name is mapped, too;
    /// Redisson forgets to.
    ///
    /// # Errors
    ///
    /// [`NoSuchObject`](Error::NoSuchObject) if it does not exist.
    pub async fn rename_nx(&self, new_name: &str) -> Result<Option<RSemaphore>> {
        let renamed = self.other(new_name)?;
        let done = self.object().rename_nx(renamed.line.keys()).await?;
        if done {
            renamed.line.has_been_given_more();
        }
        Ok(done.then_some(renamed))
    }

    /// Copies it, with its time to live, to a name where there is no object; `false` if there is one, or
    /// nothing to copy. Redis: `COPY`, since 6.2, and the announcement of [`rename`](Self::rename). Redisson:
    /// `copy(String)`.
    pub async fn copy(&self, new_name: &str) -> Result<bool> {
        self.copy_to(new_name, false).await
    }

    /// Copies it, with its time to live, replacing an object of that name. Redis: `COPY ... REPLACE`, and the
    /// announcement of [`rename`](Self::rename). Redisson: `copyAndReplace(String)`.
    pub async fn copy_and_replace(&self, new_name: &str) -> Result<bool> {
        self.copy_to(new_name, true).await
    }

    async fn copy_to(&self, new_name: &str, replace: bool) -> Result<bool> {
        let copy = self.other(new_name)?;
        let done = self.object().copy(copy.line.keys(), replace).await?;
        if done {
            copy.line.has_been_given_more();
        }
        Ok(done)
    }

    /// Lets it vanish after `ttl`, rounded up to whole milliseconds, where `condition` holds (`None`: in any case);
    /// `false` if it does not, or there is no such semaphore.
    ///
    /// ```no_run
    /// # async fn expire(seats: redisson_semaphore::RSemaphore) -> redisson_semaphore::Result<()> {
    /// use redisson_semaphore::ExpireCondition;
    /// use std::time::Duration;
    ///
    /// seats.expire(Duration::from_secs(60), None).await?;
    /// seats.expire(Duration::from_secs(90), ExpireCondition::Greater).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Redis: `PEXPIRE`; with a condition, which needs Redis 7, with `NX`, `XX`, `GT`, `LT`. Redisson: `expire(Duration)`;
    /// `expireIfNotSet`, `expireIfSet`, `expireIfGreater`, `expireIfLess`.
    ///
    /// # Errors
    ///
    /// [`InvalidDuration`](Error::InvalidDuration) below a millisecond, and above 2^53 of them.
    pub async fn expire(
        &self,
        ttl: Duration,
        condition: impl Into<Option<ExpireCondition>>,
    ) -> Result<bool> {
        let condition = condition.into();
        self.object().expire(ttl, condition).await
    }

    /// Lets it vanish at `time` by the server's clock, at once where that has passed, where `condition` holds (`None`: in
    /// any case); `false` if it does not, or there is no such semaphore.
    ///
    /// Redis: `PEXPIREAT`, with a condition as at [`expire`](Self::expire). Redisson: `expire(Instant)`, `expireAt(long)`;
    /// `expireIfNotSet(Instant)` and its sisters.
    pub async fn expire_at(
        &self,
        time: SystemTime,
        condition: impl Into<Option<ExpireCondition>>,
    ) -> Result<bool> {
        let condition = condition.into();
        self.object().expire_at(time, condition).await
    }

    /// Takes the expiry away; `false` if there was none. Redis: `PERSIST`. Redisson: `clearExpire()`.
    pub async fn clear_expire(&self) -> Result<bool> {
        self.object().clear_expire().await
    }

    /// How long it goes on existing. Redis: `PTTL`. Redisson: `remainTimeToLive()`.
    pub async fn remaining_ttl(&self) -> Result<RemainingTtl> {
        self.object().remaining_ttl().await
    }

    /// When it vanishes, by the server's clock. Redis 7: `PEXPIRETIME`. Redisson: `getExpireTime()`.
    pub async fn expire_time(&self) -> Result<ExpireTime> {
        self.object().expire_time().await
    }

    /// The bytes it takes in the server; 0 if it does not exist. Redis: `MEMORY USAGE`.
    /// Redisson: `sizeInMemory()`.
    pub async fn size_in_memory(&self) -> Result<u64> {
        self.object().size_in_memory().await
    }

    fn identity(&self) -> usize {
        Arc::as_ptr(&self.line) as usize + usize::from(self.watched)
    }

    fn release_detached(&self, permits: u32) {
        match self.check(permits) {
            Ok(()) if permits > 0 => self.line.call_detached(Operation::Release(permits)),
            Ok(()) => {}
            Err(error) => tracing::error!(%error, permits, "not released"),
        }
    }

    fn other(&self, name: &str) -> Result<RSemaphore> {
        let other = RSemaphore::new(self.core(), name);
        other.line.keys().check()?;
        Ok(other)
    }
}

/// The number that permits are granted by; 0 says no.
fn granted(number: i64) -> Option<i64> {
    (number > 0).then_some(number)
}

semaphore_by_inherent_methods!(RSemaphore {
    async fn take(&self, permits: u32, wait: Option<Duration>) -> Result<Option<Option<OnRecord>>> {
        self.take(permits, wait).await
    }

    async fn release_recorded(&self, permits: u32, record: &OnRecord) -> Result<()> {
        self.release_recorded(permits, record).await
    }

    fn release_recorded_detached(&self, permits: u32, record: &OnRecord) {
        self.release_recorded_detached(permits, record);
    }

    fn forget_recorded(&self, permits: u32, record: &OnRecord) {
        self.forget_recorded(permits, record);
    }
});

impl fmt::Debug for RSemaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RSemaphore")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}
