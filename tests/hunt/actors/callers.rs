//! Callers: they wait, hold and come again.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use redisson_semaphore::{Client, Effect, Error, Lock, RSemaphore};
use tokio::time::{Instant, sleep, timeout};

use super::Actor;
use super::held::{Held, HeldLock, Taken};
use super::recipes;
use super::stalling::Stalling;
use crate::judge::{Object, Wanted};
use crate::plan::{Ask, Call, Give, LockKind};

/// How late a call may end if nothing is wrong.
const A_MOMENT: Duration = Duration::from_secs(1);

impl Actor {
    pub(super) async fn calls(self: Arc<Self>, call: Call) {
        let mut lock = None;
        for round in 0..call.rounds {
            if round > 0 && self.judge().has_healed() {
                return;
            }
            match call.object {
                Object::Semaphore(object) => {
                    let semaphore = self.semaphore(object).await;
                    if self.settings.watched[object] {
                        self.hold_watched(&semaphore, object, &call).await;
                    } else {
                        self.hold_permits(&semaphore, object, &call).await;
                    }
                }
                Object::Lock(object) => {
                    let client = self.client().await;
                    if lock.is_none() || !call.one_owner {
                        lock = Some(self.lock(&client, object, &call));
                    }
                    let lock = lock.as_ref().expect("made just now");
                    self.hold_lock(lock, object, &call).await;
                }
                Object::Recipe(number) => {
                    let client = self.client().await;
                    let handle = recipes::handle(&client, number, &self.settings.recipes[number]);
                    self.hold_recipe(&*handle, number, &call).await;
                }
                Object::Latch => self.wait_for_latch(&call).await,
            }
            self.process.sleep(call.pause).await;
        }
    }

    /// Waits as `call` says. Returns `None` if the future was dropped, failed, or got nothing.
    pub(super) async fn wait<T>(
        &self,
        call: &Call,
        asking: impl Future<Output = Result<Option<T>, Error>>,
    ) -> Option<(u64, T)> {
        let stalled = call.stall.map_or(Duration::ZERO, |(_, time)| time);
        let limit = call.ask.limit();
        let wanted = Wanted {
            host: self.host,
            object: call.object,
            permits: call.permits.into(),
            due_if_well: limit
                .filter(|_| self.settings.replication.is_none())
                .map(|wait| {
                    let settings = &self.settings;
                    Instant::now() + wait + settings.round_trip() * 4 + settings.stops + A_MOMENT
                }),
            due: limit.map(|wait| {
                let settings = &self.settings;
                let window = settings.retry_window + settings.response_timeout * 2;
                // The call may wait behind one that no replica confirms.
                let behind = settings.replication.as_ref().map(|_| settings.retry_window);
                let window = window + behind.unwrap_or_default();
                Instant::now() + wait + window + stalled + settings.slack()
            }),
            stalls: call.stall.is_some(),
            tries: call.ask == Ask::Try,
        };
        let number = self.judge().begin(wanted);
        let waiting = Waiting {
            actor: self,
            number,
            object: call.object,
        };
        let asking = Stalling::new(asking, call.stall);
        let answer = match call.patience {
            Some(patience) => {
                tokio::select! {
                    biased;
                    answer = asking => Ok(answer),
                    () = self.process.has_patience(patience) => Err(()),
                }
            }
            None => Ok(asking.await),
        };
        match answer {
            Ok(Ok(Some(granted))) => {
                self.judge().serves(number);
                waiting.ends("is served");
                Some((number, granted))
            }
            Ok(Ok(None)) => {
                self.judge().refuses(number);
                waiting.ends("gets nothing");
                None
            }
            Ok(Err(error)) => {
                match error.effect() {
                    Effect::NotApplied => self.judge().denies(number),
                    _ => self.judge().doubts(call.object, self.host),
                }
                waiting.ends("fails");
                self.judge().failed(
                    self.host,
                    &format!("{:?} of {:?}", call.ask, call.object),
                    &error,
                );
                if error.effect() == Effect::NotApplied {
                    // The caller does not try again at once.
                    sleep(Duration::from_millis(200)).await;
                }
                None
            }
            Err(()) => None,
        }
    }

    pub(super) async fn hold_permits(&self, semaphore: &RSemaphore, object: usize, call: &Call) {
        let n = call.permits;
        let granted = if call.guard {
            let asking = async {
                match call.ask {
                    Ask::Wait => semaphore.permit(n).await.map(Some),
                    Ask::Try => semaphore.try_permit(n).await,
                    Ask::For(wait) => semaphore.permit_for(n, wait).await,
                }
            };
            self.wait(call, asking)
                .await
                .map(|(number, permit)| Held::new(self, number, object, n, Some(permit)))
        } else {
            let asking = async {
                let taken = match call.ask {
                    Ask::Wait => semaphore.acquire(n).await.map(|()| true),
                    Ask::Try => semaphore.try_acquire(n).await,
                    Ask::For(wait) => semaphore.try_acquire_for(n, wait).await,
                };
                taken.map(|taken| taken.then_some(()))
            };
            self.wait(call, asking)
                .await
                .map(|(number, ())| Held::new(self, number, object, n, None))
        };
        let Some(held) = granted else { return };
        if !call.hold.is_zero() {
            self.process.sleep(call.hold).await;
        }
        match call.give {
            Give::Keep => held.keep(),
            Give::Call => held.release(semaphore, None).await,
            Give::Drop => held.release(semaphore, Some(call.pause)).await,
        }
    }

    /// Returns a handle of a lock. With `one_owner`, all handles in the client have the same owner.
    pub(super) fn lock(&self, client: &Client, number: usize, call: &Call) -> Arc<dyn Lock> {
        let key = Object::Lock(number).key();
        let lock = match self.settings.lock_kind {
            LockKind::Fenced if call.one_owner => {
                return Arc::new(client.fenced_lock(&key).with_owner(1));
            }
            LockKind::Fenced => return Arc::new(client.fenced_lock(&key)),
            LockKind::Plain => client.lock(&key),
            LockKind::Fair => client.fair_lock(&key).as_lock().clone(),
            LockKind::ReadWrite if call.reads => client.read_write_lock(&key).read(),
            LockKind::ReadWrite => client.read_write_lock(&key).write(),
        };
        match call.one_owner {
            true => Arc::new(lock.with_owner(1)),
            false => Arc::new(lock),
        }
    }

    async fn wait_for_latch(&self, call: &Call) {
        let latch = self.client().await.count_down_latch(&Object::Latch.key());
        let since = Instant::now();
        let asking = async {
            let open = match call.ask {
                Ask::Wait => latch.wait().await.map(|()| true),
                Ask::Try => latch.wait_for(Duration::ZERO).await,
                Ask::For(wait) => latch.wait_for(wait).await,
            };
            open.map(|open| open.then_some(()))
        };
        if self.wait(call, asking).await.is_some() {
            self.judge().passes_latch(self.host, since);
        }
    }

    pub(super) async fn hold_lock(&self, lock: &Arc<dyn Lock>, object: usize, call: &Call) {
        let asking = async {
            let (wait, lease) = (call.ask.limit(), call.lease);
            // Each guard is an owner of its own.
            if call.guard && !call.one_owner {
                let guard = leased(lock, lease).guarded(wait).await?;
                return Ok(guard.map(Taken::Guard));
            }
            self.judge().asks_for_lock(object, lock.owner());
            let hold = leased(lock, lease).hold(wait).await?;
            Ok(hold.map(|hold| Taken::Hold(Arc::clone(lock), hold)))
        };
        let Some((_, taken)) = self.wait(call, asking).await else {
            return;
        };
        // Another call of the owner may have a shorter lease.
        if call.stall.is_none() && !call.one_owner {
            let lasts = call.lease.unwrap_or(self.settings.watchdog);
            let lost = taken.lease().is_lost();
            self.judge().is_handed(call.object, self.host, lasts, lost);
        }
        let outer = HeldLock::new(self, object, taken, call.reads);
        let lock = &Arc::clone(outer.owner());
        let mut inner = Vec::new();
        if let Some((lease, _)) = call.nested {
            let wait = Duration::from_secs(1);
            inner.extend(self.take_again(lock, &outer, wait, lease).await);
            if call.several {
                // The owner takes the lock a third time.
                inner.extend(self.take_again(lock, &outer, wait, None).await);
            }
        }
        let lease = outer.lease();
        let lost = self
            .keeps(call.hold, outer.lost(), || lease.is_lost())
            .await;
        if lost {
            self.judge().note(format_args!(
                "c{} is told that it has lost l{object}",
                self.host
            ));
            if call.stall.is_none() && call.lease.is_none() {
                self.judge().loses_lock(outer.number());
            }
            // The caller has not yet let go of the lost hold.
            if call.one_owner && inner.is_empty() {
                let now = Duration::ZERO;
                inner.extend(self.take_again(lock, &outer, now, call.lease).await);
                if let Some(inner) = inner.first() {
                    let _ = timeout(call.hold, inner.lost()).await;
                }
            }
        }
        let mut all: Vec<_> = std::iter::once(outer).chain(inner).collect();
        if !call.nested.is_some_and(|(_, first)| first) {
            // The hold that was taken last is released first.
            all.reverse();
        }
        for held in all {
            match call.give {
                Give::Call => held.unlock().await,
                // An unlock without a guard does not say which of several holds it releases.
                _ if call.guard || call.one_owner || call.nested.is_some() => drop(held),
                _ => held.unlock_and_go(call.pause).await,
            }
            if call.nested.is_some() {
                // The remaining holds have to outlast a hold whose renewal has ended.
                sleep(call.hold + self.settings.watchdog.min(Duration::from_secs(3))).await;
            }
        }
    }
}

impl Actor {
    /// The owner takes the lock once more.
    async fn take_again<'a>(
        &'a self,
        lock: &Arc<dyn Lock>,
        outer: &HeldLock<'a>,
        wait: Duration,
        lease: Option<Duration>,
    ) -> Option<HeldLock<'a>> {
        match leased(lock, lease).hold(Some(wait)).await {
            Ok(hold) => {
                let taken = Taken::Hold(Arc::clone(lock), hold?);
                Some(outer.again(self, taken))
            }
            Err(error) => {
                if error.effect() != Effect::NotApplied {
                    self.judge().doubts(Object::Lock(outer.object()), self.host);
                }
                self.judge().failed(self.host, "lock again", &error);
                None
            }
        }
    }
}

/// A caller that waits.
struct Waiting<'a> {
    actor: &'a Actor,
    number: u64,
    object: Object,
}

impl Waiting<'_> {
    fn ends(self, what: &str) {
        self.actor.judge().end(self.number, format_args!("{what}"));
        std::mem::forget(self);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut judge = self.actor.judge();
        judge.doubts(self.object, self.actor.host);
        judge.end(self.number, format_args!("is dropped"));
    }
}

/// Returns the handle with this lease, if it is to have one.
fn leased(lock: &Arc<dyn Lock>, lease: Option<Duration>) -> Arc<dyn Lock> {
    lease.map_or_else(|| Arc::clone(lock), |lease| lock.with_lease(lease))
}
