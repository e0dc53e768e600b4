//! [`RSemaphore`]: Redisson's counting semaphore.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

mod call;
mod object;
mod watched;

use call::{Call, Permits};

use super::names;
use crate::api::{
    MAX_PERMITS, OnRecord, Permit, Semaphore, check_millis, semaphore_by_inherent_methods,
};
use crate::engine::call::{Dropped, Wait};
use crate::engine::command::Commands;
use crate::engine::{self, Core};
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::queue::{Call as _, Grant, Object, Outcome, Want};
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
/// | key `redisson_sc_once:{name}:<client id>` | string: the client's last call that changed something and its answer, for once-only execution; deleted, with others, some seconds after its last use, or at the shutdown; after a call that had to be repeated, or without a shutdown, it vanishes after ten minutes, or four retry windows where that is longer |
/// | keys `redisson_sc_once:<mapped client id>:<number>` | strings: the same for calls that travelled together with those on other semaphores; a few for the whole client; deleted at the shutdown |
/// | keys `redisson_sc_turns:{name}`, `redisson_sc_turns_notes:{name}` | zset, hash: which client's callers wait since when, for turns between processes; only while several clients wait; vanish a minute after their last use |
///
/// `name` is the mapped name; where it contains a `{`, no braces are put around it, and the keys with it begin with
/// `redisson_sc_once::` and so on. Every operation on the counter is a step of one script, `lua/semaphore/batch.lua` behind
/// `lua/engine/record.lua` and `envelope.lua`; the calls that the tasks of a client make at the same time travel in one call of it. An
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
    line: Arc<Object<Permits>>,
    /// Its guards hold their permits under leases.
    watched: bool,
}

impl RSemaphore {
    pub(crate) fn new(core: &Arc<Core>, name: &str) -> Self {
        let (keys, queue) = names::of_semaphore(name, &core.config.name_mapper, core.id());
        RSemaphore {
            line: Object::of(core, keys, queue),
            watched: core.config.watch_semaphores,
        }
    }

    /// The name that the handle was made with, before mapping.
    #[must_use]
    pub fn name(&self) -> &str {
        self.line.keys().name()
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
        self.flag(Call::TrySet(permits, None)).await
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
        self.flag(Call::TrySet(permits, Some(ttl))).await
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
        self.granted(permits, false, None).await.map(drop)
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
        let taken = self.granted(permits, false, Some(Duration::ZERO)).await?;
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
        self.check(permits)?;
        if permits == 0 {
            return Ok(true);
        }
        let taken = self.granted(permits, false, Some(wait)).await?;
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
        self.run(Call::Release(permits)).await.map(drop)
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
        self.flag(Call::ReleaseIfExists(permits)).await
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
        self.run(Call::Add(delta)).await.map(drop)
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
        self.object().read("available_permits", "GET").await
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

    /// Takes permits, waiting for `wait` at the most (`None`: without limit); zero is no wait.
    async fn granted(
        &self,
        permits: u32,
        leased: bool,
        wait: Option<Duration>,
    ) -> Result<Option<Grant>> {
        let tries = wait == Some(Duration::ZERO);
        let want = Want {
            amount: permits,
            leased,
        };
        let taking = async {
            let outcome = match tries {
                true => self.line.call(Call::Try(want)).await?,
                false => self.line.wait(want, wait).await?,
            };
            Ok(match outcome {
                Outcome::Granted(grant) => Some(grant),
                Outcome::Number(_) | Outcome::InVain | Outcome::Text(_) => None,
            })
        };
        let name = if tries { "try_acquire" } else { "acquire" };
        let call = self.named(name, wait.into(), Dropped::Withdrawn);
        let taking = pin!(Some(taking));
        let taken = self.core().take(call, What::Permits, permits, taking);
        taken.await
    }

    fn named(
        &self,
        operation: &'static str,
        wait: Wait,
        dropped: Dropped,
    ) -> engine::call::Call<'_> {
        let call = engine::call::Call::new(self.name(), operation, wait, dropped);
        call.about(self.line.keys().object())
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

    async fn run(&self, call: Call) -> Result<i64> {
        self.line.keys().check()?;
        let dropped = match call {
            call if call.is_owed() => Dropped::CarriedOut,
            _ => Dropped::Withdrawn,
        };
        let calling = async {
            Ok(match self.line.call(call).await? {
                Outcome::Number(number) => number,
                Outcome::Granted(_) | Outcome::InVain | Outcome::Text(_) => 1,
            })
        };
        let named = self.named(call.name(), Wait::No, dropped);
        self.core().call(named, pin!(Some(calling))).await
    }

    async fn flag(&self, call: Call) -> Result<bool> {
        self.run(call).await.map(|done| done == 1)
    }

    fn counters(&self) -> Option<&Counters> {
        Some(&self.core().stats)
    }

    /// The client's.
    fn core(&self) -> &Arc<Core> {
        self.line.client()
    }
}

impl RSemaphore {
    fn identity(&self) -> usize {
        Arc::as_ptr(&self.line) as usize + usize::from(self.watched)
    }

    fn release_detached(&self, permits: u32) {
        match self.check(permits) {
            Ok(()) if permits > 0 => self.line.owe(Call::Release(permits)),
            Ok(()) => {}
            Err(error) => tracing::error!(%error, permits, "not released"),
        }
    }
}

semaphore_by_inherent_methods!(RSemaphore {
    async fn take(&self, permits: u32, wait: Option<Duration>) -> Result<Option<Option<OnRecord>>> {
        self.take(permits, wait).await
    }

    fn leases_of(&self, record: &OnRecord) -> Vec<Lease> {
        self.leases_of(record)
    }

    async fn release_recorded(&self, record: &OnRecord) -> Result<()> {
        self.release_recorded(record).await
    }

    fn release_recorded_detached(&self, record: &OnRecord) {
        self.release_recorded_detached(record);
    }

    fn forget_recorded(&self, record: &OnRecord) {
        self.forget_recorded(record);
    }
});

impl fmt::Debug for RSemaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RSemaphore")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}
