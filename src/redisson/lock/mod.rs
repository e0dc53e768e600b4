//! [`RLock`], [`RFencedLock`], [`RFairLock`] and [`RReadWriteLock`]: Redisson's reentrant lock, the one with fencing tokens, the fair one, and
//! the one with two sides.

mod call;
mod fair;
mod fenced;
mod handle;
mod held;
mod places;
mod read_write;
mod times;

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use self::call::{Call, Claim, Kind, Who};
use self::held::{Holds, Locks, change};
pub use fair::RFairLock;
pub use fenced::{FencedGuard, RFencedLock};
pub use read_write::RReadWriteLock;

use super::names;
use crate::api::{Hold, HoldId, Lock, LockGuard, RemainingTtl, check_millis, whole_millis};
use crate::clock::Moment;
use crate::engine::Core;
use crate::engine::request::Script;
use crate::error::Result;
use crate::lease::{LastLease, Lease};
use crate::lua;
use crate::queue::{self, Outcome};
use crate::stats::{Holding, What};

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(lua::LOCK));

/// A reentrant lock shared with Java's `RLock` of the same name.
///
/// A handle, made without I/O by [`Client::lock`](crate::Client::lock). Cheap to clone. A chapter of the guide is about
/// [locks](crate::guide::locks).
///
/// ```no_run
/// # async fn example(client: redisson_semaphore::Client) -> redisson_semaphore::Result<()> {
/// let import = client.lock("import"); // Java: redisson.getLock("import")
/// let guard = import.guard().await?; // waits; renewed in the background, unlocked when dropped
/// match guard.run(async { "imported" }).await {
///     Some(done) => println!("{done}"),
///     None => println!("the lock was lost, and the work was stopped"),
/// }
/// guard.unlock().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Owner
///
/// Async code has no threads to go by, so each guard is an owner of its own: two guards exclude each other, whichever handles and
/// clones of handles they come from. [`LockGuard::again`] takes the lock once more for the owner of a guard.
///
/// [`lock`](Self::lock) and [`unlock`](Self::unlock), Java's way, go by the handle: every handle is an owner, and its clones are the same
/// one. A lock that one of them has taken, another one takes again without waiting, and may unlock. [`with_owner`](RLock::with_owner) picks an
/// owner.
///
/// # Lease and renewal
///
/// A lock that is taken without a lease lasts for the
/// [`lock_watchdog_timeout`](crate::ClientBuilder::lock_watchdog_timeout) and is renewed every third of it, as
/// long as it is held and the client is there, through errors and reconnections. With a lease it ends when that
/// has run out.
///
/// While its owner holds it, the end of a lock is only ever put off: it lasts as long as the longest lease that its owner has asked for.
/// A shorter lease does not bring the end nearer, nor does an `unlock` that leaves other holds.
///
/// A lock can be lost: its lease runs out, someone forces it open, the server was away for too long or has lost its
/// data. [`LockGuard::lost`] and [`lease`](RLock::lease) tell, at the latest when the lease that was granted has
/// run out by this process's monotonic clock. That is earlier than in Redis, but for the millisecond or two of a timer. (A machine that is
/// suspended does not count that time, while Redis does: on Linux and Android the loss shows within a second after it goes on; elsewhere
/// that depends on the system's clock.)
///
/// # Waiting
///
/// 1. Waiters stand in one queue in Redis, in the order in which they came, whichever process they are in.
/// 2. The script that frees the lock moves it to the first waiter, and notifies its client.
/// 3. A client that does not confirm a grant within 3 s loses it to the next waiter, or within its lease where that is shorter.
/// 4. JVMs do not queue. An equal share is left to them.
///
/// A grant is the lock under a short time to live. The caller goes on as soon as a fresh notification arrives, and the client confirms the
/// grant within 100 ms, which sets the lease. Waiters of an owner that has the lock already do not wait.
///
/// Waiting clients look when the holder's time to live ends, when the subscription was made anew, and every few seconds
/// ([`safety_interval`](crate::ClientBuilder::safety_interval)). A waiting caller costs no polling and no task. Each client waits with
/// 64 entries per lock at the most. `try_lock` takes the lock whenever it is free.
///
/// # In Redis
///
/// | | |
/// |---|---|
/// | key `name` | hash: the owner that holds the lock, `<client id>:<number>`, and how often it does; with a time to live |
/// | channel `redisson_lock__channel:{name}` | `0` when the lock has become free for JVMs; `+0`, which JVMs read as 0, while a client of this crate waits |
/// | key `redisson_lock_waiters:{name}` | zset: an entry for each of the first 64 waiters of a client, with its arrival in microseconds of the server's clock |
/// | channel `redisson_lock_waiters:{name}:<client id>` | `grant`, a ticket, the time, and a fencing token; `none` and a ticket: the entry could not be granted; `gone`: the client's entries have left the queue; `watch`: the client listens to JVMs from now on |
/// | key `redisson_lock_notes:{name}` | hash: the client that listens to JVMs and their share, the client that checks next, and the clients that have not confirmed a grant |
/// | key `redisson_lock_once:{name}:<client id>` | string: the number of the client's last batch of calls and its answer, for once-only execution |
///
/// `name` is the mapped name; where it contains a `{`, no braces are put around it, and the last four begin with
/// `redisson_lock_waiters::` and so on. An entry reads `<client id>:<kind><ticket>:<owner's number>:<life of its grant in ms>:<lease in ms>`; the
/// kind is `f` for a fenced lock, else `g`. Queue and notes vanish a minute after their last use; records as
/// [those of semaphores](crate::RSemaphore#in-redis). Deleting the queue or the notes costs the order of some waiters.
///
/// Scripts: `lua/lock/steps.lua` carries a batch of calls out, behind `short.lua`, `hold.lua` and `lua/queue/`; `lua/engine/renew.lua` renews.
///
/// # Errors
///
/// Every operation can fail with [the errors of all operations](crate::guide::promises#errors). The methods name
/// further ones.
///
/// # Cancel safety
///
/// Any future may be dropped at any await point. An operation takes its place at the first poll; a lock
/// acquired by a future that was dropped is given back, an unlock is carried out; what else has not been sent is not sent any more.
///
/// # DIFFERENCE from Redisson
///
/// - An owner is a guard or a handle, where Redisson's is a thread. Two guards in one task exclude each other; [`LockGuard::again`] is
///   the reentrant call.
/// - A call whose answer was lost is repeated and takes effect once. There is no `redisson_unlock_latch` key.
/// - A guard shows that its lock is lost; Redisson stops renewing it without a word.
/// - Every lock that is held without a lease is renewed, also where its owner has taken it with a lease as well; Redisson stops at the
///   first unlock.
/// - The longest lease counts. Taking the lock again, and an `unlock` that leaves other holds, do not bring its end nearer; Redisson sets the
///   time to live anew each time.
/// - Guards give back the hold that they were made for; [`unlock`](RLock::unlock), the latest that has no guard.
/// - Waiters of this crate are served in their order; Redisson's race.
/// - A lease of zero is refused; to Redisson it means none.
/// - [`RFairLock`] and Java's `getFairLock` and `getSpinLock` of the same name have the same key, and wait in other ways: they exclude this
///   lock, and neither side wakes the other. `rsem doctor --lock` sees a fair lock that has waiters.
/// - In a cluster, names whose braces would put the lock and its channel into different slots are refused.
#[derive(Clone)]
pub struct RLock {
    core: Arc<Core>,
    queue: Arc<queue::Object<Locks>>,
    number: u64,
    owner: Arc<str>,
    /// Of the owner, in the hash.
    field: Arc<str>,
    /// Where only the clones of this handle are its owner.
    _own: Option<Arc<Own>>,
    /// The lease of its last hold.
    last: LastLease,
    /// For how long this handle takes the lock; `None`: renewed.
    lease: Option<Duration>,
    kind: Kind,
}

/// An owner without a number of the user's. Nobody can unlock what it holds when its last handle has gone, so that is renewed no more.
struct Own {
    core: Arc<Core>,
    lock: Arc<str>,
    field: Arc<str>,
}

impl Drop for Own {
    fn drop(&mut self) {
        change(&self.core, &self.lock, &self.field, |times, _| {
            times.abandon();
        });
    }
}

impl RLock {
    pub(crate) fn new(core: &Arc<Core>, name: &str) -> Self {
        let names = names::of_lock(name, &core.config.name_mapper, core.id());
        let queue = queue::Object::of(core, names, &SCRIPT, Holds::new);
        let number = core.next_owner();
        RLock::of_owner(core, &queue, number, Kind::Plain).for_itself()
    }

    fn of_owner(
        core: &Arc<Core>,
        queue: &Arc<queue::Object<Locks>>,
        number: u64,
        kind: Kind,
    ) -> Self {
        RLock {
            core: Arc::clone(core),
            queue: Arc::clone(queue),
            number,
            owner: format!("{}:{number}", core.id()).into(),
            field: Who { number, kind }.field(core),
            _own: None,
            last: LastLease::default(),
            lease: None,
            kind,
        }
    }

    /// Its clones alone are the owner.
    fn for_itself(self) -> Self {
        let own = Own {
            core: Arc::clone(&self.core),
            lock: Arc::clone(self.queue.keys().object()),
            field: Arc::clone(&self.field),
        };
        RLock {
            _own: Some(Arc::new(own)),
            ..self
        }
    }

    /// This lock for an owner of its own.
    fn fresh(&self) -> Self {
        self.with_owner(self.core.next_owner()).for_itself()
    }

    /// This lock for the owner number `id` of this client. Handles of the same number are the same owner.
    ///
    /// Numbers below 2^32 are free for this; handles get higher ones by themselves. Redisson: the thread id that the
    /// asynchronous methods take.
    #[must_use]
    pub fn with_owner(&self, id: u64) -> Self {
        RLock {
            lease: self.lease,
            ..RLock::of_owner(&self.core, &self.queue, id, self.kind)
        }
    }

    /// This lock, for the same owner, with a lease: it is free again after `lease`, rounded up to whole milliseconds, and is not renewed. Every
    /// call of the handle that takes the lock takes it for as long.
    ///
    /// Redis: the time to live of `name` becomes `lease`. Redisson: the `leaseTime` of `lock` and `tryLock`.
    ///
    /// ```no_run
    /// # async fn f(client: redisson_semaphore::Client) -> redisson_semaphore::Result<()> {
    /// use std::time::Duration;
    ///
    /// let import = client.lock("import").with_lease(Duration::from_secs(60));
    /// let guard = import.guard().await?; // free again after a minute at the latest
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The calls of the handle that take the lock answer with [`InvalidDuration`](crate::Error::InvalidDuration) for a lease below a
    /// millisecond, or above 2^53 of them.
    #[must_use]
    pub fn with_lease(&self, lease: Duration) -> Self {
        RLock {
            lease: Some(lease),
            ..self.clone()
        }
    }

    /// The name that the handle was made with, before mapping.
    #[must_use]
    pub fn name(&self) -> &str {
        self.queue.keys().name()
    }

    /// The owner that this handle stands for: `<client id>:<number>`, the field in the hash. (`:write` stands behind it there for the writer of
    /// a read-write lock.)
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// The lease of this owner's hold as far as it is known here, without asking Redis: whether it is lost, and how much is left.
    /// Where it is not held, the lease is lost if what this handle, or a clone of it, has taken or shown last was lost; else it is over.
    #[must_use]
    pub fn lease(&self) -> Lease {
        let known = self
            .core
            .holds
            .lease(self.queue.keys().object(), &self.field);
        self.last.show(known)
    }

    /// Takes the lock, waiting until it is free; at once where this owner holds it already. The lock is renewed until it is unlocked. When the
    /// last handle of the owner is dropped, renewal stops, except for owners made by [`with_owner`](Self::with_owner). A handle [with a lease](Self::with_lease) takes it for that long.
    ///
    /// Redis: `name` gets the owner's field, or its count rises by one; the time to live becomes the watchdog
    /// time-out, or the lease. Redisson: `lock()`, `lock(long, TimeUnit)`.
    #[must_use = "nothing unlocks what this locks but a call of `unlock`; `guard` gives a guard"]
    pub async fn lock(&self) -> Result<()> {
        self.hold(None).await.map(drop)
    }

    /// Takes the lock if it is free now, or held by this owner already; does not wait behind others.
    ///
    /// Redis: as [`lock`](Self::lock). Redisson: `tryLock()`.
    #[must_use = "nothing unlocks what this locks but a call of `unlock`; `try_guard` gives a guard"]
    pub async fn try_lock(&self) -> Result<bool> {
        self.try_lock_for(Duration::ZERO).await
    }

    /// As [`lock`](Self::lock), but waits for `wait` at the most; `false` when
    /// the time has run out. A wait of zero is [`try_lock`](Self::try_lock). For wait, lease and the other times see
    /// [there](crate::ClientBuilder#names-and-times-of-calls).
    ///
    /// Redisson: `tryLock(long, TimeUnit)`, `tryLock(long, long, TimeUnit)`.
    #[must_use = "nothing unlocks what this locks but a call of `unlock`; `guard_for` gives a guard"]
    pub async fn try_lock_for(&self, wait: Duration) -> Result<bool> {
        Ok(self.hold(Some(wait)).await?.is_some())
    }

    async fn hold(&self, wait: Option<Duration>) -> Result<Option<Hold>> {
        let lease = self.lease;
        if let Some(lease) = lease {
            check_millis(self.name(), "lease", lease)?;
        }
        let claim = Claim {
            owner: self.number,
            kind: self.kind,
            watched: lease.is_none(),
            lease: whole_millis(lease.unwrap_or(self.core.config.lock_watchdog_timeout))
                .unsigned_abs(),
            share: (self.kind == Kind::Fair)
                .then(|| self.share(!wait.is_some_and(|wait| wait.is_zero()))),
        };
        let due = self.core.due(wait);
        let taking = async {
            let waits = !wait.is_some_and(|wait| wait.is_zero());
            // Waiters of other readers do not hold up one that reads already.
            let outcome = match waits && !self.is_in() {
                true if self.kind == Kind::Fair => self.in_turn(claim, wait).await?,
                true => self.queue.wait(claim, wait).await?,
                false => match self.queue.call_by(Call::Take(claim), due).await? {
                    Outcome::Number(_) if waits => self.queue.wait(claim, wait).await?,
                    outcome => outcome,
                },
            };
            let Outcome::Granted(grant) = outcome else {
                return Ok(None);
            };
            let key = self.queue.keys().object();
            let id = HoldId::new(grant.ticket);
            // It may be gone by now.
            let lease = change(&self.core, key, &self.field, |times, entry| {
                times.claim(&id).then(|| entry.lease().clone())
            });
            let lease = lease.flatten();
            let lease = lease.unwrap_or_else(|| Lease::granted(Moment::now()));
            self.last.note(&lease);
            let token = (self.kind == Kind::Fenced).then_some(grant.taken.token);
            Ok(Some(Hold { lease, id, token }))
        };
        let what = (What::Lock, 1);
        self.core.take(self.name(), what, pin!(taking)).await
    }

    /// Whether this owner has a side of a read-write lock, as far as is known here.
    fn is_in(&self) -> bool {
        let key = self.queue.keys().object();
        let writer = Who {
            number: self.number,
            kind: Kind::Write,
        }
        .field(&self.core);
        let is_held = |field| self.core.holds.look(key, field, |entry| !entry.is_lost());
        self.kind.is_shared()
            && (is_held(&self.field) == Some(true) || is_held(&writer) == Some(true))
    }

    /// [`lock`](Self::lock) for an owner of its own, with a guard that unlocks when dropped. It waits for every other guard, also for those of
    /// this handle.
    pub async fn guard(&self) -> Result<LockGuard> {
        Lock::guard(self).await
    }

    /// [`try_lock`](Self::try_lock) with a guard; `None` when someone else holds the lock.
    pub async fn try_guard(&self) -> Result<Option<LockGuard>> {
        Lock::try_guard(self).await
    }

    /// [`try_lock_for`](Self::try_lock_for) with a guard; `None` when the time has run out.
    pub async fn guard_for(&self, wait: Duration) -> Result<Option<LockGuard>> {
        Lock::guard_for(self, wait).await
    }

    /// Gives one hold of this owner back: the latest, or where guards have holds of this owner, the latest without one. The last one
    /// frees the lock.
    ///
    /// Redis: the owner's count falls by one and the time to live becomes that of the holds which are left; or `name`
    /// is deleted and `0` is published, unless the lock is moved to a waiter in the same script.
    /// Redisson: `unlock()`.
    ///
    /// # Errors
    ///
    /// [`NotHeld`](crate::Error::NotHeld) where this owner does not hold the lock, or not any more. With any other error that says that nothing
    /// took effect, it is held on. The hold of a guard is spent: it is neither renewed nor counted any more. A call of this on a clone
    /// of [`LockGuard::handle`] gives it back, and so does the end of its owner's last other hold.
    pub async fn unlock(&self) -> Result<()> {
        self.give_back(None).await
    }

    async fn unlock_hold(&self, hold: &Hold) -> Result<()> {
        self.give_back(Some(hold)).await
    }

    async fn give_back(&self, hold: Option<&Hold>) -> Result<()> {
        let giving = async { self.queue.call(self.release(hold)).await.map(drop) };
        self.core.call(pin!(giving)).await
    }

    /// The call that releases a hold. The hold of a guard is spent by it, also where the call fails.
    fn release(&self, hold: Option<&Hold>) -> Call {
        let hold = hold.map(|hold| hold.id.number());
        if hold.is_some() {
            let key = self.queue.keys().object();
            change(&self.core, key, &self.field, |times, _| {
                times.leaves(hold, true);
            });
        }
        let (number, kind) = (self.number, self.kind);
        Call::Release(Who { number, kind }, hold)
    }

    fn holding(&self) -> Holding {
        Holding::new(&self.core.stats, What::Lock, self.name(), 1)
    }

    /// Takes the lock away from its owner with all holds; `false` if it is free.
    ///
    /// Redis: `name` is deleted. The first waiter in the queue gets the lock by the same script. Where none waits, `0` is published. Redisson:
    /// `forceUnlock()`.
    pub async fn force_unlock(&self) -> Result<bool> {
        let force = Call::Force(self.kind);
        let forcing = async { Ok(self.queue.call(force).await? == Outcome::Number(1)) };
        self.core.call(pin!(forcing)).await
    }

    /// Whether anybody holds the lock. Redis: `EXISTS`. Redisson: `isLocked()`.
    pub async fn is_locked(&self) -> Result<bool> {
        match self.kind.is_shared() {
            true => self.is_side_locked().await,
            false => self.queue.read_all("exists", "EXISTS").await,
        }
    }

    /// Whether this owner holds the lock, as Redis has it. Each guard is another owner: ask its [`handle`](crate::LockGuard::handle). Redisson:
    /// `isHeldByCurrentThread()`.
    pub async fn is_held(&self) -> Result<bool> {
        self.is_held_by_owner(&self.owner).await
    }

    /// Whether the owner number `id` of this client holds the lock: that of [`with_owner`](Self::with_owner).
    ///
    /// Redis: `HEXISTS`. Redisson: `isHeldByThread(long)`.
    pub async fn is_held_by(&self, id: u64) -> Result<bool> {
        self.with_owner(id).is_held().await
    }

    /// Whether `owner` holds the lock, of any client: what [`owner`](Self::owner) says of a handle,
    /// `<client id>:<number>`, where in Java the number is the thread's id.
    ///
    /// Redis: `HEXISTS`. Redisson has no counterpart.
    pub async fn is_held_by_owner(&self, owner: &str) -> Result<bool> {
        let field = format!("{owner}{}", self.kind.tail());
        self.queue
            .read_field("is_held_by", "HEXISTS", &field)
            .await
            .map(|count| count > 0)
    }

    /// How often this owner holds the lock; 0 if it does not. Redis: `HGET`. Redisson: `getHoldCount()`.
    pub async fn hold_count(&self) -> Result<u32> {
        let count = self
            .queue
            .read_field("hold_count", "HGET", &self.field)
            .await?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    /// How long the lock stays locked if nothing happens. Redis: `PTTL`. Redisson: `remainTimeToLive()`.
    pub async fn remaining_ttl(&self) -> Result<RemainingTtl> {
        self.queue.remaining_ttl().await
    }

    fn unlock_hold_detached(&self, hold: &Hold) {
        self.queue.defer(self.release(Some(hold)));
    }
}

impl fmt::Debug for RLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RLock")
            .field("name", &self.name())
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}
