//! [`RFairLock`], and the turns of its waiters: they stand in Redisson's queue, one entry an owner.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::call::{Call, Claim, Kind};
use super::held::Holds;
use super::places::{Waiter, leaving};
use super::{RLock, names};
use crate::api::whole_millis;
use crate::engine::Core;
use crate::engine::once::refused;
use crate::engine::request::Script;
use crate::engine::wakeups::{Listener, Subscription};
use crate::error::{Error, Result};
use crate::lua;
use crate::queue::{self, Outcome};
use crate::sync::{Followed, Follower};
use crate::transport::Refusal;

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(lua::FAIR_LOCK));

/// No call has a larger share of the queue's time: a year.
const LONGEST_SHARE: i64 = 365 * 24 * 3600 * 1000;

/// A lock whose callers get it in the order in which they asked, shared with Java's `RFairLock` of the same name.
///
/// A handle, made without I/O by [`Client::fair_lock`](crate::Client::fair_lock). Its methods are those of [`RLock`], with the same owners,
/// leases, renewal, guards, errors and cancel safety. A lock of one name must be used as one kind throughout.
///
/// ```no_run
/// # async fn example(client: redisson_semaphore::Client) -> redisson_semaphore::Result<()> {
/// let counter = client.fair_lock("counter"); // Java: redisson.getFairLock("counter")
/// let guard = counter.guard().await?; // behind all that have asked before, in Java and here
/// guard.unlock().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Waiting
///
/// 1. The first attempt puts the caller at the end of the queue, if the lock is held or others wait. Java's callers stand in the same queue.
/// 2. The script that frees the lock notifies the first waiter alone. That waiter then takes the lock.
/// 3. `try_lock` does not take a free lock while others wait.
/// 4. A waiter leaves the queue when its time is over, when its future is dropped, and when its client is shut down. If the lock is free then,
///    the next waiter is notified.
/// 5. Each waiter has a share of the queue's time, the
///    [`fair_lock_wait_timeout`](crate::ClientBuilder::fair_lock_wait_timeout), and tries at least three times in it. A waiter that stands first and has
///    not tried for that long, or has not taken the free lock for 10 s, leaves the queue by the next attempt of another caller. So a killed
///    process holds the others up for 10 s for each of its waiting calls, and so does a place that came back in a failover. A JVM that waits
///    behind it makes its next attempt when the time ends that its last one found: the lease of that moment's holder, or one share and more.
///
/// A waiter also tries when the time to live ends that its last attempt found, when its subscription was made anew, and every few seconds
/// ([`safety_interval`](crate::ClientBuilder::safety_interval)). Each waiter has a subscription of its own.
///
/// # In Redis
///
/// | | |
/// |---|---|
/// | key `name` | as that of [`RLock`] |
/// | key `redisson_lock_queue:{name}` | list: the waiters' owners, `<client id>:<number>`, in their order |
/// | key `redisson_lock_timeout:{name}` | zset: the same owners, and when each leaves the queue, in milliseconds since 1970 |
/// | channel `redisson_lock__channel:{name}:<client id>:<number>` | `0` when it is the turn of this owner |
/// | key `redisson_lock_fair_once:{name}:<client id>` | string: the number of the client's last batch of calls and its answer, for once-only execution |
///
/// `name` is the mapped name; where it contains a `{`, no braces are put around it, and the last key begins with
/// `redisson_lock_fair_once::`. Queue and ends have no time to live: they are gone when nobody waits, and the places of killed processes have
/// been passed by an attempt. Script: `lua/lock/fair.lua`, behind `hold.lua`.
///
/// # DIFFERENCE from Redisson
///
/// As [`RLock`], and:
///
/// - A waiter that leaves while the lock is free notifies the next one; in Redisson that one waits until its time is over.
/// - `unlock` of a lock that is not held is [`NotHeld`](crate::Error::NotHeld); to Redisson's fair lock it is a success.
/// - The time of waiters goes by the server's clock, in Redisson by that of each JVM. Where these differ, waiters leave sooner or later.
/// - A waiter's share does not depend on the time limit of its call, and begins anew with each attempt. A waiter of a JVM whose share is over
///   leaves though it waits still.
/// - A free lock waits for its first waiter for 10 s at the most, which may be a JVM's; in Redisson until the time of that waiter is over.
/// - A holder with a lease of its own makes the next waiter try, so that it learns of the lease.
///
/// # Limits
///
/// - Calls of one owner that wait at the same time share a place. When one of them gives up last, the place is gone for all.
/// - With [`wait_for_replicas`](crate::ClientBuilder::wait_for_replicas), a waiter whose grant no replica confirms has lost its place.
/// - Where Redis refuses the script by which a waiter leaves, its place stays for its share.
/// - A script by which callers leave looks at the ends of all waiters: with 2,000 of them, tens of milliseconds of the server's time.
/// - There is no `delete`, which in Redisson removes the queue as well; `force_unlock` lets the next waiter in.
#[derive(Clone, Debug)]
pub struct RFairLock(pub(super) RLock);

impl RFairLock {
    pub(crate) fn new(core: &Arc<Core>, name: &str) -> Self {
        let (keys, queue) = names::of_fair_lock(name, &core.config.name_mapper, core.id());
        let place = Arc::clone(keys.record());
        let queue = queue::Object::at(core, place, (keys, queue), &SCRIPT, Holds::fair);
        let number = core.next_owner();
        RFairLock(RLock::of_owner(core, &queue, number, Kind::Fair).for_itself())
    }
}

impl RLock {
    /// The share of the queue's time that each waiter has; negative for a call that does not wait.
    pub(super) fn share(&self, waits: bool) -> i64 {
        let share = whole_millis(self.core.config.fair_lock_wait_timeout).min(LONGEST_SHARE);
        if waits { share } else { -share }
    }

    /// Takes a fair lock in its turn.
    pub(super) async fn in_turn(
        &self,
        claim: Claim,
        wait: Option<Duration>,
    ) -> Result<Outcome<Claim>> {
        self.core.within(self.asking(claim, wait)).await
    }

    async fn asking(&self, claim: Claim, wait: Option<Duration>) -> Result<Outcome<Claim>> {
        self.queue.keys().check()?;
        let began = Instant::now();
        let deadline = wait.and_then(|wait| began.checked_add(wait));
        let is_over = || deadline.is_some_and(|deadline| deadline <= Instant::now());
        let due = self.core.due(wait);
        let mut turn = Turn::new(self, claim);
        let _ends = deadline.map(|deadline| turn.ends_behind(deadline));
        // Its place lasts for a share from each attempt on.
        let beat = Duration::from_millis(claim.share.unwrap_or(0).unsigned_abs()) / 3;
        let mut answered = false;
        while turn.asks() {
            let call = self.queue.call_by(Call::Take(claim), due);
            // The first attempt is answered, however short the wait is.
            let answer = match deadline.filter(|_| answered) {
                Some(deadline) => timeout_at(deadline, call).await.ok(),
                None => Some(call.await),
            };
            let look = match answer {
                None => return Ok(Outcome::TimedOut),
                Some(Ok(Outcome::Number(look))) => {
                    answered = true;
                    u64::try_from(look).ok().map(Duration::from_millis)
                }
                // The place is kept, and the next attempt may be answered.
                Some(Err(Error::Unavailable { .. } | Error::OutcomeUnknown { .. })) if answered => {
                    None
                }
                Some(Ok(outcome)) => {
                    turn.came();
                    return Ok(outcome);
                }
                Some(Err(error)) => return Err(error),
            };
            if is_over() {
                return Ok(Outcome::TimedOut);
            }
            let look = look.map_or(beat, |look| beat.min(look + LATE));
            let look = Instant::now()
                .checked_add(look)
                .into_iter()
                .chain(deadline)
                .min();
            let event = match look {
                Some(until) => timeout_at(until, turn.event()).await.ok().flatten(),
                None => turn.event().await,
            };
            if let Some(refusal) = event {
                return Err(refused(self.name(), &refusal));
            }
            if is_over() {
                return Ok(Outcome::TimedOut);
            }
        }
        match is_over() {
            true => Ok(Outcome::TimedOut),
            false => Err(self.core.gone(self.name())),
        }
    }
}

/// A waiter tries so much later than a lease or a waiter's time ends in Redis.
const LATE: Duration = Duration::from_millis(2);
/// A call that is polled leaves its place by itself before this.
const UNPOLLED: Duration = Duration::from_millis(50);

/// A call that waits: it has its owner's place in the queue until it is dropped.
struct Turn<'a> {
    lock: &'a RLock,
    claim: Claim,
    waiter: Arc<Waiter>,
    events: Follower<Option<Refusal>>,
    subscription: Option<Subscription>,
}

impl<'a> Turn<'a> {
    fn new(lock: &'a RLock, claim: Claim) -> Self {
        let waiter = Arc::new(Waiter(Followed::new(None)));
        let waiting = Arc::clone(&waiter);
        lock.queue
            .with_held(|held| held.places().join(claim, waiting));
        Turn {
            lock,
            claim,
            events: waiter.0.follow(),
            waiter,
            subscription: None,
        }
    }

    /// Its place is left behind `deadline`, also where nobody polls the call any more.
    fn ends_behind(&self, deadline: Instant) -> AbortOnDrop {
        let (queue, claim) = (Arc::clone(&self.lock.queue), self.claim);
        let waiter = Arc::clone(&self.waiter);
        AbortOnDrop(self.lock.core.runtime.spawn(async move {
            sleep_until(deadline).await;
            sleep(UNPOLLED).await;
            if queue.with_held(|held| held.places().leave(claim, &waiter)) {
                queue.defer(leaving(claim));
            }
        }))
    }

    /// Its owner has the lock, and stands in the queue no more.
    fn came(&self) {
        let (queue, owner) = (&self.lock.queue, self.claim.owner);
        queue.with_held(|held| held.places().came(owner));
    }

    /// An attempt is about to put its owner into the queue. `false` where its place has been left, by the client's end or that of its time.
    fn asks(&self) -> bool {
        let (queue, claim) = (&self.lock.queue, self.claim);
        queue.with_held(|held| held.places().asks(claim, &self.waiter))
    }

    /// Waits for a reason to try again; or the server forbids the subscription.
    async fn event(&mut self) -> Option<Refusal> {
        if self.subscription.is_none() {
            let owner = self.claim.who().field(&self.lock.core);
            let channel = format!("{}:{owner}", self.lock.queue.keys().channel());
            let waiter: Arc<dyn Listener> = Arc::<Waiter>::clone(&self.waiter);
            let listener = Arc::downgrade(&waiter);
            let (subscription, missed) = self.lock.core.wakeups.subscribe(&channel, &listener);
            self.subscription = Some(subscription);
            if missed {
                return None;
            }
        }
        self.events.changed().await;
        self.events.look()
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let (queue, claim) = (&self.lock.queue, self.claim);
        if queue.with_held(|held| held.places().leave(claim, &self.waiter)) {
            queue.defer(leaving(claim));
        }
    }
}

/// A task that ends with its call.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
