//! Permits and locks that callers hold. They are released in several ways, and the judges learn of it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use redisson_semaphore::{Effect, Error, Hold, Lease, Lock, LockGuard, Permit, RSemaphore};
use tokio::time::{Instant, sleep, timeout};

use super::Actor;
use crate::judge::Holder;

/// A caller that waits for the loss learns of it within this time.
const A_MOMENT: Duration = Duration::from_millis(50);

impl Actor {
    /// Keeps something for this long, or until it is reported as lost. Returns whether it was.
    pub(super) async fn keeps(
        &self,
        hold: Duration,
        lost: impl Future<Output = ()>,
        is_lost: impl Fn() -> bool,
    ) -> bool {
        let mut lost = pin!(lost);
        if timeout(hold, &mut lost).await.is_ok() {
            return true;
        }
        if is_lost() && timeout(A_MOMENT, lost).await.is_err() {
            let detail = format!(
                "c{} waits to be told, and has lost what it holds",
                self.host
            );
            self.judge().accuse("told", detail);
        }
        false
    }
}

/// Begins a call and drops it after a while, in which it is not polled.
async fn left_alone<T>(call: impl Future<Output = T>, time: Duration) -> Option<T> {
    let mut call = Box::pin(call);
    let answer = call.as_mut().now_or_never();
    if answer.is_none() && !time.is_zero() {
        sleep(time).await;
    }
    answer
}

/// Permits that a caller holds.
pub(super) struct Held<'a> {
    actor: &'a Actor,
    object: usize,
    permits: u32,
    permit: Option<Permit>,
    in_hand: bool,
}

impl<'a> Held<'a> {
    pub(super) fn new(
        actor: &'a Actor,
        number: u64,
        object: usize,
        permits: u32,
        permit: Option<Permit>,
    ) -> Self {
        actor
            .judge()
            .holds(number, object, actor.host, permits.into());
        Held {
            actor,
            object,
            permits,
            permit,
            in_hand: true,
        }
    }

    /// Returns permits that a caller has kept without a guard.
    pub(super) fn again(actor: &'a Actor, object: usize, permits: u32) -> Self {
        Held {
            actor,
            object,
            permits,
            permit: None,
            in_hand: true,
        }
    }

    pub(super) fn lets_go(&mut self) {
        if std::mem::take(&mut self.in_hand) {
            let (actor, permits) = (self.actor, i64::from(self.permits));
            actor.judge().lets_go(self.object, actor.host, permits);
        }
    }

    pub(super) fn keep(mut self) {
        if let Some(permit) = self.permit.take() {
            permit.forget();
        }
        self.in_hand = false;
        self.actor
            .kept
            .lock()
            .unwrap()
            .push((self.object, self.permits));
    }

    /// Releases the permits. `dropped`: drops the call after this time, without reading a reply that may have come by then.
    pub(super) async fn release(mut self, semaphore: &RSemaphore, dropped: Option<Duration>) {
        let mut permit = self.permit.take();
        if dropped.is_some() && permit.is_some() {
            self.permit = permit;
            return;
        }
        loop {
            self.lets_go();
            let releasing = async {
                match permit.take() {
                    Some(permit) => permit.release().await,
                    None => semaphore.release(self.permits).await,
                }
            };
            let began = Instant::now();
            let released = match dropped {
                Some(after) => left_alone(releasing, after).await.unwrap_or(Ok(())),
                None => releasing.await,
            };
            let took = began.elapsed();
            let actor = self.actor;
            let settings = &actor.settings;
            if took > settings.retry_window + settings.response_timeout * 2 + settings.slack() {
                let host = actor.host;
                actor
                    .judge()
                    .accuse("ends", format!("a release of c{host} took {took:?}"));
            }
            let Err(error) = released else { return };
            actor.judge().failed(actor.host, "release", &error);
            if error.effect() == Effect::Unknown {
                return;
            }
            // Nothing has been released.
            actor
                .judge()
                .keeps(self.object, actor.host, self.permits.into());
            self.in_hand = true;
            if matches!(error, Error::ShutDown { .. }) {
                self.in_hand = false;
                return;
            }
            sleep(Duration::from_millis(100)).await;
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let actor = self.actor;
        if !self.in_hand {
            return;
        }
        match self.permit.take() {
            // After the client's end nothing can be released.
            Some(permit) if !actor.judge().has_ended(actor.host) => {
                self.lets_go();
                drop(permit);
            }
            // Without a guard the permits stay taken, so they have to be noted.
            permit => {
                if let Some(permit) = permit {
                    permit.forget();
                }
                self.in_hand = false;
                actor.kept.lock().unwrap().push((self.object, self.permits));
            }
        }
    }
}

/// How a lock was taken.
pub(super) enum Taken {
    /// By a guard, which is an owner of its own.
    Guard(LockGuard),
    /// By the owner of a handle.
    Hold(Arc<dyn Lock>, Hold),
}

impl Taken {
    pub(super) fn owner(&self) -> &Arc<dyn Lock> {
        match self {
            Taken::Guard(guard) => guard.handle(),
            Taken::Hold(owner, _) => owner,
        }
    }

    pub(super) fn lease(&self) -> &Lease {
        match self {
            Taken::Guard(guard) => guard.lease(),
            Taken::Hold(_, hold) => hold.lease(),
        }
    }

    fn token(&self) -> Option<u64> {
        match self {
            Taken::Guard(guard) => guard.token(),
            Taken::Hold(_, hold) => hold.token(),
        }
    }

    async fn unlock(self) -> Result<(), Error> {
        match self {
            Taken::Guard(guard) => guard.unlock().await,
            Taken::Hold(owner, hold) => owner.unlock_hold(&hold).await,
        }
    }
}

/// A lock that a caller holds.
pub(super) struct HeldLock<'a> {
    actor: &'a Actor,
    object: usize,
    reads: bool,
    number: u64,
    taken: Option<Taken>,
}

impl<'a> HeldLock<'a> {
    pub(super) fn new(actor: &'a Actor, object: usize, taken: Taken, reads: bool) -> Self {
        let (lease, token) = (taken.lease().clone(), taken.token());
        let holder = Holder {
            object,
            host: actor.host,
            owner: taken.owner().owner().to_owned(),
            reads,
        };
        let number = actor.judge().locks(holder, lease, token);
        HeldLock {
            actor,
            object,
            reads,
            number,
            taken: Some(taken),
        }
    }

    /// The owner has taken the lock once more.
    pub(super) fn again(&self, actor: &'a Actor, taken: Taken) -> Self {
        HeldLock::new(actor, self.object, taken, self.reads)
    }

    pub(super) fn object(&self) -> usize {
        self.object
    }

    fn taken(&self) -> &Taken {
        self.taken.as_ref().expect("held")
    }

    pub(super) fn owner(&self) -> &Arc<dyn Lock> {
        self.taken().owner()
    }

    pub(super) fn lease(&self) -> Lease {
        self.taken().lease().clone()
    }

    pub(super) async fn lost(&self) {
        self.taken().lease().lost().await;
    }

    /// The number of this hold, for the judges.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Unlocks without a guard, and without waiting for the reply.
    pub(super) async fn unlock_and_go(mut self, after: Duration) {
        self.actor.judge().unlocks(self.number);
        if let Some(taken) = self.taken.take() {
            let lock = Arc::clone(taken.owner());
            self.actor.judge().lets_lock_go(self.object, lock.owner());
            if let Taken::Guard(guard) = taken {
                let _ = guard.forget();
            }
            // The unlock has not begun: its client has been shut down.
            if let Some(Err(_)) = left_alone(lock.unlock(), after).await {
                self.actor.judge().outlasts(self.object, lock.owner());
            }
        }
    }

    pub(super) async fn unlock(self) {
        let (actor, object) = (self.actor, self.object);
        let lock = Arc::clone(self.owner());
        actor.judge().releases(object, lock.owner(), true);
        let let_go = actor.judge().has_let_lock_go(object, lock.owner());
        let given_back = self.give_back(&lock).await;
        let mut judge = actor.judge();
        judge.releases(object, lock.owner(), false);
        if given_back && let_go == judge.has_let_lock_go(object, lock.owner()) {
            judge.has_unlocked(object, actor.host, lock.owner());
        }
    }

    /// Releases the hold. Returns whether the unlock has succeeded.
    async fn give_back(mut self, lock: &Arc<dyn Lock>) -> bool {
        let left = self.lease().remaining().unwrap_or_default();
        let mut taken = self.taken.take();
        let held_until = Instant::now() + left;
        let robbed = self.actor.judge().unlocks(self.number);
        loop {
            // A refused unlock uses its hold up: the last other hold of its owner frees the lock.
            let spent = taken.is_none();
            let unlocked = match taken.take() {
                Some(taken) => taken.unlock().await,
                None => lock.unlock().await,
            };
            let error = match unlocked {
                Ok(()) => return true,
                Err(error @ Error::NotHeld { .. }) => {
                    let held = !robbed && !spent && Instant::now() < held_until;
                    let mut judge = self.actor.judge();
                    if held && !judge.is_robbed(self.object) {
                        judge.accuse(
                            "effects",
                            format!("unlock of c{}: {error}", self.actor.host),
                        );
                    }
                    return false;
                }
                Err(error) => error,
            };
            self.actor.judge().failed(self.actor.host, "unlock", &error);
            if error.effect() == Effect::Unknown {
                let object = crate::judge::Object::Lock(self.object);
                self.actor.judge().doubts(object, self.actor.host);
            }
            if error.effect() == Effect::NotApplied {
                let mut judge = self.actor.judge();
                judge.outlasts(self.object, lock.owner());
            }
            if error.effect() == Effect::Unknown || matches!(error, Error::ShutDown { .. }) {
                return false;
            }
            // The lock is still held, and renewed.
            sleep(Duration::from_millis(100)).await;
        }
    }
}

impl Drop for HeldLock<'_> {
    fn drop(&mut self) {
        if let Some(taken) = &self.taken {
            self.actor.judge().unlocks(self.number);
            if let Taken::Hold(owner, hold) = taken {
                self.actor.judge().lets_lock_go(self.object, owner.owner());
                owner.unlock_hold_detached(hold);
            }
        }
    }
}
